"""Files of tokens: what is in them, in which order, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from dcurate import DataError, InlineExecutor, JsonlReader, Pipeline, PipelineError, TokenWriter
from dcurate.tokens import MegatronTokenizerWriter
from dcurate_testing.token_files import read_mds, read_tokens, train_bpe
from tests.places import is_data
from tests.tokens.conftest import texts

FORMATS = ["megatron", "ds", "memmap", "npy", "mds", "litdata", "parquet"]
Row = dict[str, Any]


def write(folder: Path, rows: list[Row], files: int = 3) -> str:
    folder.mkdir(parents=True)
    for number in range(files):
        own = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        (folder / f"{number:02}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return str(folder)


def rows_of(documents: list[str]) -> list[Row]:
    return [{"id": f"d{number}", "text": text} for number, text in enumerate(documents)]


def run(source: str, writer: Any, **reading: Any) -> Any:
    reader = JsonlReader(source, **reading)
    return Pipeline("tokens", stages=[reader, writer]).run(InlineExecutor(), observers=[])


def expected(tokenizer: str, documents: list[str], eos: bool = True) -> list[list[int]]:
    loaded = Tokenizer.from_file(tokenizer)
    end: list[Any] = [loaded.token_to_id("<|endoftext|>")] if eos else []
    return [loaded.encode(text, add_special_tokens=False).ids + end for text in documents]


def data_files(folder: Path) -> dict[str, bytes]:
    """All files of an output but for spans, which name the splits, and records."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and is_data(path) and path.parent.name != "spans"
    }


@pytest.mark.parametrize("form", FORMATS)
def test_documents_are_in_the_files_token_for_token(form: str, tokenizer: str, tmp_path: Path) -> None:
    documents = texts(100)
    source = write(tmp_path / "in", rows_of(documents))
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, form, shard_tokens=700))
    assert read_tokens(tmp_path / "out", form) == expected(tokenizer, documents)
    about = json.loads((tmp_path / "out" / "tokens.json").read_text())
    assert about["dtype"] == "uint16"
    assert about["documents"] == 100
    assert len(about["shards"]) > 3


