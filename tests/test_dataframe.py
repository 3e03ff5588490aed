import os
from pathlib import Path

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dcurate import (
    DocumentBatch,
    ExactDuplicates,
    JsonlReader,
    LocalCluster,
    Pipeline,
    PipelineError,
    ProcessingStage,
    RunError,
    apply,
    deduplicate,
    processing_stage,
)
from dcurate.text import AddId
from tests import faulty
from tests.faulty import PoisonsOn
from tests.gpu_errors import POISON
from tests.stages import Append, OneByOne

pytestmark = pytest.mark.cluster


@processing_stage(name="lengths")
def lengths(batch: DocumentBatch) -> DocumentBatch:
    rows = batch.to_pandas()
    return batch.with_data(rows.assign(length=rows.text.str.len().astype("int64")))


@processing_stage(name="long_only")
def long_only(batch: DocumentBatch) -> DocumentBatch | None:
    rows = batch.to_pandas()
    kept = rows[rows.text.str.len() > 2]
    return batch.with_data(kept) if len(kept) or not len(rows) else None


@pytest.fixture
def ddf() -> dd.DataFrame:
    frame = pd.DataFrame({"text": ["a", "bbb", "cc", "dddd", "e", "f"], "n": np.arange(6)})
    return dd.from_pandas(frame, npartitions=3)


def test_stages_apply_lazily_with_known_meta(ddf: dd.DataFrame) -> None:
    made = apply([lengths, long_only], ddf)
    assert made._meta.dtypes.to_dict() == {**ddf.dtypes.to_dict(), "length": np.dtype("int64")}
    assert made.npartitions == 3
    assert made.compute().to_dict("list") == {"text": ["bbb", "dddd"], "n": [1, 3], "length": [3, 4]}


def test_the_result_composes_with_dask_and_writes_parquet(ddf: dd.DataFrame, tmp_path: Path) -> None:
    made = apply(lengths, ddf[ddf.n > 0])
    made[made.length > 1].to_parquet(str(tmp_path / "out"), write_index=False)
    assert pd.read_parquet(tmp_path / "out").text.tolist() == ["bbb", "cc", "dddd"]


@pytest.mark.parametrize("source", ["fsspec", "arrow", "frame"])
def test_ids_are_the_same_whichever_partitions_are_computed(source: str, tmp_path: Path) -> None:
    texts = [f"{number} {letter}" for number in range(12) for letter in "ab"]
    ddf = dd.from_pandas(pd.DataFrame({"text": texts}), npartitions=6)
    if source != "frame":  # Dask reads small files together, which it decides when it computes
        for number in range(12):
            name = tmp_path / f"{number:02}.parquet"
            pd.DataFrame({"text": texts[2 * number : 2 * number + 2]}).to_parquet(name)
        ddf = dd.read_parquet(str(tmp_path), filesystem=source)
    made = apply(AddId("id"), ddf)
    whole = made.compute()
    assert sorted(whole.text) == sorted(texts)
    assert whole.id.is_unique
    ways = {
        "partitions": [made.partitions[number].compute() for number in range(made.npartitions)],
        "slices": [made.partitions[:1].compute(), made.partitions[1:].compute()],
        "delayed": dask.compute(*made.to_delayed()),
        "filtered": [made[made.text.str.endswith(letter)].compute() for letter in "ab"],
        "columns": [made[["id"]].compute().assign(text=whole.text.tolist())],
    }
    for way, frames in ways.items():
        found = pd.concat(frames)
        assert dict(zip(found.text, found.id, strict=True)) == dict(zip(whole.text, whole.id, strict=True)), way
    assert made.head(1).id.tolist() == whole.id.tolist()[:1]
    assert made.tail(1).id.tolist() == whole.id.tolist()[-1:]
    assert deduplicate(made, on="id").compute().id.tolist() == whole.id.tolist()


def test_it_runs_on_the_workers_of_a_cluster(ddf: dd.DataFrame, cluster: LocalCluster) -> None:
    future = cluster.client.compute(apply([lengths, long_only], ddf).optimize())
    assert future.result().length.sum() == 7


def test_a_partition_of_which_nothing_is_left_keeps_its_columns(ddf: dd.DataFrame) -> None:
    parts = apply([lengths, long_only], ddf).to_delayed()
    assert list(parts[2].compute().columns) == ["text", "n", "length"]
    assert len(parts[2].compute()) == 0


