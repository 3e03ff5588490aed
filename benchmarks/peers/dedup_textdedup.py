"""text-dedup's MinHash and exact deduplication. Runs in an environment with text-dedup and orjson.

Its own command line, as its README calls it; the output is a data set on disk in Arrow's form, as it writes no JSONL.
See ``documents.main``.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from documents import about, cpu_s, main, texts, write_groups
from pyarrow import ipc
from text_dedup.utils import optimal_param

HASHES = 256
THRESHOLD = "0.8"


def versions() -> dict[str, Any]:
    rules = [f"text_dedup.minhash at the threshold, {HASHES} hashes of 5 words", "text_dedup.exact_hash"]
    return about(rules, ["text-dedup", "datasets", "numpy"])


def _call(module: str, source: str, output: str, workers: str, *options: str) -> None:
    command = [sys.executable, "-m", f"text_dedup.{module}", "--path", "json", "--data_files", f"{source}/*.jsonl"]
    command += ["--split", "train", "--cache_dir", f"{output}/cache", "--output", f"{output}/kept", "--column", "text"]
    environment = {**os.environ, "HF_HOME": f"{output}/cache", "HF_HUB_OFFLINE": "1"}
    command += ["--num_proc", workers, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])


def _minhash(source: str, output: str, workers: str, threshold: str) -> None:
    shape = ("--ngram", "5", "--num_perm", str(HASHES), "--threshold", threshold, "--hash_func", "xxh3", "--debug")
    _call("minhash", source, output, workers, *shape)


def groups(source: str, target: str, *thresholds: str) -> dict[str, Any]:
    for threshold in thresholds:
        output = f"{target}/work-{threshold}"
        _minhash(source, output, "2", threshold)
        found = pickle.loads(Path(output, "kept", "uf.pkl").read_bytes())
        labels = [int(found.find(number)) for number, _ in enumerate(texts(source))]
        write_groups(target, threshold, labels, [label == number for number, label in enumerate(labels)], None)
    return {"cpu_s": cpu_s(), "bands": {threshold: optimal_param(float(threshold), HASHES) for threshold in thresholds}}


def fuzzy(source: str, output: str, workers: str) -> dict[str, Any]:
    _minhash(source, output, workers, THRESHOLD)
    return _counts(output)


def exact(source: str, output: str, workers: str) -> dict[str, Any]:
    _call("exact_hash", source, output, workers, "--hash_func", "xxh3")
    return _counts(output)


def _counts(output: str) -> dict[str, Any]:
    """Documents before and after, by its own files."""
    before = json.loads(Path(output, "kept", "dataset_info.json").read_text())["splits"]["train"]["num_examples"]
    files = [pa.memory_map(str(path)) for path in Path(output, "kept").glob("*.arrow")]
    return {"documents_in": before, "documents_out": sum(ipc.open_stream(file).read_all().num_rows for file in files)}


if __name__ == "__main__":
    main(about=versions, groups=groups, fuzzy=fuzzy, exact=exact)