@pytest.mark.parametrize("packing", ["concat", "best_fit"])
@pytest.mark.parametrize("form", FORMATS)
def test_windows_hold_every_token_of_every_document_once(
    form: str, packing: Any, tokenizer: str, tmp_path: Path
) -> None:
    documents = texts(100)
    source = write(tmp_path / "in", rows_of(documents))
    writer = TokenWriter(
        str(tmp_path / "out"), tokenizer, form, shard_tokens=900, packing=packing, sequence_length=64, dtype=None
    )
    run(source, writer)
    made = [one for each in read_tokens(tmp_path / "out", form) for one in each]
    if form in ("megatron", "npy", "mds", "litdata", "parquet"):
        assert {len(one) for one in read_tokens(tmp_path / "out", form)} == {64}
    if form == "memmap":  # its table leaves padding out
        made = np.concatenate(
            [np.fromfile(path, np.uint16) for path in sorted((tmp_path / "out").glob("*.npy"))]
        ).tolist()
    pieces: dict[str, list[tuple[int, list[int]]]] = {}
    before = 0
    for shard in json.loads((tmp_path / "out" / "tokens.json").read_text())["shards"]:
        spans = pq.read_table(tmp_path / "out" / "spans" / f"{shard['shard']}.parquet").to_pylist()
        for span in spans:
            piece = made[before + span["start"] : before + span["end"]]
            pieces.setdefault(span["doc"], []).append((span["first"], piece))
        held = {place for span in spans for place in range(span["start"], span["end"])}
        assert len(held) == sum(span["end"] - span["start"] for span in spans)
        padding = [made[before + place] for place in range(shard["tokens"]) if place not in held]
        assert len(padding) == shard["padding"]
        assert set(padding) <= {0}
        before += shard["tokens"]
    assert before == len(made)
    whole = {doc: [one for _, piece in sorted(found) for one in piece] for doc, found in pieces.items()}
    assert [whole[row["id"]] for row in rows_of(documents)] == expected(tokenizer, documents)
    if packing == "best_fit":
        assert all(len(found) == -(-len(whole[doc]) // 64) for doc, found in pieces.items())


def test_boundaries_beside_windows_are_those_of_documents_padding_and_windows(tokenizer: str, tmp_path: Path) -> None:
    documents = texts(40)
    source = write(tmp_path / "in", rows_of(documents))
    settings: Any = {"packing": "concat", "sequence_length": 32, "shard_tokens": 10**6}
    run(source, TokenWriter(str(tmp_path / "bin"), tokenizer, **settings))
    run(source, TokenWriter(str(tmp_path / "mds"), tokenizer, "mds", **settings))
    lengths = [len(ids) for ids in expected(tokenizer, documents)]
    whole = -(-sum(lengths) // 32) * 32
    wanted = {0, whole, *np.cumsum(lengths).tolist(), *range(0, whole, 32)}
    boundaries = np.load(tmp_path / "bin" / "spans" / "tokens-00000.cu_seqlens.npy")
    assert boundaries.tolist() == sorted(wanted)
    for number, sample in enumerate(read_mds(tmp_path / "mds")):
        within = [one - 32 * number for one in sorted(wanted) if 32 * number <= one <= 32 * (number + 1)]
        assert sample["cu_seqlens"] == within


def test_shards_have_whole_documents_and_as_many_as_fit(tokenizer: str, tmp_path: Path) -> None:
    documents = texts(100)
    source = write(tmp_path / "in", rows_of(documents))
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, shard_tokens=500))
    lengths = iter([len(ids) for ids in expected(tokenizer, documents)])
    shards = json.loads((tmp_path / "out" / "tokens.json").read_text())["shards"]
    held = [[next(lengths) for _ in range(shard["documents"])] for shard in shards]
    assert [sum(each) for each in held] == [shard["tokens"] for shard in shards]
    assert all(sum(each) <= 500 for each in held)
    assert all(sum(each) + after[0] > 500 for each, after in pairwise(held))


def test_bytes_do_not_depend_on_how_the_input_is_cut(tokenizer: str, tmp_path: Path) -> None:
    documents = texts(150)
    one, many = (write(tmp_path / name, rows_of(documents), files) for name, files in (("one", 1), ("many", 9)))
    for form in FORMATS:
        settings: Any = {"format": form, "shard_tokens": 600, "packing": "best_fit", "sequence_length": 50}
        run(one, TokenWriter(str(tmp_path / form / "a"), tokenizer, **settings))
        run(many, TokenWriter(str(tmp_path / form / "b"), tokenizer, **settings))
        run(one, TokenWriter(str(tmp_path / form / "c"), tokenizer, **settings), blocksize=2000)
        first, *others = (data_files(tmp_path / form / name) for name in "abc")
        names = [name for name in first if form != "memmap" or name.endswith(".npy")]  # dolma names the source
        for other in others:
            assert {name: first[name] for name in names} == {name: other[name] for name in names}
            assert first.keys() == other.keys()


def test_spans_name_documents_and_where_they_came_from(tokenizer: str, tmp_path: Path) -> None:
    documents = texts(30)
    source = write(tmp_path / "in", rows_of(documents), 2)
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer))
    spans = pq.read_table(tmp_path / "out" / "spans" / "tokens-00000.parquet").to_pylist()
    assert [(span["doc"], span["source"], span["row"]) for span in spans] == [
        (f"d{number}", f"{number // 15:02}.jsonl", number % 15) for number in range(30)
    ]
    assert [span["start"] for span in spans[1:]] == [span["end"] for span in spans[:-1]]


