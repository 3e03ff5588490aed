"""Tables of Delta Lake whose rows are not those of their files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from dcurate import DataError, DocumentReader, InlineExecutor, JsonlWriter, ParquetReader, Pipeline, TableReader

deltalake = pytest.importorskip("deltalake")

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def without_rows_of_delta(path: str, rows: list[int]) -> None:
    """Take rows out of the only file of a table of Delta Lake by a deletion vector in the log, as Spark does."""
    log = Path(path, "_delta_log")
    deltalake.DeltaTable(path).alter.add_feature(
        deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    [add] = [json.loads(line)["add"] for line in (log / f"{0:020}.json").read_text().splitlines() if '"add"' in line]
    bitmap = struct.pack(
        f"<IIHHI{len(rows)}H", 12346, 1, 0, len(rows) - 1, 16, *rows
    )  # one container of a Roaring bitmap
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    digits = [int.from_bytes((data + b"\0" * 3)[at : at + 4], "big") for at in range(0, len(data), 4)]
    text = "".join(Z85[digit // 85**power % 85] for digit in digits for power in (4, 3, 2, 1, 0))
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}
    remove = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}
    actions = [{"remove": remove}, {"add": {**add, "deletionVector": vector}}]
    (log / f"{2:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_a_delta_table_with_deletion_vectors_is_refused_with_what_reads_it(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, pa.table({"text": ["a", "b", "c"]}))
    without_rows_of_delta(path, [1, 2])
    writer = JsonlWriter(str(tmp_path / "out"))
    for reader in (TableReader(path), ParquetReader(path), DocumentReader(path)):
        with pytest.raises(DataError, match=r"with deletionVectors, .* with deltalake: QueryBuilder\(\)\.register"):
            Pipeline("p", stages=[reader, writer]).run(InlineExecutor(), observers=[])
    assert not (tmp_path / "out").exists()
    rows = deltalake.QueryBuilder().register("rows", deltalake.DeltaTable(path)).execute("SELECT * FROM rows")
    Pipeline("p", stages=[writer]).run(InlineExecutor(), initial_tasks=rows, observers=[])
    assert [file.read_text() for file in (tmp_path / "out").glob("*.jsonl")] == ['{"text":"a"}\n']
