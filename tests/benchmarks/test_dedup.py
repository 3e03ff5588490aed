"""Made documents are what is said of them, and the benchmarks of deduplication write the figures that they promise."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest

from benchmarks.dedup import growth
from benchmarks.near_duplicates_data import COPIES, EDITS, SIMILARITIES, Corpus, corpus_of, write
from benchmarks.neardup import plain_similarity, together
from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program


def real(count: int, words: int = 300) -> list[dict[str, str]]:
    draw = random.Random(1)
    return [
        {"id": f"{number}", "text": " ".join(f"w{draw.randrange(3000)}" for _ in range(words)), "source": "test"}
        for number in range(count)
    ]


def similarity(one: dict[str, str], other: dict[str, str]) -> float:
    return plain_similarity(one["text"], other["text"])


def test_made_documents_are_the_same_again_and_a_larger_corpus_begins_with_a_smaller_one(tmp_path: Path) -> None:
    corpus = Corpus(real(20), seed=3)
    write(corpus, 1, tmp_path / "small", a_file=8)
    write(Corpus(real(20), seed=3), 3, tmp_path / "large", a_file=8)
    small, large = (
        b"".join(path.read_bytes() for path in sorted((tmp_path / name).iterdir())) for name in ("small", "large")
    )
    assert len(large.splitlines()) == 60
    assert large.startswith(small)
    assert sorted(path.name for path in (tmp_path / "small").iterdir()) == ["00000.jsonl", "00001.jsonl", "00002.jsonl"]
    assert Corpus(real(20), seed=4).document(0)["text"] != corpus.document(0)["text"]
    assert len(corpus_of(str(tmp_path / "small"))) == 20


def test_copies_are_exact_edits_are_as_similar_as_was_said_and_others_are_not_alike() -> None:
    corpus = Corpus(real(40))
    documents = [corpus.document(number) for number in range(1500)]
    kinds = Counter(document["made"] for document in documents)
    assert kinds["copy"] / 1500 == pytest.approx(COPIES / 100, abs=0.04)
    assert 1 - (kinds["copy"] + kinds["unique"]) / 1500 == pytest.approx(EDITS / 100, abs=0.04)
    assert set(kinds) == {"unique", "copy", "substituted", "beheaded", "cut_short", "inserted"}
    low, high = SIMILARITIES
    edits: dict[str, list[float]] = {}
    for document in documents:
        found = similarity(document, documents[document["parent"]])
        if document["made"] in ("copy", "unique"):
            assert found == 1
        else:
            assert low - 0.15 < found < high + 0.05
            edits.setdefault(document["made"], []).append(found)
    assert all(low < np.mean(found) < high for found in edits.values())
    uniques = [document for document in documents if document["made"] == "unique"][:60]
    assert max(similarity(a, b) for a in uniques for b in uniques if a is not b) < 0.05


def test_all_pairs_of_a_group_are_together() -> None:
    left, right = together(np.array([7, 1, 7, 7, 2]))
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == [(0, 2), (0, 3), (2, 3)]


def test_neardup_gives_scores_at_each_threshold(tmp_path: Path) -> None:
    corpus = Corpus(real(30))
    documents = [corpus.document(number) for number in range(120)]
    pairs = [
        {"a": one["id"], "b": other["id"], "jaccard_w5": round(found, 4)}
        for number, one in enumerate(documents)
        for other in documents[:number]
        if (found := similarity(one, other)) >= 0.2
    ]
    for name, rows in (("docs", documents), ("pairs", pairs)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures, printed = figures_of(
        *("neardup", tmp_path, "--docs", str(tmp_path / "docs.jsonl"), "--pairs", str(tmp_path / "pairs.jsonl")),
        *(f"--peer-python={name}=/nowhere" for name in ("datatrove", "datasketch", "rensa", "text-dedup")),
    )
    assert set(figures["dcurate"]) == {"0.7", "0.8", "0.9"}
    assert figures["dcurate"]["0.8"]["precision"] == 1.0
    assert figures["dcurate"]["0.8"]["recall_above_0.85"] == 1.0
    assert {"recall", "bands", "groups"} <= set(figures["dcurate"]["0.8"])
    assert figures["labels"]["not_labelled"] == figures["labels"]["labelled_only"] == 0
    assert re.search(r"^0\.8 dcurate, connected ", printed, re.MULTILINE)
    assert "rensa: left out, there is no /nowhere" in printed


def test_growth_is_told_from_size_to_size() -> None:
    sizes = [{"mb": 1, "cpu_s": 2, "peak_pss_mb": 100}, {"mb": 3, "cpu_s": 4, "peak_pss_mb": 90}]
    assert growth(sizes) == {"marginal_cpu_s_per_mb": [1.0], "cost_ratio": None, "peak_ratio": 0.9}
    three = growth([*sizes, {"mb": 4, "cpu_s": 6, "peak_pss_mb": 110}])
    assert three == {"marginal_cpu_s_per_mb": [1.0, 2.0], "cost_ratio": 2.0, "peak_ratio": 1.1}


def test_dedup_gives_rates_peaks_and_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "input.jsonl").write_bytes(b"\n".join(map(orjson.dumps, real(60))))
    figures, printed = figures_of(
        *("dedup", tmp_path, "--input", str(tmp_path / "input.jsonl"), "--sizes", "1,2", "--workers", "1"),
        *("--repeat", "1"),
        *("--only", "exact"),
        *(f"--peer-python={name}=/nowhere" for name in ("datatrove", "datasketch", "rensa", "text-dedup")),
    )
    assert {"marginal_mb_per_cpu_s", "mb_per_cpu_s", "peak_rss_mb", "peak_pss_mb"} <= set(figures["exact"])
    corpus = Corpus(real(60))
    texts = [corpus.document(number)["text"] for number in range(120)]
    assert [size["documents_out"] for size in figures["exact"]["sizes"]] == [len(set(texts[:60])), len(set(texts))]
    assert figures["exact"]["growth"]["peak_ratio"] > 0
    assert figures["peers"] == {}
    assert "65 % unique" in printed
