"""How fast the built-in filters are on one core, against plain Python for the same rules.

    python -m benchmarks.signals --input /data/part-00.jsonl.zst --json signals.json

MB are 10**6 bytes of UTF-8 text; seconds are CPU seconds of the process, the best of several runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import zstandard

from dcurate import BatchKey, DocumentBatch, ScoreFilter
from dcurate.frames.text import TextColumn, text_column
from dcurate.kernels.characters import character_signals
from dcurate.kernels.lines import line_signals, paragraph_signals
from dcurate.kernels.ngrams import ngram_signals
from dcurate.kernels.urls import url_signals
from dcurate.kernels.words import word_signals
from dcurate.text import RepeatingDuplicateNGramsFilter, RepeatingTopNGramsFilter, SignalFilter, Signals
from dcurate.text.boilerplate import boilerplate_signals
from dcurate_testing.filter_oracle import RULES, duplicate_ngrams, top_ngram

Rule = tuple[SignalFilter, Callable[[str], float]]

_DOZEN = (
    *("alpha_numeric", "symbol_to_word", "numbers_ratio", "white_space", "repeated_lines", "repeated_paragraphs"),
    *("word_count", "punctuation", "words_without_alphabets", "mean_word_length", "ellipsis", "bullet_ratio"),
)
_TOPS = ((2, 0.2), (3, 0.18), (4, 0.16))
_DUPLICATES = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.1))
_NGRAMS: list[Rule] = [
    *((RepeatingTopNGramsFilter(n, most), lambda text, n=n: top_ngram(text, n)) for n, most in _TOPS),
    *(
        (RepeatingDuplicateNGramsFilter(n, most), lambda text, n=n: duplicate_ngrams(text, n))
        for n, most in _DUPLICATES
    ),
]
_SINGLE: list[Rule] = list({rule.name: (rule, expected) for rule, expected in reversed(RULES)}.values())[::-1]
_LIGHT = [rule for rule in _SINGLE if not rule[0].name.startswith("repeating_")]

_START = """
import time
from benchmarks.signals import warm_all
start = time.perf_counter()
warm_all()
print(time.perf_counter() - start)
"""


def warm_all() -> None:
    """Make every kernel ready."""
    ScoreFilter([rule for rule, _ in _LIGHT + _NGRAMS]).setup_on_node()


def texts(source: Path, megabytes: float) -> Iterator[str]:
    """Texts of a JSONL file, compressed or not, or of all in a folder, up to a number of megabytes."""
    left = megabytes * 1e6
    for path in sorted(source.glob("*.jsonl*")) if source.is_dir() else [source]:
        with path.open("rb") as raw:
            opened = zstandard.ZstdDecompressor().stream_reader(raw) if path.suffix == ".zst" else raw
            for line in opened.read().splitlines():
                text = orjson.loads(line)["text"]
                yield text
                left -= len(text.encode())
                if left < 0:
                    return


def speed(work: Callable[[], Any], size: int, times: int) -> float:
    """MB a second of CPU time, the best of several runs."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return round(size / 1e6 / best, 1)


def chain(rules: list[Rule]) -> Any:
    """One stage for the filters, merged as the planner merges stages that follow one another."""
    stages: list[Any] = [ScoreFilter(rule) for rule, _ in rules]
    return reduce(lambda merged, stage: merged.fuse_with(stage), stages)


def by_hand(rules: list[Rule], documents: list[str]) -> list[str]:
    """The same in plain Python: each filter on what the one before left."""
    for rule, expected in rules:
        documents = [text for text in documents if rule.keep_document(expected(text))]
    return documents


def kernel_speeds(column: TextColumn, times: int) -> dict[str, float]:
    """MB/s of each kernel over all texts."""
    rows = np.arange(len(column), dtype=np.int64)
    size = int(column.offsets[-1] - column.offsets[0])
    calls: dict[str, Callable[[], Any]] = {
        "characters": lambda: character_signals(*column, rows),
        "words": lambda: word_signals(*column, rows),
        "lines": lambda: line_signals(*column, rows),
        "paragraphs": lambda: paragraph_signals(*column, rows),
        "addresses": lambda: url_signals(*column, rows),
        "phrases of boilerplate": lambda: boilerplate_signals(*column, rows),
        "n-grams, top 2": lambda: ngram_signals(*column, rows, [2]),
        "n-grams, duplicate 5": lambda: ngram_signals(*column, rows, (), [5]),
        "n-grams, top 2-4 and duplicate 5-10": lambda: ngram_signals(*column, rows, [2, 3, 4], [5, 6, 7, 8, 9, 10]),
    }
    return {name: speed(call, size, times) for name, call in calls.items()}


