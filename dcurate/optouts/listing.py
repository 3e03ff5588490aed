"""Read a list of what documents are known by that are to be taken out."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dcurate.errors import DataError, PipelineError, listed
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.files import CSV
from dcurate.io.optouts import FORMS, KINDS, ComparedColumns, DigestSet, OptOuts, digest_of
from dcurate.io.rows import is_readable, rows_in


@dataclass(frozen=True)
class OptOutList:
    """A list, as it was read.

    Args:
        path: the file.
        optouts: what documents are known by.
        entries: values of each kind.
        ignored: columns that were not used.
        texts: the texts, where these are needed.
    """

    path: str
    optouts: OptOuts
    entries: Mapping[str, int]
    ignored: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=(), repr=False)


def read_list(
    path: str, lines: str | None = None, compared: ComparedColumns | None = None, *, texts: bool
) -> OptOutList:
    """Read a list: JSON Lines, Parquet or CSV with columns ``url``, ``domain``, ``id`` or ``text``, or lines of text.

    A row may have values in several columns; it means the documents that any of them names. Of each value 16 bytes
    are held.

    Args:
        path: the file, local or a URL.
        lines: what the lines of a text file are, one of `KINDS`; for other files it must be None.
        compared: the columns of outputs that are compared.
        texts: whether texts are kept.

    Raises:
        PipelineError: `lines` is missing, unknown, or does not suit the file.
        DataError: the file cannot be read, or names nothing.
    """
    is_text = not (is_readable(path) or CSV.matches(path))
    if is_text and lines not in KINDS:
        raise PipelineError(f"{path!r} is a text file; say what its lines are with --lines {', '.join(KINDS)}")
    if not is_text and lines is not None:
        raise PipelineError(f"--lines {lines} is for text files, and {path!r} has columns; leave it out")
    digests = {kind: bytearray() for kind in KINDS}
    columns: dict[str, None] = {}
    kept: list[str] = []
    for row in _lines(path, str(lines)) if is_text else _rows(path):
        columns |= dict.fromkeys(row)
        for kind in KINDS:
            value = _value(row.get(kind))
            if value:
                digests[kind] += digest_of(FORMS[kind](value))
                if texts and kind == "text":
                    kept.append(value)
    if columns and not set(columns) & set(KINDS):
        raise DataError(f"{path!r} has columns {listed(columns)}; name one of them {', '.join(KINDS)}")
    if not any(digests.values()):
        raise DataError(f"{path!r} names no document; write a url, domain, id or text per row")
    sets = {kind: DigestSet.of([bytes(packed)]) for kind, packed in digests.items() if packed}
    entries = {kind: len(sets[kind]) for kind in sets}
    ignored = tuple(name for name in columns if name not in KINDS)
    return OptOutList(path, OptOuts(compared or ComparedColumns(), sets), entries, ignored, tuple(dict.fromkeys(kept)))


def _value(value: Any) -> str:
    """A value of a row as text; empty for none, and for blanks, which would name documents without a URL."""
    text = "" if value is None else str(value)
    return text if text.strip() else ""


def _rows(path: str) -> Iterator[Mapping[str, Any]]:
    if not CSV.matches(path):
        folder, name = os.path.split(path)
        yield from (row.values for row in rows_in(Directory(folder or "."), name))
        return
    with _opened(path) as file:
        reader = csv.DictReader(file, delimiter="\t" if path.lower().endswith(".tsv") else ",", strict=True)
        try:
            for row in reader:
                if None in row:
                    raise csv.Error("more values than columns")
                yield row
        except csv.Error as error:
            advice = "quote its values as CSV wants it, or write JSON Lines"
            raise DataError(f"{path!r}, line {reader.line_num}: {error}; {advice}") from error


def _lines(path: str, kind: str) -> Iterator[Mapping[str, Any]]:
    with _opened(path) as file:
        yield from ({kind: value} for value in map(str.strip, file) if value)


@contextmanager
def _opened(path: str) -> Iterator[io.TextIOWrapper]:
    """A file of text in UTF-8, with or without a mark at its start."""
    store, place = open_store(path, {})
    with storage_errors("read", path), store.open(place, "rb") as file:
        try:
            yield io.TextIOWrapper(file, "utf-8-sig", newline="")
        except UnicodeDecodeError as error:
            raise DataError(f"{path!r} is not UTF-8 ({error.reason} at byte {error.start}); convert it") from error
