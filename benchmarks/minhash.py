"""How well MinHash signatures estimate similarity and find near-duplicates, and how fast they are made on one core.

    python -m benchmarks.minhash --docs docs.jsonl.zst --pairs pairs.jsonl.zst --input part-00.jsonl.zst

``docs`` are JSONL with ``id`` and ``text``, ``pairs`` with ``a``, ``b`` (ids) and ``jaccard_w5``: the exact Jaccard
similarity of their sets of shingles of five words. Besides the whole texts their beginnings are looked at, cut to 20,
50, 100 and 200 words. MB are 10**6 bytes of UTF-8 text; seconds are CPU seconds of the process, the median of several
runs. A peer is run in its own environment: ``--peer-python rensa=/venv/bin/python``.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.measure import machine, save, table, versions
from dcurate.dedup import Bands, MinHash, Shingles
from dcurate.dedup.minhash import estimated, jaccard
from dcurate.frames.text import TextColumn, column_of
from dcurate.fs.compression import ending_of, unpack
from dcurate.kernels.sets import Sets

Ints = npt.NDArray[np.int64]
Signatures = npt.NDArray[np.uint32]

THRESHOLDS = (0.7, 0.8, 0.9)
HASHES = (64, 128, 256, 512)
CUTS = (20, 50, 100, 200)
SEEDS = (1, 2, 3)
#: Pairs of less similarity say nothing about near-duplicates.
LEAST = 0.5
PAIRS = 200_000
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class PairSample:
    """Pairs of texts and their exact similarity."""

    name: str
    column: TextColumn
    left: Ints
    right: Ints
    similarity: npt.NDArray[np.float64]

    def of_at_least(self, least: float) -> PairSample:
        chosen = (self.similarity >= least) & (self.similarity < 1)
        return PairSample(self.name, self.column, self.left[chosen], self.right[chosen], self.similarity[chosen])


def rows_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of JSONL files, plain or compressed."""
    contents = (unpack(path.read_bytes(), ending_of(path.name), path.name) for path in paths)
    return [orjson.loads(line) for content in contents for line in content.splitlines() if line.strip()]


def layout(texts: Iterable[str]) -> TextColumn:
    return column_of(text.encode(errors="replace") for text in texts)


def cut(text: str, words: int) -> str:
    """The beginning of a text, of so many words."""
    ends = [match.end() for match in _WORD.finditer(text)]
    return text[: ends[words - 1]] if len(ends) > words else text


def samples(docs: Path, pairs: Path) -> list[PairSample]:
    """The labelled pairs, and those of the beginnings of their texts, whose similarity is taken from whole sets."""
    rows = rows_of([docs])
    places = {row["id"]: place for place, row in enumerate(rows)}
    labelled = rows_of([pairs])
    left, right = (np.array([places[pair[side]] for pair in labelled]) for side in "ab")
    truth = np.array([pair["jaccard_w5"] for pair in labelled])
    made = [PairSample("whole", layout(row["text"] for row in rows), left, right, truth)]
    for words in CUTS:
        column = layout(cut(row["text"], words) for row in rows)
        exact = jaccard(MinHash().sets(column, np.arange(len(rows)), None), left, right)
        made.append(PairSample(f"{words} words", column, left, right, exact))
    return [sample.of_at_least(LEAST) for sample in made]


