"""Office files for tests, each written by another library than the one that reads it here."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Mapping
from typing import Any

import docx
import openpyxl
import pptx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from odf import draw, opendocument, style, table, text
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches


def _saved(document: Any) -> bytes:
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def docx_file() -> bytes:
    """A document with a heading, tracked changes, hidden text, lists, a link, a content control and a table."""
    document = docx.Document()
    document.core_properties.title = "The fish"
    document.core_properties.author = "A. Writer"
    document.add_heading("About fish", 1)
    paragraph = document.add_paragraph("Cod is ")
    for xml in (
        "<w:ins {}><w:r><w:t>a white </w:t></w:r></w:ins>",
        "<w:del {}><w:r><w:delText>a red </w:delText></w:r></w:del>",
        "<w:r {}><w:rPr><w:vanish/></w:rPr><w:t>secret </w:t></w:r>",
        "<w:r {}><w:t>fish.</w:t></w:r>",
    ):
        paragraph._p.append(parse_xml(xml.format(nsdecls("w"))))
    document.add_paragraph("One", style="List Bullet")
    document.add_paragraph("Two", style="List Bullet")
    document.add_paragraph("First", style="List Number")
    document.add_paragraph("Second", style="List Number")
    relation = document.part.relate_to("https://example.org/cod", RELATIONSHIP_TYPE.HYPERLINK, True)
    link = document.add_paragraph("See ")
    xml = f'<w:hyperlink {nsdecls("w", "r")} r:id="{relation}"><w:r><w:t>the cod</w:t></w:r></w:hyperlink>'
    link._p.append(parse_xml(xml))
    control = "<w:sdt {}><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    document.element.body.insert_element_before(parse_xml(control.format(nsdecls("w"))), "w:sectPr")
    grid = document.add_table(2, 2)
    for row, values in zip(grid.rows, (("Name", "kg"), ("Cod", "2|3")), strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    document.sections[0].header.paragraphs[0].text = "Running head"
    return _saved(document)


def pptx_file() -> bytes:
    """Two slides: a title with points and notes, and a table; a third is hidden."""
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "About fish"
    frame = slide.placeholders[1].text_frame
    frame.text = "Cod"
    deeper = frame.add_paragraph()
    deeper.text = "Atlantic cod"
    deeper.level = 1
    slide.notes_slide.notes_text_frame.text = "Speak slowly."
    second = show.slides.add_slide(show.slide_layouts[5])
    second.shapes.title.text = "Weights"
    grid = second.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row, values in enumerate((("Name", "kg"), ("Cod", "2"))):
        for column, value in enumerate(values):
            grid.cell(row, column).text = value
    hidden = show.slides.add_slide(show.slide_layouts[5])
    hidden.shapes.title.text = "Hidden slide"
    hidden._element.set("show", "0")
    return _saved(show)


def chart_file() -> bytes:
    """A slide with a chart."""
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    numbers = CategoryChartData()
    numbers.categories = ["Cod", "Eel"]
    numbers.add_series("kg", (2, 3))
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, Inches(1), Inches(1), Inches(4), Inches(4), numbers)
    return _saved(show)


def xlsx_file() -> bytes:
    """A sheet with numbers, a date and a percentage; a second one is hidden."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Fish"
    sheet.append(["Name", None, "kg", "Caught", "Share"])
    sheet.append(["Cod", None, 2.5, datetime.datetime(2026, 1, 2), 0.125])
    sheet.append(["Eel", None, 3, datetime.datetime(2026, 1, 2, 3, 4), 1])
    sheet["E2"].number_format = sheet["E3"].number_format = "0.0%"
    sheet["XFD1"] = None
    hidden = book.create_sheet("Hidden")
    hidden["A1"] = "not seen"
    hidden.sheet_state = "hidden"
    return _saved(book)


def two_sheets_file() -> bytes:
    """Two sheets that are shown."""
    book = openpyxl.Workbook()
    book.active.title = "Cod"
    for values in (["kg", "share"], [2, 3], [4, 5]):
        book.active.append(values)
    book.create_sheet("Second").append(["Eel"])
    return _saved(book)


