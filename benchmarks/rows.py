"""Reads the JSONL that benchmarks are given: plain or compressed, a file or a folder, also with incomplete rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from dcurate import DataError
from dcurate.fs.compression import ending_of, unpack

_ENDINGS = (".jsonl", ".json", ".ndjson")


class GivenRows(NamedTuple):
    """The rows that have all that is needed, and how many others there are."""

    rows: list[dict[str, Any]]
    left_out: int


def read_rows(source: Path, columns: Mapping[str, type | tuple[type, ...]]) -> GivenRows:
    """Rows of a JSONL file, or of those in a folder, that have values of the right type in some columns.

    Empty lines are no rows.

    Args:
        columns: the type of the values of each.

    Raises:
        SystemExit: there is no such file, it is no JSONL, or no row has the columns; it says which and what came.
    """
    rows = list(all_rows(source))
    complete = [row for row in rows if all(isinstance(row.get(name), kind) for name, kind in columns.items())]
    if not complete:
        wanted = " and ".join(f"{name!r}" for name in columns)
        came = ", ".join(sorted({name for row in rows for name in row})) or "none"
        raise SystemExit(f"{source}: none of {len(rows):,} rows has {wanted}; columns that came: {came}")
    return GivenRows(complete, len(rows) - len(complete))


def all_rows(source: Path) -> Iterator[dict[str, Any]]:
    """Every row of a JSONL file, or of those in a folder, in the order of their names."""
    for file in _files(source):
        try:
            content = unpack(file.read_bytes(), ending_of(file.name), str(file))
        except DataError as error:
            raise SystemExit(str(error)) from error
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                yield _row(line, file, number)


def texts(source: Path, megabytes: float) -> Iterator[str]:
    """Values of the column ``text`` until so many megabytes came, at least one."""
    left = megabytes * 1e6
    for row in read_rows(source, {"text": str}).rows:
        yield row["text"]
        left -= len(row["text"].encode())
        if left < 0:
            return


def _files(source: Path) -> Sequence[Path]:
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise SystemExit(f"{source}: there is no such file or folder; give JSONL, plain or compressed")
    files = sorted(path for path in source.rglob("*") if path.is_file() and _is_jsonl(path))
    if not files:
        raise SystemExit(f"{source}: the folder holds no file with a name like part-0.jsonl or part-0.jsonl.zst")
    return files


def _is_jsonl(file: Path) -> bool:
    return file.name.lower().removesuffix(ending_of(file.name)).endswith(_ENDINGS)


def _row(line: bytes, file: Path, number: int) -> dict[str, Any]:
    try:
        row = _parsed(line)
    except ValueError as error:
        raise SystemExit(f"{file}, line {number}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise SystemExit(f"{file}, line {number}: a JSON {type(row).__name__}, where an object with columns is wanted")
    return row


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # it refuses halves of surrogate pairs, which web pages hold
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
        return orjson.loads(whole)
