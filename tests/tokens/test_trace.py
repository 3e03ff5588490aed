"""From a token to its document, and from a document to its tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dcurate import InlineExecutor, JsonlReader, Pipeline, PipelineError, ScoreFilter, TokenWriter, trace
from dcurate.cli import cli
from dcurate.text import WordCountFilter
from tests.tokens.conftest import texts
from tests.tokens.test_writer import expected, rows_of, write


@pytest.fixture
def out(tokenizer: str, tmp_path: Path) -> Path:
    """Tokens in windows, of documents of which a filter dropped some."""
    source = write(tmp_path / "in", rows_of(texts(60)), 2)
    writer = TokenWriter(str(tmp_path / "out"), tokenizer, shard_tokens=700, packing="best_fit", sequence_length=40)
    stages: list[Any] = [JsonlReader(source), ScoreFilter(WordCountFilter(min_words=5)), writer]
    Pipeline("tokens", stages=stages).run(InlineExecutor(), rejected=str(tmp_path / "rejected"), observers=[])
    return tmp_path / "out"


def test_a_token_leads_to_its_document_and_this_to_all_of_its_tokens(out: Path, tokenizer: str) -> None:
    ids = dict(zip([row["id"] for row in rows_of(texts(60))], expected(tokenizer, texts(60)), strict=True))
    for shard in json.loads((out / "tokens.json").read_text())["shards"]:
        name = shard["shard"]
        flat = np.fromfile(out / f"{name}.bin", np.uint16).tolist()
        for offset in (0, 33, len(flat) - 60):
            [fate] = trace(str(out), tokens=[f"{name}:{offset}"]).fates
            assert fate.outcome == "kept"
            assert "score_filter" in " ".join(fate.passed) or fate.passed
            places = [one.rpartition(":")[2].split("-") for one in fate.tokens]
            assert any(int(start) <= offset < int(end) for start, end in places)
            held = [flat[int(start) : int(end)] for start, end in places]
            assert sorted(one for each in held for one in each) == sorted(ids[fate.id])
            assert trace(str(out), [fate.id]).fates == (fate,)


def test_the_command_shows_the_document_of_a_token_and_what_became_of_others(out: Path) -> None:
    first = pq.read_table(out / "spans" / "tokens-00000.parquet").to_pylist()[0]
    done = CliRunner().invoke(cli, ["trace", "--token", "tokens-00000:0", str(out), "--json", "-"])
    assert done.exit_code == 0, done.output
    [fate] = json.loads(done.output)["fates"]
    assert (fate["id"], fate["outcome"]) == (first["doc"], "kept")
    assert "tokens-00000:0-" in fate["tokens"][0]
    number = [row["id"] for row in rows_of(texts(60))].index(first["doc"])
    file = out.parent / "in" / f"{number // 30:02}.jsonl"
    assert fate["place"] == f"{file}, row {number % 30} (counted from 0)"
    file.unlink()
    [fate] = json.loads(CliRunner().invoke(cli, ["trace", first["doc"], str(out), "--json", "-"]).output)["fates"]
    assert fate["place"] == f"{first['source']}, row {first['row']} (counted from 0)"
    shown = CliRunner().invoke(cli, ["trace", "--token", "tokens-00000:0", str(out)]).output
    assert first["doc"] in shown
    assert "tokens-00000:0-" in shown
    dropped = next(row["id"] for row in rows_of(texts(60)) if len(row["text"].split()) < 5)
    fates = trace(str(out), [dropped], tokens=["tokens-00000:0"]).fates
    assert [(one.id, one.outcome, one.tokens != ()) for one in fates] == [
        (dropped, "dropped", False),
        (first["doc"], "kept", True),
    ]


def test_places_that_are_none_are_refused(out: Path) -> None:
    shard = json.loads((out / "tokens.json").read_text())["shards"][0]
    held = {
        place
        for span in pq.read_table(out / "spans" / "tokens-00000.parquet").to_pylist()
        for place in range(span["start"], span["end"])
    }
    padding = next(place for place in range(shard["tokens"]) if place not in held)
    for token, sentence in (
        (f"tokens-00000:{padding}", "is padding, which is of no document"),
        ("tokens-00009:0", "has no shard 'tokens-00009'; did you mean"),
        ("tokens-00000:900000", "there is none at 900,000"),
        ("here", "give SHARD:OFFSET"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            trace(str(out), tokens=[token])
    done = CliRunner().invoke(cli, ["trace", str(out)])
    assert done.exit_code == 2
    assert "give its id before OUTPUT, or --token SHARD:OFFSET" in done.output


def test_a_token_of_a_folder_that_was_shuffled_and_merged_is_traced_to_its_file(out: Path, tmp_path: Path) -> None:
    for arguments in (
        ["shuffle", str(out), "--output", str(tmp_path / "shuffled"), "--seed", "3"],
        ["merge", str(tmp_path / "shuffled"), "--output", str(tmp_path / "merged")],
    ):
        assert CliRunner().invoke(cli, ["tokens", *arguments]).exit_code == 0
    span = pq.read_table(tmp_path / "merged" / "spans" / "tokens-00000.parquet").to_pylist()[5]
    token = f"tokens-00000:{span['start']}"
    done = CliRunner().invoke(cli, ["trace", "--token", token, str(tmp_path / "merged"), "--json", "-"])
    [fate] = json.loads(done.output)["fates"]
    assert fate["id"] == span["doc"]
    assert fate["place"] == f"{out.parent / 'in' / span['source']}, row {span['row']} (counted from 0)"
    assert any("word_count" in stage or "jsonl_reader" in stage for stage in fate["passed"])
