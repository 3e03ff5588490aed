from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dcurate import DaskExecutor, DcurateError, InlineExecutor, JsonlReader, LocalCluster, ParquetWriter, Pipeline
from dcurate.core.pipeline import AnyStage
from dcurate.models import Tokenize
from dcurate_testing.hub_server import Hub, hub_server
from tests.models.stages import Classify

pytestmark = pytest.mark.cluster


def written(folder: Path, texts: list[str]) -> Path:
    folder.mkdir()
    for part in range(4):
        rows = [json.dumps({"id": row, "text": text}) for row, text in enumerate(texts) if row % 4 == part]
        (folder / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def pipeline(source: Path, target: Path, model: str, cache: Path | None = None) -> Pipeline:
    said: Any = {"model": model, "cache_dir": cache and str(cache)}
    stages: list[AnyStage] = [JsonlReader(str(source), files_per_partition=1), Tokenize(**said), Classify(**said)]
    return Pipeline("classify", stages=[*stages, ParquetWriter(str(target))])


def rows_in(folder: Path) -> list[dict[str, Any]]:
    table = pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])
    return table.take(pc.sort_indices(table["id"])).to_pylist()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"the quick fox {'and a dog ' * (row * 7 % 31)}" for row in range(80)]
    return written(tmp_path_factory.mktemp("documents") / "in", texts)


@pytest.fixture(scope="module")
def workers(classifiers: dict[str, Path]) -> Iterator[tuple[LocalCluster, Hub]]:
    """Two worker processes of one host, and the hub that they ask; spawned, so that they have this environment."""
    own = dask.config.set({"distributed.worker.multiprocessing-method": "spawn"})
    with own, hub_server({"org/tiny": classifiers["bert"]}) as hub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        with LocalCluster(n_workers=2, gpus=False) as cluster:
            yield cluster, hub


def test_worker_processes_fetch_a_model_once_for_the_host_and_give_the_rows_of_a_run_in_this_process(
    documents: Path, classifiers: dict[str, Path], tmp_path: Path, workers: tuple[LocalCluster, Hub]
) -> None:
    cluster, hub = workers
    there = pipeline(documents, tmp_path / "there", "org/tiny", tmp_path / "cache").run(DaskExecutor(cluster=cluster))
    assert set(hub.downloads) >= {"model.safetensors", "tokenizer.json", "config.json"}
    assert set(hub.downloads.values()) == {1}
    pipeline(documents, tmp_path / "here", str(classifiers["bert"])).run(InlineExecutor())
    rows, expected = rows_in(tmp_path / "there"), rows_in(tmp_path / "here")
    assert len(rows) == 80
    assert [{**row, "scores": None} for row in rows] == [{**row, "scores": None} for row in expected]
    assert np.allclose([row["scores"] for row in rows], [row["scores"] for row in expected], atol=1e-5)
    tokenised, classified = (stage.metrics for stage in there.report.stages[1:3])
    assert (tokenised["documents"], classified["documents"]) == (80, 80)
    assert tokenised["tokens"] == classified["tokens"] == sum(len(row["input_ids"]) for row in rows)


def test_a_model_that_is_not_there_ends_the_run_with_one_sentence(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(DcurateError, match="nowhere': no such folder on this host; give the id of a model"):
        pipeline(documents, tmp_path / "out", str(tmp_path / "nowhere")).run(InlineExecutor())


def test_importing_dcurate_and_its_models_imports_no_torch() -> None:
    code = (
        "import sys, dcurate, dcurate.models.inference, dcurate.models.tokenizer, dcurate.hub.loading\n"
        "print(sorted({'torch', 'transformers', 'tokenizers', 'huggingface_hub'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
