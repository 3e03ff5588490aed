"""Which near-duplicates are found, and which are not, against all pairs of labelled real edits, beside other tools.

``python -m benchmarks.neardup --docs FILE --pairs FILE [--peer-python NAME=PATH ...] [--json FILE]``. See README.md.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.dedup import PEERS, Peer, peers_here
from benchmarks.measure import MB, called, machine, save, scratch_folder, table, versions
from benchmarks.parity import answer
from benchmarks.rows import all_rows, read_rows
from dcurate.dedup import MinHash
from dcurate.dedup.near import DuplicatePairs, Search
from dcurate.dedup.quality import MARGIN, Pairs, score_groups, score_pairs, similar_pairs
from dcurate.frames.text import TextColumn, column_of
from dcurate.groups.clusters import Clustering, clustered
from dcurate.kernels.layout import Ints

THRESHOLDS = (0.7, 0.8, 0.9)

#: Labels are complete from here on; some of less similar pairs are rounded down to 0.
SIMILAR = 0.2

#: Pairs below it are in no band, and not looked for when the labels are checked.
LEAST = 0.5

#: Pairs whose similarity is recomputed from sets of words in plain Python.
_CHECKED = 200

_LEGEND = f"""
precision, recall: of the pairs said to be duplicates; recall from +{MARGIN}: of those so far above the threshold.
together: duplicates that are in one group; of those right: pairs in one group that are duplicates; removed: documents
that go; rightly: those with a duplicate among the documents that stay; left over: pairs of duplicates that stay.
* gives groups only, so its pairs are those in one group.
"""


def labelled(documents: Sequence[dict[str, Any]], pairs: Iterable[dict[str, Any]]) -> tuple[Pairs, int]:
    """The labels as pairs of numbers of documents, and how many are left out: not whole, or of documents not there.

    Raises:
        SystemExit: two documents have one id.
    """
    numbers = {document["id"]: number for number, document in enumerate(documents)}
    if len(numbers) < len(documents):
        raise SystemExit(f"{len(documents):,} documents have only {len(numbers):,} ids; give each an id of its own")
    ends, similarity, left_out = [], [], 0
    for pair in pairs:
        one, other, label = (pair.get(name) for name in ("a", "b", "jaccard_w5"))
        if one in numbers and other in numbers and isinstance(label, int | float):
            ends.append(sorted((numbers[one], numbers[other])))
            similarity.append(float(label))
        else:
            left_out += 1
    whole = np.array(ends, np.int64).reshape(-1, 2)
    return Pairs(whole[:, 0], whole[:, 1], np.array(similarity, np.float64)), left_out


def plain_similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the sets of five words, as anyone would write it."""
    sets = []
    for text in (one, other):
        words = re.findall(r"\w+", text.lower())
        sets.append({tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def checked(texts: Sequence[str], column: TextColumn, truth: Pairs) -> dict[str, Any]:
    """Whether the labels are exact: a sample against plain Python, and all pairs against an exhaustive search."""
    labels = truth.at_least(SIMILAR)
    sample = random.Random(0).sample(range(len(labels.left)), min(_CHECKED, len(labels.left)))
    differences = [
        abs(plain_similarity(texts[labels.left[pair]], texts[labels.right[pair]]) - labels.similarity[pair])
        for pair in sample
    ]
    sets = MinHash().sets(column, np.arange(len(column)), most=None)
    found = similar_pairs(sets.bounds, sets.values, LEAST)
    ours, theirs = (set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) for pairs in (found, truth))
    sure = truth.at_least(LEAST + 0.001)  # labels are rounded
    missing = set(zip(sure.left.tolist(), sure.right.tolist(), strict=True)) - ours
    return {
        "recomputed": len(sample),
        "largest_difference": max(differences, default=0.0),
        "pairs_of_the_exhaustive_search": len(ours),
        "not_labelled": len(ours - theirs),
        "labelled_only": len(missing),
    }


# What dcurate finds


class Ways:
    """The ways of dcurate on one set of documents; signatures are made once a method.

    Args:
        column: the texts.
    """

    def __init__(self, column: TextColumn) -> None:
        self._column = column
        self._signatures: dict[MinHash, npt.NDArray[np.uint32]] = {}

    def found(self, search: Search) -> DuplicatePairs:
        """The pairs that a search finds."""
        if search.minhash not in self._signatures:
            self._signatures[search.minhash] = search.minhash.signatures(self._column)
        return search.pairs(self._column, self._signatures[search.minhash])


def searches(threshold: float) -> Iterator[tuple[str, Search, Clustering]]:
    """The ways that are compared; the first is the one by default."""
    usual = Search.at(threshold)
    yield "dcurate", usual, "star"
    yield "dcurate, connected", usual, "connected"
    yield "dcurate, estimated", replace(usual, verification="estimated"), "star"
    yield "dcurate, not verified", replace(usual, verification="none"), "star"
    yield "dcurate, permutations", replace(usual, minhash=replace(usual.minhash, method="permutations")), "star"


def groups_of(found: DuplicatePairs, how: Clustering, count: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The group of each document, and whether it stays."""
    similarity = np.where(np.isnan(found.similarity), 0.5, found.similarity).astype(np.float32)
    groups = clustered(np.arange(count), np.zeros(count), found.left, found.right, similarity, how=how)
    labels, kept = np.arange(count), np.ones(count, np.bool_)
    labels[groups.member], kept[groups.member] = groups.group, groups.kept
    return labels, kept


# Scores


def scores(
    pairs: tuple[Ints, Ints] | None, groups: Ints, kept: npt.NDArray[np.bool_], truth: Pairs, threshold: float
) -> dict[str, Any]:
    """The figures of one way at one threshold; of pairs in one group for a tool that gives no pairs."""
    left, right = together(groups) if pairs is None else pairs
    by_pair = score_pairs(left, right, truth, threshold)
    return {
        "of": "pairs in one group" if pairs is None else "pairs",
        "precision": by_pair.precision,
        "recall": by_pair.recall,
        f"recall_above_{threshold + MARGIN:.2f}": by_pair.recall_above,
        "duplicates": by_pair.duplicates,
        "found": by_pair.found,
        "right": by_pair.right,
        "bands": [band._asdict() for band in by_pair.bands],
        "groups": asdict(score_groups(groups, kept, truth, threshold)),
    }


def together(groups: Ints) -> tuple[Ints, Ints]:
    """All pairs of documents that are in one group."""
    order = np.argsort(groups, kind="stable")
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        one, other = np.triu_indices(len(members), 1)
        left.append(members[one])
        right.append(members[other])
    return np.concatenate(left), np.concatenate(right)


def of_peer(peer: Peer, source: Path, target: Path, truth: Pairs) -> dict[str, Any]:
    """The figures of a peer at each threshold, and the bands and rows that it took."""
    target.mkdir()
    said = answer([peer.python, peer.script, "groups", source, target, *map(str, THRESHOLDS)])
    figures = {}
    for threshold in THRESHOLDS:
        found = orjson.loads((target / f"{threshold}.json").read_bytes())
        ends = None if found["pairs"] is None else np.array(found["pairs"], np.int64).reshape(-1, 2)
        pairs = None if ends is None else (ends[:, 0], ends[:, 1])
        groups, kept = np.array(found["groups"], np.int64), np.array(found["kept"], np.bool_)
        one = scores(pairs, groups, kept, truth, threshold)
        figures[f"{threshold}"] = one | {"bands_by_rows": said["bands"][f"{threshold}"]}
    return figures


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures."""
    about = {"machine": machine(), "versions": {"dcurate": versions("dcurate", "numba", "numpy")}}
    documents, without = read_rows(options.docs, {"id": (str, int), "text": str})
    texts = [document["text"] for document in documents]
    column = column_of([text.encode(errors="replace") for text in texts])
    truth, strange = labelled(documents, all_rows(options.pairs))
    figures: dict[str, Any] = {}
    ways = Ways(column)
    for threshold in THRESHOLDS:
        for name, search, how in searches(threshold):
            found = ways.found(search)
            one = scores((found.left, found.right), *groups_of(found, how, len(texts)), truth, threshold)
            shape = [search.bands.bands, search.bands.rows]
            figures.setdefault(name, {})[f"{threshold}"] = one | {
                "bands_by_rows": shape,
                "num_hashes": search.minhash.num_hashes,
                "candidates": found.candidates,
            }
    source = scratch / "documents"
    source.mkdir()
    (source / "0.jsonl").write_bytes(b"".join(orjson.dumps({"text": text}) + b"\n" for text in texts))
    for peer in peers_here(options.peer_python, options.peer or ()):
        print(f"{peer.name}: {', '.join(peer.rules)}", flush=True)
        figures[peer.name] = of_peer(peer, source, scratch / peer.name, truth)
        about["versions"][peer.name] = peer.versions
    size = sum(len(text.encode(errors="replace")) for text in texts) / MB
    given = {"docs": options.docs.name, "documents": len(texts), "mb": size, "pairs": len(truth.left)}
    given |= {"documents_left_out": without, "pairs_left_out": strange}
    return {**figures, "input": given, "labels": checked(texts, column, truth), **about}


def show(figures: dict[str, Any]) -> None:
    """Print the figures for a person."""
    given, labels = figures["input"], figures["labels"]
    print(
        f"\n{given['documents']:,} documents, {given['mb']:.0f} MB of text, {given['pairs']:,} labelled pairs", end="; "
    )
    print(f"{labels['recomputed']} labels recomputed, largest difference {labels['largest_difference']:.5f};")
    print(f"an exhaustive search from {LEAST} on finds {labels['pairs_of_the_exhaustive_search']:,} pairs,", end=" ")
    print(
        f"{labels['not_labelled']} of them without a label, and {labels['labelled_only']} labelled ones are missing\n"
    )
    tools = {name: each for name, each in figures.items() if isinstance(each, dict) and f"{THRESHOLDS[0]}" in each}
    header = ["at", "bands x rows", "precision", "recall", f"recall from +{MARGIN}"]
    header += ["together", "of those right", "removed", "rightly", "left over"]
    rows = [_row(threshold, name, tool[f"{threshold}"]) for threshold in THRESHOLDS for name, tool in tools.items()]
    print(table(header, rows))
    print(_LEGEND)
    bands = [f"{low / 100:.2f}" for low in range(50, 100, 5)]
    rows = [
        [f"{threshold} {name}", *(_percent(band["found"], band["pairs"]) for band in tool[f"{threshold}"]["bands"])]
        for threshold in THRESHOLDS
        for name, tool in tools.items()
    ]
    print("share of the pairs found, by similarity from")
    print(table(["at", *bands], [["pairs", *(band["pairs"] for band in figures["dcurate"]["0.8"]["bands"])], *rows]))


def _row(threshold: float, name: str, one: dict[str, Any]) -> list[Any]:
    groups = one["groups"]
    shape = "" if one["bands_by_rows"] is None else "x".join(map(str, one["bands_by_rows"]))
    parts = [one["precision"], one["recall"], one[f"recall_above_{threshold + MARGIN:.2f}"]]
    parts += [groups["recall"], groups["precision"]]
    shown = [None if part is None else f"{part:.2%}" for part in parts]
    rightly = None if groups["removed_rightly"] is None else f"{groups['removed_rightly']:.2%}"
    mark = "" if one["of"] == "pairs" else " *"
    return [f"{threshold} {name}{mark}", shape, *shown, groups["removed"], rightly, groups["duplicates_left"]]


def _percent(part: int, whole: int) -> str | None:
    return f"{part / whole:.1%}" if whole else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.neardup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", required=True, type=Path, metavar="FILE", help="JSONL with columns id and text")
    parser.add_argument(
        "--pairs", required=True, type=Path, metavar="FILE", help="JSONL with columns a, b (ids) and jaccard_w5"
    )
    parser.add_argument("--peer", action="append", choices=PEERS, help="only these; repeatable; default all")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="PEER=PATH",
        help=f"a peer's environment or its Python; default .venv-PEER; peers are {', '.join(PEERS)}",
    )
    parser.add_argument("--scratch", metavar="DIR", help="where documents and results of peers go for a while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with scratch_folder("neardup", options.scratch) as scratch:
        figures = run(options, scratch)
    show(figures)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
