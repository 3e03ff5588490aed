"""How fast n-grams of benchmarks are found in documents on one core, beside plain Python for the same rule.

    python -m benchmarks.decontamination --input /data/part-00.jsonl.zst --tasks /data/part-01.jsonl.zst

The first n-grams of the texts in ``--tasks`` stand for benchmarks, as many as each size in ``--ngrams`` says. Both ways
must find the same. MB are 10**6 bytes of UTF-8; seconds are CPU seconds of the process, the best of several runs.
"""

from __future__ import annotations

import argparse
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import called, machine, save, table, versions
from benchmarks.rows import texts
from benchmarks.signals import speed
from dcurate.dedup import NgramIndex
from dcurate.frames.text import text_column
from dcurate_testing.word_oracle import words

_SIZE = 13


def first_texts(given: list[str], ngrams: int) -> list[str]:
    """As many of the texts as hold so many n-grams, the last of them cut."""
    counts = [max(len(words(text)) - _SIZE + 1, 0) for text in given]
    full = [text for text, total in zip(given, accumulate(counts), strict=True) if total <= ngrams]
    left = ngrams - sum(counts[: len(full)])
    rest = [" ".join(word for word, _, _ in words(text)[: left + _SIZE - 1]) for text in given[len(full) :][:1]]
    return full + (rest if left > 0 else [])


def plain(documents: list[str], grams: set[tuple[str, ...]]) -> int:
    """How many n-grams of a set stand in documents, by plain Python."""
    found = 0
    for text in documents:
        held = [word for word, _, _ in words(text)]
        found += sum(tuple(held[at : at + _SIZE]) in grams for at in range(len(held) - _SIZE + 1))
    return found


def measured(documents: list[str], tasks: list[str], times: int) -> dict[str, Any]:
    """Figures for an index of the n-grams of some texts."""
    column = text_column(pa.table({"text": pa.array(documents, pa.large_string())}), "text")
    sample = documents[: max(len(documents) // 40, 1)]
    small = text_column(pa.table({"text": pa.array(sample, pa.large_string())}), "text")
    index = NgramIndex.of_texts({"tasks": tasks})
    grams = {tuple(index.text_of(gram).split()) for gram in range(len(index))}
    matches = index.find(column)
    if len(index.find(small).grams) != plain(sample, grams):
        raise SystemExit("the kernel and plain Python find different n-grams")
    return {
        "ngrams": len(index),
        "matches": len(matches.grams),
        "documents": int((matches.bounds[1:] > matches.bounds[:-1]).sum()),
        "build_mb_s": speed(lambda: NgramIndex.of_texts({"tasks": tasks}), sum(len(t.encode()) for t in tasks), times),
        "find_mb_s": speed(lambda: index.find(column), int(column.offsets[-1]), times),
        "plain_mb_s": speed(lambda: plain(sample, grams), int(small.offsets[-1]), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSONL file, .zst or not, or a folder of them")
    parser.add_argument("--tasks", type=Path, required=True, help="the same, for what stands for benchmarks")
    parser.add_argument("--ngrams", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--megabytes", type=float, default=16.0, help="of documents to read")
    parser.add_argument("--times", type=int, default=5, help="runs, of which the best counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    documents = list(texts(options.input, options.megabytes))
    tasks = list(texts(options.tasks, max(options.ngrams) * 8 / 1e6 + 1))
    indexes = [measured(documents, first_texts(tasks, ngrams), options.times) for ngrams in options.ngrams]
    size = sum(len(text.encode()) for text in documents) / 1e6
    figures = {
        "data": f"{len(documents):,} documents, {size:.1f} MB; n-grams of {_SIZE} words",
        "indexes": indexes,
        "machine": machine(),
        "versions": versions("dcurate", "numba", "numpy"),
    }
    header = ["n-grams", "documents with one", "build MB/s", "find MB/s", "plain Python MB/s", "times"]
    rows = [
        [
            *(f"{index['ngrams']:,}", index["documents"], index["build_mb_s"], index["find_mb_s"], index["plain_mb_s"]),
            round(index["find_mb_s"] / max(index["plain_mb_s"], 0.1)),
        ]
        for index in indexes
    ]
    print(f"{figures['data']}\n\n{table(header, rows)}")
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
