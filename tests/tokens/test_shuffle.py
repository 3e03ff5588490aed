"""`TokenShuffle`: every document or window once, in an order that follows from the seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcurate import InlineExecutor, Pipeline, PipelineError
from dcurate.tokens import TokenShuffle, shuffle
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.show import shown_documents
from dcurate.tokens.tokenizer import TokenizerSource
from dcurate_testing.token_files import read_mds, read_tokens
from tests.tokens.conftest import texts
from tests.tokens.test_check import command
from tests.tokens.test_rewrite import contents, listed, spans, tokens
from tests.tokens.test_writer import data_files, rows_of

WINDOWS: dict[str, Any] = {"packing": "concat", "sequence_length": 16, "loss_ranges_field": "loss"}
ROWS = [{**row, "loss": [[0, 7 * number % 40]]} for number, row in enumerate(rows_of(texts(70)))]


def shuffled(folders: Any, output: Path, **settings: Any) -> str:
    stage = TokenShuffle(folders, str(output), **{"shard_tokens": 400, **settings})
    Pipeline("shuffle", stages=[stage]).run(InlineExecutor(), observers=[])
    return str(output)


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("form", ["megatron", "parquet"])
def test_documents_come_once_in_an_order_of_the_seed_and_not_of_the_shards(
    form: str, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tokens(tmp_path, tokenizer, "out", ROWS, format=form, loss_ranges_field="loss")
    first = shuffled(out, tmp_path / "first", seed=1)
    order = [span["doc"] for span in spans(first)]
    assert sorted(order) == sorted(row["id"] for row in ROWS)
    assert order != [row["id"] for row in ROWS]
    assert [span["doc"] for span in spans(shuffled(out, tmp_path / "second", seed=2))] != order
    before = dict(zip([span["doc"] for span in spans(out)], read_tokens(Path(out), form), strict=True))
    assert [before[doc] for doc in order] == read_tokens(Path(first), form)
    monkeypatch.setattr(shuffle, "_SPLIT", 100)
    command("convert", out, "--output", str(tmp_path / "other"), "--shard-tokens", "250")
    again = contents(shuffled(str(tmp_path / "other"), tmp_path / "again", seed=1))
    assert again == contents(first)
    found = verify(TokenFolder(first), TokenizerSource(tokenizer), [str(tmp_path / "out-in")], sample=99)
    assert (found.wrong, found.tokenised) == ([], 70)


@pytest.mark.parametrize("packing", ["concat", "best_fit"])
def test_windows_come_once_and_their_spans_name_the_tokens(
    packing: str, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**WINDOWS, "packing": packing, "format": "mds"}
    out = tokens(tmp_path, tokenizer, "out", ROWS, **settings)
    made = shuffled(out, tmp_path / "made", unit="window", seed=1)
    assert "no document is read back, as the windows are shuffled; their sizes" in command("verify", made)[1]
    monkeypatch.setattr(shuffle, "_SPLIT", 64)
    again = shuffled(out, tmp_path / "again", unit="window", seed=1)
    assert data_files(Path(made)) == data_files(Path(again))
    before, after = (read_mds(Path(folder)) for folder in (out, made))
    assert before != after
    assert sorted(map(repr, before)) == sorted(map(repr, after))
    folder = TokenFolder(made)
    documents = {row["id"]: {} for row in ROWS}
    for shard in folder.shards:
        for span in spans(made):
            if span["shard"] == shard["shard"]:
                ids, _ = folder.stretch(shard["shard"], span["start"], span["end"])
                documents[span["doc"]] |= dict(zip(range(span["first"], 10**6), ids.tolist(), strict=False))
    whole = tokens(tmp_path, tokenizer, "whole", ROWS)
    wanted = dict(zip((row["id"] for row in ROWS), read_tokens(Path(whole), "megatron"), strict=True))
    assert {doc: [ids[place] for place in sorted(ids)] for doc, ids in documents.items()} == wanted
    assert folder.about["padding"] == TokenFolder(out).about["padding"]
    assert verify(folder, TokenizerSource(tokenizer)).wrong == []
    assert len(shown_documents(folder, TokenizerSource(tokenizer), 3)) == 3


def test_folders_of_shuffled_windows_are_merged_converted_and_rid_of_documents(tokenizer: str, tmp_path: Path) -> None:
    out = tokens(tmp_path, tokenizer, "out", ROWS, **WINDOWS)
    made = shuffled(out, tmp_path / "made", unit="window", shard_tokens=100)
    assert {shard["sequences"] for shard in TokenFolder(made).shards} == {6} | {
        TokenFolder(made).shards[-1]["sequences"]
    }
    merged = str(tmp_path / "merged")
    assert command("merge", made, "--output", merged, "--shard-tokens", "170")[0] == 0
    assert read_tokens(Path(merged), "megatron") == read_tokens(Path(made), "megatron")
    assert {shard["tokens"] for shard in TokenFolder(merged).shards[:-1]} == {160}
    assert command("convert", merged, "--output", str(tmp_path / "npy"), "--format", "npy")[0] == 0
    assert read_tokens(tmp_path / "npy", "npy") == read_tokens(Path(made), "megatron")
    with pytest.raises(PipelineError, match="were shuffled, so its documents cannot be packed again"):
        command("convert", merged, "--output", str(tmp_path / "x"), "--packing", "none")
    with pytest.raises(PipelineError, match="so it has no whole documents; use unit='window'"):
        command("shuffle", merged, "--output", str(tmp_path / "x"))
    gone = {"d3", "d60"}
    before = np.array(read_tokens(Path(merged), "megatron"))
    places = [span for span in spans(merged) if span["doc"] in gone]
    assert command("drop", merged, "--ids", listed(tmp_path, sorted(gone)))[0] == 0
    after = np.array(read_tokens(Path(merged), "megatron"))
    assert not gone & {span["doc"] for span in spans(merged)}
    assert (before != after).sum() <= sum(span["end"] - span["start"] for span in places)
    assert TokenFolder(merged).about["padding"] == TokenFolder(made).about["padding"] + sum(
        span["end"] - span["start"] for span in places
    )
    assert verify(TokenFolder(merged), TokenizerSource(tokenizer)).wrong == []
    assert command("shuffle", merged, "--output", str(tmp_path / "twice"), "--unit", "window", "--seed", "5")[0] == 0
    assert sorted(read_tokens(tmp_path / "twice", "megatron")) == sorted(after.tolist())


def test_what_cannot_be_shuffled_is_refused(tokenizer: str, tmp_path: Path) -> None:
    out = tokens(tmp_path, tokenizer, "out", ROWS)
    with pytest.raises(PipelineError, match="has no windows, as its documents are not packed; use unit='document'"):
        shuffled(out, tmp_path / "x", unit="window")
    with pytest.raises(PipelineError, match="unit='row' is not one of"):
        shuffled(out, tmp_path / "x", unit="row")
