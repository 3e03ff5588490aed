"""``dcurate tokens``: what is whole passes, and what is not is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dcurate import DataError, PipelineError, TokenWriter
from dcurate.cli import cli
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.tokenizer import TokenizerSource
from dcurate_testing.token_files import train_bpe
from tests.tokens.conftest import texts
from tests.tokens.test_writer import FORMATS, expected, rows_of, run, write

WINDOWS: dict[str, Any] = {"packing": "best_fit", "sequence_length": 48}


def made(tmp_path: Path, tokenizer: str, form: str = "megatron", **settings: Any) -> Path:
    source = write(tmp_path / "in", rows_of(texts(60)))
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, form, shard_tokens=500, **settings))
    return tmp_path / "out"


def without_digests(out: Path) -> None:
    """Leave the folder as earlier versions wrote it."""
    about = json.loads((out / "tokens.json").read_text())
    for shard in about["shards"]:
        del shard["digests"]
    (out / "tokens.json").write_text(json.dumps(about))


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["tokens", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("settings", [{}, {**WINDOWS, "add_bos": "<|endoftext|>"}], ids=["documents", "windows"])
@pytest.mark.parametrize("form", FORMATS)
def test_whole_folders_pass_and_every_document_is_read_back(
    form: str, settings: Any, tokenizer: str, tmp_path: Path
) -> None:
    out = made(tmp_path, tokenizer, form, **settings)
    found = verify(TokenFolder(str(out)), TokenizerSource(tokenizer), [str(tmp_path / "in")], sample=1000)
    assert found.wrong == []
    assert (found.documents, found.sampled, found.decoded, found.found, found.tokenised) == (60,) * 5


@pytest.mark.parametrize("form", FORMATS)
def test_a_token_that_was_changed_is_found_by_the_input(form: str, tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer, form)
    without_digests(out)
    folder = TokenFolder(str(out))
    file = out / f"tokens-00001{folder.format.endings[0]}"
    if form == "parquet":
        table = pq.read_table(file)
        ids = [[one if place else one ^ 1 for place, one in enumerate(row)] for row in table["input_ids"].to_pylist()]
        kind = table.schema.field("input_ids").type
        pq.write_table(table.set_column(1, "input_ids", [ids]).cast(table.schema), file, compression="zstd")
        assert pq.read_table(file).schema.field("input_ids").type == kind
        about = json.loads((out / "tokens.json").read_text())
        about["shards"][1]["files"][file.name] = file.stat().st_size
        (out / "tokens.json").write_text(json.dumps(about))
    else:
        data = bytearray(file.read_bytes())
        data[-6] ^= 1
        file.write_bytes(data)
    found = verify(TokenFolder(str(out)), TokenizerSource(tokenizer), [str(tmp_path / "in")], sample=1000)
    assert found.wrong
    assert all("has other tokens than its text" in sentence for sentence in found.wrong)


@pytest.mark.parametrize("losses", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_a_flipped_bit_of_any_file_is_named(form: str, losses: bool, tokenizer: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"loss_ranges_field": "ranges"} if losses else {}
    rows = [{**row, "ranges": [[0, 5]]} for row in rows_of(texts(60))]
    source = write(tmp_path / "in", rows)
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, form, shard_tokens=500, **settings, **WINDOWS))
    out = tmp_path / "out"
    shards = json.loads((out / "tokens.json").read_text())["shards"]
    files = [file for file in out.rglob("tokens-*") if file.parent.name != "spans" or file.suffix != ".parquet"]
    assert {file.name for file in files} == {name for shard in shards for name in shard["digests"]}
    for file in files:
        whole = file.read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            found = list(TokenFolder(str(out)).changed())
            assert found == [f"{file.name} has other bytes than were written; write it again"]
        assert verify(TokenFolder(str(out)), TokenizerSource(tokenizer), sample=0).wrong
        file.write_bytes(whole)
    assert verify(TokenFolder(str(out)), TokenizerSource(tokenizer), sample=0).wrong == []


def test_a_shard_that_an_earlier_version_wrote_is_checked_as_far_as_it_can_be(tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer)
    without_digests(out)
    assert verify(TokenFolder(str(out)), TokenizerSource(tokenizer)).wrong == []
    assert command("merge", str(out), "--output", str(tmp_path / "made"))[0] == 0


@pytest.mark.parametrize(
    ("form", "name", "at"),
    [
        *[("megatron", "tokens-00001.idx", 40), ("megatron", "tokens-00000.idx", -4)],
        *[("ds", "tokens-00001.ds.index", 3), ("ds", "tokens-00000.ds.metadata", -8)],
        *[("npy", "tokens-00000.npy", 60), ("mds", "tokens-00000.mds", 5), ("litdata", "tokens-00002.bin", 9)],
    ],
)
def test_an_index_that_was_changed_is_named(form: str, name: str, at: int, tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer, form)
    data = bytearray((out / name).read_bytes())
    data[at] ^= 3
    (out / name).write_bytes(data)
    found = verify(TokenFolder(str(out)), TokenizerSource(tokenizer), sample=0)
    assert found.wrong
    assert found.wrong[0].startswith(name.partition(".")[0])


def test_files_that_are_cut_or_missing_are_named_and_the_command_fails(tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer)
    assert command("verify", str(out), "--input", str(tmp_path / "in")) == (
        0,
        "4 shards, 60 documents; read back 60, of which 60 decode to a text of the same tokens\n"
        "found 60 texts in the input, of which 60 give the same tokens\n",
    )
    file = out / "tokens-00001.bin"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-2])
    (out / "tokens-00002.idx").unlink()
    code, said = command("verify", str(out))
    assert code == 1
    assert f"wrong: tokens-00001.bin has {size - 2:,} bytes and was written with {size:,}\n" in said
    assert "wrong: tokens-00002.idx is missing\n" in said


def test_a_table_of_spans_of_another_shard_is_named_and_nothing_is_made_of_it(tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer)
    shutil.copy(out / "spans/tokens-00001.parquet", out / "spans/tokens-00002.parquet")
    said = "spans/tokens-00002.parquet is the table of another shard, or of another run"
    assert f"wrong: {said}\n" in command("verify", str(out))[1]
    for arguments in (["merge", "--output"], ["convert", "--output"], ["drop", "--ids"]):
        (tmp_path / "file").write_text("d3\n")
        path = tmp_path / ("file" if "drop" in arguments else "made")
        with pytest.raises(DataError, match=said):
            command(arguments[0], str(out), arguments[1], str(path))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"\0\0", b"[]", b"{", b'{"format": "x", "shards": []}', b'{"format": "mds"}'])
def test_a_damaged_tokens_json_is_refused_in_a_sentence(content: bytes, tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer)
    (out / "tokens.json").write_bytes(content)
    for arguments in (["verify", str(out)], ["inspect", str(out)], ["merge", str(out), "--output", f"{tmp_path}/made"]):
        with pytest.raises(DataError, match=r"tokens\.json of '.*' is damaged; write the folder again"):
            command(*arguments)
    with pytest.raises(DataError, match="is damaged"):
        run(str(tmp_path / "in"), TokenWriter(str(out), tokenizer, mode="append"))


@pytest.mark.parametrize("form", ["mds", "litdata"])
def test_a_damaged_index_is_named(form: str, tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer, form)
    (out / "index.json").write_bytes((out / "index.json").read_bytes()[:-1])
    assert "index.json is damaged" in command("verify", str(out))[1]


def test_files_of_other_bytes_are_named_in_a_sentence(tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path / "ds", tokenizer, "ds")
    path = out / "tokens-00001.ds.metadata"
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert "the metadata name another width or number of tokens" in command("verify", str(out))[1]
    out = made(tmp_path / "mds", tokenizer, "mds")
    for path in out.glob("*.mds"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(DataError, match="has samples that are shorter than their tokens; it is damaged"):
        command("inspect", str(out))
    path = made(tmp_path / "parquet", tokenizer) / "spans/tokens-00001.parquet"
    table = pq.read_table(path).replace_schema_metadata(pq.read_metadata(path).metadata)
    broken = pa.array([b"\xff"] * len(table)).view(pa.string())
    pq.write_table(table.set_column(table.column_names.index("doc"), "doc", broken), path)
    with pytest.raises(DataError, match="tokens-00001.parquet' is truncated or not a Parquet file"):
        command("verify", str(path.parents[1]))


def test_a_folder_of_another_tokenizer_or_none_is_refused(tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer)
    other = train_bpe(tmp_path / "other" / "tokenizer.json", texts(40), size=300)
    with pytest.raises(DataError, match="was made with another tokenizer than"):
        command("verify", str(out), "--tokenizer", other)
    with pytest.raises(DataError, match="has no tokens.json; name a folder in which a run of TokenWriter has ended"):
        command("verify", str(tmp_path / "in"))
    with pytest.raises(PipelineError, match="no document of the sample is in the input"):
        command("verify", str(out), "--input", write(tmp_path / "others", [{"id": "x", "text": "y"}], 1))


def test_inspect_shows_documents_and_count_counts_them(tokenizer: str, tmp_path: Path) -> None:
    out = made(tmp_path, tokenizer, **WINDOWS)
    lengths = [len(ids) for ids in expected(tokenizer, texts(60), eos=False)]
    code, said = command("inspect", str(out), "-n", "2", "--json", "-")
    assert code == 0
    found = json.loads(said)
    by_id = {row["id"]: row["text"] for row in rows_of(texts(60))}
    assert [one["text"] for one in found["shown"]] == [by_id[one["doc"]] for one in found["shown"]]
    assert len(found["shown"]) == 2
    assert "megatron, uint16, windows of 48 (best_fit)" in command("inspect", str(out))[1]
    assert command("count", str(tmp_path / "in"), "--tokenizer", tokenizer) == (
        0,
        f"60 documents, {sum(lengths):,} tokens, longest {max(lengths):,}\n",
    )
