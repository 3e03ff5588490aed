from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.documents.office import extract_office
from dcurate.isolate.errors import MediaError
from tests.documents.office import files

MAKERS = {
    "docx": files.docx_file,
    "pptx": files.pptx_file,
    "xlsx": files.xlsx_file,
    "odt": files.odt_file,
    "ods": files.ods_file,
    "odp": files.odp_file,
    "epub": files.epub_file,
    "rtf": lambda: rb"{\rtf1\ansi{\info{\title The fish}}Cod \b is\b0  a caf\'e9 \u8364?.\par Bye.}",
}


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return {kind: make() for kind, make in MAKERS.items()}


def pages(found: dict) -> list[str]:
    data = found["text"].encode()
    return [data[start:stop].decode() for start, stop in found["page_spans"]]


def test_kind_is_found_by_content_and_result_is_json(made: dict[str, bytes]) -> None:
    for kind, data in made.items():
        found = json.loads(json.dumps(extract_office(data)))
        assert found["kind"] == kind
        assert found["n_pages"] == len(found["page_spans"])
        assert pages(found)[0] == found["text"] or found["n_pages"] > 1


def test_docx(made: dict[str, bytes]) -> None:
    found = extract_office(made["docx"])
    assert found["markdown"] == (
        "# About fish\n\nCod is a white fish.\n\n- One\n- Two\n1. First\n2. Second\n\n"
        "See [the cod](https://example.org/cod)\n\nIn a control.\n\n| Name | kg |\n| --- | --- |\n| Cod | 2\\|3 |"
    )
    assert found["title"] == "The fish"
    assert found["author"] == "A. Writer"
    assert found["headers_footers"] == ["Running head"]
    assert found["links"] == [{"text": "the cod", "target": "https://example.org/cod"}]
    assert "Cod\t2|3" in found["text"]


@pytest.mark.parametrize("kind", ["docx", "pptx", "odt", "odp", "epub"])
@pytest.mark.parametrize("odd", ["\xb2", "9" * 99, str(2**64), "-1", "1e9", "", "x", "\u0663"])
def test_an_odd_number_in_an_attribute_costs_no_document(kind: str, odd: str, made: dict[str, bytes]) -> None:
    """The numbers in each part are replaced in turn; the first word stays."""
    numbers = re.compile(rb'([ :](?:c|val|lvl|level|[a-z-]+-level|[a-z-]+-repeated|gridSpan|sz)=")\d+(?=")')
    with zipfile.ZipFile(io.BytesIO(made[kind])) as package:
        parts = {info.filename: package.read(info) for info in package.infolist()}
    text = extract_office(made[kind])["text"].split()[0]
    for name, content in parts.items():
        changed = numbers.sub(rb"\g<1>" + odd.encode(), content)
        if changed != content:
            assert text in extract_office(files.zipped({**parts, name: changed}))["text"], name


def test_docx_text_boxes_footnotes_and_outline_levels() -> None:
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    body = (
        '<w:p><w:pPr><w:outlineLvl w:val="1"/></w:pPr><w:r><w:t>Deep</w:t></w:r></w:p>'
        '<w:p><w:r><w:t>Text</w:t><w:footnoteReference w:id="2"/></w:r>'
        "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>Boxed</w:t></w:r></w:p></w:txbxContent></w:pict></w:r></w:p>"
    )
    notes = '<w:footnote w:id="0" w:type="separator"/><w:footnote w:id="2"><w:p><w:r><w:t>A note.</w:t></w:r></w:p>'
    notes += "</w:footnote>"
    data = files.zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {word}><w:body>{body}</w:body></w:document>",
            "word/footnotes.xml": f"<w:footnotes {word}>{notes}</w:footnotes>",
        }
    )
    found = extract_office(data)
    assert found["markdown"] == "## Deep\n\nText[^2]\n\nBoxed\n\n[^2]: A note."


def test_macros_are_not_a_fault(made: dict[str, bytes]) -> None:
    kinds = zipfile.ZipFile(io.BytesIO(made["docx"])).read("[Content_Types].xml")
    macro = kinds.replace(
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
        b"application/vnd.ms-word.document.macroEnabled.main+xml",
    )
    assert macro != kinds
    data = files.replaced(made["docx"], **{"[Content_Types]_xml": macro, "word__vbaProject.bin": b"\xcc\x61"})
    assert extract_office(data)["text"] == extract_office(made["docx"])["text"]


