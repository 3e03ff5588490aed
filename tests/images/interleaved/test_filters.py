"""The five filters against NeMo Curator's formulas, and the laws that hold for any of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, Modify, PipelineError, ScoreFilter, processing_stage
from dcurate.images import (
    FilterInterleavedByAspectRatio,
    FilterInterleavedByBlur,
    FilterInterleavedByImageToTextRatio,
    FilterInterleavedByQrCode,
    OnTexts,
)
from dcurate.images.interleaved.measures import sharpness
from dcurate.images.qr import qr_share
from dcurate.media.image.pixels import colours
from dcurate.media.interleaved.verdicts import INVALID, ORPHAN
from dcurate.text import WordCountFilter
from tests.images.interleaved.media import encoded, flat, noise, places, qr_code, referring, table


def run(stage: Any, rows: pa.Table) -> tuple[pa.Table, dict[tuple[str, bool], int]]:
    """The rows that are left, and how many went for each reason, with whether it is a fault."""
    made = stage.process(DocumentBatch(data=rows))
    gone = {(one.reason, one.fault): one.rows for one in made.rejections}
    assert made.num_items + sum(gone.values()) == rows.num_rows
    return made.to_arrow(), gone


def laplacian_variance(pixels: Any) -> float:
    """OpenCV's ``Laplacian(image, CV_64F).var()``, pixel by pixel: borders are mirrored without their edge."""
    height, width = pixels.shape[:2]
    at = pixels.astype(float)

    def mirrored(place: int, size: int) -> int:
        return abs(place) if place < size else 2 * size - 2 - place

    found = [
        at[mirrored(row - 1, height), column]
        + at[mirrored(row + 1, height), column]
        + at[row, mirrored(column - 1, width)]
        + at[row, mirrored(column + 1, width)]
        - 4 * at[row, column]
        for row in range(height)
        for column in range(width)
    ]
    return float(np.var(found))


def test_an_image_is_kept_from_square_to_twice_as_wide_as_high() -> None:
    images = {"square": (30, 30), "twice": (60, 30), "wide": (61, 30), "high": (30, 31)}
    rows = table(*[(name, 0, "image", flat(*size)) for name, size in images.items()])
    left, gone = run(FilterInterleavedByAspectRatio(), rows)
    assert left["sample_id"].to_pylist() == ["square", "twice"]
    assert gone == {("aspect_ratio", False): 2}


def test_sharpness_is_the_variance_of_the_laplacian_of_all_channels() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    assert sharpness(pixels) == pytest.approx(laplacian_variance(pixels), rel=1e-12)
    assert sharpness(pixels[:2, :2]) == pytest.approx(laplacian_variance(pixels[:2, :2]), rel=1e-12)


def test_blurred_images_go_at_a_variance_below_the_threshold() -> None:
    rows = table(("a", 0, "image", noise(20, 20)), ("a", 1, "image", flat(20, 20)), ("a", 2, "text", "both?"))
    left, gone = run(FilterInterleavedByBlur(), rows)
    assert places(left) == [("a", 0, "image"), ("a", 1, "text")]
    assert gone == {("blur", False): 1}


def test_transparent_pixels_count_by_their_colour() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (9, 9, 4)).astype(np.uint8)
    assert (colours(encoded(pixels)) == pixels[..., :3]).all()


def test_images_of_which_a_qr_code_covers_a_twentieth_go() -> None:
    small, large = qr_code(60, 300), qr_code(120, 300)
    modules = 25 / 33  # of the picture's side: there are four white ones around the code
    assert qr_share(colours(small)) == pytest.approx((60 * modules / 300) ** 2, rel=0.05)
    left, gone = run(FilterInterleavedByQrCode(), table(("a", 0, "image", small), ("a", 1, "image", large)))
    assert left["binary_content"].to_pylist() == [small]
    assert gone == {("qr_code", False): 1}


def test_samples_go_with_all_their_rows_when_they_have_too_many_images_for_their_words() -> None:
    rows = table(
        ("few", -1, "metadata", "{}"),
        ("few", 0, "text", "one two\u00a0three four"),
        ("few", 1, "image", b""),
        ("many", -1, "metadata", "{}"),
        ("many", 0, "text", "one"),
        ("many", 1, "image", b""),
        ("no words", 0, "image", b""),
    )
    left, gone = run(FilterInterleavedByImageToTextRatio(max_ratio=0.25), rows)
    assert set(left["sample_id"].to_pylist()) == {"few"}
    assert gone == {("image_to_text_ratio", False): 4}


def test_images_that_cannot_be_decoded_go_to_quarantine() -> None:
    cut = noise(40, 40, kind="JPEG")[:-200]
    rows = table(("a", 0, "text", "Hi"), ("a", 1, "image", b"<html>"), ("a", 2, "image", None), ("a", 3, "image", cut))
    left, gone = run(FilterInterleavedByBlur(), rows)
    assert places(left) == [("a", 0, "text")]
    assert gone == {("not a picture: HTML or XML", True): 1, ("missing", True): 1, ("truncated", True): 1}


def test_what_is_no_reference_costs_its_row() -> None:
    """Neither JSON, nor an object, nor a place in a file."""
    refs = ["{bad", "[]", '{"path": "x", "byte_offset": 1e300}', '{"path": "x", "byte_offset": -4}', None]
    data = [noise(8, 8) if ref is None else None for ref in refs]
    rows = referring(table(*[("a", place, "image", one) for place, one in enumerate(data)]), *refs)
    left, gone = run(FilterInterleavedByAspectRatio(), rows)
    assert places(left) == [("a", 0, "image")]
    assert gone == {("bad reference", True): 4}


