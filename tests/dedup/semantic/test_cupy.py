"""Work on matrices asks CuPy for nothing that CuPy does not have, and mixes nothing of the GPU with the host's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dcurate import InlineExecutor, JsonlWriter, ParquetReader, Pipeline, Resources, SemanticDuplicates
from dcurate.dedup.semantic.kmeans import held, nearest, seeds, sums_of
from dcurate.dedup.semantic.similar import most_similar
from tests.dedup.semantic.data import some, write
from tests.dedup.semantic.on_gpu import CUPY, OnGpu


def vectors() -> Any:
    rows = np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_clusters_are_found_with_what_cupy_has() -> None:
    rows = vectors()
    begun = seeds(rows, 5, 0, True, CUPY)
    assert (begun == seeds(rows, 5, 0, True)).all()
    assert (nearest(rows, begun, CUPY)[0] == nearest(rows, begun)[0]).all()
    there, here = sums_of(rows, begun, 16, CUPY), sums_of(rows, begun, 16)
    assert np.allclose(there.totals, here.totals, rtol=0, atol=1e-12)
    assert np.allclose(there.squares, here.squares, rtol=0, atol=1e-12)
    assert (there.counts == here.counts).all()


def test_sums_of_a_gpu_do_not_depend_on_the_order_in_which_its_threads_add() -> None:
    rows = vectors()
    begun = seeds(rows, 3, 0, True)
    once, again = (sums_of(rows, begun, 50, CUPY) for _ in range(2))
    assert all(one.tobytes() == other.tobytes() for one, other in zip(once, again, strict=True))


def test_a_sample_goes_to_the_gpu_once_for_all_rounds() -> None:
    rows, moved = vectors(), []

    def asarray(array: Any) -> Any:
        if not isinstance(array, OnGpu):
            moved.append(np.shape(array))
        return CUPY.asarray(array)

    library = SimpleNamespace(**{**vars(CUPY), "asarray": asarray})
    there = held(rows, library)
    for _ in range(3):
        sums_of(there, rows[:4], 16, library)
    assert [shape for shape in moved if shape != (4, 8)] == [(50, 8)]


def test_a_sample_that_the_gpu_cannot_hold_goes_there_in_steps() -> None:
    rows = vectors()

    def asarray(array: Any) -> Any:
        if len(array) > 16:
            raise MemoryError("std::bad_alloc: out_of_memory: CUDA error")
        return CUPY.asarray(array)

    library = SimpleNamespace(**{**vars(CUPY), "asarray": asarray})
    assert held(rows, library) is rows
    found = sums_of(held(rows, library), rows[:4], 16, library)
    assert (found.counts == sums_of(rows, rows[:4], 16).counts).all()


def test_similar_rows_are_found_with_what_cupy_has() -> None:
    rows = vectors()
    found, expected = (
        most_similar(lambda start, stop: rows[start:stop], (16, 50), 8, 16, library) for library in (CUPY, np)
    )
    assert [array.dtype for array in (found[0], found[1])] == [np.float32, np.int64]
    assert (found[0] == expected[0]).all()
    assert (found[1] == expected[1]).all()


def test_rows_go_to_the_gpu_once_and_no_more_of_them_than_a_portion_at_a_time() -> None:
    rows, moved = vectors(), []

    def asarray(array: Any) -> OnGpu:
        moved.append(np.shape(array))
        return OnGpu(np.array(array))

    library = type("Library", (), {**vars(CUPY), "asarray": staticmethod(asarray)})
    most_similar(lambda start, stop: rows[start:stop], (32, 50), 8, 16, library)
    assert moved == [(18, 8), (18,), (18,), (16, 8), (16, 8)]


@pytest.mark.parametrize("blocksize", [10**6, 2000], ids=["a sample in one task", "a round for each step"])
def test_a_stage_that_asks_for_a_gpu_drops_the_rows_that_it_drops_without(
    blocksize: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, moved = write(tmp_path / "in", some(300)), []

    def asarray(array: Any) -> Any:
        moved.append(len(array))
        return CUPY.asarray(array)

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