def test_pptx(made: dict[str, bytes]) -> None:
    found = extract_office(made["pptx"])
    assert pages(found) == ["About fish\n\nCod\nAtlantic cod\n\nSpeak slowly.", "Weights\n\nName\tkg\nCod\t2"]
    assert "- Cod\n  - Atlantic cod" in found["markdown"]
    assert found["title"] == "About fish"
    assert "Speak" not in extract_office(made["pptx"], {"notes": False})["text"]


def test_xlsx(made: dict[str, bytes]) -> None:
    assert extract_office(made["xlsx"])["text"] == (
        "Fish\n\nName\tkg\tCaught\tShare\nCod\t2.5\t2026-01-02\t12.5%\nEel\t3\t2026-01-02 03:04:00\t100%"
    )
    with pytest.raises(MediaError, match="too many cells"):
        extract_office(made["xlsx"], {"max_cells": 3})


def test_xlsx_of_strict_ooxml(made: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(made["xlsx"])) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, part in parts.items():
        strict = part.replace(b"schemas.openxmlformats.org/spreadsheetml/2006", b"purl.oclc.org/ooxml/spreadsheetml")
        parts[name] = strict.replace(
            b"schemas.openxmlformats.org/officeDocument/2006", b"purl.oclc.org/ooxml/officeDocument"
        )
    assert extract_office(files.zipped(parts))["text"] == extract_office(made["xlsx"])["text"]


def test_opendocument(made: dict[str, bytes]) -> None:
    found = extract_office(made["odt"])
    assert found["markdown"] == (
        "# About fish\n\nCod is white, see [the cod](https://example.org/cod).\n\n- One\n- Two\n\n"
        "| Name | kg |\n| --- | --- |\n| Cod | 2 |"
    )
    assert extract_office(made["ods"])["text"] == "Fish\n\nName\tkg\nCod\t2"
    assert pages(extract_office(made["odp"])) == ["First slide", "Second slide"]


def test_epub(made: dict[str, bytes]) -> None:
    found = extract_office(made["epub"])
    chapter = "{0}\n\nText of {0} with ünïcode.\n\nOne\nDeep\nTwo\n\nName\tkg\nCod\t2"
    assert pages(found) == [chapter.format("Alpha"), chapter.format("Beta")]
    assert (found["title"], found["author"], found["language"]) == ("The fish", "A. Writer", "en")
    assert "- One\n  - Deep\n- Two" in found["markdown"]


def test_rtf(made: dict[str, bytes]) -> None:
    found = extract_office(made["rtf"])
    assert (found["text"], found["title"]) == ("Cod is a café €.\n\nBye.", "The fish")


def ole(*streams: str) -> bytes:
    return (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        + bytes(504)
        + b"".join(stream.encode("utf-16-le").ljust(128, b"\0") for stream in streams)
    )


def drm() -> bytes:
    xml = (
        '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData>'
        '<e:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></e:EncryptedData></encryption>'
    )
    return files.epub_file(**{"META-INF/encryption.xml": xml})


def bomb() -> bytes:
    return files.zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": bytes(100_000_000)})


