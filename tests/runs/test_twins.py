"""A dropped duplicate leads to the document that was kept instead, and no id of a group to another document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from dcurate import (
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    ParquetWriter,
    Pipeline,
    ScoreFilter,
    SemanticDuplicates,
    trace,
)
from dcurate.cli import cli
from dcurate.dedup import BloomDuplicates
from dcurate.runs.documents import Fate
from dcurate.text import AddId, WordCountFilter

#: Documents in pairs of equal ones; each file has short ones before, which a filter drops.
PAIRS = 6


def write(folder: Path) -> str:
    folder.mkdir()
    for part in range(3):
        rows = [
            {"url": f"short/{part}-{number}", "text": "too short", "vector": [0.0, 1.0]} for number in range(part + 1)
        ]
        for pair in range(PAIRS):
            text = " ".join(f"word{(7 * pair + place) % 97} of document {pair}" for place in range(30))
            vector = [float(pair + 1), float(pair * pair)]
            rows += [{"url": f"{pair}/{part}-{copy}", "text": text, "vector": vector} for copy in (0, 1)]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


STAGES: dict[str, Any] = {
    "exact": ExactDuplicates,
    "fields": lambda **settings: ExactDuplicates(fields=["text"], keep="longest", **settings),
    "fuzzy": lambda **settings: FuzzyDuplicates(threshold=0.9, **settings),
    "semantic": lambda **settings: SemanticDuplicates(n_clusters=2, eps=1e-6, embedding_field="vector", **settings),
}


def run(source: str, out: Path, stage: Any) -> None:
    stages = [
        JsonlReader(source),
        ScoreFilter(WordCountFilter(min_words=10)),
        stage,
        AddId("doc_id", id_prefix=None),
        ParquetWriter(str(out)),
    ]
    Pipeline("twins", stages=stages).run(InlineExecutor(), rejected=f"{out}-rejected", observers=[])


def fates(out: Path) -> list[Fate]:
    dropped = [
        json.loads(line)["url"]
        for path in Path(f"{out}-rejected").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    urls = [url for url in dropped if not url.startswith("short")]
    assert len(urls) == PAIRS * 6 - PAIRS
    return list(trace(str(out), urls, id_field="url").fates)


@pytest.mark.parametrize("reported", [True, False], ids=["report", "no report"])
@pytest.mark.parametrize("kind", STAGES)
def test_the_fate_of_a_dropped_duplicate_names_a_document_of_its_group(
    kind: str, reported: bool, tmp_path: Path
) -> None:
    source = write(tmp_path / "in")
    groups = {"report_path": str(tmp_path / "groups")} if reported else {}
    run(source, tmp_path / "out", STAGES[kind](id_field="url", **groups))
    kept = set(pd.read_parquet(tmp_path / "out")["url"])
    for fate in fates(tmp_path / "out"):
        assert fate.outcome == "dropped"
        assert fate.duplicate_of.partition("/")[0] == fate.id.partition("/")[0]
        assert fate.duplicate_of != fate.id
        assert kind == "semantic" or fate.duplicate_of in kept  # there it is the most similar one before
        assert fate.passed == ("jsonl_reader", "word_count")


@pytest.mark.parametrize("kind", STAGES)
def test_ids_of_groups_without_a_column_of_ids_are_not_those_of_documents(kind: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in")
    run(source, tmp_path / "out", STAGES[kind](report_path=str(tmp_path / "groups")))
    groups = pd.read_parquet(tmp_path / "groups")
    named = {*groups["id"], *groups["max_id" if kind == "semantic" else "kept_id"].dropna()}
    assert len(named) >= PAIRS * 6
    for name in pd.read_parquet(tmp_path / "out")["doc_id"]:
        assert not any(name in other for other in named)
    assert {" of batch " in name for name in named} == {True}


def test_a_twin_that_was_not_noted_is_said_to_be_so(tmp_path: Path) -> None:
    source = write(tmp_path / "in")
    bloom = BloomDuplicates(str(tmp_path / "seen.bloom"), 1000)
    for stage, told in (
        (
            FuzzyDuplicates(threshold=0.9),
            "a document that was not noted; give fuzzy_duplicates the column of ids as id_",
        ),
        (bloom, "an earlier document; a Bloom filter does not know which"),
    ):
        out = tmp_path / stage.name
        run(source, out, stage)
        said = CliRunner().invoke(cli, ["trace", fates(out)[0].id, str(out), "--id-field", "url"]).output
        assert told in " ".join(said.split())