def odt_file() -> bytes:
    document = opendocument.OpenDocumentText()
    document.text.addElement(text.H(outlinelevel=1, text="About fish"))
    paragraph = text.P(text="Cod is")
    paragraph.addElement(text.S(c=2))
    paragraph.addText("white, see ")
    paragraph.addElement(text.A(href="https://example.org/cod", text="the cod"))
    paragraph.addText(".")
    document.text.addElement(paragraph)
    items = text.List()
    for name in ("One", "Two"):
        item = text.ListItem()
        item.addElement(text.P(text=name))
        items.addElement(item)
    document.text.addElement(items)
    document.text.addElement(_odf_table("Weights"))
    return _saved(document)


def ods_file() -> bytes:
    document = opendocument.OpenDocumentSpreadsheet()
    document.spreadsheet.addElement(_odf_table("Fish", repeated=True))
    return _saved(document)


def odp_file() -> bytes:
    document = opendocument.OpenDocumentPresentation()
    layout = style.PageLayout(name="layout")
    document.automaticstyles.addElement(layout)
    master = style.MasterPage(name="master", pagelayoutname=layout)
    document.masterstyles.addElement(master)
    for words in ("First slide", "Second slide"):
        page = draw.Page(masterpagename=master)
        frame = draw.Frame(width="4cm", height="2cm")
        box = draw.TextBox()
        box.addElement(text.P(text=words))
        frame.addElement(box)
        page.addElement(frame)
        document.presentation.addElement(page)
    return _saved(document)


def _odf_table(name: str, *, repeated: bool = False) -> Any:
    grid = table.Table(name=name)
    for values in (("Name", "kg"), ("Cod", "2")):
        row = table.TableRow()
        for value in values:
            cell = table.TableCell()
            cell.addElement(text.P(text=value))
            row.addElement(cell)
        if repeated:
            row.addElement(table.TableCell(numbercolumnsrepeated=16_000))
        grid.addElement(row)
    if repeated:
        row = table.TableRow(numberrowsrepeated=1_000_000)
        row.addElement(table.TableCell())
        grid.addElement(row)
    return grid


CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="book/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
OPF = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>The fish</dc:title><dc:creator>A. Writer</dc:creator><dc:language>en</dc:language></metadata>
<manifest><item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="text/a%20a.xhtml" media-type="application/xhtml+xml"/>
<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/></manifest>
<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/></spine></package>"""
CHAPTER = """<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title><style>p {{}}</style></head>
<body><h1>{0}</h1><p>Text of <i>{0}</i>
with ünïcode.</p><ul><li>One<ul><li>Deep</li></ul></li><li>Two</li></ul>
<table><tr><th>Name</th><th>kg</th></tr><tr><td>Cod</td><td>2</td></tr></table><script>run()</script></body></html>"""


def epub_file(**more: str) -> bytes:
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "book/book.opf": OPF,
            "book/b.xhtml": CHAPTER.format("Beta"),
            "book/text/a a.xhtml": CHAPTER.format("Alpha"),
            "book/nav.xhtml": CHAPTER.format("Contents"),
            **more,
        }
    )


def zipped(members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def without(data: bytes, missing: str) -> bytes:
    """An archive without one of its members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert missing in names
        return zipped({name: archive.read(name) for name in names if name != missing})


def with_wrong_checksum(data: bytes, part: str) -> bytes:
    """An archive one of whose members differs from its checksum."""
    stored = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(stored, "w") as made:
        for name in archive.namelist():
            made.writestr(name, archive.read(name), zipfile.ZIP_STORED if name == part else zipfile.ZIP_DEFLATED)
        begin = made.getinfo(part).header_offset + 30 + len(part.encode())
    broken = bytearray(stored.getvalue())
    broken[begin + 40] ^= 1
    return bytes(broken)


def with_noise(data: bytes, part: str) -> bytes:
    """An archive one of whose members is not XML."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return zipped({name: b"<a" if name == part else archive.read(name) for name in archive.namelist()})


def replaced(data: bytes, **changes: bytes) -> bytes:
    """An archive with other bytes for some members, named with `__` for `/`."""
    names = {name.replace("__", "/").replace("_xml", ".xml"): content for name, content in changes.items()}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return zipped({name: archive.read(name) for name in archive.namelist()} | names)