def lying_bomb() -> bytes:
    """An archive whose directory says that a member of 30 MB has 10 bytes."""
    data = bytearray(files.zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": b" " * 30_000_000}))
    size = struct.pack("<I", 30_000_000)
    while (at := data.find(size)) >= 0:
        data[at : at + 4] = struct.pack("<I", 10)
    return bytes(data)


ENTITIES = b"<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x>&a;</x>"
BAD = {
    "empty file": lambda: b"",
    "not an office file: a PDF": lambda: b"%PDF-1.7\n",
    "not an office file: a web page": lambda: b"<!DOCTYPE html><html></html>",
    "not an office file: zero bytes": lambda: bytes(1000),
    "not an office file: a zip archive": lambda: files.zipped({"a.txt": "a"}),
    "not an office file: gzip": lambda: b"\x1f\x8b" + zlib.compress(b"x"),
    "encrypted: the file needs a password": lambda: ole("EncryptionInfo", "EncryptedPackage"),
    "legacy format: Word": lambda: ole("WordDocument", "1Table"),
    "legacy format: Excel 97": lambda: ole("Workbook"),
    "legacy format: PowerPoint": lambda: ole("PowerPoint Document"),
    "legacy format: OLE": lambda: ole("Other"),
    "broken zip": lambda: files.docx_file()[:9000],
    "zip bomb: ": bomb,
    "broken zip: word/document.xml": lying_bomb,
    "encrypted: chapters are under rights": drm,
    "external entities": lambda: files.replaced(files.docx_file(), word__document_xml=ENTITIES),
    "external entities: content.xml": lambda: files.replaced(files.odt_file(), content_xml=ENTITIES),
    "damaged: word/document.xml": lambda: files.replaced(files.docx_file(), word__document_xml=b"<w:document"),
    "damaged: ppt/presentation.xml names no": lambda: files.zipped(
        {"[Content_Types].xml": "<Types/>", "ppt/presentation.xml": "<p/>"}
    ),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_file_has_a_reason(reason: str) -> None:
    with pytest.raises(MediaError) as caught:
        extract_office(BAD[reason]())
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("make", "part", "what", "lost"),
    [
        (files.pptx_file, "ppt/slides/slide2.xml", "slides", "Weights"),
        (files.pptx_file, "ppt/notesSlides/notesSlide1.xml", "parts", "Speak slowly."),
        (files.two_sheets_file, "xl/worksheets/sheet2.xml", "sheets", "Eel"),
        (files.docx_file, "word/header1.xml", "parts", ""),
        (files.epub_file, "book/b.xhtml", "chapters", "Beta"),
    ],
)
@pytest.mark.parametrize("damage", [files.without, files.with_wrong_checksum, files.with_noise])
def test_a_part_that_is_damaged_or_missing_is_a_loss_and_the_others_come(
    make: Callable[[], bytes], part: str, what: str, lost: str, damage: Callable[[bytes, str], bytes]
) -> None:
    whole, found = extract_office(make()), extract_office(damage(make(), part))
    assert whole["losses"] == []
    assert lost in whole["text"]
    if damage is files.with_noise and make is files.epub_file:  # HTML of any form is read
        assert found["losses"] == []
        return
    assert [(loss["what"], loss["count"]) for loss in found["losses"]] == [(what, 1)]
    assert any(word in found["losses"][0]["where"] for word in (part, "Second"))
    kept = [line for line in whole["text"].split("\n") if line and line in found["text"]]
    assert len(kept) >= 3
    assert not lost or lost not in found["text"]


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (files.pptx_file, "ppt/_rels/presentation.xml.rels"),
        (files.chart_file, "ppt/slides/_rels/slide1.xml.rels"),
        (files.xlsx_file, "xl/worksheets/sheet1.xml"),
        (files.xlsx_file, "xl/_rels/workbook.xml.rels"),
    ],
)
def test_a_file_without_the_part_that_has_its_text_is_damaged(make: Callable[[], bytes], missing: str) -> None:
    data = make()
    assert extract_office(data)["text"]
    with pytest.raises(MediaError, match="^damaged"):
        extract_office(files.without(data, missing))


def test_a_chart_without_its_part_is_damaged() -> None:
    data = files.chart_file()
    assert "\tkg\nCod\t2\nEel\t3" in extract_office(data)["text"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        chart = next(name for name in archive.namelist() if name.startswith("ppt/charts/chart"))
    with pytest.raises(MediaError, match="damaged: no member 'ppt/charts/"):
        extract_office(files.without(data, chart))


def test_notes_that_are_not_wanted_may_be_missing(made: dict[str, bytes]) -> None:
    data = files.without(made["pptx"], "ppt/notesSlides/notesSlide1.xml")
    assert pages(extract_office(data, {"notes": False}))[0] == "About fish\n\nCod\nAtlantic cod"


def test_parts_are_damaged_that_are_no_xml(made: dict[str, bytes]) -> None:
    for kind, part in (("pptx", "ppt__presentation_xml"), ("docx", "word___rels__document_xml.rels")):
        with pytest.raises(MediaError, match="^damaged: "):
            extract_office(files.replaced(made[kind], **{part: b"<a>"}))


def test_a_sheet_whose_name_openpyxl_does_not_find_is_damaged(made: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(made["xlsx"])) as archive:
        members = {name.replace("sheet1", "Sheet1"): archive.read(name) for name in archive.namelist()}
    with pytest.raises(MediaError, match=r"damaged: the sheet 'Fish' is missing"):
        extract_office(files.zipped(members))


def test_names_of_parts_are_compared_without_case_and_percent_encoding(made: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(made["pptx"])) as archive:
        members = {name.replace("slides/slide", "slides/S%6Cide"): archive.read(name) for name in archive.namelist()}
    assert extract_office(files.zipped(members))["text"] == extract_office(made["pptx"])["text"]


def test_a_chapter_with_an_unknown_encoding_in_a_tag_is_read() -> None:
    page = b"<html><head><meta charset='nonsense'></head><body><p>fish</p></body></html>"
    assert pages(extract_office(files.replaced(files.epub_file(), **{"book__b.xhtml": page})))[1] == "fish"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "koi8-r", "unknown"])