def filter_speeds(documents: list[str], sample: list[str], times: int) -> dict[str, tuple[float, float]]:
    """MB/s of each filter by itself, and of plain Python for its rule."""
    column = text_column(pa.table({"text": documents}), "text")
    size, sample_size = len(column.data), sum(len(text.encode()) for text in sample)
    return {
        rule.name: (
            speed(lambda rule=rule: rule.keep(rule.score(Signals(column, rule.needs))), size, times),  # type: ignore[misc]
            speed(lambda rule=expected: [rule(text) for text in sample], sample_size, 2),  # type: ignore[misc]
        )
        for rule, expected in _LIGHT + _NGRAMS
    }


def chain_speeds(documents: list[str], sample: list[str], times: int) -> dict[str, tuple[float, float]]:
    """MB/s of chains of filters in one pass, rows filtered, and of plain Python for the same; both keep the same."""
    batch = DocumentBatch(key=BatchKey("benchmark"), data=pa.table({"text": pa.array(documents, pa.large_string())}))
    small = DocumentBatch(key=BatchKey("sample"), data=pa.table({"text": sample}))
    size, sample_size = (sum(len(text.encode()) for text in given) for given in (documents, sample))
    dozen = [rule for rule in _LIGHT if rule[0].name in _DOZEN]
    chains = {f"the dozen ({len(dozen)})": dozen, f"all, with n-grams ({len(_LIGHT + _NGRAMS)})": _LIGHT + _NGRAMS}
    speeds = {}
    for name, rules in chains.items():
        stage = chain(rules)
        if stage.process(small).to_arrow()["text"].to_pylist() != by_hand(rules, sample):
            raise SystemExit(f"{name}: the kernels and plain Python keep different documents")
        speeds[name] = (
            speed(lambda stage=stage: stage.process(batch), size, times),  # type: ignore[misc]
            speed(lambda rules=rules: by_hand(rules, sample), sample_size, 2),  # type: ignore[misc]
        )
    return speeds


def start_seconds() -> dict[str, float]:
    """Wall seconds to make all kernels ready in a new process, imports aside: compiling, and from the cache on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = [
            float(
                subprocess.run([sys.executable, "-c", _START], env=environment, check=True, capture_output=True).stdout
            )
            for _ in range(3)
        ]
    return {"compiled": round(runs[0], 2), "from the cache": round(min(runs[1:]), 2)}


def report(result: dict[str, Any]) -> str:
    """The figures as text."""
    lines = [result["data"], "", "kernel                                    MB/s a core"]
    lines += [f"{name:42}{mb_s:10.0f}" for name, mb_s in result["kernels"].items()]
    for title in ("filters", "chains"):
        lines += ["", f"{title:42}{'MB/s a core':>12}{'plain Python':>14}{'times':>8}"]
        lines += [
            f"{name:42}{ours:12.0f}{plain:14.1f}{ours / plain:8.0f}" for name, (ours, plain) in result[title].items()
        ]
    lines += ["", *(f"kernels ready in a new process, {how}: {seconds} s" for how, seconds in result["start"].items())]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSONL file, .zst or not, or a folder of them")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--megabytes", type=float, default=16.0, help="of text to read")
    parser.add_argument("--times", type=int, default=7, help="runs, of which the best counts")
    given = parser.parse_args()
    documents = list(texts(given.input, given.megabytes))
    sample = documents[: max(len(documents) // 8, 1)]
    column = text_column(pa.table({"text": documents}), "text")
    warm_all()
    result = {
        "data": f"{len(documents)} documents, {len(column.data) / 1e6:.1f} MB; plain Python on {len(sample)} of them",
        "kernels": kernel_speeds(column, given.times),
        "filters": filter_speeds(documents, sample, given.times),
        "chains": chain_speeds(documents, sample, given.times),
        "start": start_seconds(),
    }
    print(report(result))
    if given.json:
        given.json.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