def densified(sets: Sets, bins: int) -> Signatures:
    """Signatures of one permutation whose empty bins copy another one (Shrivastava, 2017): to compare with."""
    empty = np.uint32(2**32 - 1)
    keys = sets.values.astype(np.uint64)
    for shift, factor in ((16, 0x9E3779B97F4A7C15), (29, 0xBF58476D1CE4E5B9)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    owners = np.repeat(np.arange(len(sets)), np.diff(sets.bounds))
    places = ((keys >> np.uint64(32)) * np.uint64(bins)) >> np.uint64(32)
    made = np.full((len(sets), bins), empty)
    np.minimum.at(made, (owners, places.astype(np.int64)), (keys & np.uint64(2**32 - 1)).astype(np.uint32))
    filled = made.copy()
    rng = np.random.default_rng(bins)
    some = np.flatnonzero(np.diff(sets.bounds))
    while some.size:
        rows = filled[some]
        filled[some] = np.where(rows == empty, made[some][:, rng.integers(0, bins, bins)], rows)
        some = some[(filled[some] == empty).any(axis=1)]
    return filled


def signatures_by(method: str, column: TextColumn, hashes: int, seed: int) -> Signatures:
    shingles = Shingles(seed=seed)
    if method == "optimal densification":
        return densified(MinHash(shingles).sets(column, np.arange(len(column)), None), hashes)
    return MinHash(shingles, hashes, method).signatures(column)  # type: ignore[arg-type]


def quality(sample: PairSample, make: Callable[[TextColumn, int], Signatures]) -> dict[str, Any]:
    """Bias and RMSE of the estimate, and the share of pairs that become candidates, by similarity; over all seeds."""
    errors = []
    found: dict[float, list[npt.NDArray[np.bool_]]] = {threshold: [] for threshold in THRESHOLDS}
    truth = sample.similarity
    for seed in SEEDS:
        made = make(sample.column, seed)
        errors.append(estimated(made, sample.left, sample.right) - truth)
        for threshold in THRESHOLDS:
            keys = Bands.for_threshold(threshold, made.shape[1]).keys(made)
            found[threshold].append((keys[sample.left] == keys[sample.right]).any(axis=1))
    recall = {}
    for threshold, hits in found.items():
        rates = np.mean(hits, axis=0)
        zones = {
            "below": (truth >= threshold - 0.2) & (truth < threshold),
            "to_0.05_above": (truth >= threshold) & (truth < threshold + 0.05),
            "beyond": truth >= threshold + 0.05,
            "all": truth >= threshold,
        }
        recall[str(threshold)] = {zone: mean(rates[members]) for zone, members in zones.items()}
    every = np.array(errors)
    return {"bias": mean(every), "rmse": round(float(np.sqrt((every**2).mean())), 4), "recall": recall}


def mean(values: npt.NDArray[Any]) -> float | None:
    return round(float(values.mean()), 4) if values.size else None


def median_s(work: Callable[[], Any], repeat: int) -> float:
    """CPU seconds of a run, the median of several; one before them does not count."""
    work()
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def speeds(column: TextColumn, repeat: int) -> dict[str, Any]:
    """MB/s of each way to make signatures and sets; texts, or pairs, a second of the rest."""
    size, rows = len(column.data) / 1e6, np.arange(len(column))
    words, characters = Shingles(), Shingles(24, "characters")
    makers = [
        *(MinHash(words, hashes, method) for method in ("one_permutation", "permutations") for hashes in (128, 256)),
        *(MinHash(characters, hashes) for hashes in (128, 256)),
        MinHash(characters, 256, "permutations"),
        MinHash(characters, 260, "cudf"),
    ]
    rates = {
        f"{made.method}, {made.num_hashes} hashes, {made.shingles.size} {made.shingles.unit}": round(
            size / median_s(partial(made.signatures, column), repeat), 1
        )
        for made in makers
    }
    minhash = MinHash()
    rates["sets of at most 4096"] = round(size / median_s(lambda: minhash.sets(column, rows), repeat), 1)
    rates["sets, whole"] = round(size / median_s(lambda: minhash.sets(column, rows, None), repeat), 1)
    sets, signatures = minhash.sets(column, rows), minhash.signatures(column)
    left, right = np.random.default_rng(0).integers(0, len(column), (2, PAIRS))
    bands = Bands.for_threshold(0.8, minhash.num_hashes)
    return {
        "mb": round(size, 1),
        "documents": len(column),
        "mb_per_cpu_s": rates,
        "per_cpu_s": {
            "pairs, exact": round(PAIRS / median_s(lambda: jaccard(sets, left, right), repeat)),
            "pairs, estimated": round(PAIRS / median_s(lambda: estimated(signatures, left, right), repeat)),
            f"documents, keys of {bands.bands} bands": round(
                len(column) / median_s(lambda: bands.keys(signatures), repeat)
            ),
        },
    }


def some_of(sample: PairSample, most: int) -> PairSample:
    """Some of the pairs, and the texts that they are of."""
    chosen = np.random.default_rng(1).permutation(len(sample.left))[:most]
    places, pairs = np.unique(np.stack([sample.left[chosen], sample.right[chosen]]), return_inverse=True)
    texts = (bytes(sample.column.data[slice(*sample.column.offsets[place : place + 2])]) for place in places)
    left, right = pairs.reshape(2, -1)
    return PairSample(sample.name, column_of(texts), left, right, sample.similarity[chosen])


def by_peer(library: str, python: str, sample: PairSample) -> dict[str, Any]:
    """The figures of another library; 128 hashes of the same shingles."""
    bounds = sample.column.offsets.tolist()
    texts = [bytes(sample.column.data[start:stop]).decode() for start, stop in pairwise(bounds)]
    script = Path(__file__).parent / "peers" / "run_minhash.py"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"texts": texts, "pairs": np.stack([sample.left, sample.right], axis=1).tolist()}, file)
        file.flush()
        ended = subprocess.run([python, script, library, file.name], capture_output=True, text=True, check=True)
    answer = json.loads(ended.stdout.strip().rpartition("\n")[2])
    return {"version": answer["version"], **compared(sample, np.array(answer["estimates"]), answer)}


