"""The time to read archives grows with their length, however many members they have or seem to have."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import time
from collections.abc import Callable

import pytest
import zstandard

from dcurate.io.warc_http import response
from dcurate.io.warc_members import Archive, pieces

RECORD = b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
#: What members begin with; after a gzip header of the first kind comes a name that never ends.
BEGINNINGS = {
    "gzip": [b"\x1f\x8b\x08\x08", b"\x1f\x8b\x08\x00"],
    "zstd": [zstandard.FRAME_HEADER],
    "bzip2": [b"BZh91AY&SY"],
    "xz": [b"\xfd7zXZ\x00"],
}


def seconds(data: bytes) -> float:
    """CPU seconds to read an archive, the least of three times: the machine may be busy."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        found = list(pieces(Archive(io.BytesIO(data), lambda content: content.startswith(b"WARC/"))))
        times.append(time.thread_time() - begin)
        assert found[0].data == RECORD
    return min(times)


@pytest.mark.parametrize("packing", PACKED)
def test_archives_of_many_members_are_read_in_linear_time(packing: str) -> None:
    member = PACKED[packing](RECORD)
    assert seconds(member * 16_000) < 8 * seconds(member * 4_000) + 0.25


@pytest.mark.parametrize("packing", PACKED)
def test_what_only_looks_like_many_members_is_passed_in_linear_time(packing: str) -> None:
    member = PACKED[packing](RECORD)
    for beginning in BEGINNINGS[packing]:
        shorter, longer = (member + beginning * (size // len(beginning)) for size in (60_000, 240_000))
        assert seconds(longer) < 8 * seconds(shorter) + 0.25


def test_a_body_of_many_gzip_members_is_unpacked_in_linear_time() -> None:
    """What follows a member was copied for each of them."""
    seconds = []
    for members in (5_000, 50_000):
        message = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"a", mtime=0) * members
        begin = time.thread_time()
        found = response(message)
        seconds.append(time.thread_time() - begin)
        assert found is not None
        assert (len(found.body), found.damage) == (members, "")
    assert seconds[1] < 20 * seconds[0] + 0.25