def test_losses_are_those_of_the_characters_asked_for(tokenizer: str, tmp_path: Path) -> None:
    rows: list[Row] = [
        {"text": "the answer is that", "loss": [[4, 10]]},
        {"text": "this is it", "loss": None},
        {"text": "nothing", "loss": []},
    ]
    source = write(tmp_path / "in", rows, 1)
    for form in ("ds", "megatron", "parquet"):
        settings: Any = {"format": form, "loss_ranges_field": "loss", "add_bos": "<|endoftext|>"}
        run(source, TokenWriter(str(tmp_path / form), tokenizer, **settings))
    flat = np.fromfile(tmp_path / "ds" / "tokens-00000.ds.loss", np.uint8).tolist()
    loaded = Tokenizer.from_file(tokenizer)
    wanted: list[int] = []
    for row, counts in zip(rows, (range(4, 10), range(100), range(0)), strict=True):
        places = loaded.encode(row["text"], add_special_tokens=False).offsets
        own = [int(any(place in counts for place in range(*each))) for each in places]
        wanted += [0, *own, own[-1]]
    assert 0 < sum(wanted) < len(wanted)
    assert flat == wanted
    assert np.load(tmp_path / "megatron" / "spans" / "tokens-00000.loss.npy").tolist() == wanted
    table = pq.read_table(tmp_path / "parquet" / "tokens-00000.parquet")
    assert [one for each in table["loss"].to_pylist() for one in each] == wanted


def test_documents_without_text_are_left_out_with_a_reason(tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", [{"text": ""}, {"text": "the"}, {"text": None}, {"text": "of"}], 1)
    result = run(source, TokenWriter(str(tmp_path / "out"), tokenizer))
    assert read_tokens(tmp_path / "out", "megatron") == expected(tokenizer, ["the", "of"])
    dropped = {reason: count for stage in result.report.stages for reason, count in stage.dropped.items()}
    assert dropped == {"no_tokens": 2}


def test_no_document_at_all_leaves_an_index_of_nothing(tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", [{"text": ""}], 1)
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, "mds"))
    assert json.loads((tmp_path / "out" / "index.json").read_text()) == {"version": 2, "shards": []}


def test_what_is_refused_is_refused_in_a_sentence_before_anything_is_written(tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(texts(5)), 1)
    out = str(tmp_path / "out")
    plain = train_bpe(tmp_path / "plain" / "tokenizer.json", texts(50), eos=None)
    for writer, sentence in (
        (TokenWriter(out, plain), "has no EOS token; name one that it has, add_eos='<token>', or leave it out with"),
        (TokenWriter(out, tokenizer, add_bos="<s>"), "has no token '<s>'"),
        (TokenWriter(out, str(tmp_path / "none.json")), "none.json' does not exist"),
    ):
        with pytest.raises((PipelineError, DataError), match=sentence):
            run(source, writer)
        assert not (tmp_path / "out").exists()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"format": "bin"}, "format='bin' is not one of"),
        ({"packing": "concat"}, "need a sequence_length"),
        ({"sequence_length": 7}, "without packing there is none"),
        ({"dtype": "uint32"}, "dtype='uint32' is not one of 'uint16', 'int32', 'int64', which format='megatron' has"),
        ({"shard_tokens": 0}, "shard_tokens=0 must be a whole number"),
        ({"packing": "concat", "sequence_length": 10, "shard_tokens": 5}, "give larger shards"),
        ({"format": "mds", "shard_tokens": 2**31}, "below 4 GiB"),
    ]
    for settings, sentence in refused:
        with pytest.raises(PipelineError, match=sentence):
            TokenWriter(out, tokenizer, **settings)


def test_ids_beyond_the_type_are_refused_and_added_tokens_count(tokenizer: str, tmp_path: Path) -> None:
    vast = json.loads(Path(tokenizer).read_text())
    vast["added_tokens"].append({**vast["added_tokens"][0], "id": 70_000, "content": "<far>"})
    vast["model"]["vocab"]["<far>"] = 70_000
    (tmp_path / "vast").mkdir()
    path = tmp_path / "vast" / "tokenizer.json"
    path.write_text(json.dumps(vast))
    source = write(tmp_path / "in", rows_of(texts(5)), 1)
    with pytest.raises(PipelineError, match="go up to 70,000, which does not fit dtype='uint16'; use dtype='int32'"):
        run(source, TokenWriter(str(tmp_path / "out"), str(path), dtype="uint16"))
    assert not (tmp_path / "out").exists()
    run(source, TokenWriter(str(tmp_path / "out"), str(path), add_eos="<far>"))
    assert [ids[-1] for ids in read_tokens(tmp_path / "out", "megatron")] == [70_000] * 5


