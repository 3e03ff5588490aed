"""What scripts of peers of deduplication share: reading plain JSONL, shingles, groups, and how they are called."""

from __future__ import annotations

import json
import platform
import re
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

_WORD = re.compile(r"\w+")
_WORDS = 5


def lines(source: str) -> Iterator[bytes]:
    """The lines of the files of a folder, in order."""
    for path in sorted(Path(source).glob("*.jsonl")):
        with path.open("rb") as file:
            yield from file


def texts(source: str) -> Iterator[str]:
    """The texts of the files of a folder, in order."""
    for line in lines(source):
        yield orjson.loads(line)["text"]


def shingles(text: str) -> set[str]:
    """Every five words in a row, lower-cased; all words of a shorter text."""
    words = _WORD.findall(text.lower())
    return {" ".join(words[at : at + _WORDS]) for at in range(max(1, len(words) - _WORDS + 1))}


def connected(pairs: list[tuple[int, int]], count: int) -> list[int]:
    """For each of ``count`` documents the first document of its group, where pairs join groups."""
    parents = list(range(count))

    def root(one: int) -> int:
        while parents[one] != one:
            parents[one] = one = parents[parents[one]]
        return one

    for left, right in pairs:
        first, second = sorted((root(left), root(right)))
        parents[second] = first
    return [root(one) for one in range(count)]


def cpu_s() -> float:
    """CPU-seconds of this process and of those that it has waited for."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def about(rules: Sequence[str], packages: Sequence[str]) -> dict[str, Any]:
    """What a peer runs, and in which versions."""
    found = {"python": platform.python_version(), **{package: version(package) for package in packages}}
    return {"rules": list(rules), "versions": found}


def write_groups(
    target: str, threshold: str, groups: list[int], kept: list[bool] | None, pairs: list[tuple[int, int]] | None
) -> None:
    """Write what was found at a threshold.

    Args:
        target: a folder.
        threshold: as it was given.
        groups: the group of each document.
        kept: whether it stays; the first of each group if None.
        pairs: if the peer gives them.
    """
    if kept is None:
        seen: set[int] = set()
        kept = []
        for group in groups:
            kept.append(group not in seen)
            seen.add(group)
    found = {"groups": groups, "kept": kept, "pairs": pairs}
    Path(target, f"{threshold}.json").write_bytes(orjson.dumps(found))


def main(**actions: Callable[..., dict[str, Any]]) -> None:
    """Do what the command line asks for: the name of an action and its arguments. Print the answer as JSON.

    The actions: ``about``; ``groups SOURCE TARGET THRESHOLD ...``, of the documents of a folder; ``fuzzy`` and
    ``exact`` ``SOURCE OUTPUT WORKERS``, which write the documents without duplicates.
    """
    answer = actions[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(answer), flush=True)
