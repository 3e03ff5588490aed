"""The page of a student: it shows what its figures say, loads nothing, and prints text as text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dcurate import DataError
from dcurate.learn import HeldBack, KeepByFBeta, student
from dcurate.ui import student_page, write_student_page
from dcurate.ui.student_page import population_stability
from dcurate_testing.browser import Browser
from dcurate_testing.legibility import PHONE
from tests.learn.test_columns import learned as learned_of_columns
from tests.learn.test_learn import learned, texts

EVIL = "<img src=x onerror=alert(1)>'\"&"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("student")
    rows: list[dict[str, Any]] = texts(400)
    for number, row in enumerate(rows):
        row |= {"text": f"{row['text']} {number} {EVIL}", "source": EVIL if number % 3 else "books"}
        if number % 20 < 2:  # labels that are wrong
            row["label"] = "good" if row["label"] == "bad" else "bad"
    settings: dict[str, Any] = {"positive": {"label": "good"}, "calibration": "isotonic", "thresholds": KeepByFBeta()}
    learned(folder, rows, head_fields=["label", "fine", "grade"], figure_fields=["source"], **settings)
    return folder / "model"


def test_files_have_the_names_that_learn_gives_them():
    assert (student_page.CARD, student_page.FIGURES, student_page.PAGE) == (
        student.CARD,
        student.FIGURES,
        student.PAGE,
    )


def test_a_page_shows_all_of_each_head_loads_nothing_and_prints_text_as_text(model):
    page = Path(write_student_page(str(model)))
    assert page == model / "report.html"
    text = page.read_text()
    curves = ("ROC curve", "precision-recall curve", "calibrated by the other four fifths")
    for shown in (*curves, "confusion matrix", "By source"):
        assert shown in text
    assert text.count('<section id="head-') == 3
    assert "<img" not in text
    assert "&lt;img src=x" in text
    assert not re.search(r"(?:src|href)=[\"'](?!data:|#)|url\(|@import|<script", text)
    figures = json.loads((model / "figures.json").read_text())
    head = figures["heads"][0]
    assert f"{head['curves'][0]['auc']:.3f}" in text
    assert f"{head['thresholds'][0]['threshold']:.4f}" in text
    assert head["wrong"]
    assert head["wrong"][0]["moved"]
    assert text.count('class="moved"') == sum(len(entry["wrong"]) for entry in figures["heads"])


def test_a_page_is_written_where_it_is_wanted_and_shows_drift(model, tmp_path):
    figures = json.loads((model / "figures.json").read_text())
    counts = figures["heads"][0]["scores"]["counts"]
    other = [7 * number for number in counts[::-1]]
    text = Path(write_student_page(str(model), str(tmp_path / "page.html"), corpus={"label": other})).read_text()
    assert f"{sum(other)} documents of the corpus by score" in text
    assert f"population stability index {population_stability(counts, other):.3f}" in text
    assert "Drift" not in Path(write_student_page(str(model))).read_text()


def test_a_page_of_a_thousand_classes_lists_the_pairs_that_are_confused_most():
    labels = [f"class {number}" for number in range(1000)]
    counts = [[int(row == column) for column in range(1000)] for row in range(1000)]
    counts[7][8], counts[8][7] = 5, 9
    head = {"name": "topic", "kind": "classes", "labels": labels, "positive": "", "groups": {}, "wrong": []}
    measures = {"rows": 1014, "auc": 0.9, "f1": 0.9, "accuracy": 0.9, "confusion": counts}
    card = {"data": {"train": 1, "validation": 1, "held": 1}}
    text = student_page.student_page("model", card, {"heads": [{**head, "measures": measures}]}, {})
    table = text[text.index("Most often confused") :]
    assert table.index("<th>class 8</th>") < table.index("<th>class 7</th>")
    assert "class 29 and 970 more." in text
    assert len(text) < 60_000


def test_a_page_of_a_student_of_columns_speaks_of_rows_and_columns(tmp_path):
    rows = [{"words": number % 7, "label": "good" if number % 3 else "bad"} for number in range(200)]
    settings: dict[str, Any] = {"feature_fields": ["words"], "held_back": HeldBack(near_duplicates=False)}
    learned_of_columns(tmp_path, rows, **settings)
    text = Path(write_student_page(str(tmp_path / "model"))).read_text()
    assert "rows trained on" in text
    assert "with the columns that moved the score most" in text


@pytest.mark.cluster
def test_long_names_of_classes_and_values_fit_a_phone(browser: Browser, tmp_path):
    rows: list[dict[str, Any]] = texts(400)
    for number, row in enumerate(rows):
        row |= {"text": f"{row['text']} {number}", "source": "source" * 20}
        row["label"] = ("bad" if row["label"] == "good" and number % 9 == 0 else row["label"]) * 30
    learned(tmp_path, rows, figure_fields=["source"])
    page = write_student_page(str(tmp_path / "model"))
    browser.open(Path(page).as_uri(), *PHONE)
    browser.wait("document.readyState === 'complete' && Boolean(document.querySelector('h1'))")
    assert browser.value("document.documentElement.scrollWidth") == PHONE[0]


def test_folders_without_figures_and_damaged_ones_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"has no card\.json; train the model again"):
        write_student_page(str(tmp_path))
    (tmp_path / "card.json").write_text("{")
    with pytest.raises(DataError, match=r"card\.json in .* is damaged"):
        write_student_page(str(tmp_path))


def test_the_index_of_drift_is_zero_for_the_same_shares_only():
    assert population_stability([1, 2, 3], [10, 20, 30]) == 0
    assert population_stability([1, 2, 3], [30, 20, 10]) > 0.25
