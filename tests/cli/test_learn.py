"""``dcurate learn``."""

from __future__ import annotations

import json

import fasttext
from click.testing import CliRunner

from dcurate.cli import cli
from dcurate.learn import Student
from dcurate.text.ngram_models import NgramModel
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


def test_a_model_with_sublinear_weights_is_trained_and_not_written_for_fasttext(tmp_path):
    labels, model = written(tmp_path / "labels", texts(200)), tmp_path / "model"
    called(labels, "-o", model, "--weighting", "sublinear")
    assert Student.load(str(model)).weighting == "sublinear"
    options = ["-o", str(tmp_path / "other"), "--weighting", "sublinear", "--fasttext", str(tmp_path / "model.bin")]
    result = CliRunner().invoke(cli, ["learn", str(labels), *options])
    assert (result.exit_code, (tmp_path / "other").exists()) == (2, False)
    assert "leave out --weighting" in result.output


def test_the_page_is_written_beside_the_model_and_again_with_the_scores_of_a_corpus(tmp_path):
    labels, corpus = written(tmp_path / "labels", texts(200)), written(tmp_path / "corpus", texts(300))
    model = tmp_path / "model"
    shown = called(labels, "-o", model, "--by", "url", "--corpus", corpus)
    assert f"page: {model}/report.html" in shown.replace("\n", "")
    page = (model / "report.html").read_text()
    assert "300 documents of the corpus by score" in page
    assert "By url" in page
    result = CliRunner().invoke(cli, ["report", str(model), "--json", "-"])
    assert json.loads(result.stdout)["data"]["train"] == 160
    assert "documents of the corpus" not in (model / "report.html").read_text()
    CliRunner().invoke(cli, ["report", str(model), "--corpus", str(corpus), "--html", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").read_text() == page
    with (corpus / "0.jsonl").open("a") as file:
        file.write("{broken\n")
    result = CliRunner().invoke(cli, ["report", str(model), "--corpus", str(corpus)])
    assert "1 row of the corpus cannot be read: not compared" in result.output
    assert "300 documents of the corpus by score" in (model / "report.html").read_text()
    result = CliRunner().invoke(cli, ["report", str(labels), "--corpus", str(corpus)])
    assert "give the folder of a model" in result.output


def test_a_student_of_columns_has_a_page_and_its_scores_are_compared_too(tmp_path):
    rows = [{**row, "size": len(row["text"]) + 9 * row["fine"]} for row in texts(200)]
    labels = written(tmp_path / "labels", rows)
    model = tmp_path / "model"
    shown = called(labels, "-o", model, "--feature", "size", "--corpus", labels)
    assert "trained on 160 texts" in shown
    assert "200 documents of the corpus by score" in (model / "report.html").read_text()
    options = ("--feature", "size", "--fasttext", str(tmp_path / "model.bin"))
    result = CliRunner().invoke(cli, ["learn", str(labels), "-o", str(tmp_path / "other"), *options])
    assert "--feature learns from columns; leave one out" in result.output
    assert not (tmp_path / "other").exists()


def test_rules_that_exclude_each_other_and_pairs_without_a_class_are_refused(tmp_path):
    labels = written(tmp_path / "labels", texts(20))
    for options, sentence in (
        (("--precision", "0.9", "--f-beta", "1"), "--precision and --f-beta are different rules"),
        (("--positive", "good"), "must be HEAD=CLASS"),
    ):
        result = CliRunner().invoke(cli, ["learn", str(labels), "-o", str(tmp_path / "model"), *options])
        assert result.exit_code == 2
        assert sentence in result.output


def test_an_ngram_model_is_trained_and_shown(tmp_path):
    corpus, model = written(tmp_path / "corpus", texts(200)), tmp_path / "en.binary"
    arguments = ["learn-ngrams", str(corpus), "-o", str(model), "--order", "3", "--min-count", "1", "--min-count", "2"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "an n-gram model of order 3" in result.output
    assert NgramModel.load(str(model)).order == 3
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 1
    assert "is there; use mode='overwrite', or another path" in str(refused.exception)
    shown = CliRunner().invoke(cli, [*arguments, "--overwrite", "--json", "-"])
    figures = json.loads(shown.stdout)["ngrams"]
    assert [figure["ngrams"] for figure in figures] == list(NgramModel.load(str(model)).counts)
    assert figures[2]["pruned"] > 0
