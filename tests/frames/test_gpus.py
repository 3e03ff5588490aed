"""Frames of cuDF: checked by a stand-in that compares calls with the signatures of cuDF."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    Pipeline,
    PipelineError,
    ResourceError,
    Resources,
    ScoreFilter,
)
from dcurate.core.pipeline import AnyStage
from dcurate.core.slot_gpus import given_gpus
from dcurate.frames.vectors import array_library
from dcurate.kernels import cuda
from dcurate.text import RepeatedLinesFilter, WordCountFilter
from tests.frames.on_stand_in import annotated
from tests.kernels.cuda_process import SIMULATED

pytestmark = pytest.mark.program

TEXTS = ["so it goes", None, "é", "again\nagain\nagain\nagain", "中文 ab", "one two"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `on_stand_in` says, and the lines that it and the CPU wrote."""
    folder = tmp_path_factory.mktemp("gpus")
    rows = pa.table({"text": TEXTS, "n": list(range(len(TEXTS)))})
    pq.write_table(rows, folder / "in.parquet", row_group_size=4)
    command = [sys.executable, "-m", "tests.frames.on_stand_in", str(folder)]
    done = subprocess.run(command, env={**os.environ, **SIMULATED}, capture_output=True, text=True, check=True)
    filters = [
        ScoreFilter(WordCountFilter(min_words=2), score_field="words"),
        ScoreFilter(RepeatedLinesFilter(max_repeated_line_fraction=0.7)),
    ]
    stages: list[AnyStage] = [ParquetReader(str(folder / "in.parquet")), *filters, JsonlWriter(str(folder / "cpu"))]
    Pipeline("on_host", stages=stages).run(InlineExecutor())
    stages = [
        ParquetReader(str(folder / "in.parquet")),
        *annotated(Resources()),
        JsonlWriter(str(folder / "cpu_all")),
    ]
    Pipeline("all_on_host", stages=stages).run(InlineExecutor())
    written = {
        kind: b"".join(path.read_bytes() for path in (folder / kind).glob("*.jsonl"))
        for kind in ("cpu", "gpu", "cpu_all", "gpu_all")
    }
    return {**json.loads(done.stdout), **written}


def test_a_pipeline_whose_rows_stay_with_cudf_writes_what_one_on_the_cpu_writes(said: dict[str, Any]) -> None:
    assert said["cpu"] == said["gpu"]
    assert len(said["gpu"].splitlines()) == 3


def test_filters_of_all_kinds_write_on_a_gpu_what_they_write_on_the_cpu(said: dict[str, Any]) -> None:
    assert said["cpu_all"] == said["gpu_all"]
    assert len(said["gpu_all"].splitlines()) == 5


def test_what_has_a_build_for_cuda_is_measured_on_the_gpu(said: dict[str, Any]) -> None:
    groups = ["boilerplate_signals", "character_signals", "url_signals", "word_signals"]
    others = ["alphabetic_signals", "c4_signals", "occurrences", "pii_counts", "segments_of"]
    assert said["measured"] == sorted(groups + others)


def test_rows_read_for_a_gpu_are_decoded_there_and_never_go_there_twice(said: dict[str, Any]) -> None:
    assert "cudf.read_parquet" in said["called"]
    assert "cudf.DataFrame.from_arrow" not in said["called"]


def test_a_text_column_of_cudf_is_the_column_that_arrow_has(said: dict[str, Any]) -> None:
    assert said["columns"] == [True] * 5


def test_a_column_that_cudf_has_spilled_is_read_all_the_same(said: dict[str, Any]) -> None:
    assert said["spilled"] == [True] * 4


def test_filters_on_a_gpu_copy_nothing_but_the_rows_that_they_drop(said: dict[str, Any]) -> None:
    copies, names, kept, dropped = said["copied"]
    assert names == ["text", "n", "word_count", "urls_ratio"]
    assert (kept, dropped) == ([0, 3, 4, 5], [[1, 2]])
    assert copies == [[["text", "n"], 2]]


def test_signals_of_the_cpu_copy_the_text_alone(said: dict[str, Any]) -> None:
    copies, _, kept, _ = said["copied_for_cpu"]
    assert kept == list(range(6))
    assert copies == [[["text"], 6]]


def test_texts_of_a_batch_on_a_gpu_are_not_sent_there_again_to_find_duplicates(said: dict[str, Any]) -> None:
    assert said["sent"] == [False, True, True, 2, 2]


def test_a_column_of_cudf_that_is_missing_or_no_text_is_named(said: dict[str, Any]) -> None:
    assert said["missing"] == "no column 'tex'; the rows have 'text', 'n'"
    assert said["numbers"] == "column 'n' holds int64, not text; name the column that holds the text"


def test_rows_of_cudf_are_kept_rejected_and_joined_as_rows_of_arrow_are(said: dict[str, Any]) -> None:
    assert (said["kept"], said["rejected"]) == ([0, 2, 4], [1, 3, 5])
    assert said["joined"] == ["cudf", 0, 2, 4, 0, 2, 4]
    assert said["types"] == ["cudf", "cudf"]
    assert (said["nbytes"], said["columns_of"]) == (True, ["text", "n"])


def test_without_a_gpu_or_cudf_one_sentence_says_so() -> None:
    with pytest.raises(
        ResourceError, match=r"^to_cudf\(\) needs cuDF: pip install|^cuDF needs a GPU, and there is none"
    ):
        DocumentBatch(data=pa.table({"text": ["a"]})).to_cudf()


def test_a_gpu_that_numba_cannot_use_is_no_reason_to_work_on_the_cpu_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if cuda.usable():
        return
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(
        ResourceError, match="CUDA_VISIBLE_DEVICES=0 assigns this process a GPU, but numba cannot use it"
    ):
        cuda.usable()


@pytest.mark.parametrize("visible", [None, ""])
def test_a_slot_with_a_gpu_that_numba_cannot_use_stops_also_where_no_variable_names_one(
    visible: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cuda.usable():
        return
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with given_gpus((0,)):
        with pytest.raises(ResourceError, match="the slot was given a GPU, but numba cannot use it; install"):
            cuda.usable()
        monkeypatch.setenv("DCURATE_SIMULATED_GPUS", "0")
        assert not cuda.usable()


@pytest.mark.parametrize("work", [cuda.usable, partial(array_library, gpu=True)])
def test_a_slot_with_another_gpu_than_the_first_of_its_process_is_refused(work: Callable[[], object]) -> None:
    with given_gpus((1,)), pytest.raises(ResourceError, match=r"a slot was given GPU 1 of its process.* use the first"):
        work()


def test_a_reader_of_rows_for_a_gpu_asks_for_a_slot_with_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    reader = JsonlReader(str(tmp_path), frames="cudf")
    assert reader.resources.requires_gpu
    assert reader.settings() == JsonlReader(str(tmp_path)).settings()
    with pytest.raises(PipelineError, match="frames='cuda' is not one of 'arrow', 'cudf'"):
        JsonlReader(str(tmp_path), frames="cuda")  # type: ignore[arg-type]
