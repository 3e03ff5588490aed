"""Office files and ebooks to text: DOCX, PPTX, XLSX, ODT, ODS, ODP, EPUB and RTF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.documents.office.epub import extract_epub
from dcurate.documents.office.opendocument import extract_opendocument
from dcurate.documents.office.package import Package
from dcurate.documents.office.rtf import extract_rtf
from dcurate.documents.office.sheets import extract_xlsx
from dcurate.documents.office.slides import extract_pptx
from dcurate.documents.office.sniff import sniff
from dcurate.documents.office.word import extract_docx


def extract_office(data: bytes, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    r"""Extract the text of an office file or ebook; its kind is found by its content, not by its name.

    Macros, scripts, links to other files and external entities are never followed.

    Args:
        data: the file.
        options: `max_unpacked` (bytes that an archive may unpack to, 1 GiB), `max_members` (100,000),
            `max_characters` (of text, 100 million), `max_cells` (of a workbook, 5 million), `notes` (whether to
            add the speaker notes of slides, True).

    Returns:
        A dict that can be written as JSON: `kind`, `text`, `markdown`, `page_spans` (of slides, sheets or chapters in
        `text`: [start, stop] in UTF-8 bytes), `n_pages`, `title`, `author`, `language`, `headers_footers`, `links`
        (a dict with `text` and `target` each), and `losses`: parts that are damaged or missing, and what else is not in
        the text, see `dcurate.documents.losses`.

    Raises:
        MediaError: the file cannot be read. Its reason is one of "empty file", "not an office file", "legacy format",
            "encrypted", "broken zip", "zip bomb", "external entities", "damaged", "too many cells", "too much text".

    Examples:
        >>> found = extract_office(rb"{\rtf1\ansi Good \b day\b0 .\par Bye.}")
        >>> found["kind"], found["text"]
        ('rtf', 'Good day.\n\nBye.')
    """
    package = None
    options = dict(options or {})
    if data.startswith(b"PK"):
        package = Package(data, options.get("max_unpacked", 2**30), options.get("max_members", 100_000))
    extracted = _extracted(data, package, options)
    if package is not None and package.fault is not None and not extracted["text"]:
        raise package.fault
    return {**extracted, "losses": [] if package is None else package.losses.rows()}


def _extracted(data: bytes, package: Package | None, options: Mapping[str, Any]) -> dict[str, Any]:
    characters = options.get("max_characters", 100_000_000)
    kind = sniff(data, package)
    if package is None:
        return extract_rtf(data, characters)
    if kind == "docx":
        return extract_docx(package, characters)
    if kind == "pptx":
        return extract_pptx(package, characters, options.get("notes", True))
    if kind == "xlsx":
        return extract_xlsx(data, package, characters, options.get("max_cells", 5_000_000))
    if kind == "epub":
        return extract_epub(package, characters)
    return extract_opendocument(package, kind, characters)
