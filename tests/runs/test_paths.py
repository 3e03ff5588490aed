"""Finished runs are named by texts and by paths alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dcurate
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
from dcurate.runs import RunPlaces, lineage, prove, prove_row, training_summary, way_back
from dcurate.text import WordCountFilter

READERS: dict[str, Callable[[Any], Any]] = {
    "read_run": lambda output: dcurate.read_run(output).to_dict(),
    "read_rejected": lambda output: dcurate.read_rejected(output).to_dict(),
    "trace": lambda output: dcurate.trace(output, ["2"]).to_dict(),
    "inspect": lambda output: dcurate.inspect(output, "word_count").to_dict(),
    "compare_runs": lambda output: dcurate.ui.compare_runs(output, output).to_dict(),
    "RunPlaces": RunPlaces,
    "prove": prove,
    "prove_row": lambda output: prove_row(output, "1"),
    "lineage": lineage,
    "way_back": lambda output: way_back(output, ["1"]),
    "training_summary": lambda output: training_summary(output, facts={"provider_name": "ACME"}).to_dict(),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    rows = pd.DataFrame({"id": ["1", "2"], "url": ["https://a.example/1"] * 2, "text": ["a b c", "d"]})
    rows.to_json(folder / "in.jsonl", orient="records", lines=True)
    in_file: Any = folder / "in.jsonl"
    out_folder: Any = folder / "out"
    dropped: Any = folder / "dropped"
    stages: list[Any] = [
        JsonlReader(in_file),
        ScoreFilter(WordCountFilter(min_words=2)),
        JsonlWriter(out_folder),
    ]
    run = Pipeline("t", stages=stages).run(InlineExecutor(), observers=[], rejected=dropped, proof=True)
    assert run.rejected()["id"].tolist() == ["2"]
    return folder / "out"


@pytest.mark.parametrize("name", READERS)
def test_a_path_is_taken_as_its_text_is(name: str, output: Path) -> None:
    assert str(READERS[name](output)) == str(READERS[name](str(output)))
