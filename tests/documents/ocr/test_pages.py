from __future__ import annotations

import io

import pyarrow as pa
import pypdfium2 as pdfium
import pytest

from dcurate import DocumentBatch, PipelineError
from dcurate.documents import PageOcr, PdfExtract
from tests.documents.ocr.conftest import TEXT, page


def scan(rotate: int = 0) -> bytes:
    """A PDF with one page that is a picture of text."""
    stream = io.BytesIO()
    page(size=(900, 500)).save(stream, "PDF", resolution=100)
    document = pdfium.PdfDocument(stream.getvalue())
    document[0].set_rotation(rotate)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def extracted(files: list[bytes], **options) -> list[dict]:
    stage = PdfExtract(**options)
    table = pa.table({"bytes": pa.array(files, pa.large_binary())})
    try:
        return stage.process(DocumentBatch(data=table)).to_arrow().to_pylist()
    finally:
        stage.teardown()


def test_scanned_pages_go_to_ocr_and_say_so(ocr: PageOcr) -> None:
    for row in extracted([scan(), scan(90)], ocr="auto"):
        assert row["text"].split() == " ".join(TEXT).split()
        (said,) = row["pages"]
        assert (said["route"], said["route_reason"], said["ocr_need"]) == ("ocr", "scanned", 1.0)
        assert said["ocr_confidence"] > 0.9
        assert (row["ocr_share"], row["scanned_share"]) == (1.0, 1.0)


def test_without_ocr_no_page_is_sent_anywhere() -> None:
    (row,) = extracted([scan()])
    assert (row["text"], row["ocr_share"], row["pages"][0]["route"]) == ("", None, None)


def test_settings_that_do_not_exist_are_refused(tmp_path) -> None:
    with pytest.raises(PipelineError, match="ocr='on' is not one of"):
        PdfExtract(ocr="on")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="give the folder of a detector"):
        PdfExtract(ocr="auto", ocr_models=str(tmp_path)).setup()
