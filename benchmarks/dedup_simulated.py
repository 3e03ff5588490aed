"""The array half of near-duplicate removal on documents that are not there: what each step takes, and how it grows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np

from benchmarks.dedup_documents import Array, MadeDocuments
from dcurate.groups.candidates import candidate_pairs, pairs_once
from dcurate.groups.clusters import clustered
from dcurate.groups.components import DiskForest, Edges, forest, merge_forests

#: Entries of a range: as many as 128 MiB hold.
ENTRIES_A_RANGE = 2**23
PAIR = np.dtype([("left", np.uint32), ("right", np.uint32)])


class Clock:
    """CPU-seconds of steps by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - began


class Spread:
    """Pairs in files by ranges of a number that each has."""

    def __init__(self, folder: Path, name: str, parts: int) -> None:
        self._files = [folder / f"{name}-{part}" for part in range(parts)]
        self.rows = np.zeros(parts, np.int64)

    def add(self, by: Array, left: Array, right: Array) -> None:
        """Each pair to the file of a hash of ``by``."""
        parts = len(self._files)
        part = (
            (by.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) * np.uint64(parts)
        ) >> np.uint64(32)
        pairs = np.empty(len(left), PAIR)
        pairs["left"], pairs["right"] = left, right
        counts = np.bincount(part.astype(np.int64), minlength=parts)
        pairs = pairs[np.argsort(part.astype(np.uint16), kind="stable")]
        for file, rows in zip(self._files, np.split(pairs, np.cumsum(counts)[:-1]), strict=True):
            with file.open("ab") as out:
                rows.tofile(out)
        self.rows += counts

    def read(self) -> Iterator[tuple[Array, Array]]:
        """The pairs, file by file."""
        for file in self._files:
            pairs = np.fromfile(file, PAIR) if file.exists() else np.zeros(0, PAIR)
            yield pairs["left"].astype(np.int64), pairs["right"].astype(np.int64)


def warm_up() -> None:
    """Compile the kernels, or load them."""
    documents = MadeDocuments(2000)
    found = candidate_pairs(*_ordered(*documents.entries(0, 1, 4, 8)))
    forest(found.left * 2**20, found.right * 2**20)
    with DiskForest(gettempdir(), 2000) as joined:
        joined.add(found.left, found.right)
        list(joined.components())
    members = np.unique(np.concatenate([found.left, found.right]))
    close = documents.similarity(found.left, found.right)
    for how in ("connected", "star"):
        clustered(members, np.zeros(len(members)), found.left, found.right, close, how=how)


def _ordered(keys: Array, docs: Array, contents: Array) -> tuple[Array, Array, Array]:
    order = np.argsort(keys, kind="stable")
    return keys[order], docs[order].astype(np.int64), contents[order]


