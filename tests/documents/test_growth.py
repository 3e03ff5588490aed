"""The time to read documents grows with their size, for hostile pages, archives and XML, too."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import openpyxl
import pytest
from openpyxl.xml.constants import SHEET_MAIN_NS as MAIN_NS

from dcurate.documents.conventions import CONVENTIONS
from dcurate.documents.noise import odd_words
from dcurate.documents.office import extract_office
from dcurate.documents.office.blocks import Blocks
from dcurate.documents.pdf import extract_pdf
from dcurate.documents.pdf.contents import clean_contents
from dcurate.documents.pdf.furniture import find_furniture
from dcurate.documents.pdf.native import PageFrame
from dcurate.documents.pdf.page import PdfPage
from dcurate.documents.pdf.render import Compounds, _join
from dcurate.documents.repair import _unpacked, has_no_pages, with_page_tree
from dcurate.isolate.errors import MediaError
from dcurate.kernels.pdf.lines import BASE, GAP, SIZE
from dcurate.llm import RequestError
from tests.documents.office.files import epub_file, replaced, zipped
from tests.documents.pdf.writer import pages_of, shown
from tests.growth import SHORT, assert_linear, assert_quick, followed, pairs, singles

#: What lines of a page are read by: words, hyphens, leaders, numbers of pages.
LINES = [
    "a",
    "a-",
    "-a",
    "_",
    "a ",
    " ",
    "!",
    ".",
    ". ",
    "…",
    "·",
    "1",
    "page",
    "p.",
    "–",
    ")",
    "页",
    "\u3000",
    "1 of ",
]
ANSWERS = ["---\n", "```", "```\n", "a: ", " ", "\n", "a", "<x_1><y_1>", "<x_1><y_1>a<x_1><y_1><class_T>", "<", "<tbc>"]
#: What a PDF is repaired by.
OBJECTS = [
    *("1 0 obj ", "obj", "endobj ", "stream\n", "endstream ", "/Type/Page ", "/Type/Pages ", "/Kids[", "/Kids[1 0 R] "),
    *("/Type/ObjStm ", "1 0 R ", "xref ", "1 ", " ", "<<", "1 0 obj /Type/Pages /Kids[", "/Type/Catalog/Pages 1 0 "),
]
#: Lines of a list of contents, of which the last is no entry.
LED = np.zeros((4, 10), np.float32)
LED[:, GAP] = 2
WORD = "xmlns:w='w' xmlns:r='r'"
TYPES = '<Types><Override PartName="/{0}" ContentType="a/{1}.main+xml"/></Types>'


def refused(work: Callable[[Any], object]) -> Callable[[Any], object]:
    """Work that may be refused with a reason."""

    def tried(data: Any) -> None:
        with suppress(MediaError, RequestError):
            work(data)

    return tried


def whole(unit: str) -> Callable[[int], str]:
    """The same elements again and again, none of them cut."""
    return lambda length: unit * (length // len(unit))


def nested(opening: str, inner: str, closing: str, levels: int = 200) -> Callable[[int], str]:
    """Elements within each other, as deep as the parser reads them, again and again."""
    unit = opening * levels + inner + closing * levels
    return lambda length: unit * max(1, length // len(unit))


def inside(opening: str, pattern: Callable[[int], str], closing: str) -> Callable[[int], str]:
    """A pattern within an element."""
    return lambda length: opening + pattern(length) + closing


def between(begin: str, sign: str, end: str) -> Callable[[int], str]:
    """A sign again and again between two texts."""
    return lambda length: begin + sign * length + end


def docx(body: str) -> bytes:
    return zipped({"[Content_Types].xml": TYPES.format("word/document.xml", "wordprocessingml"),
                   "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>"})  # fmt: skip


def pptx(slide: str, slides: int = 1) -> bytes:
    relations = "".join(f"<Relationship Id='r{at}' Type='a/slide' Target='s.xml'/>" for at in range(slides))
    ids = "".join(f"<p:sldId r:id='r{at}'/>" for at in range(slides))
    return zipped({
        "[Content_Types].xml": TYPES.format("ppt/presentation.xml", "presentationml"),
        "ppt/presentation.xml": f"<p:presentation xmlns:p='p' xmlns:r='r'>{ids}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": f"<Relationships>{relations}</Relationships>",
        "ppt/s.xml": f"<p:sld xmlns:p='p' xmlns:a='a' xmlns:r='r'>{slide}</p:sld>",
    })  # fmt: skip


def opendocument(body: str) -> bytes:
    names = " ".join(f"xmlns:{name}='{name}'" for name in ("o", "t", "d", "p", "x"))
    return zipped({"mimetype": "application/vnd.oasis.opendocument.text",
                   "content.xml": f"<o:d {names}><o:body><o:text>{body}</o:text></o:body></o:d>"})  # fmt: skip


def epub(page: str) -> bytes:
    return epub_file(**{"book/b.xhtml": page})


TITLE = "<p:sp><p:nvPr><p:ph type='title'/></p:nvPr><p:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></p:txBody></p:sp>"
RUN = "<w:r><w:t>a</w:t></w:r>"
PARAGRAPH = f"<w:p>{RUN}</w:p>"
CELL = f"<w:tc>{PARAGRAPH}</w:tc>"
OFFICE: dict[str, tuple[Callable[[str], bytes], list[Callable[[int], str]]]] = {
    "docx": (docx, [
        whole(PARAGRAPH), whole("<w:p/>"), whole(f"<w:tbl><w:tr>{CELL}</w:tr></w:tbl>"),
        nested("<w:tbl><w:tr><w:tc>", PARAGRAPH, "</w:tc></w:tr></w:tbl>", 60), nested("<w:p>", RUN, "</w:p>"),
        inside("<w:p>", nested("<w:hyperlink>", RUN, "</w:hyperlink>"), "</w:p>"),
        nested("<w:p><w:txbxContent>", PARAGRAPH, "</w:txbxContent></w:p>", 100),
        nested("<w:ins>", PARAGRAPH, "</w:ins>"),
        lambda length: f"<w:tbl><w:tr>{CELL * (length // 80)}</w:tr>{f'<w:tr>{CELL}</w:tr>' * (length // 100)}</w:tbl>",
    ]),
    "pptx": (pptx, [
        whole(TITLE), nested("<p:grpSp>", TITLE, "</p:grpSp>"), nested("<a:p>", "<a:t>a</a:t>", "</a:p>"),
        nested("<p:sp>", TITLE, "</p:sp>"),
    ]),
    "odt": (opendocument, [
        whole("<t:p>a</t:p>"), nested("<t:list><t:list-item>", "<t:p>a</t:p>", "</t:list-item></t:list>", 100),
        nested("<p:notes><d:text-box>", "<t:p>a</t:p>", "</d:text-box></p:notes>", 12),
        nested("<p:notes><d:text-box>", "<t:p>a</t:p>", "</d:text-box></p:notes>", 100),
        nested("<d:text-box>", "<t:p>a</t:p>", "</d:text-box>"),
        inside("<t:p>", nested("<t:a x:href='http://a'>", "a", "</t:a>"), "</t:p>"),
        nested("<t:table><t:table-row><t:table-cell>", "<t:p>a</t:p>", "</t:table-cell></t:table-row></t:table>", 60),
        nested("<t:p><t:note><t:note-body>", "a", "</t:note-body></t:note></t:p>", 60),
        inside("<t:p>", whole("<t:s t:c='99'/>"), "</t:p>"),
    ]),
    "epub": (epub, [
        *singles(["<div>", "<a href='http://a'>", "<b>", "<table><tr><td>", "<tr>", "<td>x", "<ul><li>"]),
        *singles(["</p>", "<", "&", "<h1>", "<br>", "<p>a", "<pre>", "x ", "<ol>", "<!--", "<![CDATA[", "<li>a<ul>"]),
        lambda length: "<table><tr>" + "<td>x" * (length // 10) + "<tr><td>x" * (length // 20) + "</table>",
    ]),
}  # fmt: skip
RTF = [
    *("{", "}", "\\", "\\'", "\\'e9", "\\par ", "\\u233?", "{\\*\\a ", "{\\title a", "a", "\\bin9 ", "\\u", "\\cell "),
    *("|", "\\row\n", "\\trowd ", "{\\field{\\fldinst HYPERLINK \"a\"}{\\fldrslt b}}", "{\\fonttbl{\\f0 a;}}"),
    "0" * 4_000 + "x",
]  # fmt: skip


@pytest.mark.parametrize("kind", OFFICE)
def test_office_files_are_read_in_linear_time(kind: str) -> None:
    packed, patterns = OFFICE[kind]
    assert_linear(refused(lambda text: extract_office(packed(text))), patterns, SHORT)


def test_parts_that_are_named_again_and_again_are_read_a_few_times() -> None:
    with pytest.raises(MediaError, match="zip bomb: it names the same parts again and again"):
        extract_office(pptx(" " * 100_000, 3_000))


def test_slides_with_many_titles_are_read_in_linear_time() -> None:
    """Where pages lie was worked out for each title."""
    assert_linear(lambda text: extract_office(pptx(text)), [whole(TITLE)], (50_000, 1_000_000))


def test_an_empty_grid_is_no_table() -> None:
    blocks = Blocks()
    blocks.table([["a"] * 900, *[["a"]] * 900])
    with pytest.raises(MediaError, match="too many cells"):
        blocks.table([["a"] * 9_000, *[["a"]] * 9_000])


def test_a_sheet_whose_rows_or_columns_are_far_apart_is_read_or_refused_at_once() -> None:
    for cell, rows in (("A9999999999", [9_999_999_999]), ("XFD{}", range(1, 9_000))):
        book = openpyxl.Workbook()
        stream = io.BytesIO()
        book.save(stream)
        filled = "".join(f"<row r='{row}'><c r='{cell.format(row)}'><v>1</v></c></row>" for row in rows)
        sheet = f"<worksheet xmlns='{MAIN_NS}'><sheetData>{filled}</sheetData></worksheet>"
        packed = replaced(stream.getvalue(), **{"xl__worksheets__sheet1_xml": sheet.encode()})
        assert_quick(partial(refused(partial(extract_office, options={"max_cells": 100_000})), packed), 5)


def test_rich_text_is_read_in_linear_time() -> None:
    assert_linear(
        refused(lambda text: extract_office(b"{\\rtf1 " + text.encode("latin-1"))), singles(RTF), (4_000, 32_000)
    )
    assert_linear(
        refused(lambda text: extract_office(b"{\\rtf1 " + text.encode())), singles(RTF[-1:]), (100_000, 1_000_000)
    )


def page_of(lines: list[str], apart: float = 12.0) -> PdfPage:
    """What furniture and words with hyphens are found in."""
    table = np.zeros((len(lines), 10), np.float32)
    table[:, BASE] = np.arange(len(lines)) * apart
    table[:, SIZE] = 10
    stops = np.cumsum([len(line) for line in lines])
    places = np.stack([stops - [len(line) for line in lines], stops], axis=1).astype(np.int32)
    frame = PageFrame(0, (0.0, 600.0, 0.0, 800.0))
    return PdfPage(0, 600.0, 800.0, 0, frame, {}, lines, np.zeros(0, np.uint32), places, table, {})


def test_lines_of_pages_are_looked_at_in_linear_time() -> None:
    patterns = [*singles(LINES), *pairs(["a", "-", "!", " ", "1", ".", "– "])]
    patterns += [between("1", sign, "q") for sign in " -"]
    compounds = Compounds([])
    assert_linear(lambda text: find_furniture([page_of([text]), page_of([text])]), patterns, SHORT)
    assert_linear(lambda text: "a-a" in Compounds([page_of([f"{text} -"])]), patterns, SHORT)
    assert_linear(lambda text: _join([f"{text} b-"], "a", compounds, True), patterns, SHORT)
    assert_linear(lambda text: clean_contents([f"a{text}b"], np.zeros((1, 10), np.float32)), patterns, SHORT)
    assert_linear(lambda text: clean_contents(["a....1", "b....2", "c....3", text], LED), patterns, SHORT)
    assert_linear(odd_words, patterns[::4])


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_answers_of_vision_models_are_read_in_linear_time(convention: str) -> None:
    read = refused(CONVENTIONS[convention].read)
    assert_linear(read, [*singles(ANSWERS), *pairs(["```", "\n", " ", "---\n"])], SHORT)
    for begin, end in (("---\na: x", "x\n---\n"), ("```\n", "x")):
        assert_linear(read, [between(begin, " ", end)], SHORT)


def test_files_are_repaired_in_linear_time() -> None:
    def repair(text: str) -> None:
        data = b"%PDF-1.7\n" + text.encode()
        with_page_tree(data)
        has_no_pages(data)

    assert_linear(repair, singles(OBJECTS))
    assert_linear(repair, [followed("1 0 obj /Type/Pages ", "/Kids[")])
    assert_linear(repair, [lambda length: "1 0 obj /Type/Pages " + "/Kids[" * (length // 6) + " endobj"])


def test_objects_that_lie_over_each_other_are_not_copied_each() -> None:
    heads = b"".join(b"%d %d " % (number, (number % 2) * 20_000) for number in range(1, 2_000))
    content = zlib.compress(heads + b" " * 40_000)
    about = b"<</Type/ObjStm/N 2000/First %d/Filter/FlateDecode>>" % len(heads)
    found = dict(_unpacked(b"9 0 obj " + about + b"stream\n" + content + b"\nendstream endobj"))
    assert sum(map(len, found.values())) <= 60_000


PAGES: dict[str, Callable[[int], bytes]] = {
    "lines of two parts that are no table": lambda count: b"".join(
        shown("\u2022", 50, 830 - 0.4 * at, 0.3) + shown("text", 80, 830 - 0.4 * at, 0.3) for at in range(count)
    ),
    "one cell of many lines": lambda count: (
        b"50 20 200 800 re S 250 20 200 800 re S 50 10 400 10 re S "
        + b"".join(shown("a word", 60, 810 - 0.3 * at, 0.29) for at in range(count))
    ),
    "letters over each other": lambda count: b"".join(shown("abc", 50, 700) for at in range(count)),
    "one line of many words": lambda count: b"".join(shown("a", 20 + 0.2 * at, 700, 0.3) for at in range(count)),
    "rules": lambda count: b"".join(b"20 %g 500 0 re S " % (830 - 0.1 * at) for at in range(count)),
    "boxes": lambda count: b"".join(b"%g %g 9 9 re S " % (at % 60 * 9, 830 - at // 60 * 9) for at in range(count)),
    "letters far apart": lambda count: b"".join(
        shown("x", 20 + at * 7919 % 550, 20 + at * 104_729 % 800, 2) for at in range(count)
    ),
    "words turned by many angles": lambda count: b"".join(
        b"BT /F 3 Tf %.5f %.5f %.5f %.5f %d %d Tm (ab) Tj ET "
        % (math.cos(at), math.sin(at), -math.sin(at), math.cos(at), 20 + at * 7919 % 550, 20 + at * 104_729 % 800)
        for at in range(count)
    ),
    "words of all directions": lambda count: b"".join(
        b"BT /F 3 Tf %b %d %d Tm (ab) Tj ET "
        % ((b"1 0 0 1", b"0 1 -1 0", b"-1 0 0 -1", b"0 -1 1 0")[at % 4], 20 + at * 7919 % 550, 20 + at * 104_729 % 800)
        for at in range(count)
    ),
    "a word with a hyphen": lambda count: shown("a" * count + " b-", 20, 700, 0.01) + shown("c", 20, 680),
}


#: Least words of pages on which fewer have another work: from some 1,300 words on, those of each direction lie in rows,
#: in which tables are looked for.
SHORTEST = {"words of all directions": 6_000}


@pytest.mark.parametrize("page", PAGES)
def test_pages_of_pdfs_are_read_in_linear_time(page: str) -> None:
    extract_pdf(pages_of([PAGES[page](100)]))
    lengths = (SHORTEST.get(page, 2_000), 16_000)
    assert_linear(lambda content: extract_pdf(pages_of([content])), [PAGES[page]], lengths, bytes_each=20)
