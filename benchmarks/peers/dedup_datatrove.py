"""datatrove's MinHash and exact deduplication. Runs in an environment with ``datatrove[processing,io]``.

All stages as in its examples, with the default of 14 bands of 8 hashes; it has no threshold. See ``documents.main``.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import ExactDedupFilter, ExactDedupSignature, ExactFindDedups, MinhashDedupSignature
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
)
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from documents import about, connected, cpu_s, main, texts, write_groups

CONFIG = MinhashConfig()
EXACT = ExactDedupConfig(content_getter=lambda document: document.text)


def versions() -> dict[str, Any]:
    rules = ["MinhashDedup in four stages: 5 words, 14 bands of 8 hashes, no threshold", "ExactDedup in three stages"]
    return about(rules, ["datatrove", "spacy", "numpy", "orjson"])


def _run(steps: list[PipelineStep], folder: str, name: str, tasks: int, workers: int) -> list[dict[str, Any]]:
    stats = LocalPipelineExecutor(pipeline=steps, tasks=tasks, workers=workers, logging_dir=f"{folder}/logs/{name}")
    return list(json.loads(stats.run().to_json()))


def _reader(source: str) -> JsonlReader:
    return JsonlReader(source, glob_pattern="*.jsonl")


def _clusters(source: str, folder: str, workers: int) -> None:
    """The first three stages of MinHash."""
    signatures, buckets, removed = (f"{folder}/{name}" for name in ("signatures", "buckets", "removed"))
    _run([_reader(source), MinhashDedupSignature(signatures, CONFIG)], folder, "signatures", workers, workers)
    found = MinhashDedupBuckets(signatures, buckets, config=CONFIG)
    _run([found], folder, "buckets", CONFIG.num_buckets, workers)
    _run([MinhashDedupCluster(buckets, removed, CONFIG, save_cluster_id=True)], folder, "clusters", 1, 1)


def groups(source: str, target: str, *thresholds: str) -> dict[str, Any]:
    _clusters(source, f"{target}/work", 1)
    count = sum(1 for _ in texts(source))
    removed = Path(target, "work", "removed")
    gone = {number for (number,) in struct.iter_unpack("<I", (removed / "000000.remove").read_bytes())}
    firsts: dict[int, int] = {}
    pairs = [
        (firsts.setdefault(cluster, number), number)
        for number, cluster in struct.iter_unpack("<2I", (removed / "000000.clusters").read_bytes())
    ]
    kept = [number not in gone for number in range(count)]
    for threshold in thresholds:
        write_groups(target, threshold, connected(pairs, count), kept, None)
    shape = (CONFIG.num_buckets, CONFIG.hashes_per_bucket)
    return {"cpu_s": cpu_s(), "bands": dict.fromkeys(thresholds, shape)}


def fuzzy(source: str, output: str, workers: str) -> dict[str, Any]:
    _clusters(source, f"{output}/work", int(workers))
    steps = [
        _reader(source),
        MinhashDedupFilter(f"{output}/steps/removed"),
        JsonlWriter(f"{output}/kept", compression=None),
    ]
    return _counts(_run(steps, f"{output}/work", "filter", int(workers), int(workers)))


def exact(source: str, output: str, workers: str) -> dict[str, Any]:
    signatures, found, count = f"{output}/steps/signatures", f"{output}/steps/found", int(workers)
    _run([_reader(source), ExactDedupSignature(signatures, EXACT, count)], f"{output}/work", "first", count, count)
    _run([ExactFindDedups(signatures, found, EXACT)], f"{output}/work", "second", count, count)
    steps = [_reader(source), ExactDedupFilter(found, EXACT), JsonlWriter(f"{output}/kept", compression=None)]
    return _counts(_run(steps, f"{output}/work", "third", count, count))


def _counts(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"documents_in": _total(steps[0], "documents"), "documents_out": _total(steps[-1], "total")}


def _total(step: dict[str, Any], name: str) -> int:
    value = step["stats"].get(name, 0)
    return int(value["total"] if isinstance(value, dict) else value)


if __name__ == "__main__":
    main(about=versions, groups=groups, fuzzy=fuzzy, exact=exact)
