"""Compressed files: all that is whole comes out, and what is not is seen."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
from io import BytesIO

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, FileGroup, JsonlReader
from dcurate.fs import compression
from dcurate.fs.compression import blocks, head, salvage, unpack
from dcurate.fs.stores import Directory
from dcurate.io.rows import rows_in

PACK = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
ENDINGS = pytest.mark.parametrize("ending", PACK)


def streams(ending: str, *contents: bytes) -> list[bytes]:
    return [PACK[ending](content) for content in contents]


def damaged(stream: bytes) -> bytes:
    """The stream with a byte of its checksum, or of the bytes before it, changed."""
    place = len(stream) - 6
    return stream[:place] + bytes([stream[place] ^ 0x55]) + stream[place + 1 :]


def row(number: int) -> bytes:
    return b'{"n": %d, "text": "row %d"}\n' % (number, number)


def read(path, **settings) -> tuple[list[int], list[dict]]:
    """The numbers of the rows that are read, and what quarantine holds."""
    reader = JsonlReader(str(path), **settings)
    batches = [batch for split in reader.splits() if (batch := reader.process(split)) is not None]
    rows = [row["n"] for batch in batches for row in batch.to_arrow().to_pylist()]
    return rows, [fault for batch in batches for each in batch.rejections for fault in each.data.to_pylist()]


@ENDINGS
@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6))
def test_streams_one_after_the_other_are_read_to_the_end(ending, contents):
    data = b"".join(streams(ending, *contents))
    assert unpack(data, ending, "a") == b"".join(contents)
    assert b"".join(blocks(BytesIO(data), ending, "a")) == b"".join(contents)
    assert head(BytesIO(data), ending, 100, "a") == b"".join(contents)[:100]


@ENDINGS
@settings(deadline=None)
@given(st.data())
def test_a_damaged_stream_costs_no_row_before_it_and_is_always_seen(ending, data):
    parts = [b"".join(map(row, range(4 * part, 4 * part + 4))) for part in range(3)]
    packed = streams(ending, *parts)
    hurt = data.draw(st.integers(0, 2))
    place = data.draw(st.integers(0, len(packed[hurt]) - 1))
    packed[hurt] = packed[hurt][:place] + data.draw(st.sampled_from([b"", b"\xff\x00\xaa" * 3]))
    packed[hurt + 1 :] = data.draw(st.sampled_from([packed[hurt + 1 :], []]))
    if not any(packed[hurt:]):
        return  # the file ends where a stream does
    whole = b"".join(packed)
    content, lost = salvage(whole, ending)
    begins = sum(map(len, packed[:hurt]))
    if lost is None:  # the stream is gone to its first byte, and others follow
        assert place == 0
        assert content == b"".join(parts[:hurt] + parts[hurt + 1 :])
        return
    # bzip2 fills up its last byte with bits that mean nothing; what follows them is garbage then.
    intact = ending == ".bz2" and place == len(streams(ending, parts[hurt])[0]) - 1 and lost.at > begins
    assert content == b"".join(parts[: hurt + intact])
    assert intact or lost.at == begins
    for attempt in (unpack, lambda *args: list(blocks(BytesIO(args[0]), *args[1:]))):
        with pytest.raises(DataError, match=f"a is truncated or not a {ending} file"):
            attempt(whole, ending, "a")


@ENDINGS
def test_a_damaged_second_stream_is_an_error_with_file_and_place(tmp_path, ending):
    first, second = streams(ending, row(1), row(2))
    (tmp_path / f"a.jsonl{ending}").write_bytes(first + damaged(second))
    with pytest.raises(DataError, match=f"a.jsonl{ending} is truncated or not a {ending} file at byte {len(first)} "):
        read(tmp_path)


@ENDINGS
def test_a_damaged_second_stream_goes_to_quarantine_with_file_and_place(tmp_path, ending):
    first, second, third = streams(ending, row(1) + row(2), row(3) * 9, row(4))
    (tmp_path / f"a.jsonl{ending}").write_bytes(first + damaged(second) + third)
    rows, faults = read(tmp_path, on_bad_line="quarantine")
    assert rows == [1, 2]
    assert {fault["file"] for fault in faults} == {f"a.jsonl{ending}"}
    assert all(f"damaged {ending} stream at byte {len(first)} of the file" in fault["error"] for fault in faults)
    assert faults[0]["byte"] == len(row(1) + row(2))
    assert faults[-1]["error"].endswith("from here on the file cannot be read")


def test_what_can_be_unpacked_of_a_damaged_stream_is_kept_line_by_line_in_quarantine(tmp_path):
    first, second = streams(".gz", row(1) + row(2)[:9], row(2)[9:] + row(3))
    (tmp_path / "a.jsonl.gz").write_bytes(first + second[:-8])
    rows, faults = read(tmp_path, on_bad_line="quarantine")
    assert rows == [1]
    assert [fault["raw"] for fault in faults] == [row(2).decode()[:-1], row(3).decode()[:-1], ""]


@ENDINGS
def test_a_file_whose_first_stream_is_damaged_costs_none_of_the_others(tmp_path, ending):
    (tmp_path / f"a.jsonl{ending}").write_bytes(damaged(PACK[ending](row(1))))
    rows, faults = read(tmp_path, on_bad_line="quarantine")
    assert rows == []
    assert len(faults) >= 1
    (tmp_path / f"b.jsonl{ending}").write_bytes(PACK[ending](row(2)))
    assert read(tmp_path, on_bad_line="quarantine")[0] == [2]


@ENDINGS
@pytest.mark.parametrize("garbage", [b"x", b"\0x", b"garbage that is no stream" * 400])
def test_garbage_after_the_last_stream_is_seen(ending, garbage):
    (stream,) = streams(ending, row(1))
    content, lost = salvage(stream + garbage, ending)
    assert content == row(1)
    assert lost is not None
    assert lost.at >= len(stream)


@pytest.mark.parametrize(
    ("ending", "zeros", "allowed"),
    [
        (".gz", 1, True),
        (".gz", 9000, True),
        (".xz", 8, True),
        (".xz", 9000, True),
        (".xz", 7, False),
        (".bz2", 4, False),
    ],
)
def test_zeros_may_follow_a_stream_where_the_format_has_them(ending, zeros, allowed):
    (stream,) = streams(ending, row(1))
    content, lost = salvage(stream + b"\0" * zeros + stream, ending)
    assert (content, lost is None) == (row(1) * (1 + allowed), allowed)


def test_frames_of_zstd_that_hold_no_data_are_passed_over():
    (frame,) = streams(".zst", row(1))
    skipped = struct.pack("<II", 0x184D2A50, 5) + b"about"
    assert unpack(skipped + frame + skipped + frame + skipped, ".zst", "a") == row(1) * 2


@ENDINGS
def test_an_empty_file_and_empty_streams_hold_nothing(ending):
    (empty, full) = streams(ending, b"", row(1))
    assert unpack(b"", ending, "a") == b""
    assert unpack(empty * 3, ending, "a") == b""
    assert unpack(empty + full + empty, ending, "a") == row(1)


@ENDINGS
def test_rows_that_are_looked_up_end_in_an_error_at_a_damaged_stream_too(tmp_path, ending):
    first, second = streams(ending, row(1), row(2))
    (tmp_path / f"a.jsonl{ending}").write_bytes(first + damaged(second))
    rows = rows_in(Directory(str(tmp_path)), f"a.jsonl{ending}")
    assert next(rows).values["n"] == 1
    with pytest.raises(DataError, match=f"is truncated or not a {ending} file at byte {len(first)} "):
        list(rows)


@ENDINGS
def test_the_bytes_given_to_unpackers_grow_with_the_file_in_any_pieces(ending, monkeypatch):
    taken = []

    class Counting(compression._Feed):
        def take(self, size):
            data = super().take(size)
            taken.append(len(data))
            return data

    monkeypatch.setattr(compression, "_Feed", Counting)
    large, small = streams(ending, random.Random(0).randbytes(2**20), row(1))
    assert len(unpack(large + small * 1000, ending, "a")) == 2**20 + 1000 * len(row(1))
    assert sum(taken) < 3 * len(large) + 1000 * 3 * 2**12


def test_a_file_without_damage_has_no_faults(tmp_path):
    path = tmp_path / "a.jsonl.xz"
    path.write_bytes(b"".join(streams(".xz", row(1), row(2))))
    reader = JsonlReader(str(path), on_bad_line="quarantine")
    (batch,) = [reader.process(FileGroup.of([str(path)]))]
    assert batch.to_arrow().num_rows == 2
    assert batch.rejections == ()
