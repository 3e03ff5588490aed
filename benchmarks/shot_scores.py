"""Count which transitions between shots a detector finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class ShotEvent(NamedTuple):
    """A transition: its kind, the first mixed frame (or time) and the first one after it; equal at a cut."""

    kind: str
    start: float
    stop: float


class Counts(NamedTuple):
    """Transitions of a video by kind: those of the truth that were found, all of the truth, and others found."""

    found: Counter[str]
    all: Counter[str]
    wrong: int


def counts_of(truth: Sequence[ShotEvent], answers: Sequence[ShotEvent], slack: float) -> Counts:
    """Match each transition of the truth with the nearest answer that overlaps it, each once.

    Args:
        truth: transitions that there are.
        answers: those that were found.
        slack: frames (or seconds) that may lie between them.
    """
    pairs = sorted(
        (abs((event.start + event.stop) - (answer.start + answer.stop)), place, number)
        for place, event in enumerate(truth)
        for number, answer in enumerate(answers)
        if answer.start <= event.stop + slack and answer.stop >= event.start - slack
    )
    events: set[int] = set()
    taken: set[int] = set()
    for _, place, number in pairs:
        if place not in events and number not in taken:
            events.add(place)
            taken.add(number)
    return Counts(
        Counter(truth[place].kind for place in events),
        Counter(event.kind for event in truth),
        len(answers) - len(taken),
    )


def scores_of(counts: Iterable[Counts]) -> dict[str, Any]:
    """F1, precision and recall of all videos together, and recall by kind."""
    found: dict[str, int] = defaultdict(int)
    everything: dict[str, int] = defaultdict(int)
    wrong = 0
    for video in counts:
        for kind in video.all:
            found[kind] += video.found[kind]
            everything[kind] += video.all[kind]
        wrong += video.wrong
    right, total = sum(found.values()), sum(everything.values())
    return {
        "f1": round(2 * right / max(1, right + wrong + total), 4),
        "precision": round(right / max(1, right + wrong), 4),
        "recall": round(right / max(1, total), 4),
        "by_kind": {kind: {"found": found[kind], "all": everything[kind]} for kind in sorted(everything)},
    }
