"""The time to read files grows with their size, for any content."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO

import pytest
import zstandard

from dcurate.frames.schema import ColumnTypes
from dcurate.io.json_parse import Wanted, parse_clean, parse_lines, rounded
from dcurate.io.warc import Damage, Record, iterate_records
from dcurate.io.warc_http import response
from tests.growth import SHORT, assert_linear, repeated, singles
from tests.llm.test_growth import JSON

LINES = [
    *JSON,
    *('{"a":1}\n', '{"a":[1]}\n', '{"a":"\\ud800"}\n', '{"a":12345678901234567890}\n', '{"a":1.5}\n{"a":"x"}\n', "9"),
    *("1,", "12345678901234567890,", "0.1,", "NaN,", "Infinity,", '{"a":NaN}\n', "\r\n", "\\n", "\\u00e9", '\\"'),
    *("null\n", "[[", "],[", "{},", '{"a":Infinity,"b":', "-", "1e400,", '{"\\u0061":1}\n', '"a":1,', '"2024-01-01",'),
    '{"a":"2024-01-01"}\n',
]
ARCHIVES = [
    *(
        "WARC/1.0\r\n",
        "WARC/1.0\r\na:b\r\n",
        "WARC/1.0\r\nContent-Length: 5\r\n",
        "WARC/1.0\na:",
        "WARC/1.0 ",
        "a: b\r\n",
    ),
    *("WARC/1.0\r\nContent-Length: 100\r\n\r\n", "WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n", "\r\n", "\n", "\r"),
    *("WARC/1.0\r\na:b\r\n\r\n", "a\r\n", " a\r\n", " ", ":", "a:", "a: ", "a: 1.", "\na:b 1 ", "\na:"),
    *("a://b 1.1.1.1 20200101000000 text/html 5\n", "a://b 1.1.1.1 20200101000000 text/html 9999999\n"),
    *("\x1f\x8b\x08\x08abcdef", "\x1f\x8b\x08\x04abcdef\xff\xff", "\x1f\x8b\x08\0abcdef", "\x28\xb5\x2f\xfd"),
    *("\x28\xb5\x2f\xfd\0\x58\1\0\0", "\x04\x22\x4d\x18", "BZh91AY&SY", "\xfd7zXZ\0", "\xfd7zXZ\0\0\4\xe6\xd6\xb4\x46"),
]
MESSAGES = [
    *(
        "5\r\nhello\r\n",
        "1;a\r\nb",
        "1\r\n",
        "0",
        "gzip,",
        "gzip, deflate,",
        "deflate,",
        "zstd,",
        "br,",
        ",",
        "a: b\r\n",
    ),
    *("a\r\n", " a\r\n", "\r\n", "\n", "\r", " ", ":", "a:"),
]
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": partial(gzip.compress, mtime=0),
    "Zstandard": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
RECORD = b"WARC/1.0\r\nWARC-Type: a\r\nContent-Length: 2\r\n\r\nhi"
#: What the first member of an archive holds, and each of the others.
MEMBERS = {
    "blanks": (RECORD, b"\r\n"),
    "a head without an end": (b"WARC/1.0\r\na:b\r\n", b"a:b\r\n"),
    "heads without an end": (b"WARC/1.0\r\na:b\r\n", b"WARC/1.0\r\na:b\r\n"),
    "no record": (b"x", b"x"),
    "records": (RECORD, RECORD),
    "nothing": (RECORD, b""),
    "content": (b"WARC/1.0\r\nContent-Length: 999999\r\n\r\n", b"x"),
}


def records(archive: bytes) -> Sequence[Record | Damage]:
    return [*iterate_records(BytesIO(archive))]


@pytest.mark.parametrize("whole", ["%s", '{"a":%s}\n', '{"a":"%s"}\n', '{"a":[%s]}\n'])
def test_lines_are_read_in_linear_time(whole: str) -> None:
    def work(text: str) -> None:
        data = (whole % text).encode("utf-8", "surrogatepass")
        wanted = Wanted(ColumnTypes(), {})
        table = parse_clean(data, wanted)
        if table is None:
            table, bad = parse_lines(data, wanted, "a.jsonl")
            rounded(data, table, bad)
        else:
            rounded(data, table, [])

    assert_linear(work, singles(LINES), SHORT)


@pytest.mark.parametrize("before", ["", "WARC/1.0\r\nWARC-Type: a\r\n"])
def test_archives_are_read_in_linear_time(before: str) -> None:
    assert_linear(lambda text: records(text.encode("latin-1")), singles(ARCHIVES), SHORT, before)


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("what", MEMBERS)
def test_archives_of_many_members_are_read_in_linear_time(packing: str, what: str) -> None:
    first, other = map(PACKINGS[packing], MEMBERS[what])
    assert_linear(records, [lambda length: first + other * (length // len(other))], (10_000, 300_000))


@pytest.mark.parametrize("head", ["", "Transfer-Encoding: chunked\r\n\r\n", "Content-Encoding: "])
def test_responses_are_read_in_linear_time(head: str) -> None:
    assert_linear(
        lambda text: response(b"HTTP/1.1 200 OK\r\n" + text.encode("latin-1")), singles(MESSAGES), before=head
    )


def test_heads_without_an_end_are_read_in_linear_time() -> None:
    assert_linear(lambda text: records(text.encode()), singles([*ARCHIVES[1:4], "WARC/1.0\r\na:b\r\n\r\n"]))


def test_a_record_is_found_within_heads_without_an_end() -> None:
    heads = b"WARC/1.0\r\na:b\r\n" * 1_000
    found = records(heads + RECORD + b"\r\n\r\n")
    assert [each.content for each in found if isinstance(each, Record)] == [b"hi"]


def test_a_record_is_found_after_heads_without_an_end_that_are_passed_over() -> None:
    head = b"WARC/1.0\r\na:b\r\n"
    found = records(repeated("WARC/1.0\r\na:b\r\n")(1_000_000 // len(head) * len(head)).encode() + b"\r\n" + RECORD)
    assert [each.content for each in found if isinstance(each, Record)] == [b"hi"]
