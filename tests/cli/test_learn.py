"""``dcurate learn``."""

from __future__ import annotations

import json

import fasttext
from click.testing import CliRunner

from dcurate.cli import cli
from dcurate.learn import Student
from tests.learn.test_learn import GOOD, texts, written


def called(*arguments: object) -> str:
    result = CliRunner().invoke(cli, ["learn", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_student_is_trained_shown_and_written_for_fasttext(tmp_path):
    labels = written(tmp_path / "labels", texts(400))
    model, bin_path = tmp_path / "model", tmp_path / "model.bin"
    options = ("--positive", "label=good", "--f-beta", 1, "--site-field", "url", "--licence", "CC0-1.0")
    shown = called(labels, "-o", model, *options, "--fasttext", bin_path)
    assert "figures are of 40 held back" in shown
    assert "threshold of label: " in shown
    student = Student.load(str(model))
    assert student.card["licence"] == "CC0-1.0"
    assert student.predict([" ".join(GOOD)])["label"] == ["good"]
    assert fasttext.load_model(str(bin_path)).predict(" ".join(GOOD))[0] == ("__label__good",)
    card = json.loads(called(labels, "-o", tmp_path / "other", "--head", "grade", "--json", "-"))
    assert card["figures"][0]["kind"] == "number"


def test_rules_that_exclude_each_other_and_pairs_without_a_class_are_refused(tmp_path):
    labels = written(tmp_path / "labels", texts(20))
    for options, sentence in (
        (("--precision", "0.9", "--f-beta", "1"), "--precision and --f-beta are different rules"),
        (("--positive", "good"), "must be HEAD=CLASS"),
    ):
        result = CliRunner().invoke(cli, ["learn", str(labels), "-o", str(tmp_path / "model"), *options])
        assert result.exit_code == 2
        assert sentence in result.output
