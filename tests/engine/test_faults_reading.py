"""Lines, rows and records whose reading ends the worker: they are kept apart, and no other row is lost."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DaskExecutor, JsonlWriter, LocalCluster, Pipeline, StageError
from dcurate.core.pipeline import AnyStage
from tests.deadly import DeadlyDocuments
from tests.engine.test_faults_rows import ids, quarantined

pytestmark = pytest.mark.cluster

NAMES = ["a.jsonl", "b.jsonl.gz", "c.parquet"]


def write(folder: Path, rows: int, bad: set[int], names: list[str]) -> str:
    folder.mkdir()
    for number, name in enumerate(names):
        made = [
            {"id": row, "text": "segfault" if row in bad else "good"}
            for row in range(number * rows, (number + 1) * rows)
        ]
        lines = "".join(f"{json.dumps(row)}\n" for row in made).encode()
        if name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(made), folder / name, row_group_size=5)
        else:
            (folder / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    return str(folder)


@pytest.mark.parametrize(("mode", "names"), [("streaming", NAMES), ("batch", NAMES[1:2])])
def test_rows_whose_reading_ends_the_worker_are_found_and_kept_apart(
    mode: str, names: list[str], tmp_path: Path
) -> None:
    bad = {3, 8, 15} if mode == "streaming" else {3}
    source, output = write(tmp_path / "in", 6, bad, names), tmp_path / "out"
    stages: list[AnyStage] = [DeadlyDocuments(source), JsonlWriter(str(output))]
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        executor = DaskExecutor({"execution_mode": mode, "ignore_failures": True}, cluster)
        report = Pipeline("test", stages=stages).run(executor, observers=[]).report
    count = 6 * len(names)
    assert ids(output) == [row for row in range(count) if row not in bad]
    assert report.stages[0].faulty == {"died: SIGSEGV": len(bad)}
    assert (report.stages[0].rows_in, report.stages[0].rows_out) == (count, count - len(bad))
    assert sorted(str(row["file"]) for row in quarantined(output)) == names
    assert report.notices == ()


def test_without_leave_to_ignore_it_the_run_ends_naming_reader_and_split(tmp_path: Path) -> None:
    source = write(tmp_path / "in", 6, {3}, NAMES[:1])
    stages: list[AnyStage] = [DeadlyDocuments(source), JsonlWriter(str(tmp_path / "out"))]
    with (
        LocalCluster(n_workers=1, gpus=False) as cluster,
        pytest.raises(StageError, match=r"stage 'deadly_documents' failed on batch 'a.jsonl': killed by SIGSEGV"),
    ):
        Pipeline("test", stages=stages).run(DaskExecutor(cluster=cluster), observers=[])
