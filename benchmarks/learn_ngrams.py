"""N-gram models trained on texts: CPU, peak memory and disk by the size of the texts, and pruned ones.

    python -m benchmarks.learn_ngrams --corpus DIR --json FILE

The corpus holds JSONL with ``text``, plain or compressed. Each model is trained in a process of its own, without
workers; CPU-seconds are those of the process with its start and its kernels' compilation, if they are not on this
machine yet. MB are 10**6 bytes of UTF-8 of the texts. lmplz, which has the same formulas, is in no package of Python.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.measure import called, job, machine, measure, save, table, versions

SIZES = 4_000_000, 16_000_000, 64_000_000


def train(texts: str, model: str, min_counts: Sequence[int]) -> None:
    """Train a model of 5-grams, where lines are sentences."""
    from dcurate import DocumentReader, InlineExecutor, Pipeline  # noqa: PLC0415
    from dcurate.learn import TrainNgrams  # noqa: PLC0415

    stages = [DocumentReader(texts, blocksize="8MB"), TrainNgrams(model, min_counts=min_counts, by_line=True)]
    Pipeline("train", stages=stages).run(InlineExecutor(), observers=[])


def trained(corpus: Path, size: int, min_counts: Sequence[int]) -> dict[str, Any]:
    """The figures of a model of some of the texts."""
    from benchmarks.learn_encoders import texts_of  # noqa: PLC0415 - it imports torch, which the training does not need

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        texts = texts_of(corpus, size)
        for number in range(0, len(texts), 1000):
            lines = [orjson.dumps({"text": text}) for text in texts[number : number + 1000]]
            (folder / "in" / f"{number:07}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        arguments = {"texts": str(folder / "in"), "model": str(folder / "model.arpa"), "min_counts": list(min_counts)}
        usage = measure(job("benchmarks.learn_ngrams:train", **arguments))
        header = (folder / "model.arpa").open().read(400).split("\n\n")[0].splitlines()[1:]
        megabytes = sum(len(text.encode()) for text in texts) / 1e6
        return {
            "mb": round(megabytes, 1),
            "min_counts": list(min_counts),
            "ngrams": [int(line.partition("=")[2]) for line in header],
            "cpu_s": round(usage.cpu_s, 1),
            "mb_per_cpu_s": round(megabytes / usage.cpu_s, 2),
            "peak_mb": round(usage.root.rss_mb),
            "model_mb": round((folder / "model.arpa").stat().st_size / 1e6, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .jsonl or .jsonl.zst files")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes of texts, about")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    trained(options.corpus, 100_000, (1,))  # compiles the kernels
    figures = [trained(options.corpus, size, (1,)) for size in options.sizes]
    figures.append(trained(options.corpus, options.sizes[-1], (1, 1, 2)))
    columns = ("mb", "min_counts", "cpu_s", "mb_per_cpu_s", "peak_mb", "model_mb", "ngrams")
    print(table(columns, [[str(row[column]) for column in columns] for row in figures]))
    everything = {"machine": machine(), "versions": versions("numba", "numpy", "pyarrow"), "train": figures}
    print(json.dumps({name: everything[name] for name in ("machine", "versions")}, indent=1))
    save(options.json, everything)


if __name__ == "__main__":
    called(main)
