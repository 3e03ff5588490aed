"""Work on matrices asks CuPy for nothing that CuPy does not have, and mixes nothing of the card with the host's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcurate import InlineExecutor, JsonlWriter, ParquetReader, Pipeline, Resources
from dcurate.dedup.semantic.kmeans import nearest, seeds, sums_of
from dcurate.dedup.semantic.similar import most_similar
from dcurate.dedup.semantic.stage import SemanticDuplicates
from tests.dedup.semantic.data import some, write
from tests.dedup.semantic.on_card import CUPY, OnCard


def vectors() -> Any:
    rows = np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_clusters_are_found_with_what_cupy_has() -> None:
    rows = vectors()
    begun = seeds(rows, 5, 0, True, CUPY)
    assert (begun == seeds(rows, 5, 0, True)).all()
    assert (nearest(rows, begun, CUPY)[0] == nearest(rows, begun)[0]).all()
    assert (sums_of(rows, begun, 16, CUPY).totals == sums_of(rows, begun, 16).totals).all()


def test_similar_rows_are_found_with_what_cupy_has() -> None:
    rows = vectors()
    found, expected = (
        most_similar(lambda start, stop: rows[start:stop], (16, 50), 8, 16, library) for library in (CUPY, np)
    )
    assert [array.dtype for array in (found[0], found[1])] == [np.float32, np.int64]
    assert (found[0] == expected[0]).all()
    assert (found[1] == expected[1]).all()


def test_rows_go_to_the_card_once_and_no_more_of_them_than_a_portion_at_a_time() -> None:
    rows, moved = vectors(), []

    def asarray(array: Any) -> OnCard:
        moved.append(np.shape(array))
        return OnCard(np.array(array))

    library = type("Library", (), {**vars(CUPY), "asarray": staticmethod(asarray)})
    most_similar(lambda start, stop: rows[start:stop], (32, 50), 8, 16, library)
    assert moved == [(18, 8), (18,), (18,), (16, 8), (16, 8)]


@pytest.mark.parametrize("blocksize", [10**6, 2000], ids=["a sample in one task", "a round for each step"])
def test_a_stage_that_asks_for_a_gpu_drops_the_rows_that_it_drops_without(
    blocksize: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, moved = write(tmp_path / "in", some(300)), []

    def asarray(array: Any) -> OnCard:
        moved.append(np.shape(array))
        return OnCard(np.array(array))

    library = type(sys)("cupy")
    vars(library).update(vars(CUPY), asarray=asarray)
    monkeypatch.setitem(sys.modules, "cupy", library)
    find = SemanticDuplicates(n_clusters=4, eps=0.02, max_iter=4, pairwise_batch_size=16, blocksize=blocksize)
    left = []
    for kind, gpus in (("cpu", 0), ("gpu", 1)):
        stage = find.with_(resources=Resources(cpus=1, gpus=gpus))
        writer = JsonlWriter(str(tmp_path / kind))
        Pipeline("semantic", stages=[ParquetReader(source), stage, writer]).run(InlineExecutor())
        assert bool(moved) == bool(gpus)
        lines = b"".join(path.read_bytes() for path in sorted((tmp_path / kind).glob("*.jsonl"))).splitlines()
        left.append([json.loads(line)["id"] for line in lines])
    assert left[0] == left[1]
    assert 0 < len(left[0]) < 300
