"""What the child process of `OfficeExtract` does with a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.documents.memory import limited_memory
from dcurate.documents.office import extract_office

#: Bytes that the trees of a large XML file may take.
_MEMORY = 2**29


def read_office(data: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Extract an office file or ebook.

    Args:
        data: the file.
        options: those of `extract_office`; ``output``: "text" or "markdown".

    Returns:
        What the stage needs of the result of `extract_office`, with ``pages``: number and characters of each slide,
        sheet or chapter, where the file has them.

    Raises:
        MediaError: the file cannot be read; with its reason.
    """
    output = options.get("output", "text")
    chosen = {name: value for name, value in options.items() if name != "output"}
    with limited_memory(len(data), _MEMORY):
        extracted = extract_office(data, chosen)
    text = extracted["text"].encode()
    lengths = [len(text[start:stop].decode()) for start, stop in extracted["page_spans"]]
    spans = extracted["page_spans"] if output == "text" else []
    kept = {name: extracted[name] for name in ("kind", "title", "author", "language", "n_pages", "losses")}
    pages = [{"number": number, "characters": count} for number, count in enumerate(lengths, 1)]
    return {**kept, "text": extracted[output], "pages": pages, "page_spans": spans}
