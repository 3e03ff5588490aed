"""Rows of comma-separated values: Arrow parses them; this module finds the records that Arrow cannot take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from dcurate.errors import DataError, PipelineError

#: A record behind the last one: a quote that is never closed swallows it.
_END = b"dcurate-end"
_LARGEST = 2**31 - 2**16
_BREAKS = re.compile(rb"\r\n|\n|\r")


#: What divides values, besides the comma, in files of other programs.
_DELIMITERS = (";", "\t", "|")


@dataclass(frozen=True)
class Dialect:
    """How values are written.

    Args:
        delimiter: one character between values.
        quote: one character around values.
        multiline: whether a quoted value may hold line breaks.
        escape: one character that makes a quote or itself part of a quoted value; None if only quotes are doubled.
    """

    delimiter: str = ","
    quote: str = '"'
    multiline: bool = True
    escape: str | None = None


def other_delimiter(columns: Sequence[str]) -> str:
    """Return the sign that divides the names of columns which were read with another one; empty if there is none.

    Examples:
        >>> other_delimiter(["id;text;url"]), other_delimiter(["id;a", "b"]), other_delimiter(["id", "text"])
        (';', ';', '')
    """
    counts = {sign: sum(column.count(sign) for column in columns) for sign in _DELIMITERS}
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] >= len(columns) - 1 and counts[most] else ""


def check_signs(stage: str, delimiter: str | None, quote: str, escape: str | None) -> None:
    """Refuse signs that are not one ASCII character each, or that do not differ.

    Args:
        stage: name of the stage that has them, for the message.
        delimiter: sign between values; None if it follows from names of files.
        quote: sign around values.
        escape: sign before quotes; None if these are doubled.

    Raises:
        PipelineError: they are.
    """
    for setting, value in (("delimiter", delimiter), ("quote", quote), ("escape", escape)):
        if value is None and setting != "quote":
            continue
        if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in "\r\n\0":
            raise PipelineError(f"{stage}: {setting}={value!r} must be one ASCII character")
    if quote == delimiter:
        raise PipelineError(f"{stage}: delimiter and quote are both {quote!r}; they must differ")
    if escape is not None and escape in (quote, delimiter):
        raise PipelineError(
            f"{stage}: escape={escape!r} must differ from delimiter and quote; leave it out if quotes are doubled"
        )


class BadRow(NamedTuple):
    """A record that cannot be read: its line from 0, the reason to count it under, what is wrong, and its bytes."""

    line: int
    reason: str
    error: str
    raw: bytes


class _Record(NamedTuple):
    """A record: its first byte and line, both from 0, its bytes, the number of its values, whether a quote is open."""

    start: int
    line: int
    raw: bytes
    values: int
    is_open: bool


def _quoted(dialect: Dialect) -> bytes:
    """The pattern of a quoted value, with its quotes."""
    quote, breaks = re.escape(dialect.quote.encode()), b"" if dialect.multiline else rb"\r\n"
    escape = re.escape((dialect.escape or "").encode())
    escaped = rb"|%b%b" % (escape, rb"[^%b]" % breaks if breaks else rb"[\s\S]") if escape else b""
    return rb"%b(?:[^%b%b%b]|%b%b%b)*+%b(?!%b)" % (quote, quote, escape, breaks, quote, quote, escaped, quote, quote)


@cache
def _value(dialect: Dialect) -> re.Pattern[bytes]:
    """A value and what ends it; without a group ``end`` where a quote is never closed."""
    quote, delimiter = re.escape(dialect.quote.encode()), re.escape(dialect.delimiter.encode())
    plain = rb"[^%b\r\n]*" % delimiter
    quoted = _quoted(dialect) + plain
    return re.compile(rb"(?:%b|(?!%b)%b)(?P<end>%b|\r\n|\n|\r|\Z)" % (quoted, quote, plain, delimiter))


def _without_escapes(data: bytes, dialect: Dialect) -> bytes:
    r"""The same rows with quotes doubled instead of escaped.

    Examples:
        >>> _without_escapes(rb'a\b,"c\"d\\\n"', Dialect(escape="\\"))
        b'a\\b,"c""d\\\\n"'
    """
    escape, quote = (dialect.escape or "").encode(), dialect.quote.encode()
    if not escape or escape not in data:
        return data
    begin = rb"(?:\A|(?<=[%b\r\n]))" % re.escape(dialect.delimiter.encode())
    signs = re.compile(rb"%b(%b|%b)" % tuple(map(re.escape, (escape, escape, quote))))

    def doubled(sign: re.Match[bytes]) -> bytes:
        return escape if sign[1] == escape else quote + quote

    return re.sub(begin + _quoted(dialect), lambda value: signs.sub(doubled, value[0]), data)


def records(data: bytes, dialect: Dialect) -> Iterator[_Record]:
    """Yield the records of the data; none for blank lines."""
    pattern, delimiter = _value(dialect), dialect.delimiter.encode()
    start = at = line = 0
    values = 1
    while at < len(data) or values > 1:
        match = pattern.match(data, at)
        if match is None:  # from here to the end of the line, as nobody knows where the value ends
            broken = _BREAKS.search(data, at)
            at = broken.end() if broken else len(data)
            yield _Record(start, line, data[start:at], values, True)
        elif match["end"] == delimiter:
            at, values = match.end(), values + 1
            continue
        else:
            at = match.end()
            if data[start : match.start("end")]:
                yield _Record(start, line, data[start:at], values, False)
        line += len(_BREAKS.findall(data, start, at))
        start, values = at, 1


def first_record(data: bytes, dialect: Dialect) -> tuple[list[str], int]:
    r"""Return the values of the first record, and the byte after it; no values if there is none.

    Raises:
        ValueError: it is not UTF-8, or a quote is not closed.

    Examples:
        >>> first_record(b'\nid,"a ""b"" c"\n1,2\n', Dialect())
        (['id', 'a "b" c'], 16)
    """
    for record in records(data, dialect):
        if record.is_open:
            raise ValueError("a quote is not closed")
        begin = 0
        for match in _BREAKS.finditer(data):  # blank lines before it
            if match.start() != begin:
                break
            begin = match.end()
        record.raw.decode()
        [row] = _parsed(record.raw, [f"{n}" for n in range(record.values)], dialect).table.to_pylist()
        return [(value or b"").decode() for value in row.values()], begin + len(record.raw)
    return [], len(data)


class _Parsed(NamedTuple):
    """A table of bytes, and whether all of the data is in it."""

    table: pa.Table
    whole: bool


def _parsed(data: bytes, names: Sequence[str], dialect: Dialect) -> _Parsed:
    """Parse data that is valid UTF-8; records of another number of values are left out."""
    labels = [f"c{number}" for number in range(len(names))]
    data = _without_escapes(data, dialect)
    end = b"" if not data or data.endswith((b"\n", b"\r")) else b"\n"
    data = b"".join((data, end, dialect.delimiter.encode().join([_END] * len(names)), b"\n"))
    left_out: list[None] = []

    def leave_out(_: object) -> str:
        left_out.append(None)
        return "skip"

    table = pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(use_threads=False, column_names=labels, block_size=len(data) + 1),
        parse_options=pcsv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote,
            newlines_in_values=dialect.multiline,
            invalid_row_handler=leave_out,
        ),
        convert_options=pcsv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).combine_chunks()
    last = table.num_rows - 1
    closed = last >= 0 and all(column[last].as_py() == _END for column in table.columns)
    table = table.slice(0, last) if closed else table
    return _Parsed(table, closed and not left_out and (dialect.multiline or not _has_breaks(table)))


def _has_breaks(table: pa.Table) -> bool:
    """Whether a value holds a line break."""
    return any(pc.any(pc.match_substring(column, sign)).as_py() for column in table.columns for sign in (b"\n", b"\r"))


class CsvRows(NamedTuple):
    """Rows, the records that are none, and by column how many whole numbers beyond 2**53 became floats."""

    table: pa.Table
    bad: list[BadRow]
    rounded: dict[str, int]


def parse(data: bytes, names: Sequence[str], types: Mapping[str, pa.DataType], dialect: Dialect) -> CsvRows:
    r"""Parse records into columns of text, or of the types given.

    A value that is empty is null; one that is quoted and empty is empty text, and null in a column of another type.

    Args:
        data: whole records, without a header.
        names: names of the columns.
        types: types of columns that are not text.
        dialect: how values are written.

    Raises:
        DataError: the data is too large to be parsed at once.

    Examples:
        >>> table, bad, _ = parse(b'1,"a\nb"\n2\nx,""\n', ["n", "t"], {"n": pa.int64()}, Dialect())
        >>> table.to_pylist()
        [{'n': 1, 't': 'a\nb'}]
        >>> [(row.line, row.error) for row in bad if row.line < 3]
        [(2, 'it has 1 value, and there are 2 columns')]
        >>> bad[1].error
        "column 'n' is to be int64, and this is 'x'"
    """
    if len(data) > _LARGEST:
        raise DataError("more than 2 GiB of records at once")
    bad: list[BadRow] = []
    good: list[_Record] | None = None
    parsed = _parsed(data, names, dialect) if _is_text(data) else None
    if parsed is None or not parsed.whole:
        good, bad = _sorted_out(data, len(names), dialect)
        parsed = _parsed(b"".join(_terminated(record.raw) for record in good), names, dialect)
    columns = [column.cast(pa.string()) for column in parsed.table.columns]
    faults: dict[int, BadRow] = {}
    beyond: dict[str, pa.Array] = {}
    for place, name in enumerate(names):
        if name not in types or pa.types.is_string(types[name]):
            continue
        texts = pc.if_else(pc.equal(columns[place], ""), None, columns[place])
        try:
            columns[place] = texts.cast(types[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if good is None:
                good = _sorted_out(data, len(names), dialect)[0]
            columns[place], wrong = _cast_each(texts, types[name])
            for row, text in wrong.items():
                error = f"column {name!r} is to be {types[name]}, and this is {text[:80]!r}"
                reason = f"column {name!r} of another type"
                faults.setdefault(row, BadRow(good[row].line, reason, error, good[row].raw))
        if pa.types.is_floating(types[name]):
            beyond[name] = _beyond(texts, columns[place])
    table = pa.Table.from_arrays(columns, list(names))
    if faults:
        kept = pa.array([row not in faults for row in range(table.num_rows)], pa.bool_())
        table, beyond = table.filter(kept), {name: pc.and_(flags, kept) for name, flags in beyond.items()}
    rounded = {name: count for name, flags in beyond.items() if (count := pc.sum(flags).as_py())}
    return CsvRows(table, sorted([*bad, *faults.values()]), rounded)


def _beyond(texts: pa.ChunkedArray, floats: pa.ChunkedArray) -> pa.Array:
    """Whether each text is a whole number beyond 2**53, of which a float may not hold all digits."""
    large = pc.greater_equal(pc.abs(floats.cast(pa.float64())), float(2**53))
    if not pc.any(large).as_py():
        return pa.repeat(False, len(texts)) if len(texts) else pa.array([], pa.bool_())
    whole_numbers = pc.match_substring_regex(texts, r"^\s*[-+]?[0-9]+\s*$")
    exact = pc.match_substring_regex(texts, rf"^\s*[-+]?0*{2**53}\s*$")
    return pc.fill_null(pc.and_(large, pc.and_not(whole_numbers, exact)), False)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _terminated(record: bytes) -> bytes:
    return record if record.endswith((b"\n", b"\r")) else record + b"\n"


def _sorted_out(data: bytes, columns: int, dialect: Dialect) -> tuple[list[_Record], list[BadRow]]:
    """Return the records that Arrow can parse, and the others."""
    good: list[_Record] = []
    bad: list[BadRow] = []
    for record in records(data, dialect):
        reason = "malformed row"
        if record.is_open:
            error = "a quote is not closed"
        elif record.values != columns:
            error = f"it has {record.values} value{'s' if record.values > 1 else ''}, and there are {columns} columns"
        elif not _is_text(record.raw):
            error, reason = "it is not UTF-8", "not UTF-8"
        else:
            good.append(record)
            continue
        bad.append(BadRow(record.line, reason, error, record.raw))
    return good, bad


def _cast_each(texts: pa.ChunkedArray, wanted: pa.DataType) -> tuple[pa.ChunkedArray, dict[int, str]]:
    """Cast values one by one; those that cannot be cast are null, and returned by row."""
    made, wrong = [], {}
    for row, text in enumerate(texts):
        try:
            made.append(text.cast(wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            made.append(pa.scalar(None, wanted))
            wrong[row] = text.as_py()
    return pa.chunked_array([pa.array([value.as_py() for value in made], wanted)]), wrong
