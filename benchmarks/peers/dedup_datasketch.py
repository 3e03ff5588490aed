"""datasketch's MinHash and LSH. Runs in an environment with datasketch and orjson.

Groups, and fuzzy deduplication in one process, as it has no way to use more. See ``documents.main``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from datasketch import MinHash, MinHashLSH
from documents import about, connected, cpu_s, lines, main, shingles, texts, write_groups

HASHES = 256
THRESHOLD = 0.8


def versions() -> dict[str, Any]:
    return about(
        [f"MinHashLSH at the threshold, {HASHES} hashes of 5 words, then estimated similarity"],
        ["datasketch", "orjson"],
    )


def signature(text: str) -> MinHash:
    made = MinHash(num_perm=HASHES)
    made.update_batch([shingle.encode(errors="surrogatepass") for shingle in shingles(text)])
    return made


def groups(source: str, target: str, *thresholds: str) -> dict[str, Any]:
    signatures = [signature(text) for text in texts(source)]
    bands = {}
    for threshold in thresholds:
        least = float(threshold)
        index = MinHashLSH(threshold=least, num_perm=HASHES)
        bands[threshold] = [index.b, index.r]
        pairs = []
        for number, made in enumerate(signatures):
            similar = [one for one in index.query(made) if signatures[one].jaccard(made) >= least]
            pairs += [(one, number) for one in similar]
            index.insert(number, made)
        write_groups(target, threshold, connected(pairs, len(signatures)), None, pairs)
    return {"cpu_s": cpu_s(), "bands": bands}


def fuzzy(source: str, output: str, workers: str) -> dict[str, Any]:
    index = MinHashLSH(threshold=THRESHOLD, num_perm=HASHES)
    kept: dict[int, MinHash] = {}
    number = -1
    Path(output).mkdir(parents=True)
    with Path(output, "kept.jsonl").open("wb") as out:
        for number, line in enumerate(lines(source)):
            made = signature(orjson.loads(line)["text"])
            if any(kept[one].jaccard(made) >= THRESHOLD for one in index.query(made)):
                continue
            index.insert(number, made)
            kept[number] = made
            out.write(line)
    return {"documents_in": number + 1, "documents_out": len(kept)}


if __name__ == "__main__":
    main(about=versions, groups=groups, fuzzy=fuzzy)
