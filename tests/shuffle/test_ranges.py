"""Rows that are written in ranges of a key, and read back range by range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import BatchKey, DataError, DocumentBatch, FileGroup
from dcurate.fs.paths import file_system
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import read_chunks, read_index, write_chunks
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.ranges import FILE, ShuffleIndex, ShuffleReader, file_names
from dcurate.shuffle.writer import ShuffleWriter
from tests.places import records

keys = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**63, 2**64 - 1]), max_size=40)


def written(folder: Path, batches: list[list[int]]) -> ShuffleIndex:
    writer = ShuffleWriter(str(folder), by="key")
    writer.prepare(resume=False)
    splits = []
    for number, batch in enumerate(batches):
        table = pa.table({"key": pa.array(batch, pa.uint64()), "place": pa.array(range(len(batch)), pa.int64())})
        made = writer.process(DocumentBatch(data=table, key=BatchKey(f"split-{number}")))
        splits.append((f"split-{number}", made.data))
    return ShuffleIndex.written(Directory(str(folder)), splits)


def rows_of(reader: ShuffleReader, split: FileGroup) -> list[tuple[int, int, int]]:
    table = reader.process(split).to_arrow()
    return list(zip(table["key"].to_pylist(), table[FILE].to_pylist(), table["place"].to_pylist(), strict=True))


@settings(max_examples=25, deadline=None)
@given(st.lists(keys, min_size=1, max_size=4), st.sampled_from([1, 2, 8, 64]))
def test_each_row_comes_once_in_the_range_of_its_key_in_the_order_of_keys_files_and_places(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], parts: int
) -> None:
    files = written(tmp_path_factory.mktemp("ranges"), batches)
    reader = files.reader(parts, "key", "back")
    found = []
    for split in reader.splits():
        rows = rows_of(reader, split)
        part = split.parts[0].start
        assert all(key * parts // 2**64 == part for key, _, _ in rows)
        found += rows
    full = [batch for batch in batches if batch]  # a batch without rows leaves no file
    assert found == sorted((key, file, place) for file, batch in enumerate(full) for place, key in enumerate(batch))
    assert files.rows == len(found)


def test_large_files_are_read_chunk_by_chunk(tmp_path: Path) -> None:
    drawn = np.random.default_rng(3).integers(0, 2**64, 150_000, np.uint64)
    files = written(tmp_path, [drawn.tolist(), drawn[:7].tolist()])
    assert len(files.indexes[0].bounds) > 16
    assert files.partitions_for(files.nbytes // 5) == 8
    reader = files.reader(8, "key", "back")
    rows = [row for split in reader.splits() for row in rows_of(reader, split)]
    assert [key for key, _, _ in rows] == sorted([*drawn.tolist(), *drawn[:7].tolist()])
    reading = [split.parts[0].nbytes for split in reader.splits()]
    assert max(reading) < 2 * sum(reading) / 8


def test_splits_have_another_version_when_files_have_changed(tmp_path: Path) -> None:
    before = next(written(tmp_path / "a", [[1, 2]]).reader(1, "key", "back").splits())
    again = next(written(tmp_path / "b", [[1, 2]]).reader(1, "key", "back").splits())
    after = next(written(tmp_path / "c", [[1, 2, 2**60, 3]]).reader(1, "key", "back").splits())
    assert before.parts[0].version == again.parts[0].version != after.parts[0].version


def test_a_lost_list_of_files_is_reported_with_its_name(tmp_path: Path) -> None:
    reader = written(tmp_path, [[5]]).reader(1, "key", "back")
    (records(tmp_path) / "back.json").unlink()
    with pytest.raises(DataError, match="'back'; run again without resume"):
        reader.process(next(reader.splits()))


def test_names_come_in_the_order_of_the_source_and_sorted_within_a_split(tmp_path: Path) -> None:
    folder = Directory(str(tmp_path))
    splits = [("z", [folder.path("d"), folder.path("b")]), ("a", [folder.path("c")])]
    assert file_names(folder, splits) == ["b", "d", "c"]


def test_numbers_are_spread_over_all_keys_in_their_order() -> None:
    assert (np.diff(scale_keys(np.arange(7), 7).astype(float)) > 2**61).all()


def test_what_is_packed_and_what_is_not_reads_alike(tmp_path: Path) -> None:
    table = pa.table({"text": ["one", "two", None] * 100, "n": range(300)})
    for packed in (True, False):
        with (tmp_path / f"{packed}").open("wb") as file:
            write_chunks(file, [table, table.slice(0, 0), table.slice(5, 2)], packed=packed)
        index = read_index(Directory(str(tmp_path)), f"{packed}")
        found = read_chunks(str(tmp_path / f"{packed}"), {}, 0, int(index.bounds[-1]))
        assert found == [table, table.slice(5, 2)]
        assert read_chunks(str(tmp_path / f"{packed}"), {}, 0, int(index.bounds[1]), ["n"]) == [table.select(["n"])]


def test_only_file_systems_of_this_host_are_its_disks(tmp_path: Path) -> None:
    assert Directory(str(tmp_path)).on_disk
    assert not Directory("memory://folder").on_disk
    assert file_system("/database", {"/": "xfs", "/data": "lustre"}) == "xfs"
