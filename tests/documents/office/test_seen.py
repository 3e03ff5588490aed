"""What a person sees on the pages of office files is in the text once, or a loss says that it is not."""

from __future__ import annotations

import io
import zipfile

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.documents.office import extract_office
from dcurate.documents.office.symbols import UNKNOWN, symbol_of
from tests.documents.office import files

WORD = (
    "xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main' xmlns:r='r' xmlns:mc='mc' xmlns:d='d' "
    "xmlns:c='c' xmlns:a='a'"
)
CHOICE = "<mc:AlternateContent><mc:Choice>{0}</mc:Choice><mc:Fallback>{0}</mc:Fallback></mc:AlternateContent>"
BOX = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
RELATIONS = "<Relationships>{}</Relationships>"
DIAGRAM = "<d:dataModel xmlns:d='d' xmlns:a='a'><d:ptLst>{}</d:ptLst></d:dataModel>"
POINT = "<d:pt><d:t><a:p><a:r><a:t>{}</a:t></a:r></a:p></d:t></d:pt>"


def paragraph(inner: str) -> str:
    return f"<w:p><w:r>{inner}</w:r></w:p>"


def docx(body: str, **parts: str) -> bytes:
    return files.zipped({
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
        **parts,
    })  # fmt: skip


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=0x20, exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"))).filter(str.strip))
def test_every_character_of_rich_text_is_read(text: str) -> None:
    units = text.encode("utf-16-le")
    numbers = (int.from_bytes(units[at : at + 2], "little", signed=True) for at in range(0, len(units), 2))
    data = rb"{\rtf1\uc1 " + b"".join(rb"\u%d?" % number for number in numbers) + b"}"
    assert extract_office(data)["text"].replace(" ", "") == text.replace("\xa0", " ").replace(" ", "").strip()


def test_half_a_character_of_rich_text_is_left_out() -> None:
    assert extract_office(rb"{\rtf1 a\u-10179?b}")["text"] == "ab"


@pytest.mark.parametrize("wrap", ["{}", "<w:tbl><w:tr><w:tc>{0}</w:tc><w:tc>{1}</w:tc></w:tr></w:tbl>"])
@pytest.mark.parametrize("choice", ["{0}", CHOICE])
def test_a_text_box_is_read_once(wrap: str, choice: str) -> None:
    body = wrap.format(paragraph(choice.format(BOX)), paragraph("<w:t>other</w:t>"))
    assert extract_office(docx(body))["text"].split().count("boxed") == 1
    notes = f"<w:footnotes {WORD}><w:footnote w:id='2'>{paragraph(choice.format(BOX))}</w:footnote></w:footnotes>"
    found = extract_office(docx(paragraph("<w:t>other</w:t>"), **{"word/footnotes.xml": notes}))
    assert found["text"].split().count("boxed") == 1


def test_symbols_are_read_as_unicode() -> None:
    symbol = "<w:sym w:font='{}' w:char='{}'/>"
    body = f"<w:t>5 </w:t>{symbol.format('Symbol', 'F0B1')}<w:t> 2 </w:t>{symbol.format('Wingdings', 'F0E0')}"
    assert extract_office(docx(paragraph(body + symbol.format("Webdings", "F061"))))["text"] == f"5 ± 2 🡪{UNKNOWN}"
    greek = "".join(symbol_of("Symbol", f"{code:X}") for code in range(0x61, 0x7B))
    assert greek == "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
    assert all(symbol_of(font, f"F0{code:02X}") for font in ("Symbol", "Wingdings", "Other") for code in range(256))


@pytest.mark.parametrize("wrap", ["{}", "<w:tbl><w:tr><w:tc>{0}</w:tc><w:tc>{1}</w:tc></w:tr></w:tbl>"])
def test_diagrams_of_documents_are_read(wrap: str) -> None:
    body = wrap.format(paragraph(CHOICE.format("<d:relIds r:dm='r1'/>")), paragraph("<w:t>other</w:t>"))
    link = "<Relationship Id='r1' Type='a/diagramData' Target='diagrams/data1.xml'/>"
    parts = {"word/_rels/document.xml.rels": RELATIONS.format(link)}
    data = {"word/diagrams/data1.xml": DIAGRAM.format(POINT.format("plan") + POINT.format("do"))}
    found = extract_office(docx(body, **parts, **data))
    assert [word for word in found["text"].split() if word != "other"] == ["plan", "do"]
    assert found["losses"] == []
    lost = extract_office(docx(body + paragraph("<w:t>rest</w:t>"), **parts))
    assert [loss["what"] for loss in lost["losses"]] == ["parts"]
    assert "rest" in lost["text"]


