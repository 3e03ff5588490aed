"""The paper adds up, and the documents of the simulation resemble each other as is said of them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.dedup_documents import MadeDocuments, Proportions
from benchmarks.dedup_paper import Machines, Paper, PaperRound
from benchmarks.dedup_scale import given
from benchmarks.dedup_simulated import Spread, root, simulate, tree
from dcurate.groups.candidates import candidate_pairs
from dcurate.groups.clusters import clustered
from dcurate.groups.components import components

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]


def test_two_documents_share_a_band_as_often_as_their_similarity_says() -> None:
    documents, bands, rows = MadeDocuments(30_000), 16, 4
    keys, docs, _ = documents.entries(0, 1, bands, rows)
    assert len(keys) == 30_000 * bands
    table = keys.reshape(30_000, bands)
    assert np.array_equal(docs, np.repeat(np.arange(30_000), bands))
    order = np.argsort(documents.group, kind="stable")
    order = order[documents.group[order] > 0]
    left, right = order[:-1], order[1:]
    inside = documents.group[left] == documents.group[right]
    left, right = left[inside], right[inside]
    similar = documents.similarity(left, right)
    shared = (table[left] == table[right]).mean(axis=1)
    for low, high in ((0.4, 0.6), (0.7, 0.8), (0.8, 0.9), (0.99, 1.1)):
        some = (similar >= low) & (similar < high)
        assert shared[some].mean() == pytest.approx((similar[some] ** rows).mean(), abs=0.02)


def test_ranges_of_keys_hold_each_entry_once() -> None:
    documents = MadeDocuments(2000)
    whole = documents.entries(0, 1, 8, 4)
    parts = [documents.entries(part, 5, 8, 4) for part in range(5)]
    assert np.array_equal(np.sort(np.concatenate([part[0] for part in parts])), np.sort(whole[0]))
    assert max(part[0].max() for part in parts[:4]) < parts[4][0].min()


def test_the_simulation_finds_the_groups_that_there_are() -> None:
    found, documents = simulate(20_000), MadeDocuments(20_000)
    group, like = documents.group.astype(np.int64), documents.like
    near = like > 0.71
    order = np.argsort(np.where(near, group, -1), kind="stable")
    left, right = order[:-1], order[1:]
    same = near[left] & (group[left] == group[right]) & near[right]
    members = components(left[same], right[same]).members
    assert found["connected"] == pytest.approx(len(members), rel=0.02)
    assert found["star"] <= found["connected"] <= found["in_pairs"]
    assert found["verified_pairs"] <= found["pairs"] <= found["pairs_with_repeats"]


def test_cutting_buckets_short_loses_no_connected_duplicates_and_changes_stars_little() -> None:
    documents = MadeDocuments(20_000, Proportions(near=0.3, template=0.2, copies=0.2, largest=800))
    keys, docs, contents = documents.entries(0, 1, 32, 8)
    order = np.argsort(keys, kind="stable")
    removed, counts = {}, {}
    for most in (64, 10_000):
        found = candidate_pairs(keys[order], docs[order].astype(np.int64), contents[order], most_contents=most)
        close = documents.similarity(found.left, found.right)
        verified = found.left[close >= 0.8], found.right[close >= 0.8], close[close >= 0.8]
        members = np.unique(np.concatenate(verified[:2]))
        ranks = np.random.default_rng(0).random(len(members))
        for how in ("connected", "star"):
            removed[most, how] = int((~clustered(members, ranks, *verified, how=how).kept).sum())
        counts[most] = len(found.left)
    assert counts[64] < 0.7 * counts[10_000]
    assert removed[64, "connected"] == removed[10_000, "connected"]
    assert removed[64, "star"] == pytest.approx(removed[10_000, "star"], rel=0.03)


def test_pairs_come_back_from_files_by_what_they_were_spread_by(tmp_path: Path) -> None:
    spread = Spread(tmp_path, "pairs", 4)
    left = np.arange(1000)
    spread.add(left // 3, left, left + 1)
    spread.add(left // 3, left, left + 2)
    parts = list(spread.read())
    assert sum(len(part[0]) for part in parts) == spread.rows.sum() == 2000
    assert sorted(number for part in parts for number in set((part[0] // 3).tolist())) == list(range(334))


def test_merging_forests_in_a_tree_ends_with_one_forest_of_them_all() -> None:
    merged = tree(5000, ranges=16)
    assert len(merged["edges"]) == 3
    assert merged["edges"][0] >= merged["edges"][1] >= merged["edges"][2]
    assert root(5000, chunk=1000)["members"] > 1500


def test_a_round_takes_as_long_as_what_is_slowest() -> None:
    machines = Machines(
        nodes=2, cores=4, busy=0.5, network_gb_s=1, requests_s=100, read_s=0.01, readers=2, task_gb_s=0.5
    )
    one = PaperRound("r", tasks=16, read=8e9, written=2e9, reads=1000, cpu_s=40)
    assert one.times(machines) == {"cpu": 10, "network": 4, "requests": 10, "latency": 0.625}
    assert PaperRound("r", tasks=1, read=8e9, cpu_s=40).times(machines) == {
        "cpu": 80,
        "network": 16,
        "requests": 0,
        "latency": 0,
    }
    assert PaperRound("r", tasks=9, cpu_s=36).times(machines)["cpu"] == 16


def test_bytes_that_are_written_grow_as_the_documents_do() -> None:
    small, large = (given(Paper(), {"documents": count, "most_reads": math.inf}).rounds() for count in (1e8, 1e9))
    for one, other in zip(small, large, strict=True):
        assert other.written == pytest.approx(10 * one.written, rel=1e-3)


def test_every_byte_of_an_exchange_is_read_and_a_chunk_never_in_part() -> None:
    paper = Paper()
    assert paper.spans(nbytes=2**30, files=4, ranges=8) == (32, 2**30)
    assert paper.spans(nbytes=2**24, files=4, ranges=1024) == (4096, 2**26)
    assert paper.spans(nbytes=2**12, files=4, ranges=1024) == (4096, 2**22)


def test_files_that_are_merged_are_read_less_often() -> None:
    merged, direct = (given(Paper(), {"most_reads": most}) for most in (2**20, math.inf))
    reads, rounds = ([sum(one.reads for one in paper.rounds()), len(paper.rounds())] for paper in (merged, direct))
    assert rounds[0] > 10 * reads[0]
    assert (reads[1], rounds[1]) == (10, 6)
    small = given(Paper(), {"documents": 1e6, "most_reads": 2**20})
    assert len(small.rounds()) == 6


def test_a_constant_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such constant; there are documents, "):
        given(Paper(), {"colour": 1})


def test_the_command_prints_tables_and_writes_figures(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    small = ["--sizes", "3e3", "--root", "0", "--tree", "0", "--set", "documents=2e9", "--json", str(file)]
    command = [sys.executable, "-m", "benchmarks.dedup_scale", *small]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(file.read_text())
    assert [run["documents"] for run in figures["simulated"]] == [3000]
    assert figures["constants"]["data"]["documents"] == 2e9
    assert "candidate pairs" in done.stdout
    assert "held up by" in done.stdout
    again = [*command[:3], "--simulated", str(file), "--set", "documents=3e9", "--json", str(file)]
    subprocess.run(again, cwd=ROOT, capture_output=True, check=True)
    changed = json.loads(file.read_text())
    assert changed["simulated"] == figures["simulated"]
    assert changed["constants"]["data"]["documents"] == 3e9
