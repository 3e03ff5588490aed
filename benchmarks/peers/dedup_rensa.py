"""rensa's R-MinHash over all shingles of a document, and its LSH. Runs in an environment with rensa and orjson.

Groups, and fuzzy deduplication in one process, as it has no way to use more. See ``documents.main``.

Not the ``_rho`` path that rensa's own benchmark takes: it looks at 15 shingles of a long document.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from documents import about, connected, cpu_s, lines, main, shingles, texts, write_groups
from rensa import RMinHash, RMinHashLSH

HASHES = 256
THRESHOLD = 0.8
SEED = 42
_AT_ONCE = 1000


def versions() -> dict[str, Any]:
    return about([f"RMinHash, {HASHES} hashes of 5 words, RMinHashLSH, then estimated similarity"], ["rensa", "orjson"])


def bands(threshold: float) -> int:
    """The fewest bands that give 95 % of the pairs at the threshold; rensa wants a divisor of the hashes."""
    fit = (n for n in range(1, HASHES + 1) if HASHES % n == 0 and 1 - (1 - threshold ** (HASHES // n)) ** n >= 0.95)
    return next(fit)


def groups(source: str, target: str, *thresholds: str) -> dict[str, Any]:
    documents = texts(source)
    signatures: list[RMinHash] = []
    while some := [shingles(text) for text in islice(documents, _AT_ONCE)]:
        signatures += RMinHash.from_token_sets(some, HASHES, SEED)
    shapes = {}
    for threshold in thresholds:
        least = float(threshold)
        shapes[threshold] = [bands(least), HASHES // bands(least)]
        index = RMinHashLSH(least, HASHES, bands(least))
        index.insert_many(signatures)
        pairs = [
            (one, number)
            for number, found in enumerate(index.query_all(signatures))
            for one in set(found)
            if one < number and signatures[one].jaccard(signatures[number]) >= least
        ]
        write_groups(target, threshold, connected(pairs, len(signatures)), None, pairs)
    return {"cpu_s": cpu_s(), "bands": shapes}


def fuzzy(source: str, output: str, workers: str) -> dict[str, Any]:
    index = RMinHashLSH(THRESHOLD, HASHES, bands(THRESHOLD))
    kept: dict[int, RMinHash] = {}
    number = -1
    given = enumerate(lines(source))
    Path(output).mkdir(parents=True)
    with Path(output, "kept.jsonl").open("wb") as out:
        while some := list(islice(given, _AT_ONCE)):
            sets = [shingles(orjson.loads(line)["text"]) for _, line in some]
            for (number, line), made in zip(some, RMinHash.from_token_sets(sets, HASHES, SEED), strict=True):
                if any(kept[one].jaccard(made) >= THRESHOLD for one in index.query(made)):
                    continue
                index.insert(number, made)
                kept[number] = made
                out.write(line)
    return {"documents_in": number + 1, "documents_out": len(kept)}


if __name__ == "__main__":
    main(about=versions, groups=groups, fuzzy=fuzzy)