def test_embedded_documents_are_a_loss() -> None:
    found = extract_office(docx(paragraph("<w:t>text</w:t>") + "<w:altChunk r:id='r1'/>"))
    assert [(loss["what"], loss["count"]) for loss in found["losses"]] == [("embedded documents", 1)]


def test_formulas_of_slides_are_read_once() -> None:
    run = "<a:r><a:t>x + 1</a:t></a:r>"
    with zipfile.ZipFile(io.BytesIO(files.pptx_file())) as archive:
        slide = archive.read("ppt/slides/slide1.xml").decode()
    formula = f"<a:p>{CHOICE.format(run)}</a:p></p:txBody>".replace(
        "<mc:AlternateContent>", "<mc:AlternateContent xmlns:mc='mc'>"
    )
    data = files.replaced(files.pptx_file(), ppt__slides__slide1_xml=slide.replace("</p:txBody>", formula, 1).encode())
    assert extract_office(data)["text"].count("x + 1") == 1


def test_text_boxes_over_sheets_are_read() -> None:
    book = openpyxl.Workbook()
    book.active.append(["cell"])
    stream = io.BytesIO()
    book.save(stream)
    shape = "<x:sp><x:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></x:txBody></x:sp>"
    anchors = "".join(f"<x:twoCellAnchor>{shape.format(word)}</x:twoCellAnchor>" for word in ("boxed", "too"))
    link = "<Relationship Id='r1' Type='a/drawing' Target='../drawings/drawing1.xml'/>"
    members = {
        "xl/worksheets/_rels/sheet1.xml.rels": RELATIONS.format(link),
        "xl/drawings/drawing1.xml": f"<x:wsDr xmlns:x='x' xmlns:a='a'>{anchors}</x:wsDr>",
    }
    with zipfile.ZipFile(io.BytesIO(stream.getvalue())) as archive:
        whole = {name: archive.read(name) for name in archive.namelist()}
    assert extract_office(files.zipped({**whole, **members}))["text"].split() == ["Sheet", "cell", "boxed", "too"]
    del members["xl/drawings/drawing1.xml"]
    found = extract_office(files.zipped({**whole, **members}))
    assert (found["text"].split(), found["losses"][0]["what"]) == (["Sheet", "cell"], "parts")


NAMES = "xmlns:office='office' xmlns:table='table' xmlns:text='text' xmlns:draw='draw'"


def ods(rows: str) -> bytes:
    return files.zipped({
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": f"<office:document-content {NAMES}><office:body><office:spreadsheet>"
        f"<table:table table:name='Fish'>{rows}</table:table>"
        "</office:spreadsheet></office:body></office:document-content>",
    })  # fmt: skip


def test_repeated_rows_and_cells_beyond_the_limit_are_losses() -> None:
    cell = "<table:table-cell{}><text:p>cod</text:p></table:table-cell>"
    row = "<table:table-row{}>{}</table:table-row>"
    found = extract_office(
        ods(
            row.format(" table:number-rows-repeated='1300'", cell.format(""))
            + row.format("", cell.format(" table:number-columns-repeated='1020'"))
            + row.format(" table:number-rows-repeated='1000000'", "<table:table-cell/>")
        )
    )
    assert found["text"].split().count("cod") == 2000
    assert found["losses"] == [
        {"what": "repeated rows", "count": 300, "where": "Fish"},
        {"what": "repeated cells", "count": 20, "where": "Fish"},
    ]


def test_text_boxes_over_open_sheets_are_read() -> None:
    shapes = (
        "<table:shapes><draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></table:shapes>"
    )
    row = "<table:table-row><table:table-cell><text:p>cod</text:p></table:table-cell></table:table-row>"
    assert extract_office(ods(shapes + row))["text"].split() == ["Fish", "cod", "boxed"]


def test_a_chapter_that_is_no_page_is_a_loss() -> None:
    opf = files.OPF.replace('application/xhtml+xml"/>\n<item id="a"', 'image/png"/>\n<item id="a"')
    assert opf != files.OPF
    found = extract_office(files.epub_file(**{"book/book.opf": opf}))
    assert found["losses"] == [{"what": "chapters", "count": 1, "where": "book/b.xhtml: image/png"}]
