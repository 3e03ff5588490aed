"""Tables of Delta Lake whose rows are not those of their files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentReader, InlineExecutor, JsonlWriter, ParquetReader, Pipeline, TableReader
from dcurate.core.stage import RowNeeds
from dcurate.io.lakehouse.reader import TableFiles

deltalake = pytest.importorskip("deltalake")

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector_of(rows: list[int]) -> dict[str, Any]:
    """A deletion vector in the log, as Spark writes it: one container of a Roaring bitmap."""
    bitmap = struct.pack(f"<IIHHI{len(rows)}H", 12346, 1, 0, len(rows) - 1, 16, *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    digits = [int.from_bytes((data + b"\0" * 3)[at : at + 4], "big") for at in range(0, len(data), 4)]
    text = "".join(Z85[digit // 85**power % 85] for digit in digits for power in (4, 3, 2, 1, 0))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


def without_rows_of_delta(path: str, rows: dict[str, list[int]]) -> None:
    """Take rows out of files of a table of Delta Lake, by their paths in the log; the files stay as they are."""
    log = Path(path, "_delta_log")
    deltalake.DeltaTable(path).alter.add_feature(
        deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    actions = []
    for add in files_in_log(path):
        if rows.get(add["path"]):
            earlier = {name: add[name] for name in ("deletionVector",) if name in add}
            remove = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True, **earlier}
            vector = vector_of(rows[add["path"]])
            actions += [{"remove": remove}, {"add": {**add, "deletionVector": vector}}]
    version = 1 + max(int(file.stem) for file in log.glob("*.json"))
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def files_in_log(path: str) -> list[dict[str, Any]]:
    """What the log adds, in the order of the paths."""
    lines = [line for file in sorted(Path(path, "_delta_log").glob("*.json")) for line in file.read_text().splitlines()]
    adds = {add["path"]: add for line in lines if (add := json.loads(line).get("add"))}
    return [adds[name] for name in sorted(adds)]


def table_without(path: str, counts: list[int], deleted: list[int], partition: bool) -> list[int]:
    """Make a table of several files with row groups of three rows; return the numbers that it has, in order of files.

    Args:
        path: of the table.
        counts: numbers of rows of the files.
        deleted: numbers of the rows that are deleted.
        partition: whether the table is partitioned.
    """
    start = 0
    for count in counts:
        numbers = list(range(start, start + count))
        rows = pa.table({"n": numbers, "text": [f"row {n}" for n in numbers], "p q": ["x y"] * count})
        deltalake.write_deltalake(
            path,
            rows,
            mode="append",
            partition_by=["p q"] if partition else None,
            writer_properties=deltalake.WriterProperties(max_row_group_size=3),
        )
        start += count
    places, kept = {}, []
    for add in files_in_log(path):
        numbers = pq.read_table(Path(path, unquote(add["path"])), columns=["n"], partitioning=None)["n"].to_pylist()
        places[add["path"]] = [place for place, number in enumerate(numbers) if number in deleted]
        kept += [number for number in numbers if number not in deleted]
    without_rows_of_delta(path, places)
    return kept


def read(reader: TableReader) -> pa.Table:
    return Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[]).to_arrow()


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 11), min_size=1, max_size=3),
    st.sets(st.integers(0, 32), min_size=1),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.integers(1, 12),
)
@example([7], {0, 1, 2, 6}, False, 1, 2)
@example([3, 3], {0, 1, 2}, True, 1, 12)
@example([11], set(range(11)), False, None, 1)
def test_deleted_rows_do_not_come_out_for_any_splits_fields_filter_and_limit(
    counts: list[int], deleted: set[int], partition: bool, blocksize: int | None, limit: int
) -> None:
    deleted = {number for number in deleted if number < sum(counts)} or {0}
    with TemporaryDirectory() as folder:
        path = f"{folder}/a table"
        kept = table_without(path, counts, sorted(deleted), partition)
        whole = TableReader(path, blocksize=blocksize)
        if not kept:
            assert read(whole).num_rows == 0
            return
        rows = read(whole)
        assert rows["n"].to_pylist() == kept
        assert rows["text"].to_pylist() == [f"row {number}" for number in kept]
        assert set(rows["p q"].to_pylist()) == {"x y"}
        assert read(TableReader(path, blocksize=blocksize, limit=limit))["n"].to_pylist() == kept[:limit]
        some = TableReader(path, blocksize=blocksize, fields=["text"], filter="n >= 4")
        assert read(some).to_pylist() == [{"text": f"row {number}"} for number in kept if number >= 4]
        first = TableReader(path, blocksize=blocksize, limit=limit, filter="n >= 4")
        assert read(first)["n"].to_pylist() == [number for number in kept[:limit] if number >= 4]


def files_of(path: str, version: int | None = None) -> TableFiles:
    [files] = TableReader(path, version=version, blocksize=1).decompose()
    assert isinstance(files, TableFiles)
    return files


def test_a_row_is_traced_to_its_number_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    table_without(path, [8], [0, 4], partition=False)
    reader = files_of(path).adapted(RowNeeds(origins=True))
    assert reader is not None
    batches = [batch for split in reader.splits() if (batch := reader.process(split)) is not None]
    numbers = [place for batch in batches for place in batch.to_arrow()["_dcurate_row"].to_pylist()]
    assert numbers == [1, 2, 3, 5, 6, 7]


def test_other_deleted_rows_are_another_version_of_a_split(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    table_without(path, [8], [0, 4], partition=False)
    before = [split.version for split in files_of(path).splits()]
    [name] = [add["path"] for add in files_in_log(path)]
    without_rows_of_delta(path, {name: [0, 4, 5]})
    after = [split.version for split in files_of(path).splits()]
    earlier = [split.version for split in files_of(path, version=2).splits()]
    assert before == earlier
    assert not {*before} & {*after}


def test_a_folder_of_a_delta_table_with_deletion_vectors_is_refused_with_what_reads_it(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    table_without(path, [3], [1, 2], partition=False)
    writer = JsonlWriter(str(tmp_path / "out"))
    for reader in (ParquetReader(path), DocumentReader(path)):
        with pytest.raises(DataError, match=r"with deletionVectors, .*; read it with TableReader\(path\)"):
            Pipeline("p", stages=[reader, writer]).run(InlineExecutor(), observers=[])
    assert not (tmp_path / "out").exists()
