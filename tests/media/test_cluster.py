"""Shards read, decoded in sandboxes and written by worker processes: the same files as by one process."""

from collections import Counter
from dataclasses import dataclass

import pytest

from dcurate import (
    DaskExecutor,
    InlineExecutor,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    WebDatasetReader,
    WebDatasetWriter,
)
from dcurate.isolate.sandbox import Sandbox
from dcurate.media import source
from dcurate.media.refs import fetched, quarantined, with_columns
from tests.media.archives import tar_of
from tests.media.test_webdataset import ODD, in_order, members_of

pytestmark = pytest.mark.cluster


@dataclass
class Decode(ProcessingStage):
    """Measures files in a child process; some of them kill it."""

    name: str = "decode"

    def setup(self, worker_metadata=None):
        self._sandbox = Sandbox("tests.media.wild:decode", {})

    def teardown(self):
        self._sandbox.close()

    def process(self, batch):
        found = []
        for _, files in fetched(batch.to_arrow()):
            found += [self._sandbox.call(data) if isinstance(data, bytes) else data for data in files]
        kept = quarantined(batch, found, self.name)
        good = [answer.value["n"] for answer in found if hasattr(answer, "value")]
        kept.data = with_columns(kept.to_arrow(), {"n": ("int64", good)})
        return kept


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "in").mkdir()
    for shard in range(3):
        members = [(f"{shard}-{n:03d}.{suffix}", bytes([n]) * 900) for n in range(30) for suffix in ("jpg", "txt")]
        members[10] = (f"{shard}-005.jpg", b"segv!")
        (tmp_path / "in" / f"{shard}.tar").write_bytes(tar_of([*members, *(ODD if shard == 1 else [])]))
    return tmp_path / "in"


def test_worker_processes_make_the_same_files_as_one_process(shards, tmp_path, cluster: LocalCluster, monkeypatch):
    def run(name, executor):
        stages = [WebDatasetReader(str(shards), blocksize=20_000), Decode(), WebDatasetWriter(str(tmp_path / name))]
        return Pipeline(name, stages=stages).run(executor, observers=[]).report.stages

    reports = [run("one", InlineExecutor()), run("many", DaskExecutor(cluster=cluster))]
    monkeypatch.setattr(source, "BATCH_ROWS", 3)  # a split becomes many batches
    reports.append(run("small", InlineExecutor()))
    for reader, decode, writer in reports:
        assert reader.rows_out == decode.rows_in == 100
        assert decode.faulty == {"crashed: SIGSEGV": 3, "no reference": 2}
        assert writer.rows_out == decode.rows_out == 95
    one, many = (
        {path.name: path.read_bytes() for path in in_order(tmp_path / name, "*.tar")} for name in ("one", "many")
    )
    assert one == many
    assert len(one) > 3
    assert Counter(members_of(tmp_path / "small")) == Counter(members_of(tmp_path / "one"))
    assert len(in_order(tmp_path / "small", "*.tar")) > len(one)
