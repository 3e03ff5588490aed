"""Text of PDFs made here."""

from __future__ import annotations

import json

import pytest

from dcurate.documents.pdf import PdfError, extract_pdf
from tests.documents.pdf.writer import pages_of, paragraph


def test_a_plain_document_gives_its_text_by_page() -> None:
    document = pages_of([paragraph(["One line."], 72, 700), paragraph(["Another."], 72, 700)])
    found = extract_pdf(document)
    assert found["text"] == "One line.\n\nAnother."
    assert [page["number"] for page in found["pages"]] == [1, 2]
    parts = [found["text"].encode()[start:stop].decode() for start, stop in found["page_spans"]]
    assert parts == ["One line.", "Another."]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html></html>", "not a PDF: HTML"),
        (b"PK\x03\x04" + bytes(50), "not a PDF: a zip archive"),
        (bytes(500), "not a PDF: zeros"),
        (b"%PDF-1.7\n", "truncated"),
    ],
)
def test_what_cannot_be_read_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PdfError) as raised:
        extract_pdf(data)
    assert raised.value.reason == reason


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="no option 'max_page'"):
        extract_pdf(b"%PDF-", {"max_page": 3})


#: A picture as large as the page.
SCAN = b"q 595 0 0 842 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \xc8 EI Q 3 Tr "
LAYER = ["Cold water holds more oxygen", "than warm water, and fish of", "the north grow slowly there."]
NOISE = ["m,~~nnrr~", "lI1|r.", "rIr1nm.l", "~1m~.l~1"]


def test_noise_in_a_layer_over_a_scan_is_left_out_and_counted() -> None:
    noisy = [f"{noise} {line} {noise}" for line, noise in zip(LAYER, NOISE, strict=False)]
    found, good, born = (
        extract_pdf(pages_of([before + paragraph(lines, 72, 700)]))
        for before, lines in ((SCAN, noisy), (SCAN, LAYER), (b"", noisy))
    )
    assert found["text"].split() == good["text"].split() == " ".join(LAYER).split()
    assert found["pages"][0]["noise_share"] == pytest.approx(6 / 22, abs=1e-3)
    assert "noise_share" not in good["pages"][0]
    assert born["text"].split() == " ".join(noisy).split()