def by_us(sample: PairSample, repeat: int) -> dict[str, Any]:
    """The figures of dcurate for the same."""
    minhash = MinHash(num_hashes=128)
    seconds = median_s(lambda: minhash.signatures(sample.column), repeat)
    estimates = estimated(minhash.signatures(sample.column), sample.left, sample.right)
    return {"version": version("dcurate"), **compared(sample, estimates, {"cpu_s": seconds})}


def compared(sample: PairSample, estimates: npt.NDArray[np.float64], seconds: dict[str, float]) -> dict[str, Any]:
    size = len(sample.column.data) / 1e6
    errors = estimates - sample.similarity
    without = seconds.get("hash_cpu_s")
    return {
        "mb": round(size, 2),
        "mb_per_cpu_s": round(size / seconds["cpu_s"], 2),
        "mb_per_cpu_s_without_shingling": round(size / without, 2) if without else None,
        "bias": mean(errors),
        "rmse": round(float(np.sqrt((errors**2).mean())), 4),
    }


def report(figures: dict[str, Any]) -> str:
    """The figures as text."""
    lines = [
        "Pairs of real edits; candidates by bands for each threshold, share of pairs found: from 0.2 below to the",
        "threshold, up to 0.05 above it, beyond, and all from the threshold on. Mean of three seeds.",
    ]
    zones = ("below", "to_0.05_above", "beyond", "all")
    header = [
        "method",
        "hashes",
        "bias",
        "RMSE",
        *(f"{t} {z}" for t in THRESHOLDS for z in ("below", "+0.05", ">", ">=")),
    ]
    for name, sample in figures["quality"].items():
        rows = [
            [
                *(one["method"], one["hashes"], f"{one['bias']:+.4f}", f"{one['rmse']:.4f}"),
                *(one["recall"][str(threshold)][zone] for threshold in THRESHOLDS for zone in zones),
            ]
            for one in sample["figures"]
        ]
        lines += ["", f"{name}: {sample['pairs']} pairs of a similarity of {LEAST} or more", table(header, rows)]
    speed = figures["speed"]
    lines += ["", f"{speed['documents']} documents, {speed['mb']} MB, one core"]
    lines += [table(["from text to", "MB/s"], list(speed["mb_per_cpu_s"].items()))]
    lines += ["", table(["one core", "a second"], list(speed["per_cpu_s"].items()))]
    header = ["128 hashes, 5 words", "MB/s", "without shingling", "bias", "RMSE"]
    keys = ("mb_per_cpu_s", "mb_per_cpu_s_without_shingling", "bias", "rmse")
    rows = [[f"{name} {one['version']}", *(one[key] for key in keys)] for name, one in figures["libraries"].items()]
    lines += ["", table(header, rows)]
    return "\n".join([*lines, "", f"load before: {figures['machine']['load_before']}"])


def measured(labelled: Sequence[PairSample]) -> dict[str, Any]:
    """The quality of each method on each sample."""
    methods = ("one_permutation", "permutations", "optimal densification")
    return {
        sample.name: {
            "pairs": len(sample.left),
            "figures": [
                {
                    "method": method,
                    "hashes": hashes,
                    **quality(sample, lambda column, seed: signatures_by(method, column, hashes, seed)),  # noqa: B023
                }
                for hashes in HASHES
                for method in methods
            ],
        }
        for sample in labelled
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, required=True, help="JSONL of documents, plain or compressed")
    parser.add_argument("--pairs", type=Path, required=True, help="JSONL of labelled pairs of them")
    parser.add_argument("--input", type=Path, required=True, nargs="+", help="JSONL files to measure the speed on")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--repeat", type=int, default=5, help="runs, of which the median counts")
    parser.add_argument("--peer-python", action="append", default=[], metavar="NAME=PATH", help="rensa or datasketch")
    parser.add_argument("--peer-pairs", type=int, default=400, help="labelled pairs to compare libraries on")
    given = parser.parse_args()
    about = {"machine": machine(), "versions": versions("numba", "numpy", "llvmlite")}
    labelled = samples(given.docs, given.pairs)
    column = layout(row["text"] for row in rows_of(given.input))
    peers = dict(peer.split("=", 1) for peer in given.peer_python)
    some = some_of(labelled[0], given.peer_pairs)
    figures = {
        **about,
        "speed": speeds(column, given.repeat),
        "libraries": {
            "dcurate": by_us(some, given.repeat),
            **{name: by_peer(name, path, some) for name, path in peers.items()},
        },
        "quality": measured(labelled),
    }
    print(report(figures))
    save(given.json, figures)


if __name__ == "__main__":
    main()
