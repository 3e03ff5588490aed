"""Tables written by workers, and in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DaskExecutor, InlineExecutor, LocalCluster, ParquetReader, Pipeline, ScoreFilter, TableReader
from dcurate.text import WordCountFilter
from tests.io.test_lakehouse import FORMATS, Place

pytestmark = pytest.mark.cluster

#: Drops all rows of `put`.
TOO_SHORT = (ScoreFilter(WordCountFilter(min_words=9), score_field="words"),)


def put(folder: Path) -> list[str]:
    """Write four files of rows; return their texts in order."""
    folder.mkdir()
    for number in range(4):
        pq.write_table(pa.table({"text": [f"{number} {row}" for row in range(3)]}), folder / f"{number}.parquet")
    return [f"{number} {row}" for number in range(4) for row in range(3)]


@pytest.mark.parametrize("kind", FORMATS)
def test_workers_write_and_read_a_table(
    kind: str, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = put(tmp_path / "in")
    monkeypatch.chdir(tmp_path)  # workers run in another folder
    place = Place(kind, tmp_path)
    place.path = "db.table" if kind == "iceberg" else "table"
    stages: list[Any] = [ParquetReader(str(tmp_path / "in"), files_per_partition=1), place.writer()]
    for _ in range(2):
        Pipeline("write", stages=stages).run(DaskExecutor(cluster=cluster), observers=[], resume=True)
    made = Pipeline("read", stages=[place.reader()]).run(DaskExecutor(cluster=cluster), observers=[])
    assert made.to_arrow()["text"].to_pylist() == texts
    assert place.versions() == 1
    if kind == "delta":  # Iceberg's and Lance's own files have names by chance
        stages[1] = place.writer()
        stages[1].path = "again"
        Pipeline("write", stages=stages).run(InlineExecutor(), observers=[])
        both = [  # the name of a file ends with the run that wrote it, so that runs may append at once
            {path.name.rsplit("-", 2)[0]: path.read_bytes() for path in Path(name).glob("*.parquet")}
            for name in ("table", "again")
        ]
        assert len(both[0]) == len(list(Path("table").glob("*.parquet")))
        assert both[0] == both[1]


@pytest.mark.parametrize("kind", FORMATS)
def test_workers_leave_the_columns_of_a_table_without_rows(kind: str, cluster: LocalCluster, tmp_path: Path) -> None:
    put(tmp_path / "in")
    place = Place(kind, tmp_path)
    stages: list[Any] = [ParquetReader(str(tmp_path / "in"), files_per_partition=1), *TOO_SHORT, place.writer()]
    for resume in (False, True):
        Pipeline("write", stages=stages).run(DaskExecutor(cluster=cluster), observers=[], resume=resume)
        assert place.writer()._table().schema().equals(pa.schema({"text": pa.string(), "words": pa.int64()}))


@pytest.mark.s3
@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_in_a_store_is_written_once_and_read(kind: str, cluster: LocalCluster, tmp_path: Path, bucket) -> None:
    url, options = bucket
    texts = put(tmp_path / "in")
    place = Place(kind, tmp_path)
    place.settings["storage_options"] = options
    if kind == "iceberg":
        place.settings["catalog"] |= {"warehouse": url}
    else:
        place.path = f"{url}/table"
    stages: list[Any] = [ParquetReader(str(tmp_path / "in"), files_per_partition=1), place.writer()]
    for _ in range(2):
        Pipeline("write", stages=stages).run(DaskExecutor(cluster=cluster), observers=[], resume=True)
    assert place.writer()._table().address().startswith(url)
    reader: TableReader = place.reader()
    made = Pipeline("read", stages=[reader]).run(DaskExecutor(cluster=cluster), observers=[])
    assert made.to_arrow()["text"].to_pylist() == texts
