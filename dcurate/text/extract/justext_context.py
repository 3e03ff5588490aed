"""jusText's context-sensitive classification of paragraphs, in linear time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def judge_by_neighbours(paragraphs: Sequence[Any], max_heading_distance: int) -> None:
    """Classify every paragraph as good or bad, as in `justext.core.revise_paragraph_classification`.

    That one walks over all short paragraphs around each of them: 10,000 short lines take it eight seconds. This one
    goes over the page a few times, however long it is. Headings are treated as jusText's description has it: good text
    that follows is seen, which the library misses unless it is given paragraphs that are marked already.

    Args:
        paragraphs: judged by themselves (``cf_class``).
        max_heading_distance: characters within which good text must follow a heading.
    """
    for paragraph in paragraphs:
        paragraph.class_type = paragraph.cf_class
    for place, paragraph in enumerate(paragraphs):
        if paragraph.heading and paragraph.class_type == "short" and _leads(paragraphs, place, max_heading_distance):
            paragraph.class_type = "neargood"
    classes = [paragraph.class_type for paragraph in paragraphs]
    before, after = _nearest(classes, ("good", "bad")), _nearest_after(classes, ("good", "bad"))
    close_before = _nearest(classes, ("good", "bad", "neargood"))
    close_after = _nearest_after(classes, ("good", "bad", "neargood"))
    for place, paragraph in enumerate(paragraphs):
        if paragraph.class_type == "short":
            good = before[place] == after[place] == "good"
            unlike = before[place] != after[place]
            near = (before[place] == "bad" and close_before[place] == "neargood") or (
                after[place] == "bad" and close_after[place] == "neargood"
            )
            paragraph.class_type = "good" if good or (unlike and near) else "bad"
    after = _nearest_after([paragraph.class_type for paragraph in paragraphs], ("good", "bad"))
    last = "bad"
    for paragraph, following in zip(paragraphs, after, strict=True):
        if paragraph.class_type == "neargood":
            paragraph.class_type = "bad" if last == following == "bad" else "good"
        last = paragraph.class_type
    for place, paragraph in enumerate(paragraphs):
        demoted = paragraph.class_type == "bad" and paragraph.cf_class != "bad"
        if paragraph.heading and demoted and _leads(paragraphs, place, max_heading_distance):
            paragraph.class_type = "good"


def _leads(paragraphs: Sequence[Any], place: int, distance: int) -> bool:
    """Whether a good paragraph follows within a number of characters."""
    for paragraph in paragraphs[place + 1 : place + 2 + max(distance, 0)]:
        if distance < 0:
            return False
        if paragraph.class_type == "good":
            return True
        distance -= len(paragraph.text)
    return False


def _nearest(classes: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Return the last preceding class among `wanted` for each paragraph; bad if there is none.

    Examples:
        >>> _nearest(["good", "short", "bad"], ("good", "bad"))
        ['bad', 'good', 'good']
    """
    nearest, last = [], "bad"
    for class_ in classes:
        nearest.append(last)
        if class_ in wanted:
            last = class_
    return nearest


def _nearest_after(classes: Sequence[str], wanted: Sequence[str]) -> list[str]:
    return _nearest(classes[::-1], wanted)[::-1]
