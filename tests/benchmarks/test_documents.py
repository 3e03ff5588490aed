"""Scores of the benchmark of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.documents import documents, sampled, scored
from benchmarks.documents_scores import cells, lines_left_out, order, tau, tokens, word_f1


def test_han_and_hangul_count_by_the_character_and_ligatures_by_their_letters() -> None:
    assert tokens("\ufb01nd 漢字 2x, 한") == ["find", "漢", "字", "2x", "한"]


def test_words_count_as_often_as_they_are_there() -> None:
    assert word_f1(["a", "a", "b"], ["a", "b", "c"]) == 2 / 3
    assert word_f1([], []) == 1.0


def test_order_is_that_of_neighbours() -> None:
    assert order(list("abcd"), list("abcd")) == 1.0
    assert order(list("abcd"), list("cdab")) == 2 / 3


def test_tau_is_that_of_blocks() -> None:
    blocks = [f"{name} one two three four five six" for name in ("x", "y", "z")]
    assert tau(blocks, tokens(" ".join(blocks))) == 1.0
    assert tau(blocks, tokens(" ".join(reversed(blocks)))) == -1.0
    assert tau(blocks[:1], tokens(blocks[0])) is None


def test_lines_and_cells_are_counted_in_both_and_in_each() -> None:
    assert lines_left_out(["A  head", "1"], ["A head", "2"]) == (1, 2, 2)
    truth = {"pages": [{"tables": [{"cells": [["a", "b"], ["", "c"]]}]}]}
    found = {"pages": [{"tables": [{"cells": [["a", "x"], ["", "c"]]}]}]}
    assert cells(truth, found) == (2, 3, 3)


def test_a_part_may_lack_languages_kinds_and_texts() -> None:
    rows: list[dict[str, Any]] = [
        {"text": "a b c", "lang": "en", "kind": "plain"},
        {"text": "a b", "pages": None},
        {"truth_text": None},
    ]
    answers: list[dict[str, Any]] = [
        {"text": "a b c", "cpu_s": 0.5},
        {"text": "", "cpu_s": 0.5, "error": "damaged"},
        {"text": "x", "cpu_s": 1},
    ]
    found = scored(rows, answers, [2, 1, 1])
    assert (found["word_f1"], found["files"], found["errors"], found["pages_per_cpu_s"]) == (0.5, 2, 1, 2.0)
    assert {key: group["word_f1"] for key, group in found["lang"].items()} == {"en": 1.0, "unknown": 0.0}
    assert scored(rows[2:], answers[2:], [1])["word_f1"] is None


def test_a_sample_keeps_to_its_pages_and_is_the_same_again() -> None:
    rows, pages = [{"text": "a"}] * 20, [7] * 20
    chosen = sampled(rows, pages, 30)
    assert chosen == sampled(rows, pages, 30)
    assert len(chosen) == 4
    assert sampled(rows[:1], [900], 30) == [0]


def test_a_folder_without_a_part_has_no_documents_of_it(tmp_path: Path) -> None:
    assert documents(tmp_path, "real", tmp_path) == []
