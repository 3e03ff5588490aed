"""RTF to blocks."""

from __future__ import annotations

import re
from typing import Any

from striprtf.striprtf import rtf_to_text

from dcurate.documents.office.blocks import Blocks, document
from dcurate.isolate.errors import MediaError

_TITLE = re.compile(r"\{\\title ([^{}\\]{1,1000})\}")
_AUTHOR = re.compile(r"\{\\author ([^{}\\]{1,1000})\}")
_PICTURE = re.compile(rb"(?<![0-9a-fA-F\s])[0-9a-fA-F\s]{4096,}")


def extract_rtf(data: bytes, max_characters: int = 100_000_000) -> dict[str, Any]:
    """The text of an RTF file: paragraphs, and rows of tables. RTF names no headings.

    Raises:
        MediaError: "damaged", "too much text".
    """
    source = _PICTURE.sub(b" ", data).decode("latin-1")
    try:
        text = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]
    except (ValueError, IndexError, KeyError, LookupError, RecursionError) as error:
        raise MediaError("damaged", f"{type(error).__name__}: {error}"[:200]) from None
    # RTF writes a character beyond U+FFFF as two surrogates.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    blocks = Blocks(max_characters)
    rows: list[list[str]] = []
    for line in text.split("\n"):
        if line.rstrip().endswith("|") and line.count("|") > 1:
            rows.append([cell.strip() for cell in line.rstrip()[:-1].split("|")])
            continue
        blocks.table(rows)
        rows = []
        blocks.paragraph(line)
    blocks.table(rows)
    title, author = (pattern.search(source) for pattern in (_TITLE, _AUTHOR))
    fields = {"title": title[1].strip() if title else "", "author": author[1].strip() if author else ""}
    return document("rtf", blocks, **fields)
