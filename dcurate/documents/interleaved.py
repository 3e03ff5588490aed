"""A PDF as interleaved rows: its pages' text and its figures, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from dcurate.documents.columns import DOCUMENT, document_columns
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.interleaved.schema import BEFORE, IMAGE, METADATA, TEXT, SourceRef, rows_of
from dcurate.media.refs import BYTES, REF, refs_of

#: The column with the number of the page, from 1.
PAGE = "page"


def interleaved_table(rows: pa.Table, found: Sequence[ChildAnswer], ids: Sequence[str]) -> pa.Table:
    """Return the interleaved rows of PDFs; each keeps the other columns of its PDF.

    Args:
        rows: a row for each PDF.
        found: what was extracted of each, with pictures of its figures as blobs.
        ids: identifiers of the documents.
    """
    refs = refs_of(rows) if REF in rows.column_names else [None] * rows.num_rows
    records: list[dict[str, Any]] = []
    origin: list[int] = []
    for row, (answer, sample, ref) in enumerate(zip(found, ids, refs, strict=True)):
        source = SourceRef() if ref is None else SourceRef(*ref[:4])
        records += interleaved_rows(sample, answer.value, answer.blobs, source)
        origin += [row] * (len(records) - len(origin))
    table = rows_of(records, [pa.field(PAGE, pa.int32())])
    carried = rows.drop_columns([name for name in (*table.column_names, REF, BYTES) if name in rows.column_names])
    repeated = carried.take(pa.array(origin, pa.int64()))
    for name in carried.column_names:
        table = table.append_column(carried.schema.field(name), repeated[name])
    return table


def interleaved_rows(
    sample: str, found: Mapping[str, Any], pictures: Sequence[bytes], source: SourceRef
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a PDF: one with its metadata as JSON, then for each page its Markdown and its figures.

    A figure comes after the part of the text that it follows, where that is known (``after``, a number of characters of
    the page's Markdown), else after the text of its page.

    Args:
        sample: the id of the document.
        found: what was extracted.
        pictures: a JPEG of each figure; empty ones are left out.
        source: where the PDF is.

    Examples:
        >>> found = {"pages": [{"number": 1, "characters": 4, "markdown": "Text"}], "figures": [{"page": 1}]}
        >>> rows = list(interleaved_rows("a.pdf", found, [b"jpeg"], SourceRef("a.pdf")))
        >>> [(row["position"], row["modality"], row.get("text_content")) for row in rows[1:]]
        [(0, 'text', 'Text'), (1, 'image', None)]
    """
    row = {name: value for name, value in document_columns(found).items() if name not in ("pages", "page_spans")}
    known = {name: row[name] for name in DOCUMENT.names if row.get(name) is not None}
    head = {"sample_id": sample, "source_ref": source.json}
    about = {"content_type": "application/json", "text_content": orjson.dumps(known).decode()}
    yield {**head, "position": BEFORE, "modality": METADATA, **about}
    figures: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for figure, picture in zip(found.get("figures") or (), pictures, strict=False):
        if picture:
            figures[figure["page"]].append((figure.get("after", 2**31), picture))
    position = 0
    for page in found.get("pages") or ():
        for kind, content in _parts(page.get("markdown") or page.get("text") or "", figures[page["number"]]):
            yield {"sample_id": sample, "position": position, "modality": kind, PAGE: page["number"], **content}
            position += 1


def _parts(text: str, figures: list[tuple[int, bytes]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The text of a page, cut where its figures are, and these."""
    start = 0
    for after, picture in sorted(figures, key=lambda figure: figure[0]):
        stop = max(min(after, len(text)), start)
        yield from _text(text[start:stop])
        yield IMAGE, {"content_type": "image/jpeg", "binary_content": picture}
        start = stop
    yield from _text(text[start:])


def _text(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if text.strip():
        yield TEXT, {"content_type": "text/markdown", "text_content": text.strip()}
