"""Files of tokens do not depend on the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcurate import DaskExecutor, InlineExecutor, JsonlReader, LocalCluster, Pipeline, TokenWriter
from dcurate.tokens import TokenShuffle, shuffle
from tests.stages import DieOnce
from tests.tokens.conftest import texts
from tests.tokens.test_writer import data_files, rows_of, write

pytestmark = pytest.mark.cluster

_SETTINGS: dict[str, Any] = {"shard_tokens": 900, "packing": "concat", "sequence_length": 64}


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_bytes_do_not_depend_on_the_number_of_workers_nor_on_deaths(
    workers: int, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffle, "_SPLIT", 400)
    rows = rows_of(texts(120))
    rows[70]["text"] = "7"
    source = write(tmp_path / "in", rows, 12)
    once = TokenWriter(str(tmp_path / "once"), tokenizer, **_SETTINGS)
    Pipeline("once", stages=[JsonlReader(source), once]).run(InlineExecutor(), observers=[])
    stages: list[Any] = [
        JsonlReader(source),
        DieOnce(folder=str(tmp_path)),
        TokenWriter(str(tmp_path / "out"), tokenizer, **_SETTINGS),
    ]
    shuffled = TokenShuffle(str(tmp_path / "once"), str(tmp_path / "shuffled once"), seed=3, shard_tokens=900)
    Pipeline("shuffle", stages=[shuffled]).run(InlineExecutor(), observers=[])
    shuffles: list[Any] = [TokenShuffle(str(tmp_path / "out"), str(tmp_path / "shuffled"), seed=3, shard_tokens=900)]
    with LocalCluster(n_workers=workers, gpus=False) as cluster:
        Pipeline("many", stages=stages).run(DaskExecutor(cluster=cluster), observers=[])
        Pipeline("shuffle", stages=shuffles).run(DaskExecutor(cluster=cluster), observers=[])
    assert (tmp_path / "died").exists()
    assert data_files(tmp_path / "out") == data_files(tmp_path / "once")
    assert data_files(tmp_path / "shuffled") == data_files(tmp_path / "shuffled once")
    assert data_files(tmp_path / "shuffled").keys() == data_files(tmp_path / "out").keys()
