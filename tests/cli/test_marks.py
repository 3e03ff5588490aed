"""``dcurate marks``: marks of people become a file of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dcurate import DataError, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError, ScoreFilter
from dcurate.cli import cli
from dcurate.runs import RunPlaces
from dcurate.text import WordCountFilter
from dcurate.ui.explore.corpus import Query, load_corpus

LONG = "many words " * 300  # longer than what a page shows


@pytest.fixture
def output(tmp_path: Path) -> str:
    """A run that kept two documents and dropped two, in files of the same name."""
    rows = [
        {"id": "a", "url": "https://a", "text": LONG},
        {"id": "b", "text": "few"},
        {"id": "c", "text": "two more words"},
        {"id": "d", "text": "none"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stages: list[Any] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        ScoreFilter(WordCountFilter(min_words=2)),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("p", stages=stages).run(InlineExecutor(), rejected=str(tmp_path / "dropped"), observers=[])
    return str(tmp_path / "out")


def mark(output: str, marks: dict[str, str]) -> None:
    """Mark documents by id, as the page does."""
    folder = Path(output).parent / "index"
    folder.mkdir(exist_ok=True)
    corpus = load_corpus(RunPlaces(output), folder)
    for number in range(len(corpus.index)):
        if text := marks.get(corpus.index.document(number)["id"]):
            corpus.mark(number, text, "")


def invoked(output: str, *arguments: str) -> Result:
    path = str(Path(output).parent / "labels.jsonl")
    return CliRunner().invoke(cli, ["marks", output, "-o", path, *arguments])


def labels(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(output).parent / "labels.jsonl").read_text().splitlines()]


QUALITY = ("--label", "quality", "--schema", "quality")


def test_marked_documents_kept_or_dropped_get_their_label_and_whole_text(output: str) -> None:
    mark(output, {"a": "5", "b": "1", "d": "look again"})
    result = invoked(output, *QUALITY, "--skip", "look again")
    assert result.exit_code == 0, result.output
    assert sorted(labels(output), key=lambda row: row["id"]) == [
        {"id": "a", "url": "https://a", "text": LONG, "quality": 5},
        {"id": "b", "text": "few", "quality": 1},
    ]
    assert "2 labels (1 1, 5 1)" in result.output


def test_marks_can_stand_for_other_values(output: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("labels: {spam: {type: flag, description: d}}")
    mark(output, {"a": "good", "b": "bad", "c": "TRUE"})
    values = ("--value", "good=false", "--value", "bad=true")
    assert invoked(output, "--label", "spam", "--schema", str(tmp_path / "s.yaml"), *values).exit_code == 0
    assert {row["id"]: row["spam"] for row in labels(output)} == {"a": False, "b": True, "c": True}


def test_a_mark_that_is_not_a_value_is_one_sentence_and_nothing_is_written(output: str) -> None:
    mark(output, {"a": "good"})
    error = invoked(output, *QUALITY).exception
    assert isinstance(error, DataError)
    assert "the mark 'good' is not a value of label 'quality': it is 'good', not a whole number from 1 to 5" in str(
        error
    )
    assert not (Path(output).parent / "labels.jsonl").exists()


def test_no_marks_and_no_such_label_are_one_sentence(output: str) -> None:
    assert "nobody has marked a document" in str(invoked(output, *QUALITY).exception)
    error = invoked(output, "--label", "kind", "--schema", "quality").exception
    assert isinstance(error, PipelineError)
    assert "schema 'quality' has no label 'kind'; it has 'quality'" in str(error)


def test_the_page_offers_the_marks_that_are_given(output: str, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    corpus = load_corpus(RunPlaces(output), tmp_path / "index")
    assert corpus.summary()["marks"] == ["good", "bad", "look again"]
    corpus.buttons = ["1", "5"]
    assert corpus.summary()["marks"] == ["1", "5"]
    assert corpus.page(Query())["total"] == 4
    result = CliRunner().invoke(cli, ["explore", output, "--mark", "x" * 41])
    assert (result.exit_code, "a mark has 1 to 40 characters" in result.output) == (2, True)