def test_a_document_longer_than_a_shard_ends_the_run_with_its_name(tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(["the of", "the of and " * 50]), 1)
    with pytest.raises(DataError, match=r"document 'd1' has \d+ tokens, more than shard_tokens=100"):
        run(source, TokenWriter(str(tmp_path / "out"), tokenizer, shard_tokens=100))
    assert data_files(tmp_path / "out") == {}


def test_appending_keeps_shards_and_refuses_those_of_another_tokenizer(tokenizer: str, tmp_path: Path) -> None:
    first, second = texts(20), texts(20, seed=1)
    sources = [write(tmp_path / name, rows_of(rows)) for name, rows in (("a", first), ("b", second))]
    for source in sources:
        run(source, TokenWriter(str(tmp_path / "out"), tokenizer, "litdata", mode="append", shard_tokens=300))
    assert read_tokens(tmp_path / "out", "litdata") == expected(tokenizer, first + second)
    before = data_files(tmp_path / "out")
    other = train_bpe(tmp_path / "other" / "tokenizer.json", texts(50, seed=3), size=300)
    with pytest.raises(DataError, match="holds tokens of another 'tokenizer'"):
        run(sources[0], TokenWriter(str(tmp_path / "out"), other, "litdata", mode="append"))
    assert data_files(tmp_path / "out") == before
    with pytest.raises(DataError, match="holds the output of"):
        run(sources[0], TokenWriter(str(tmp_path / "out"), tokenizer, "litdata"))
    run(sources[0], TokenWriter(str(tmp_path / "out"), other, "mds", mode="overwrite", add_eos=False))
    assert sorted(data_files(tmp_path / "out")) == ["index.json", "tokens-00000.mds", "tokens.json"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"add_eos": False}, "'eos'"),
        ({"add_bos": "<|endoftext|>"}, "'bos'"),
        ({"dtype": "int32"}, "'dtype'"),
        ({"loss_ranges_field": "loss"}, "'losses'"),
        ({"text_field": "other"}, "'text_field'"),
        ({"id_field": "id"}, "'id_field'"),
        ({"packing": "concat", "sequence_length": 8}, "'packing', 'sequence_length'"),
        ({"format": "ds"}, "'format'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["append", "ignore"])
def test_shards_that_mean_something_else_are_not_added(
    mode: Any, changed: dict[str, Any], named: str, tokenizer: str, tmp_path: Path
) -> None:
    rows: list[Row] = [{"id": "x", "text": "a b", "other": "a", "loss": None}]
    source = write(tmp_path / "in", rows, 1)
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer))
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=f"holds tokens of another {named}.*; shards in one folder must be alike"):
        run(source, TokenWriter(str(tmp_path / "out"), tokenizer, mode=mode, **changed))
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_the_writer_of_nemo_curator_writes_the_same(tokenizer: str, tmp_path: Path) -> None:
    documents = texts(20)
    source = write(tmp_path / "in", rows_of(documents))
    run(source, MegatronTokenizerWriter(str(tmp_path / "plain"), tokenizer=tokenizer))
    run(source, MegatronTokenizerWriter(str(tmp_path / "eod"), tokenizer=tokenizer, append_eod=True))
    assert read_tokens(tmp_path / "plain", "megatron") == expected(tokenizer, documents, eos=False)
    assert read_tokens(tmp_path / "eod", "megatron") == expected(tokenizer, documents)
    with pytest.raises(PipelineError, match="tokenizer must name a tokenizer"):
        MegatronTokenizerWriter("out")
    with pytest.raises(PipelineError, match="give hf_token= to the stage"):
        MegatronTokenizerWriter("out", tokenizer="gpt2", transformers_init_kwargs={"token": "x"})
