"""Semantic duplicates among made embeddings: how many planted pairs are found, CPU and memory by step and size.

    python -m benchmarks.semantic --rows 16000 --dim 384 --clusters 100 --sizes 1,4,16 --peer-python /peers/bin/python

Embeddings are drawn, not made by a model: a mixture of 1,000 Gaussians with a direction each, as wide as their centers
are far from 0. Every other file repeats a tenth of the rows of the file before it with a cosine similarity of 0.991 to
1 (the pairs to find at eps=0.01), and another tenth with 0.96 to 0.985 (which are none). A size of N has N times the
rows and the square root of N times the clusters. Everything runs in one process with one thread.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import (
    ROOT,
    called,
    job,
    machine,
    measure,
    plain,
    save,
    scratch_folder,
    table,
    versions,
    whole_sizes_given,
)
from dcurate import InlineExecutor, ParquetReader, ParquetWriter, Pipeline, SemanticDuplicates
from dcurate.core.pipeline import AnyStage
from dcurate.events import Event, RunEnded, RunStarted

EPS = 0.01
_FILE_ROWS = 4000
_GAUSSIANS = 1000
#: Thread pools of one, for us and for peers.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def scaled(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows of length one."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def near(draw: np.random.Generator, rows: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float64]:
    """For each row another with a cosine similarity between the two."""
    aside = draw.normal(size=rows.shape)
    aside = scaled(aside - (aside * rows).sum(axis=1, keepdims=True) * rows)
    cosine = draw.uniform(low, high, size=(len(rows), 1))
    return np.asarray(cosine * rows + np.sqrt(1 - cosine**2) * aside)


def make(folder: Path, rows: int, dimensions: int) -> None:
    """Write files of embeddings; ``id`` is the number of a row, ``of`` that of the row that it repeats or None."""
    folder.mkdir(parents=True, exist_ok=True)
    centers = scaled(np.random.default_rng(0).normal(size=(_GAUSSIANS, dimensions)))
    before = np.zeros((0, dimensions))
    for file, first in enumerate(range(0, rows, _FILE_ROWS)):
        draw = np.random.default_rng([1, file])
        count = min(_FILE_ROWS, rows - first)
        wide = draw.normal(size=(count, dimensions)) / np.sqrt(dimensions)
        vectors = scaled(centers[draw.integers(_GAUSSIANS, size=count)] + wide)
        of: list[int | None] = [None] * count
        if file % 2:
            pairs, share = draw.permutation(count), count // 10
            same, unlike = pairs[:share], pairs[share : 2 * share]
            vectors[same] = near(draw, before[same], 1 - EPS + 0.001, 1.0)
            vectors[unlike] = near(draw, before[unlike], 0.96, 0.985)
            for row in same.tolist():
                of[row] = first - _FILE_ROWS + row
        before = vectors
        flat = pa.array(vectors.astype(np.float32).reshape(-1))
        columns = {"id": range(first, first + count), "of": pa.array(of, pa.int64())}
        content = pa.table({**columns, "embeddings": pa.FixedSizeListArray.from_arrays(flat, dimensions)})
        pq.write_table(content, folder / f"{file:05}.parquet")


class Steps:
    """CPU-seconds of each round of a run, and the most memory in use until its end."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, float]] = {}
        self._name, self._began = "", time.process_time()

    def on_event(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._name = _step(event.operators[-1][-1])
        if isinstance(event, RunEnded):
            now = time.process_time()
            step = self.figures.setdefault(self._name, {"cpu_s": 0.0, "peak_rss_mb": 0.0, "rounds": 0})
            step["cpu_s"] += now - self._began
            step["rounds"] += 1
            step["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            self._began = now


def _step(sink: str) -> str:
    name = sink.removeprefix("semantic_duplicates").removesuffix("_to_disk").strip("_")
    if name.startswith(("seeds", "sample", "fit")):
        return "k-means"
    return {"": "stage", "clusters": "assign", "marks": "compare"}.get(name, "write")


def work(source: str, output: str, clusters: int, blocksize: int) -> dict[str, Any]:
    """Find duplicates in this process; which ids are left out."""
    steps = Steps()
    find = SemanticDuplicates(n_clusters=clusters, eps=EPS, id_field="id", blocksize=blocksize)
    stages: list[AnyStage] = [ParquetReader(source), find, ParquetWriter(output, mode="overwrite")]
    Pipeline("semantic", stages=stages).run(InlineExecutor(), observers=[steps])
    kept = pq.read_table(output, columns=["id"])["id"].to_numpy()
    every = pq.read_table(source, columns=["id"])["id"].to_numpy()
    return {"dropped": np.setdiff1d(every, kept).tolist(), "steps": steps.figures}


def verdict(source: Path, dropped: Sequence[int]) -> dict[str, float]:
    """Recall of the pairs that were planted, and how many of the rows that are left out belong to one."""
    rows = pq.read_table(source, columns=["id", "of"])
    copies = rows.filter(rows["of"].is_valid())
    gone = np.array(dropped, np.int64)
    copy, origin = copies["id"].to_numpy(), copies["of"].to_numpy()
    found = np.isin(copy, gone) | np.isin(origin, gone)
    planted = np.isin(gone, np.concatenate([copy, origin]))
    return {"pairs": len(copy), "recall": float(found.mean()), "precision": float(planted.mean()) if len(gone) else 1.0}


def one(command: Sequence[str], source: Path, repeat: int) -> dict[str, Any]:
    """Run a command that answers with the ids that it leaves out, and judge it; the run of median cost counts."""
    runs = sorted((measure(command, env=ONE_THREAD) for _ in range(repeat)), key=lambda usage: usage.cpu_s)
    usage = runs[(repeat - 1) // 2]
    answer = usage.result
    return {
        "cpu_s": usage.cpu_s,
        "wall_s": usage.wall_s,
        "peak_rss_mb": usage.tree.rss_mb,
        "runs": [plain(run) for run in runs],
        **verdict(source, answer["dropped"]),
        "steps": answer.get("steps", {}),
    }


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Measure every size."""
    figures: dict[str, Any] = {"dcurate": [], "sklearn": []}
    for times in (int(number) for number in options.sizes.split(",")):
        source, clusters = scratch / f"{times}x", round(options.clusters * times**0.5)
        about = {"times": times, "rows": options.rows * times, "clusters": clusters}
        make(source, options.rows * times, options.dim)
        ours = job(
            "benchmarks.semantic:work",
            source=str(source),
            output=str(scratch / f"out-{times}"),
            clusters=clusters,
            blocksize=options.blocksize * 2**20,
        )
        figures["dcurate"].append({**about, **one(ours, source, options.repeat)})
        if options.peer_python is not None:
            script = ROOT / "benchmarks" / "peers" / "semantic_sklearn.py"
            theirs = [str(options.peer_python), str(script), str(source), str(clusters), str(EPS)]
            figures["sklearn"].append({**about, **one(theirs, source, options.repeat)})
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    rows = []
    for tool in ("dcurate", "sklearn"):
        for each in figures[tool]:
            sizes = [f"{each['rows']:,}", each["clusters"], each["pairs"], each["recall"], each["precision"]]
            rows.append([tool, *sizes, each["cpu_s"], 1e6 * each["cpu_s"] / each["rows"], each["peak_rss_mb"]])
    header = ["tool", "rows", "clusters", "pairs", "recall", "precision", "CPU-s", "CPU-us a row", "peak RSS MB"]
    print(table(header, rows))
    print("\nsteps of dcurate: CPU-seconds (and most memory until their end, MB)\n")
    names = list(figures["dcurate"][0]["steps"])
    lines = [
        [f"{each['rows']:,}", *(f"{step['cpu_s']:.1f} ({step['peak_rss_mb']:.0f})" for step in each["steps"].values())]
        for each in figures["dcurate"]
    ]
    print(table(["rows", *names], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16_000, help="of the smallest size")
    parser.add_argument("--dim", type=int, default=384, help="numbers of an embedding")
    parser.add_argument("--clusters", type=int, default=100, help="of the smallest size")
    parser.add_argument(
        "--sizes", type=whole_sizes_given, default="1,4,16", metavar="N,M", help="how many times as many rows"
    )
    parser.add_argument(
        "--blocksize", type=int, default=16, metavar="MIB", help="of embeddings that are held at a time"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the median counts")
    parser.add_argument("--peer-python", type=Path, help="Python that has scikit-learn and pyarrow")
    parser.add_argument("--scratch", metavar="DIR", help="where the data stand for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    about = {"machine": machine(), "versions": versions("dcurate", "numpy", "pyarrow")}
    with scratch_folder("semantic", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    asked = {name: getattr(options, name) for name in ("rows", "dim", "clusters", "sizes", "blocksize")}
    save(options.json, {**figures, "asked": asked, **about})


if __name__ == "__main__":
    called(main)