def test_a_file_on_the_web_is_not_fetched_by_a_filter() -> None:
    rows = table(("a", 0, "image", None)).drop_columns(["source_ref"])
    rows = rows.append_column("source_ref", pa.array(['{"path": "https://example.org/a.png"}']))
    assert run(FilterInterleavedByAspectRatio(), rows)[1] == {("not downloaded", True): 1}


def test_metadata_goes_when_nothing_else_of_its_sample_is_left() -> None:
    rows = table(("a", -1, "metadata", "{}"), ("a", 0, "image", flat(9, 9)), ("b", -1, "metadata", "{}"))
    left, gone = run(FilterInterleavedByBlur(), rows)
    assert left.num_rows == 0
    assert gone == {("blur", False): 1, (ORPHAN, False): 2}


def test_rows_of_unknown_kinds_go_unless_they_are_to_stay() -> None:
    rows = table(
        ("a", 0, "text", "Hi"), ("a", 1, "table", "| a |"), ("a", -2, "text", "before"), ("a", 3, "metadata", "{}")
    )
    left, gone = run(FilterInterleavedByBlur(), rows)
    assert (places(left), gone) == ([("a", 0, "text")], {(INVALID, False): 3})
    left, gone = run(FilterInterleavedByBlur(drop_invalid_rows=False), rows)
    assert (left.num_rows, gone) == (4, {})


def test_the_score_is_kept_in_a_column_if_asked() -> None:
    rows = table(("a", 0, "text", "Hi"), ("a", 1, "image", flat(40, 20)))
    left, _ = run(FilterInterleavedByAspectRatio(score_field="ratio"), rows)
    assert left["ratio"].to_pylist() == [None, 2.0]


def test_settings_and_rows_that_cannot_be_are_refused() -> None:
    with pytest.raises(PipelineError, match=r"min_aspect_ratio=3 is above max_aspect_ratio=2\.0"):
        FilterInterleavedByAspectRatio(min_aspect_ratio=3)
    with pytest.raises(DataError, match="no column 'sample_id', 'position', 'modality'"):
        run(FilterInterleavedByBlur(), pa.table({"text": ["Hi"]}))


MODALITIES = st.sampled_from(["text", "image", "metadata", "audio"])
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 6), MODALITIES), max_size=12)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_rows_are_kept_whole_in_order_and_numbered_without_gaps(drawn: list[tuple[str, int, str]]) -> None:
    rows = table(*[(*row, None if row[2] == "image" else "Hi") for row in drawn], number=[*range(len(drawn))])
    left, _ = run(FilterInterleavedByBlur(), rows)
    numbers = left["number"].to_pylist()
    assert numbers == sorted(numbers)
    wanted = [n for n, (_, place, kind) in enumerate(drawn) if kind == "text" and place >= 0]
    assert [n for n in numbers if drawn[n][2] == "text"] == wanted
    for sample in "abc":
        mine = [
            (place, n)
            for name, place, kind, n in zip(*map(left.column, _SHOWN), strict=True)
            if name.as_py() == sample and kind.as_py() != "metadata"
        ]
        assert sorted(place.as_py() for place, _ in mine) == list(range(len(mine)))
        by_new = [n.as_py() for _, n in sorted(mine, key=lambda pair: pair[0].as_py())]
        assert by_new == sorted(by_new, key=lambda n: (drawn[n][1], n))


_SHOWN = ("sample_id", "position", "modality", "number")


TEXTS = table(
    ("a", -1, "metadata", "{}"),
    ("a", 0, "text", "one two three four"),
    ("a", 1, "image", b"1"),
    ("a", 2, "text", "x"),
    ("b", 0, "text", "y"),
    ("b", 1, "image", b"2"),
    ("c", 0, "image", b"3"),
    url=["u", *[None] * 6],
)


def test_text_filters_judge_each_text_or_all_of_a_sample() -> None:
    few = ScoreFilter(WordCountFilter(min_words=2), score_field="words")
    left, gone = run(OnTexts(few), TEXTS)
    assert places(left) == [
        ("a", -1, "metadata"),
        ("a", 0, "text"),
        ("a", 1, "image"),
        ("b", 0, "image"),
        ("c", 0, "image"),
    ]
    assert left["words"].to_pylist() == [None, 4, None, None, None]
    assert gone == {("word_count", False): 2}
    left, gone = run(OnTexts(few, by="sample"), TEXTS)
    assert left["sample_id"].to_pylist() == ["a"] * 4 + ["c"]
    assert left["words"].to_pylist() == [5] * 4 + [None]
    assert left["url"].to_pylist()[0] == "u"
    assert gone == {("word_count", False): 2}


def test_modifiers_and_stages_of_a_person_work_on_texts() -> None:
    @processing_stage(name="drop_y")
    def drop_y(batch: DocumentBatch) -> DocumentBatch:
        rows = batch.to_pandas()
        return batch.with_data(rows[rows.text != "Y"])

    left, gone = run(OnTexts([Modify(str.upper), drop_y]), TEXTS)
    assert left["text_content"].to_pylist() == ["{}", "ONE TWO THREE FOUR", None, "X", None, None]
    assert gone == {("drop_y", False): 1}
    with pytest.raises(PipelineError, match="wrap filters in ScoreFilter"):
        OnTexts(WordCountFilter())  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="by='document'"):
        OnTexts(drop_y, by="document")  # type: ignore[arg-type]
