"""What the proof of a run says of a split: counts of each stage, and roots of the rows that it took out or wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from dcurate.core.merkle import MerklePath, merkle_path, merkle_root

_ABOUT = b"splits of a run"


def split_statement(split: str, stats: Iterable[Mapping[str, Any]]) -> bytes:
    """What is proved of a split: rows in and out of each stage, those dropped and faulty by reason, and the roots.

    Seconds, bytes in memory and versions of files are left out, as they differ between runs of equal rows.

    Args:
        split: its name.
        stats: of each stage, as `StageStats.counts` gives it.

    Examples:
        >>> split_statement("a", [{"name": "read", "rows_in": 1, "rows_out": 1, "dropped": {}, "faulty": {}}])
        b'["a",[{"dropped":{},"faulty":{},"name":"read","proof":{},"rows_in":1,"rows_out":1}]]'
    """
    stages = [
        {name: counts[name] for name in ("name", "rows_in", "rows_out", "dropped", "faulty")}
        | {"proof": counts.get("proof", {})}
        for counts in stats
    ]
    statement = [split, sorted(stages, key=lambda counts: str(counts["name"]))]
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def split_leaf(split: str, stats: Iterable[Mapping[str, Any]]) -> bytes:
    """The leaf of a split in the tree of its run."""
    return sha256(split_statement(split, stats)).digest()


def run_root(leaves: Mapping[tuple[int, str], bytes]) -> str:
    """The root of a run, as hexadecimal digits.

    Args:
        leaves: leaf of each split, by its round and name.
    """
    return merkle_root([leaves[place] for place in sorted(leaves)], _ABOUT).hex()


def path_in_run(leaves: Mapping[tuple[int, str], bytes], place: tuple[int, str]) -> MerklePath:
    """The path from the leaf of a split to the root of its run."""
    places = sorted(leaves)
    return merkle_path([leaves[key] for key in places], places.index(place), _ABOUT)
