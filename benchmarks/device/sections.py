"""Parts of `python -m benchmarks.device` with cuDF, CuPy and workers."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.device.calls import same, texts
from benchmarks.device.kernels import seconds
from benchmarks.measure import table
from dcurate import (
    DaskExecutor,
    InlineExecutor,
    JsonlReader,
    LocalCluster,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    Resources,
    SemanticDuplicates,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup.semantic.kmeans import moved, nearest, seeds, sums_of
from dcurate.frames.convert import cudf
from dcurate.frames.gpus import texts_on_gpu
from dcurate.frames.text import TextColumn
from dcurate.frames.vectors import array_library
from dcurate.kernels.permutations import Permutations
from dcurate.kernels.words import word_signals
from dcurate_testing.device import CUDF, DOCUMENTED, by_cudf, clouds, curate, read_all, reader

Section = Callable[[bool], dict[str, Any]]


def frames(cpu: bool) -> dict[str, Any]:
    """cuDF beside ours."""
    library = cudf()
    right: dict[str, bool] = {}
    few = library.DataFrame({"text": list(DOCUMENTED)})
    draw = Permutations(np.array([1, 2, 3], np.uint32), np.array([4, 5, 6], np.uint32))
    right["MinHash as documented"] = by_cudf(few, draw, 0, 5).tolist() == list(DOCUMENTED.values())
    column = texts(32)
    whole = library.DataFrame({"text": library.Series(_strings(column))})
    drawn = Permutations.of_nemo(CUDF.num_hashes, CUDF.shingles.seed)
    seed = int(drawn.factors[0])
    on_gpu = texts_on_gpu(whole, "text")
    own, theirs = CUDF.signatures(on_gpu), by_cudf(whole, drawn, seed, CUDF.shingles.size)
    right["cuDF's MinHash equals ours"] = same(own, theirs)
    right["layout of a cuDF column"] = same(
        tuple(word_signals.gpu(on_gpu, np.arange(len(column)))),
        tuple(word_signals(*column, np.arange(len(column)))),
    )
    with tempfile.TemporaryDirectory() as folder:
        Pipeline("to_parquet", stages=[reader(fields=["text"]), ParquetWriter(folder)]).run(InlineExecutor())
        by_gpu, by_host = ParquetReader(folder, frames="cudf"), ParquetReader(folder)
        pairs = [(by_gpu.process(split), by_host.process(split)) for split in by_host.splits()]
        right["Parquet decoded on the GPU"] = all(
            one is not None and other is not None and one.to_pandas().equals(other.to_pandas()) for one, other in pairs
        )
    size = len(column.data)
    rates = {
        "ours": size / seconds(lambda: CUDF.signatures(on_gpu)) / 1e9,
        "cuDF": size / seconds(lambda: by_cudf(whole, drawn, seed, CUDF.shingles.size)) / 1e9,
    }
    print(table(["of cuDF", "right"], [[name, "yes" if value else "NO"] for name, value in right.items()]))
    print(f"MinHash of {CUDF.num_hashes} permutations: ours {rates['ours']:.2f} GB/s, cuDF {rates['cuDF']:.2f} GB/s")
    return {"right": all(right.values()), "checks": right, "minhash_gb_s": rates}


def _strings(column: TextColumn) -> list[str]:
    data = column.data.tobytes()
    return [data[start:stop].decode() for start, stop in pairwise(column.offsets.tolist())]


def workers(cpu: bool) -> dict[str, Any]:
    """GPU stages beside CPU stages on a cluster of this machine, without RMM: that takes cuDF."""
    if cpu:
        return _workers(LocalCluster(n_workers=1, simulate_gpus=1))
    return _workers(LocalCluster(n_workers=2, gpus=True, rmm_async=False))


def rmm(cpu: bool) -> dict[str, Any]:
    """The same with memory from a pool of RMM, and cuDF that spills."""
    return _workers(LocalCluster(n_workers=2, gpus=True, rmm_pool_size=0.5, enable_cudf_spill=True))


def _workers(cluster: LocalCluster) -> dict[str, Any]:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        expected = curate(f"{folder}/cpu", 0, InlineExecutor())
        with cluster:
            up = time.monotonic() - start
            found = curate(f"{folder}/gpu", 0.25, DaskExecutor(cluster=cluster))
    whole = time.monotonic() - start
    right = found == expected and len(found) > 0
    print(f"{sum(found.values())} rows, {'equal to' if right else 'NOT'} those of the CPU; cluster up after {up:.1f} s")
    return {"right": right, "rows": sum(found.values()), "up_s": up, "wall_s": whole}


def kmeans(cpu: bool) -> dict[str, Any]:
    """k-means and semantic duplicates with CuPy beside NumPy."""
    rows, clusters = (2000, 10) if cpu else (200_000, 1000)
    vectors, library = clouds(rows, 64 if cpu else 384), array_library(gpu=not cpu)
    begun = seeds(vectors[: 16 * clusters], clusters, 1, False)
    found, timed = {}, {}
    for name, one in (("NumPy", np), ("array library", library)):
        timed[name] = seconds(lambda one=one: sums_of(vectors, begun, 2**15, one), 1)  # type: ignore[misc]
        middles = begun
        for _ in range(3):
            middles, _ = moved(middles, sums_of(vectors, middles, 2**15, one), 0.0)
        found[name] = nearest(vectors, middles, one)[0]
    agree = float((found["NumPy"] == found["array library"]).mean())
    kept = [_semantic(vectors[: rows // 10], gpus) for gpus in (0, 0 if cpu else 1)]
    right = agree > 0.999 and kept[0] == kept[1] and 0 < kept[0] < rows // 10
    ratio = timed["NumPy"] / timed["array library"]
    print(
        f"{rows:,} x {vectors.shape[1]}, {clusters:,} clusters; a step: NumPy {timed['NumPy']:.3f} s, "
        f"{library.__name__} {timed['array library']:.3f} s ({ratio:.1f} times); labels agree {agree:.5f}"
    )
    print(f"SemanticDuplicates keeps {kept[0]:,} and {kept[1]:,} of {rows // 10:,} rows")
    return {"right": right, "labels_agree": agree, "step_s": timed, "kept": kept}


def _semantic(vectors: npt.NDArray[np.float32], gpus: float) -> int:
    """How many rows `SemanticDuplicates` keeps."""
    stage = SemanticDuplicates(n_clusters=20, eps=0.01).with_(resources=Resources(cpus=1, gpus=gpus))
    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(json.dumps({"embeddings": one}) + "\n" for one in vectors.tolist())
        Path(folder, "in.jsonl").write_text(rows)
        stages: list[AnyStage] = [JsonlReader(f"{folder}/in.jsonl"), stage, ParquetWriter(f"{folder}/out")]
        Pipeline("semantic", stages=stages).run(InlineExecutor())
        return sum(batch.num_items for batch in read_all(ParquetReader(f"{folder}/out")))


SECTIONS: dict[str, Section] = {"frames": frames, "workers": workers, "rmm": rmm, "kmeans": kmeans}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = SECTIONS[options.section](options.cpu)
    if options.json is not None:
        options.json.write_text(json.dumps(figures))
    return 0 if figures["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
