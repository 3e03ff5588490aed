"""How often a Bloom filter is wrong, how fast it is, and what its lock costs.

    python -m benchmarks.bloom --keys 10000000 --json benchmarks/results/bloom.json

Keys are drawn at random: those of documents are hashes, so no data is needed. Seconds are of the process's CPU but for
claims, where they are by the clock: a claim waits for a lock and for the disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine, save, table, versions
from dcurate import BatchKey
from dcurate.dedup import BloomSize
from dcurate.dedup.bloom_filter import BloomFolder, claim_name
from dcurate.kernels.bloom import BLOCK_WORDS, fill, insert, query

RATES = (0.1, 0.01, 1e-3, 1e-4, 1e-5)
#: Documents in 128 MiB of 5 kB each.
BATCH = 27_000


def drawn(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def rate(asked: float, keys: int) -> dict[str, Any]:
    """A filter filled to its capacity: how often it is wrong, and what a key costs."""
    size = BloomSize.of(keys, asked)
    words = np.zeros(size.blocks * BLOCK_WORDS, np.uint64)
    held, others = drawn(keys, 1), drawn(4 * keys, 2)
    begin = time.process_time()
    insert(words, held, size.probes)
    inserted = time.process_time()
    missed = int((~query(words, held, size.probes)).sum())
    wrong = float(query(words, others, size.probes).mean())
    queried = time.process_time()
    return {
        "asked": asked,
        "measured": wrong,
        "of_fill": size.rate_of_fill(fill(words)),
        "missed": missed,
        "bits_a_key": 8 * size.nbytes / keys,
        "insert_ns": 1e9 * (inserted - begin) / keys,
        "query_ns": 1e9 * (queried - inserted) / (5 * keys),
        "twice_as_full": size.rate(2 * keys),
    }


def claims(path: str, batches: int, first: int, capacity: int, barrier: Any, out: Any) -> None:
    """One process: claims batch after batch; returns the seconds of each."""
    folder = BloomFolder(path, capacity, 1e-3, {})
    seconds = []
    barrier.wait()
    for number in range(first, first + batches):
        keys = drawn(BATCH, number)
        begin = time.perf_counter()
        folder.claim(claim_name("bench", "bloom", BatchKey(str(number))), keys)
        seconds.append(time.perf_counter() - begin)
    out.put(seconds)


def locked(processes: int, batches: int) -> dict[str, Any]:
    """Processes that claim as fast as they can: nothing else is done between, so they wait for each other most."""
    start = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as path:
        barrier, out = start.Barrier(processes), start.Queue()
        capacity = processes * batches * BATCH
        started = [
            start.Process(target=claims, args=(path, batches, place * batches, capacity, barrier, out))
            for place in range(processes)
        ]
        for one in started:
            one.start()
        seconds = [second for _ in started for second in out.get()]
        for one in started:
            one.join()
    return {"processes": processes, "claim_ms": 1e3 * float(np.median(seconds)), "worst_ms": 1e3 * max(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=40, help="claims of each process")
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rate(0.01, 1000)  # compiled
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("numpy", "numba")}
    figures |= {"keys": options.keys, "rates": [rate(asked, options.keys) for asked in RATES]}
    print(f"{options.keys:,} keys in a filter made for as many\n")
    print(
        table(
            [*figures["rates"][0]],
            [[f"{v:.3g}" if isinstance(v, float) else v for v in one.values()] for one in figures["rates"]],
        )
    )
    figures["claims"] = [locked(int(number), options.batches) for number in options.processes.split(",")]
    print(f"\nclaims of {BATCH:,} new documents, one after the other, by so many processes at a time\n")
    print(table([*figures["claims"][0]], [list(one.values()) for one in figures["claims"]]))
    save(options.json, figures)


if __name__ == "__main__":
    main()