def simulate(documents: int, bands: int = 17, rows: int = 7, threshold: float = 0.8) -> dict[str, Any]:
    """All steps from entries to groups, with the memory of one range at a time."""
    warm_up()
    data, clock = MadeDocuments(documents), Clock()
    parts = max(1, -(-documents * bands // ENTRIES_A_RANGE))
    figures: dict[str, Any] = {"documents": documents, "entries": documents * bands, "key_ranges": parts}
    with TemporaryDirectory() as scratch:
        with DiskForest(scratch, documents) as joined:
            by_left, counts = _candidates(data, (parts, bands, rows), Path(scratch), joined, clock)
            labels = np.full(documents, -1, np.int32)
            with clock.step("labels"):
                for members, found in joined.components():
                    labels[members] = found
        sizes = np.bincount(labels[labels >= 0], minlength=1)
        figures |= {**counts, "in_pairs": int(sizes.sum()), "largest_candidate_component": int(sizes.max())}
        figures |= _groups(data, by_left, labels, threshold, Path(scratch), clock)
    return {**figures, "cpu_s": clock.seconds}


def _candidates(
    data: MadeDocuments, cut: tuple[int, int, int], scratch: Path, joined: DiskForest, clock: Clock
) -> tuple[Spread, dict[str, int]]:
    """Rounds 2 and 3: the pairs of each range of keys, written by their left document, and a forest of them joined."""
    parts, bands, rows = cut
    by_left, counts = Spread(scratch, "pairs", parts), {"buckets_cut_short": 0, "forest_edges": 0}
    for part in range(parts):
        entries = data.entries(part, parts, bands, rows)
        with clock.step("order entries"):
            ordered = _ordered(*entries)
        with clock.step("candidate pairs"):
            found = candidate_pairs(*ordered)
        with clock.step("pairs by left"):
            by_left.add(found.left, found.left, found.right)
        with clock.step("forests"):
            made = forest(found.left, found.right)
        with clock.step("join forests"):
            joined.add(*made)
        counts["buckets_cut_short"] += found.short
        counts["forest_edges"] += len(made.left)
    return by_left, counts | {"pairs_with_repeats": int(by_left.rows.sum())}


def _groups(
    data: MadeDocuments, by_left: Spread, labels: Array, threshold: float, scratch: Path, clock: Clock
) -> dict[str, Any]:
    """Rounds 4 and 5: each pair once, by label; then verified, and the groups of each range of labels."""
    by_label = Spread(scratch, "labelled", len(by_left.rows))
    for pairs in by_left.read():
        with clock.step("each pair once"):
            once = pairs_once(*pairs)
        with clock.step("pairs by label"):
            by_label.add(labels[once.left], *once)
    ranks = np.random.default_rng(1).random(data.count)
    totals = {
        "pairs": int(by_label.rows.sum()),
        "verified_pairs": 0,
        "connected": 0,
        "star": 0,
        "kept_connected": 0,
        "kept_star": 0,
        "largest_group": 0,
    }
    for pairs in by_label.read():
        close = data.similarity(*pairs)
        good = close >= threshold
        verified = pairs[0][good], pairs[1][good], close[good]
        totals["verified_pairs"] += int(good.sum())
        for how in ("connected", "star"):
            with clock.step(f"groups, {how}"):
                members = np.unique(np.concatenate(verified[:2]))
                made = clustered(members, ranks[members], *verified, how=how)
            totals[how] += len(made.member)
            totals[f"kept_{how}"] += int(made.kept.sum())
            totals["largest_group"] = max(totals["largest_group"], int(made.size.max(initial=0)))
    return totals


def tree(documents: int, ranges: int = 64, bands: int = 17, rows: int = 7) -> dict[str, Any]:
    """How many edges the forests of ranges of keys have, and after each merge of eight to one."""
    warm_up()
    data = MadeDocuments(documents)
    level: list[Edges] = []
    for part in range(ranges):
        found = candidate_pairs(*_ordered(*data.entries(part, ranges, bands, rows)))
        level.append(forest(found.left, found.right))
    levels = [sum(len(each.left) for each in level)]
    while len(level) > 1:
        level = [merge_forests(level[at : at + 8]) for at in range(0, len(level), 8)]
        levels.append(sum(len(each.left) for each in level))
    return {"documents": documents, "ranges": ranges, "edges": levels}


def root(documents: int, share: float = 0.3, chunk: int = 2**22) -> dict[str, Any]:
    """One task that joins all forests and labels documents: edges between random documents, in pieces."""
    warm_up()
    rng, clock, edges = np.random.default_rng(0), Clock(), int(share * documents)
    with TemporaryDirectory() as scratch, DiskForest(scratch, documents) as joined:
        for _ in range(-(-edges // chunk)):
            right = np.sort(rng.integers(1, documents, chunk))
            left = (right * rng.random(chunk)).astype(np.int64)
            with clock.step("join"):
                joined.add(left, right)
        with clock.step("labels"):
            members = sum(len(each.members) for each in joined.components())
    return {"documents": documents, "edges": -(-edges // chunk) * chunk, "members": members, "cpu_s": clock.seconds}
