from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.documents.child import read_pdf
from dcurate.documents.repair import with_page_tree
from dcurate.documents.truncation import LIMITS, truncation
from dcurate.isolate.errors import MediaError
from tests.documents.made import WORDS, packed, pdf
from tests.growth import assert_linear

PAGES = [f"{WORDS} Page {number}" for number in range(1, 5)]


def text_of(data: bytes) -> str:
    return str(read_pdf(data, {})[0]["text"])


@pytest.mark.parametrize("cut", [40, 200, 300])
def test_a_file_that_lost_its_end_is_read_as_far_as_it_goes(cut: int) -> None:
    found, _ = read_pdf(pdf(PAGES)[:-cut], {})
    assert found["truncated"] == "no end mark"
    assert PAGES[0] in found["text"]


def test_pages_keep_the_order_of_their_tree() -> None:
    data = pdf(PAGES).replace(b"4 0 R 6 0 R", b"6 0 R 4 0 R")
    found = text_of(data[: data.rindex(b"xref\n0")])
    assert [found.index(f"Page {number}") for number in (2, 1, 3, 4)] == sorted(
        found.index(f"Page {number}") for number in range(1, 5)
    )


def test_objects_within_object_streams_are_found() -> None:
    assert "".join(text_of(packed(PAGES)).split()) == "".join("".join(PAGES).split())


def test_what_was_cut_off_before_its_text_is_told_from_what_is_broken() -> None:
    whole = pdf(PAGES, streams_first=False)
    for data, reason in (
        (whole[: whole.index(b"stream")], "truncated"),
        (b"%PDF-1.4\n" + bytes(range(256)) * 40, "damaged"),
        (b"%PDF-1.4\n", "damaged"),
        (b"%PDF-1.4\ntrailer<</Root 1 0 R>>\n1 0 obj <</Type/Catalog>> endobj\n%%EOF", "damaged"),
        (pdf([]), "no pages"),
    ):
        with pytest.raises(MediaError) as raised:
            read_pdf(data, {})
        assert raised.value.fault.reason == reason


def test_an_encrypted_file_that_was_cut_off_is_not_read_as_noise() -> None:
    data = pdf(PAGES).replace(b"<</Type /Catalog", b"<</Filter /Standard /Type /Catalog")
    assert with_page_tree(data[:-60]) is None


def test_truncation_tells_whole_files_from_cut_ones() -> None:
    whole = pdf(PAGES)
    assert truncation(whole) == truncation(whole + b"noise" * 1000) == ""
    updated = whole + whole[whole.index(b"4 0 obj") :]
    assert truncation(updated) == ""
    assert truncation(updated[:-30]) == truncation(whole[:-30]) == "no end mark"
    long = whole[: whole.index(b"endstream")].ljust(LIMITS[1], b" ")
    assert [truncation(data) for data in (long, long + b" ")] == ["length", "no end mark"]


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300) | st.integers(0, 2000).map(lambda cut: pdf(PAGES)[:cut]))
def test_any_bytes_are_a_file_or_none(data: bytes) -> None:
    assert with_page_tree(data) is None or b"/Kids[" in with_page_tree(data)  # type: ignore[operator]
    with suppress(MediaError):
        assert isinstance(read_pdf(data, {})[0]["text"], str)


@pytest.mark.parametrize(
    "piece",
    [b"1 0 obj\n", b"1 0 obj<<\nstream\n", b"/Type /ObjStm /N 1 /First 3\nstream\n", b"9" * 50, b"/Kids[1 0 R "],
)
def test_repair_takes_time_in_proportion_to_the_file(piece: bytes) -> None:
    def repair(data: bytes) -> None:
        with_page_tree(data)
        truncation(data)

    def file(size: int) -> bytes:
        return b"%PDF-1.4\n1 0 obj <</Type /Page>> endobj " + piece * (size // len(piece))

    assert_linear(repair, [file], (2**18, 2**20))
