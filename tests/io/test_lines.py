"""Lines by their numbers, against all lines of the content at once."""

import itertools
import os
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate.core.batch import FilePart
from dcurate.io import lines as io_lines
from dcurate.io.lines import ByteBlock, blocks_of, count_lines, count_rows, lines_between, read_lines_of_range

CONTENT = st.lists(st.sampled_from([b"", b" ", b"\r", b"a", b"bcd", b"longer line"]), max_size=8).map(b"\n".join)


def lines_of(content: bytes) -> list[bytes]:
    return (
        content.splitlines(keepends=True)
        if b"\r" not in content
        else [line + b"\n" for line in content.split(b"\n")[:-1]]
        + ([content.split(b"\n")[-1]] if content.split(b"\n")[-1] else [])
    )


def joined(stretches: list[ByteBlock], content: bytes) -> bytes:
    for start, data in stretches:
        assert content[start : start + len(data)] == data
    return b"".join(data for _, data in stretches)


@given(CONTENT, st.integers(1, 7), st.lists(st.integers(0, 60), max_size=3))
@example(b" \n\n", 1, [1])
def test_ranges_that_meet_give_every_line_once(content: bytes, block: int, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    ranges = [
        joined(list(blocks_of(BytesIO(content), start, stop, block)), content)
        for start, stop in itertools.pairwise(bounds)
    ]
    assert b"".join(ranges) == content
    starts = itertools.accumulate(map(len, ranges[:-1]), initial=0)
    assert all(not each or content[:at].endswith(b"\n") or at == 0 for at, each in zip(starts, ranges, strict=True))


@given(CONTENT, st.integers(1, 7), st.data())
def test_lines_by_number_are_those_of_the_content(content: bytes, block: int, data: st.DataObject) -> None:
    lines = lines_of(content)
    assert count_lines(blocks_of(BytesIO(content), block=block)) == len(lines)
    assert count_rows(blocks_of(BytesIO(content), block=block)) == sum(bool(line.strip()) for line in lines)
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    found = list(lines_between(blocks_of(BytesIO(content), block=block), first, last))
    assert joined(found, content) == b"".join(lines[first:last])


@pytest.mark.parametrize(("start", "stop"), [(0, None), (7, None), (0, 6_000_000), (1_000_000, 8_000_000)])
def test_large_ranges_are_the_lines_that_begin_in_them(start: int, stop: int | None, tmp_path: Path) -> None:
    lines = [os.urandom(size % 4000).replace(b"\n", b"") + b"\n" for size in range(0, 40_000, 9)]
    content = b"".join(lines)
    (tmp_path / "file").write_bytes(content)
    part = FilePart(str(tmp_path / "file"), start=start, stop=stop, size=len(content))
    data, begin = read_lines_of_range(LocalFileSystem(), part.path, part)
    first = content.find(b"\n", max(start - 1, 0)) + 1 if start else 0
    end = len(content) if stop is None else content.find(b"\n", stop - 1) + 1
    assert (data, begin) == (content[first:end], first)
    assert type(data) is bytes


@pytest.mark.parametrize("ahead", [2, 2**16])
@given(content=CONTENT, cuts=st.lists(st.integers(0, 60), max_size=3))
def test_ranges_of_a_file_give_every_line_once_in_any_store(content: bytes, cuts: list[int], ahead: int) -> None:
    bounds = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    memory = MemoryFileSystem()
    memory.pipe_file("/lines", content)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(io_lines, "_READ_AHEAD", ahead)
        path = f"{folder}/lines"
        Path(path).write_bytes(content)
        ranges = [(start, stop) for start, stop in itertools.pairwise(bounds) if start < stop]
        parts = [FilePart(path, start, stop, len(content)) for start, stop in ranges]
        local = [read_lines_of_range(LocalFileSystem(), path, part) for part in parts]
        stored = [read_lines_of_range(memory, "/lines", part) for part in parts]
    assert b"".join(data for data, _ in local) == content
    assert [data for data, _ in stored] == [data for data, _ in local]
    assert all(content[begin : begin + len(data)] == data for data, begin in local)