def test_meta_may_be_given_where_stages_make_nothing_of_no_rows() -> None:
    @processing_stage(name="nothing")
    def nothing(batch: DocumentBatch) -> DocumentBatch | None:
        return batch if batch.num_items else None

    ddf = dd.from_pandas(pd.DataFrame({"text": ["a"]}), npartitions=1)
    with pytest.raises(
        PipelineError, match="make nothing of a frame without rows; give apply.* an empty frame as meta="
    ):
        apply(nothing, ddf)
    assert apply(nothing, ddf, meta=ddf._meta).compute().text.tolist() == ["a"]


def test_fan_out_stays_in_its_partition() -> None:
    ddf = dd.from_pandas(pd.DataFrame({"text": ["a", "b", "c"]}), npartitions=1)
    assert apply([OneByOne(), Append("!")], ddf, meta=ddf._meta).compute().text.tolist() == ["a!", "b!", "c!"]


@pytest.mark.parametrize("stage", [ExactDuplicates(), JsonlReader("x")])
def test_stages_that_need_more_than_a_partition_are_refused(
    stage: ProcessingStage, ddf: dd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(PipelineError, match="does not work on one partition at a time"):
        apply(stage, ddf)


def test_no_stages_are_refused_in_words_of_frames(ddf: dd.DataFrame) -> None:
    with pytest.raises(PipelineError, match=r"apply\(\) is given no stages; give at least one"):
        apply([], ddf)


def test_a_missing_column_is_refused_at_once(ddf: dd.DataFrame) -> None:
    with pytest.raises(PipelineError, match="stage 'append' reads column 'text', but the input yields only 'n'"):
        apply(Append(), ddf[["n"]])


def test_what_is_no_dask_dataframe_says_how_to_make_one_of_it() -> None:
    frame = pd.DataFrame({"text": ["a"]})
    for given, said in (
        (frame, "pandas.DataFrame; make one of it: dask.dataframe.from_pandas"),
        (lengths, r".*; the frame is the second argument of apply\(stages, ddf\)"),
        ([frame], r"builtins.list; the frame is the second"),
        (dd.from_pandas(frame).text, r"dask.Series; make one of it: series.to_frame\(\)"),
    ):
        with pytest.raises(PipelineError, match=f"takes a Dask DataFrame, and this is {said}"):
            apply(lengths, given)
    with pytest.raises(PipelineError, match=r"apply\(\) takes stages, not a Pipeline; give it pipeline.stages"):
        apply(Pipeline("p", stages=[lengths]), dd.from_pandas(frame))  # type: ignore[arg-type]


class CudfFrame(pd.DataFrame):
    """A frame that the test has come from cuDF."""

    @property
    def _constructor(self) -> "type[CudfFrame]":
        return CudfFrame


def test_a_frame_of_dask_cudf_is_refused_before_anything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    ddf = dd.from_pandas(CudfFrame({"text": ["a"]}), npartitions=1)
    monkeypatch.setattr(CudfFrame, "__module__", "cudf.core.dataframe")  # only now: Dask would look for dask-cudf
    with pytest.raises(PipelineError, match=r"apply\(\) takes .* of pandas, and this one is of cuDF; give it .*pandas"):
        apply(AddId("id"), ddf)
    with pytest.raises(PipelineError, match=r"deduplicate\(\) takes .* of pandas, and this one is of cuDF; give it"):
        deduplicate(ddf)


def test_a_poisoned_gpu_costs_the_process_and_no_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a", "b", "3?0", "d", "e", "f"], "n": np.arange(6)})
    ddf = dd.from_pandas(frame, npartitions=3)
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        before = set(cluster.client.run(os.getpid).values())
        unique = deduplicate(apply(PoisonsOn(str(tmp_path), tuple(POISON[:1])), ddf))
        made = cluster.client.compute(unique.optimize()).result(timeout=100)
        after = set(cluster.client.run(os.getpid).values())
    assert sorted(zip(made.n, made.text, strict=True)) == list(zip(frame.n, frame.text, strict=True))
    assert (tmp_path / "3").exists()
    assert not before & after


def test_a_poisoned_gpu_of_a_process_that_nothing_restarts_ends_the_computation_in_one_sentence(
    ddf: dd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty, "_sticky", [])
    poisoned = apply(PoisonsOn(str(tmp_path), tuple(POISON[:1])), ddf.assign(text="3!0"), meta=ddf._meta)
    with pytest.raises(RunError, match=r"^stage 'poisons_on'.* cannot use its GPU, and nothing restarts it; start"):
        poisoned.compute(scheduler="sync")
