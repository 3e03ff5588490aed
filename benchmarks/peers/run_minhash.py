"""MinHash of rensa or datasketch, 128 hashes of shingles of five words. Runs in an environment with it and orjson.

``python run_minhash.py LIBRARY FILE``, where FILE holds JSON with ``texts`` and ``pairs`` of their numbers; answers in
one line of JSON: estimated similarities, and CPU seconds with and without the making of shingles.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from documents import shingles

HASHES = 128


def rensa() -> Callable[[Iterable[str]], Any]:
    from rensa import RMinHash  # noqa: PLC0415

    def make(tokens: Iterable[str]) -> Any:
        made = RMinHash(num_perm=HASHES, seed=42)
        made.update(list(tokens))
        return made

    return make


def datasketch() -> Callable[[Iterable[str]], Any]:
    from datasketch import MinHash  # noqa: PLC0415

    def make(tokens: Iterable[str]) -> Any:
        made = MinHash(num_perm=HASHES)
        made.update_batch([token.encode() for token in tokens])
        return made

    return make


def main(library: str, file: str) -> None:
    given = json.loads(Path(file).read_text())
    make = {"rensa": rensa, "datasketch": datasketch}[library]()
    make(["warm"])
    start = time.process_time()
    sets = [shingles(text) for text in given["texts"]]
    shingled = time.process_time()
    made = [make(tokens) for tokens in sets]
    end = time.process_time()
    estimates = [made[left].jaccard(made[right]) for left, right in given["pairs"]]
    times = {"cpu_s": end - start, "hash_cpu_s": end - shingled}
    print(json.dumps({"version": version(library), "estimates": estimates, **times}))


if __name__ == "__main__":
    main(*sys.argv[1:])
