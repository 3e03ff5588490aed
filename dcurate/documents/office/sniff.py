"""What a file is, by its content."""

from __future__ import annotations

import re

from dcurate.documents.office.package import Package
from dcurate.isolate.errors import MediaError

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LEGACY = {
    "WordDocument": "Word 97-2003 (.doc)",
    "Workbook": "Excel 97-2003 (.xls)",
    "Book": "Excel 5.0 (.xls)",
    "PowerPoint Document": "PowerPoint 97-2003 (.ppt)",
    "HwpSummaryInformation": "Hangul (.hwp)",
    "VisioDocument": "Visio (.vsd)",
}
_OOXML = (
    ("word", "docx"),
    ("presentation", "pptx"),
    ("slideshow", "pptx"),
    ("template.main", "pptx"),
    ("sheet", "xlsx"),
)
_OPENDOCUMENT = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}
_OTHERS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
)


def sniff(data: bytes, package: Package | None = None) -> str:
    r"""The kind of an office file by its content: docx, pptx, xlsx, odt, ods, odp, epub or rtf.

    Args:
        data: the file.
        package: the same as an opened archive, if it is one.

    Raises:
        MediaError: "encrypted", "legacy format", "broken zip", "zip bomb", "empty file" or "not an office file".

    Examples:
        >>> sniff(rb"{\rtf1 Hello}")
        'rtf'
        >>> sniff(b"%PDF-1.7")
        Traceback (most recent call last):
        ...
        dcurate.isolate.errors.MediaError: not an office file: a PDF
    """
    if not data:
        raise MediaError("empty file")
    if data.startswith(_OLE):
        raise _ole(data)
    head = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"{\\rtf"):
        return "rtf"
    if data.startswith(b"PK"):
        return _archive(package or Package(data))
    raise MediaError("not an office file", _other(head))


def _ole(data: bytes) -> MediaError:
    if _utf16("EncryptedPackage") in data:
        return MediaError("encrypted", "the file needs a password")
    for stream, name in _LEGACY.items():
        if _utf16(stream) + b"\0\0" in data:
            return MediaError("legacy format", f"{name}; convert it, for example with LibreOffice")
    return MediaError("legacy format", "OLE compound file")


def _archive(package: Package) -> str:
    if "mimetype" in package:
        kind = package.read("mimetype")[:200].decode("ascii", "replace").strip()
        if kind == "application/epub+zip":
            return "epub"
        match = re.match(r"application/vnd\.oasis\.opendocument\.(\w+)(?:-template)?$", kind)
        if match and match[1] in _OPENDOCUMENT:
            return _OPENDOCUMENT[match[1]]
    if "META-INF/container.xml" in package:
        return "epub"
    if "[Content_Types].xml" in package:
        return _ooxml(package)
    raise MediaError("not an office file", "a zip archive")


def _ooxml(package: Package) -> str:
    kinds = [element.get("ContentType", "") for element in package.xml("[Content_Types].xml")]
    for kind in kinds:
        if kind.endswith("main+xml") or kind.endswith("sheet.binary.macroEnabled.main"):
            if "sheet.binary" in kind:
                raise MediaError("legacy format", "Excel binary workbook (.xlsb); convert it to XLSX")
            for word, name in _OOXML:
                if word in kind:
                    return name
    for folder, name in (("word/document.xml", "docx"), ("ppt/presentation.xml", "pptx"), ("xl/workbook.xml", "xlsx")):
        if folder in package:
            return name
    raise MediaError("not an office file", "an OOXML package of another kind")


def _other(head: bytes) -> str:
    if head.startswith(b"%PDF-"):
        return "a PDF"
    if re.match(rb"<(!doctype\s+html|html|head|body)\b", head, re.IGNORECASE):
        return "a web page"
    for magic, name in _OTHERS:
        if head.startswith(magic):
            return name
    return f"begins with {head[:8]!r}" if head.strip(b"\0") else "zero bytes"


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le")
