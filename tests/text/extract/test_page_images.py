"""The texts and images of a page in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.images import ToInterleaved
from dcurate.testing import check_stage
from dcurate.text import DcurateExtractor, HtmlExtractor
from tests.growth import assert_linear, singles
from tests.text.extract.test_growth import HTML, STRUCTURES

PROSE = "It was a bright cold day in April, and the clocks were striking thirteen. " * 3
PAGE = f"""<nav><img src=logo.png alt=Logo></nav><article><h1>A day</h1><figure><img src=/lead.jpg alt="The  town">
<figcaption>A caption.</figcaption></figure><p>One. {PROSE}</p><p>Two, <img src="b (1).png"> within. {PROSE}</p>
<img src="data:image/gif;base64,R0" data-src=//cdn.example.org/c.webp alt=Clock><img width=1 height=1 src=pixel.gif>
<p>Three. {PROSE}</p><noscript><img src=again.png></noscript></article><aside><img src=advert.png></aside>"""
EXTRACTOR = DcurateExtractor()


def pieces(page: str, url: str = "https://example.org/a/b") -> Any:
    return EXTRACTOR.extract_pieces(page, url)


def test_images_are_in_order_between_texts() -> None:
    one, two, three = (f"{start} {PROSE.strip()}" for start in ("One.", "Two, within.", "Three."))
    assert pieces(PAGE) == [
        (None, "https://example.org/lead.jpg", "The town"),
        (f"{one}\n\n{two}", None, None),
        (None, "https://example.org/a/b (1).png", None),
        (None, "https://cdn.example.org/c.webp", "Clock"),
        (three, None, None),
    ]


def test_addresses_are_relative_to_the_base_of_the_page() -> None:
    page = f"<base href=/x/><article><p>{PROSE}</p><img srcset='a.png 1x, b.png 2x'><p>{PROSE}</p></article>"
    assert [piece.image for piece in pieces(page) if piece.image] == ["https://example.org/x/a.png"]
    assert [piece.image for piece in pieces(page, "") if piece.image] == ["/x/a.png"]


def test_they_become_interleaved_rows() -> None:
    rows = pa.table({"url": ["https://example.org/a/b"], "content": [PAGE.encode()]})
    stage = HtmlExtractor("dcurate", title_field=None, interleaved_prefix="page_")
    stage.setup()
    table = stage.process(DocumentBatch(data=rows)).to_arrow()
    assert table.column_names == ["url", *stage.outputs()[1]]
    lists = ToInterleaved(texts_field="page_texts", images_field="page_images", position_fields=["page_alts"])
    made = lists.process(DocumentBatch(data=table)).to_arrow()
    assert made["modality"].to_pylist() == ["metadata", "image", "text", "image", "image", "text"]
    assert made["page_alts"].to_pylist()[1] == '"The town"'
    check_stage(stage, DocumentBatch(data=pa.concat_tables([rows, rows])))


def test_other_extractors_refuse_them() -> None:
    with pytest.raises(
        PipelineError, match='interleaved_prefix=.* has no effect with TrafilaturaExtractor; use "dcurate"'
    ):
        HtmlExtractor(interleaved_prefix="x")


PIECES = [
    "<img src=a>",
    "<p><img src=b>",
    f"<p>{PROSE}",
    "<table><tr><td><img src=c>",
    "<td>1<tr><td>2<td>3",
    "</table>",
    "<aside>",
]


@given(st.lists(st.sampled_from([*HTML, *STRUCTURES, *PIECES]), max_size=30).map("".join), st.booleans())
def test_the_texts_are_the_text_of_the_page(page: str, markdown: bool) -> None:
    extractor = DcurateExtractor(markdown=markdown)
    texts = [piece.text for piece in extractor.extract_pieces(page, "") if piece.text]
    [whole] = extractor.extract_text(page, frozenset(), "") or [""]
    assert "".join("".join(texts).split()) == "".join(whole.split())


def test_the_time_grows_with_the_page() -> None:
    made = singles(
        [*PIECES, "<img srcset='a 1x,'>", f"<p>{PROSE}<img src=a>", "<table><tr><td><img src=c><td>2<tr><td>1</table>"]
    )
    assert_linear(pieces, made, (100_000, 300_000))
