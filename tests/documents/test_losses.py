"""Each loss that is counted reaches the row, the report and a notice."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pyarrow as pa
import pytest
from openpyxl.xml.constants import SHEET_MAIN_NS

import dcurate.documents.child
from dcurate import DocumentBatch, JsonlWriter, PdfReader, Pipeline
from dcurate.documents import OfficeExtract, PdfExtract
from dcurate.documents.child import read_pdf
from dcurate.documents.losses import KINDS, DocumentLosses, counted
from dcurate.documents.pdf import extract_pdf
from dcurate.documents.pdf.options import PdfOptions
from dcurate.documents.routes import ASIDE
from tests.documents.made import WORDS, pdf
from tests.documents.office import files
from tests.documents.office.test_seen import docx, ods, paragraph
from tests.documents.pdf.test_turned import NOTE, form
from tests.documents.pdf.writer import pages_of, shown, stream


class Case(NamedTuple):
    """A file that loses something.

    Args:
        data: the file.
        lost: how much.
        options: of the stage.
    """

    data: bytes
    lost: int
    options: Mapping[str, Any] = {}


ROW = "<table:table-row{}><table:table-cell{}><text:p>cod</text:p></table:table-cell></table:table-row>"


def far_sheet() -> bytes:
    book = openpyxl.Workbook()
    stream = io.BytesIO()
    book.save(stream)
    cells = "<row r='1'><c r='A1'><v>1</v></c></row><row r='1048577'><c r='A1048577'><v>2</v></c></row>"
    sheet = f"<worksheet xmlns='{SHEET_MAIN_NS}'><sheetData>{cells}</sheetData></worksheet>"
    return files.replaced(stream.getvalue(), xl__worksheets__sheet1_xml=sheet.encode())


def unreadable() -> bytes:
    """A document of two pages, one of which is not there."""
    data = pages_of([shown("One.", 50, 700), shown("Two.", 50, 700)])
    return data.replace(b"12 0 obj\n<< /Type /Page ", b"12 0 obj\n<< /Type /None ")


PDF = {
    "end": Case(pdf()[:-90], 1),
    "pages": Case(pdf([WORDS, "Another page.", "A third."]), 2, {"max_pages": 1}),
    "unreadable pages": Case(unreadable(), 1),
    "characters": Case(pages_of([shown("a" * 500, 20, 700, 1)]), 400, {"max_chars_per_page": 100}),
    "turned characters": Case(
        pages_of([shown("Text.", 50, 700) + b"BT /F 9 Tf 1 1 -1 1 30 300 Tm (stamp) Tj ET"]), 5
    ),
    "drawings": Case(pages_of([shown("Text.", 50, 700) + b"20 20 9 9 re S " * 9]), 1, {"max_objects_per_page": 5}),
    "form fields": Case(form([NOTE] * 1_002), 2),
    "forms": Case(form([NOTE], catalog=b"/XFA 60 0 R >> /NeedsRendering true /X << "), 1),
}  # fmt: skip
OFFICE = {
    "chapters": Case(files.without(files.epub_file(), "book/b.xhtml"), 1),
    "slides": Case(files.without(files.pptx_file(), "ppt/slides/slide2.xml"), 1),
    "sheets": Case(files.without(files.two_sheets_file(), "xl/worksheets/sheet2.xml"), 1),
    "parts": Case(files.without(files.docx_file(), "word/header1.xml"), 1),
    "embedded documents": Case(docx(paragraph("<w:t>text</w:t>") + "<w:altChunk r:id='r1'/>" * 2), 2),
    "repeated rows": Case(ods(ROW.format(" table:number-rows-repeated='1300'", "")), 300),
    "repeated cells": Case(ods(ROW.format("", " table:number-columns-repeated='1300'")), 300),
    "far rows": Case(far_sheet(), 1),
}
#: Those that take models or hundreds of pictures; each has a test below.
APART = {"pages set aside", "figures"}


def test_every_kind_of_loss_has_a_case() -> None:
    assert {*PDF, *OFFICE, *APART} == set(KINDS)
    with pytest.raises(ValueError, match="is not a kind of loss"):
        DocumentLosses().add("other")


def test_every_option_of_the_extraction_is_one_of_the_stage() -> None:
    arguments = {field.name: field.default for field in dataclasses.fields(PdfExtract)}
    for option in dataclasses.fields(PdfOptions):
        if option.name not in ("markdown", "links"):  # which `output` decides
            assert arguments[option.name] == option.default
            assert PdfExtract().options[option.name] == option.default


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Iterator[PdfExtract | OfficeExtract]:
    kind = request.param
    stage = PdfExtract(**PDF[kind].options) if kind in PDF else OfficeExtract()
    yield stage
    stage.teardown()


@pytest.mark.parametrize(("stage", "kind"), [(kind, kind) for kind in (*PDF, *OFFICE)], indirect=["stage"])
def test_a_loss_reaches_the_row_and_the_report(stage: PdfExtract | OfficeExtract, kind: str) -> None:
    case = {**PDF, **OFFICE}[kind]
    whole = pdf() if kind in PDF else files.odt_file()
    result = stage.process(DocumentBatch(data=pa.table({"bytes": pa.array([whole, case.data], pa.large_binary())})))
    good, bad = result.to_arrow().to_pylist()
    assert good["losses"] is None
    assert [(loss["what"], loss["count"]) for loss in bad["losses"]] == [(kind, case.lost)]
    assert result.found == {"documents with losses": 1, f"lost: {kind}": case.lost}
    (notice,) = stage.remarks(result.found)
    assert f"1 document is not whole; lost are {case.lost:,} {KINDS[kind]}" in notice


def test_losses_of_a_run_are_in_its_report_and_a_notice(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.pdf").write_bytes(PDF["characters"].data if number else pdf())
    pipeline = Pipeline(
        "losses",
        stages=[
            PdfReader(str(tmp_path / "in"), files_per_partition=1),
            PdfExtract(max_chars_per_page=100),
            JsonlWriter(str(tmp_path / "out")),
        ],
    )
    report = pipeline.run().report
    (extract,) = (one for one in report.stages if one.name == "pdf_extract")
    assert extract.found == {"documents with losses": 2, "lost: characters": 800}
    (notice,) = (one for one in report.notices if "not whole" in one)
    assert notice.startswith("pdf_extract: 2 documents are not whole; lost are 800 characters beyond")


def test_pages_that_ocr_sets_aside_are_losses() -> None:
    def aside(document: object, pages: list[Any], options: object) -> list[Any]:
        for page in pages:
            page.signals = {**page.signals, "route": ASIDE}
        return pages

    found = extract_pdf(pdf([WORDS, "Another."]), {}, aside)
    assert found["losses"] == [{"what": "pages set aside", "count": 2, "where": "page 1"}]


def test_figures_that_are_not_drawn_are_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    image = stream(
        b"\x80", b"/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray "
    )
    drawn = b"".join(b"q 60 0 0 60 %d 100 cm /I Do Q " % (80 * at) for at in range(5))
    data = pages_of([shown("Text.", 50, 700) + drawn], resources=b"/XObject << /I 9 0 R >>", more={9: image})
    monkeypatch.setattr(dcurate.documents.child, "MOST_FIGURES", 3)
    found, pictures = read_pdf(data, {"output": "interleaved"})
    assert (len(pictures), found["losses"]) == (3, [{"what": "figures", "count": 2, "where": ""}])


def test_counts_add_up() -> None:
    losses = DocumentLosses()
    losses.add("pages", 2, "page 3")
    losses.add("pages", 0)
    losses.add("characters", 5)
    assert counted([losses.rows(), [], None, losses.rows()]) == {
        "documents with losses": 2, "lost: pages": 4, "lost: characters": 10
    }  # fmt: skip
