"""Folders of tokens that are merged, converted, and rid of documents are those that a run would have written."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dcurate import DataError, ExactDuplicates, InlineExecutor, JsonlReader, Pipeline, PipelineError, TokenWriter
from dcurate.fs.stores import Directory
from dcurate.tokens import drop as dropping
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.tokenizer import TokenizerSource
from dcurate_testing.token_files import read_tokens, train_bpe
from tests.tokens.conftest import texts
from tests.tokens.test_check import command
from tests.tokens.test_writer import FORMATS, data_files, rows_of, run, write

SHARD = 700
WINDOWS: dict[str, Any] = {"packing": "best_fit", "sequence_length": 32}


def tokens(tmp_path: Path, tokenizer: str, name: str, rows: list[dict[str, Any]], **settings: Any) -> str:
    source = write(tmp_path / f"{name}-in", rows)
    settings = {"shard_tokens": SHARD, **settings}
    run(source, TokenWriter(str(tmp_path / name), tokenizer, **settings))
    return str(tmp_path / name)


def listed(tmp_path: Path, ids: list[str]) -> str:
    (tmp_path / "ids").write_text("".join(f"{one}\n" for one in ids))
    return str(tmp_path / "ids")


def spans(folder: str) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted(Path(folder, "spans").glob("t*s-?????.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def contents(folder: str) -> dict[str, Any]:
    """The data files but for names of tokenizers, the spans, and the losses; Parquet as its rows."""
    found = {name: data for name, data in data_files(Path(folder)).items() if name != "tokens.json"}
    found = {
        name: pq.read_table(Path(folder, name)) if name.endswith(".parquet") else data for name, data in found.items()
    }
    beside = {path.name: path.read_bytes() for path in Path(folder, "spans").glob("*.npy")}
    about = json.loads(Path(folder, "tokens.json").read_text())
    for shard in about["shards"]:
        shard["files"] = sorted(shard["files"]) if about["format"] == "parquet" else shard["files"]
    return {**found, **beside, "spans": spans(folder), "about": about}


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("settings", [{}, {**WINDOWS, "add_bos": "<|endoftext|>"}], ids=["documents", "windows"])
def test_a_converted_folder_is_what_a_run_would_have_written(settings: Any, tokenizer: str, tmp_path: Path) -> None:
    rows = [{**row, "loss": [[0, 11 * number % 40]]} for number, row in enumerate(rows_of(texts(60)))]
    settings = {"loss_ranges_field": "loss", **settings}
    for before, after in pairwise([*FORMATS, FORMATS[0]]):
        if before == FORMATS[0]:
            tokens(tmp_path, tokenizer, "megatron-made", rows, **settings)
        else:
            shutil.rmtree(tmp_path / f"{after}-in", ignore_errors=True)
        if after != FORMATS[0]:
            tokens(tmp_path, tokenizer, after, rows, format=after, **settings)
        source = f"{before}-made"
        made = str(tmp_path / (f"{after}-made" if after != FORMATS[0] else "again"))
        options = ["--format", after, "--shard-tokens", str(SHARD)]
        assert command("convert", str(tmp_path / source), "--output", made, *options)[0] == 0
        wanted = str(tmp_path / (after if after != FORMATS[0] else "megatron-made"))
        assert contents(made) == contents(wanted)


@pytest.mark.usefixtures("small_reads")
def test_a_folder_is_packed_again_and_keeps_its_shards(tokenizer: str, tmp_path: Path) -> None:
    rows = rows_of(texts(60))
    whole = tokens(tmp_path, tokenizer, "whole", rows)
    packed = tokens(tmp_path, tokenizer, "packed", rows, **WINDOWS)
    options = ["--packing", "best_fit", "--sequence-length", "32"]
    assert command("convert", whole, "--output", str(tmp_path / "made"), *options)[0] == 0
    assert contents(str(tmp_path / "made")) == contents(packed)
    code, said = command("convert", packed, "--output", str(tmp_path / "back"), "--packing", "none")
    assert (code, contents(str(tmp_path / "back"))) == (0, contents(whole))
    assert said == f"{tmp_path}/back: {len(list(Path(whole).glob('*.bin')))} shards, 60 documents, " + (
        f"{TokenFolder(whole).about['tokens']:,} tokens\n"
    )


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("settings", [{}, WINDOWS], ids=["documents", "windows"])
def test_merged_folders_are_what_one_run_would_have_written(settings: Any, tokenizer: str, tmp_path: Path) -> None:
    rows = rows_of(texts(90))
    parts = [
        tokens(tmp_path, tokenizer, f"part{place}", rows[place::3], **{**settings, "shard_tokens": 300})
        for place in range(3)
    ]
    whole = tokens(tmp_path, tokenizer, "whole", [row for place in range(3) for row in rows[place::3]], **settings)
    made = str(tmp_path / "made")
    assert command("merge", *parts, "--output", made, "--shard-tokens", str(SHARD))[0] == 0
    merged, wanted = contents(made), contents(whole)
    places = [{name: span.pop(name) for name in ("source", "row")} for span in merged["spans"]]
    assert [one["source"] for one in places if "00.jsonl" in one["source"]]
    for span in wanted["spans"]:
        del span["source"], span["row"]
    assert merged == wanted
    assert verify(TokenFolder(made), TokenizerSource(tokenizer), sample=200).wrong == []


def test_folders_that_are_not_alike_or_cut_are_refused_and_nothing_is_written(tokenizer: str, tmp_path: Path) -> None:
    rows = rows_of(texts(30))
    one = tokens(tmp_path, tokenizer, "one", rows)
    other = train_bpe(tmp_path / "other" / "tokenizer.json", texts(40), size=300)
    made = str(tmp_path / "made")
    different: list[tuple[str, dict[str, Any], str]] = [
        ("a", {"tokenizer": other}, "have different tokenizers"),
        ("b", {"format": "ds"}, "have different formats, 'megatron' and 'ds'; merge folders that are alike, or conv"),
        ("c", {"add_eos": False}, "have different EOS tokens"),
    ]
    for name, settings, said in different:
        two = tokens(tmp_path, settings.pop("tokenizer", tokenizer), name, rows, **settings)
        with pytest.raises(DataError, match=said):
            command("merge", one, two, "--output", made)
    with pytest.raises(PipelineError, match="is one of the folders that are read; name another"):
        command("merge", one, "--output", f"{one}/")
    with pytest.raises(PipelineError, match="dtype='uint32' is not one of"):
        command("convert", one, "--output", made, "--dtype", "uint32")
    with pytest.raises(DataError, match=r"has a document of \d+ tokens, more than shard_tokens=20; give larger shards"):
        command("merge", one, "--output", made, "--shard-tokens", "20")
    file = Path(one, "tokens-00001.bin")
    file.write_bytes(file.read_bytes()[:-2])
    ids = tmp_path / "ids"
    ids.write_text("d3\n")
    for arguments in (
        ("merge", one, "--output", made),
        ("convert", one, "--output", made),
        ("drop", one, "--ids", ids),
    ):
        with pytest.raises(DataError, match=r"tokens-00001\.bin has [\d,]+ bytes and was written with"):
            command(*map(str, arguments))
    assert not Path(made).exists()


def test_ids_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    words = {f"w{number}": number for number in range(70_000)}
    large = tmp_path / "large.json"
    large.write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "pre_tokenizer": {"type": "Whitespace"},
                "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
            }
        )
    )
    few = [{"id": "a", "text": "w1 w65535"}]
    small = tokens(tmp_path, str(large), "small", few, add_eos=False)
    assert command("convert", small, "--output", str(tmp_path / "fits"), "--dtype", "uint16")[0] == 0
    assert read_tokens(tmp_path / "fits", "megatron") == [[1, 65535]]
    big = tokens(tmp_path, str(large), "big", [*few, {"id": "b", "text": "w65536"}], add_eos=False)
    with pytest.raises(DataError, match=r"has the id 65,536, which does not fit dtype='uint16'; leave dtype out"):
        command("convert", big, "--output", str(tmp_path / "not"), "--dtype", "uint16")
    assert not list((tmp_path / "not").rglob("*.bin"))
    assert command("convert", big, "--output", str(tmp_path / "ds"), "--format", "ds")[0] == 0
    assert TokenFolder(str(tmp_path / "ds")).about["dtype"] == "uint32"


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("form", FORMATS)
def test_dropped_documents_are_gone_and_all_else_is_as_it_was(form: str, tokenizer: str, tmp_path: Path) -> None:
    rows = rows_of(texts(60))
    gone = {"d7", "d8", "d31"}
    out = tokens(tmp_path, tokenizer, "out", rows, format=form)
    fresh = tokens(tmp_path, tokenizer, "fresh", [row for row in rows if row["id"] not in gone], format=form)
    before = {path.name: path.stat().st_mtime_ns for path in Path(out).iterdir()}
    holding = {span["shard"] for span in spans(out) if span["doc"] in gone}
    code, said = command("drop", out, "--ids", listed(tmp_path, [*gone, "nobody"]), "--reason", "asked", "--json", "-")
    receipt = json.loads(said)
    assert (code, receipt["why"], receipt["not_found"]) == (0, "asked", ["nobody"])
    assert json.loads(Path(receipt["receipt"]).read_text()) == receipt
    assert {place["doc"] for place in receipt["places"]} == gone
    assert receipt["tokens"] == sum(place["end"] - place["start"] for place in receipt["places"])
    assert set(receipt["shards"]) == holding
    touched = {
        path.name for path in Path(out).iterdir() if path.is_file() and path.stat().st_mtime_ns != before[path.name]
    }
    assert {name.partition(".")[0] for name in touched} - {"tokens", "index"} == holding
    assert read_tokens(Path(out), form) == read_tokens(Path(fresh), form)
    assert [span["doc"] for span in spans(out)] == [row["id"] for row in rows if row["id"] not in gone]
    assert verify(TokenFolder(out), TokenizerSource(tokenizer), [str(tmp_path / "out-in")], sample=99).tokenised == 57
    assert not Path(f"{out}.dcurate", "drop").exists()


def test_a_packed_shard_is_packed_again_and_an_empty_one_goes(tokenizer: str, tmp_path: Path) -> None:
    rows = rows_of(texts(60))
    whole = tokens(tmp_path, tokenizer, "whole", rows, **WINDOWS)
    first, second = ([span["doc"] for span in spans(whole) if span["shard"] == f"tokens-0000{n}"] for n in (0, 1))
    gone = {*first, second[0]}
    rest = [row for row in rows if row["id"] in second and row["id"] not in gone]
    fresh = tokens(tmp_path, tokenizer, "fresh", rest, **WINDOWS)
    assert command("drop", whole, "--ids", listed(tmp_path, sorted(gone)))[0] == 0
    assert Path(whole, "tokens-00001.bin").read_bytes() == Path(fresh, "tokens-00000.bin").read_bytes()
    assert not list(Path(whole).rglob("*tokens-00000*"))
    assert {row["id"] for row in rows} - gone == {span["doc"] for span in spans(whole)}
    assert verify(TokenFolder(whole), TokenizerSource(tokenizer), sample=99).wrong == []


def test_a_drop_that_was_killed_while_files_moved_is_finished_by_the_next(
    tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tokens(tmp_path, tokenizer, "out", rows_of(texts(60)))
    moved = Directory.take_over

    def killed(self: Directory, other: Directory, names: list[str]) -> None:
        moved(self, other, names[:2])
        raise RuntimeError("killed")

    monkeypatch.setattr(Directory, "take_over", killed)
    with pytest.raises(RuntimeError, match="killed"):
        command("drop", out, "--ids", listed(tmp_path, ["d1", "d50"]))
    monkeypatch.undo()
    assert command("drop", out, "--ids", listed(tmp_path, ["d2"]))[1].startswith("1 documents, ")
    assert {f"d{n}" for n in range(60)} - {span["doc"] for span in spans(out)} == {"d1", "d2", "d50"}
    assert verify(TokenFolder(out), TokenizerSource(tokenizer), [str(tmp_path / "out-in")], sample=99).tokenised == 57
    assert len(list(Path(f"{out}.dcurate", "receipts").iterdir())) == 2


def test_copies_go_on_request(tokenizer: str, tmp_path: Path) -> None:
    rows = rows_of(texts(20))
    rows += [{"id": "copy", "text": rows[4]["text"]}]
    out = tokens(tmp_path, tokenizer, "out", rows)
    groups = str(tmp_path / "groups")
    stages: list[Any] = [JsonlReader(str(tmp_path / "out-in")), ExactDuplicates(id_field="id", report_path=groups)]
    Pipeline("groups", stages=stages).run(InlineExecutor(), observers=[])
    assert dropping.near_copies(Directory(groups), ["d4"]) == {"copy": "d4"}
    assert command("drop", out, "--ids", listed(tmp_path, ["d4"]), "--groups", groups, "--dry-run")[1].startswith(
        "2 doc"
    )
    code, said = command("drop", out, "--ids", listed(tmp_path, ["copy"]), "--groups", groups, "--json", "-")
    assert (code, json.loads(said)["near_copies"]) == (0, {"d4": "copy"})
    assert np.isin(["d4", "copy"], [span["doc"] for span in spans(out)]).tolist() == [False, False]