def test_chapters_in_any_encoding(encoding: str) -> None:
    page = f"<?xml version='1.0' encoding='{encoding}'?><html><body><p>рыба</p></body></html>"
    data = page.encode("utf-8" if encoding == "unknown" else encoding)
    assert pages(extract_office(files.replaced(files.epub_file(), **{"book__b.xhtml": data})))[1] == "рыба"


_made = cache(lambda kind: MAKERS[kind]())


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(MAKERS)),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=20),
    kept=st.floats(0.5, 1),
)
def test_damage_gives_text_or_a_reason(kind: str, changes: list[tuple[float, int]], kept: float) -> None:
    broken = bytearray(_made(kind))
    for place, value in changes:
        broken[int(place * len(broken))] = value
    if kept < 0.75:
        broken = broken[: int(kept * len(broken))]
    found = None
    with suppress(MediaError):
        found = extract_office(bytes(broken))
    if found:
        json.dumps(found)
        found["text"].encode()


def test_deep_nesting_ends(made: dict[str, bytes]) -> None:
    deepest = "<div>" * 5000 + "deep" + "</div>" * 5000
    found = extract_office(files.epub_file(**{"book/b.xhtml": deepest}))
    assert found["losses"][0]["where"].startswith("book/b.xhtml: a chapter cannot be parsed: Excessive depth")
    assert pages(found)[0].startswith("Alpha")
    deep = b"<div>" * 1500 + b"deep" + b"</div>" * 1500
    found = extract_office(files.epub_file(**{"book/b.xhtml": deep.decode()}))
    assert found["n_pages"] == 2
    word = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body></w:document>'
    nested = b"<w:tbl><w:tr><w:tc>" * 60 + b"<w:p><w:r><w:t>x</w:t></w:r></w:p>" + b"</w:tc></w:tr></w:tbl>" * 60
    data = files.replaced(made["docx"], word__document_xml=word % nested)
    assert extract_office(data)["text"] == "x"


def test_text_that_is_nested_deeply_is_kept(made: dict[str, bytes]) -> None:
    for tag in ("div", "b", "ul"):
        deep = f"<{tag}>" * 1500 + "deep<script>run()</script>" + f"</{tag}>" * 1500
        found = extract_office(files.epub_file(**{"book/b.xhtml": f"<html><body>{deep}<p>after</p></body></html>"}))
        assert pages(found)[1].split() == ["deep", "after"]
    with zipfile.ZipFile(io.BytesIO(made["odt"])) as archive:
        content = archive.read("content.xml")
    for begin, end in ((b"<text:section>", b"</text:section>"), (b"<text:list><text:list-item>",
                                                                 b"</text:list-item></text:list>")):  # fmt: skip
        deep_odt = b"<office:text>" + begin * 115 + b"<text:p>deep</text:p>" + end * 115
        data = files.replaced(made["odt"], content_xml=content.replace(b"<office:text>", deep_odt, 1))
        assert extract_office(data)["text"].startswith("deep")
    word = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body></w:document>'
    box, end_box = "<w:p><w:r><w:t>o</w:t></w:r><w:r><w:txbxContent>", "</w:txbxContent></w:r></w:p>"
    body = box * 40 + "<w:p><w:r><w:t>deep</w:t></w:r></w:p>" + end_box * 40
    data = files.replaced(made["docx"], word__document_xml=(word % body).encode())
    assert extract_office(data)["text"].split() == ["o"] * 40 + ["deep"]
