"""What is left of each product of a corpus is what a run without the documents leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    CsvWriter,
    DataError,
    DocumentBatch,
    DocumentWriter,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    ScoreFilter,
    TokenWriter,
    WebDatasetReader,
    WebDatasetWriter,
    read_run,
)
from dcurate.audio import AudioFolderWriter
from dcurate.core.batch import Rejection
from dcurate.core.stage import Stage
from dcurate.fs.compression import ending_of, unpack
from dcurate.fs.stores import Directory
from dcurate.io.files import CSV
from dcurate.io.receipts import receipts
from dcurate.io.rejections import DirectoryRejections
from dcurate.text import WordCountFilter
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.tokenizer import TokenizerSource
from dcurate.video import VideoFolderWriter
from dcurate_testing.token_files import read_tokens
from tests.optouts.conftest import data, lines_of, list_of, remove, rows_of, run, write

GONE = {"domain": "site2.example.com"}


def without(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if "site2" not in row["url"]]


@pytest.mark.parametrize(
    "writer",
    [
        JsonlWriter,
        lambda path: JsonlWriter(path, compression="gzip"),
        lambda path: JsonlWriter(path, compression="zstd"),
        lambda path: JsonlWriter(path, separate_by="id", max_rows_per_file=1),
        ParquetWriter,
        lambda path: ParquetWriter(path, compression="snappy", write_kwargs={"row_group_size": 4}),
        lambda path: ParquetWriter(path, compression="none", partition_cols=["kind"]),
        CsvWriter,
        lambda path: CsvWriter(path, compression="zstd", separate_by="id", max_rows_per_file=1),
        lambda path: CsvWriter(path, delimiter="\t"),
        lambda path: CsvWriter(path, delimiter=";", quote="'", escape="\\"),
        lambda path: DocumentWriter(path, filetype="csv"),
    ],
    ids=[
        *("jsonl", "gzip", "zstd", "folders", "parquet", "row groups", "partitions"),
        *("csv", "csv folders", "tsv", "csv signs", "documents"),
    ],
)
def test_rows_files_are_to_the_byte_those_of_a_run_without_the_documents(writer: Any, tmp_path: Path) -> None:
    signs = 'a \'b\' \n\\ ;,\t"""'
    rows = [{**row, "kind": row["id"][-1], "signs": signs[n % 13 :]} for n, row in enumerate(rows_of(60))]
    run(write(tmp_path / "in", rows), writer(str(tmp_path / "out")))
    run(write(tmp_path / "less", without(rows)), writer(str(tmp_path / "fresh")))
    receipt = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    left, fresh = data(tmp_path / "out"), data(tmp_path / "fresh")
    if "row_group_size" not in str(writer(str(tmp_path / "x")).write_kwargs):  # row groups stay where they were cut
        assert {name: left[name] for name in fresh} == fresh
    assert read(tmp_path / "out") == read(tmp_path / "fresh")
    assert all(read_file(tmp_path / "out" / name) == [] for name in left.keys() - fresh.keys())
    assert receipt["documents"] == 12


def read_file(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        return pq.read_table(path, partitioning=None).to_pylist()
    content = unpack(path.read_bytes(), ending_of(path.name), path.name)
    if CSV.matches(path.name):
        return content.partition(b"\n")[2].split(b"\n")[:-1]
    return [json.loads(line) for line in content.splitlines()]


def read(folder: Path) -> list[Any]:
    return [row for name in sorted(data(folder)) for row in read_file(folder / name)]


def test_csv_without_names_of_columns_and_with_broken_records_is_refused(tmp_path: Path) -> None:
    listed = list_of(tmp_path / "list.jsonl", GONE)
    run(write(tmp_path / "in", rows_of(20)), CsvWriter(str(tmp_path / "out"), header=False))
    with pytest.raises(DataError, match="no names of columns"):
        remove(listed, tmp_path / "out")
    (tmp_path / "broken").mkdir()
    broken = {"id,url\na\n": "it has 1 value", 'id,"url\n': "quote is not closed", "\ufeffid\n": "mark"}
    for content, message in broken.items():
        (tmp_path / "broken" / "a.csv").write_text(content, "utf-8")
        with pytest.raises(DataError, match=message):
            remove(listed, tmp_path / "broken")


def test_only_files_that_hold_a_document_are_written(tmp_path: Path) -> None:
    run(write(tmp_path / "in", rows_of(60)), ParquetWriter(str(tmp_path / "out")))
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    receipt = remove(list_of(tmp_path / "list.jsonl", {"id": "d7"}), tmp_path / "out")
    touched = [path.name for path in (tmp_path / "out").iterdir() if path.stat().st_mtime_ns != times[path.name]]
    assert len(touched) == receipt["products"][0]["written"] == 1
    assert len(times) == 3


def test_no_text_of_a_document_stays_in_a_dictionary(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "source": pa.array(["kept", "secret source"]).dictionary_encode()})
    (tmp_path / "out").mkdir()
    pq.write_table(table, tmp_path / "out" / "rows.parquet")
    remove(list_of(tmp_path / "list.jsonl", {"id": "b"}), tmp_path / "out")
    written = tmp_path / "out" / "rows.parquet"
    assert b"secret" not in written.read_bytes()
    assert pq.read_table(written).schema == table.schema
    assert pq.read_table(written).column("source").to_pylist() == ["kept"]


def test_filtered_rows_and_quarantine_and_their_excerpts_go_too(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(60))
    out, quarantine = tmp_path / "out", tmp_path / "out.dcurate" / "quarantine"
    run(source, ScoreFilter(WordCountFilter(min_words=9)), JsonlWriter(str(out)), rejected=str(tmp_path / "dropped"))
    stage = read_run(str(out)).report.stages[1]
    ids = [str(example["id"]) for examples in stage.examples.values() for example in examples]
    assert ids
    rows = pa.table({"id": [ids[0], "other"], "text": ["in quarantine", "stays"]})
    fault = Rejection("stage", "raised", 2, 0, rows, True)
    DirectoryRejections(None, str(quarantine)).keep(BatchKey("0.jsonl"), "stage", [fault])
    receipt = remove(list_of(tmp_path / "list.jsonl", *({"id": doc} for doc in ids)), out)
    assert receipt["documents"] == len(ids) + 1
    left = [json.loads(line) for folder in (tmp_path / "dropped", quarantine) for line in lines_of(folder)]
    assert "other" in {row["id"] for row in left}
    assert not {row["id"] for row in left} & set(ids)
    for name in ("report.json", "report.html", "report.txt", "finished.json"):
        text = Path(f"{out}.dcurate", name).read_text() if Path(f"{out}.dcurate", name).exists() else ""
        assert not [doc for doc in ids if f'"{doc}"' in text or f">{doc}<" in text], name
    assert read_run(str(out)).report.stages[1].dropped == stage.dropped


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_shards_are_to_the_byte_those_of_a_run_without_the_samples(compression: str | None, tmp_path: Path) -> None:
    def shards(rows: list[dict[str, Any]], path: Path) -> None:
        table = pa.table(
            {
                "file_name": [f"{row['id']}.png" for row in rows],
                "bytes": [row["text"].encode() * 40 for row in rows],
                "txt": [row["text"] for row in rows],
                "url": [row["url"] for row in rows],
            }
        )
        batch = DocumentBatch(data=table, key=BatchKey("all"))
        writer = WebDatasetWriter(str(path), compression=compression)
        Pipeline("write", stages=[writer]).run(InlineExecutor(), initial_tasks=[batch], observers=[])

    shards(rows_of(40), tmp_path / "out")
    shards(without(rows_of(40)), tmp_path / "fresh")
    receipt = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    assert (receipt["documents"], receipt["products"][0]["product"]) == (8, "shards")
    left, fresh = data(tmp_path / "out"), data(tmp_path / "fresh")
    assert {name.partition(".")[2]: content for name, content in left.items()} == {
        name.partition(".")[2]: content for name, content in fresh.items()
    }
    [table] = [name for name in left if name.endswith(".parquet")]
    for row in pq.read_table(tmp_path / "out" / table).to_pylist() if compression is None else []:
        content = (tmp_path / "out" / row["shard"]).read_bytes()[row["offset"] :]
        assert content.startswith(row["txt"].encode())
    read_back = Pipeline("read", stages=[WebDatasetReader(str(tmp_path / "out"))])
    [batch] = read_back.run(InlineExecutor(), observers=[])
    assert isinstance(batch, DocumentBatch)
    keys = batch.to_arrow()["__key__"].to_pylist()
    assert keys == [row["id"] for row in without(rows_of(40))]


@pytest.mark.parametrize("writer", [AudioFolderWriter, VideoFolderWriter])
def test_folders_of_files_are_those_of_a_run_without_the_documents(writer: Any, tmp_path: Path) -> None:
    def folders(rows: list[dict[str, Any]], path: Path) -> None:
        columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0]}
        columns |= {"file_name": [f"{row['id'][-1]}/{row['id']}.wav" for row in rows]}
        columns |= {"bytes": [row["text"].encode() for row in rows]}
        batch = DocumentBatch(data=pa.table(columns), key=BatchKey("all"))
        stages = [writer(str(path), max_rows_per_file=9)]
        Pipeline("write", stages=stages).run(InlineExecutor(), initial_tasks=[batch], observers=[])

    rows = rows_of(36)
    folders(rows, tmp_path / "out")
    receipt = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    assert (receipt["documents"], receipt["products"][0]["product"]) == (7, "folders of files")
    left = data(tmp_path / "out")
    names = [name for name in left if name.endswith("metadata.jsonl")]
    assert len(names) == 4
    kept = [json.loads(line) for name in names for line in left[name].splitlines()]
    assert sorted(row["id"] for row in kept) == sorted(row["id"] for row in without(rows))
    folders(without(rows), tmp_path / "fresh")
    fresh = data(tmp_path / "fresh")
    media, wanted = ({Path(name).name: files[name] for name in files if ".wav" in name} for files in (left, fresh))
    assert media == wanted
    assert remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")["documents"] == 0


def test_a_file_that_other_rows_name_stays_and_one_that_no_row_names_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    rows = [{"file_name": "a.wav", "id": "a1"}, {"file_name": "a.wav", "id": "a2"}, {"file_name": "b.wav", "id": "b"}]
    list_of(folder / "metadata.jsonl", *rows)
    for name in ("a.wav", "b.wav"):
        (folder / name).write_bytes(b"sound")
    listed = list_of(tmp_path / "list.jsonl", {"id": "a1"}, {"id": "b"})
    (folder / "c.wav").write_bytes(b"sound")
    with pytest.raises(DataError, match="which are neither"):
        remove(listed, folder)
    (folder / "c.wav").unlink()
    assert remove(listed, folder)["documents"] == 2
    assert sorted(data(folder)) == ["a.wav", "metadata.jsonl"]


@pytest.mark.parametrize(
    "name", ["../other.wav", "x/../../other.wav", "{}/other.wav", "metadata.jsonl", "", "gone.wav"]
)
def test_files_elsewhere_that_a_row_names_stay(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "other.wav").write_bytes(b"sound")
    list_of(folder / "metadata.jsonl", {"file_name": name.format(tmp_path), "id": "a"}, {"id": "b"})
    assert remove(list_of(tmp_path / "list.jsonl", {"id": "a"}), folder)["documents"] == 1
    assert (tmp_path / "other.wav").exists()
    assert lines_of(folder) == [b'{"id": "b"}']


@pytest.mark.parametrize("settings", [{}, {"format": "mds"}, {"packing": "best_fit", "sequence_length": 64}])
def test_tokens_lose_the_documents_that_rows_lose_by_their_urls(
    settings: dict[str, Any], tokenizer: str, tmp_path: Path
) -> None:
    rows = rows_of(60)
    for name, some in (("out", rows), ("fresh", without(rows))):
        source = write(tmp_path / f"{name}-in", some, files=1)
        run(source, JsonlWriter(str(tmp_path / f"{name}-rows")))
        run(source, TokenWriter(str(tmp_path / name), tokenizer, shard_tokens=100_000, **settings))
    receipt = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out-rows", tmp_path / "out")
    assert [product["documents"] for product in receipt["products"]] == [12, 12]
    form = settings.get("format", "megatron")
    if "packing" not in settings:
        assert read_tokens(tmp_path / "out", form) == read_tokens(tmp_path / "fresh", form)
    else:
        assert (tmp_path / "out/tokens-00000.bin").read_bytes() == (tmp_path / "fresh/tokens-00000.bin").read_bytes()
    assert verify(TokenFolder(str(tmp_path / "out")), TokenizerSource(tokenizer), sample=99).wrong == []
    assert receipts(Directory(str(tmp_path / "out")))[0]["products"][0]["by"] == {"id elsewhere": 12}


def test_an_index_forgets_documents_so_that_later_copies_of_them_stay(tmp_path: Path) -> None:
    def fuzzy() -> FuzzyDuplicates:
        return FuzzyDuplicates(index_path=str(tmp_path / "seen"), id_field="id")

    rows = [{**row, "text": " ".join(f"w{n}x{word}" for word in range(30))} for n, row in enumerate(rows_of(20))]
    run(write(tmp_path / "monday", rows), fuzzy(), JsonlWriter(str(tmp_path / "a")))
    receipt = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "a", tmp_path / "seen")
    assert [product["documents"] for product in receipt["products"]] == [4, 4]
    copies = [{**row, "id": f"copy of {row['id']}", "url": "https://other.example"} for row in rows]
    run(write(tmp_path / "tuesday", copies), fuzzy(), JsonlWriter(str(tmp_path / "b")))
    kept = [json.loads(line)["id"] for content in data(tmp_path / "b").values() for line in content.splitlines()]
    assert sorted(kept) == sorted(f"copy of {row['id']}" for row in rows if "site2" in row["url"])
    chunks = b"".join(path.read_bytes() for path in (tmp_path / "seen").rglob("*.chunks"))
    assert len(chunks) > 0
    again = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "a", tmp_path / "seen")
    assert again["documents"] == 0


def test_exact_duplicates_of_what_is_left_are_those_of_a_run_without_the_documents(tmp_path: Path) -> None:
    rows = rows_of(30)
    rows += [{**row, "id": f"again {row['id']}", "url": "https://site2.example.com/copy"} for row in rows[:9]]
    stages = [ExactDuplicates(id_field="id"), JsonlWriter(str(tmp_path / "out"))]
    run(write(tmp_path / "in", rows, files=1), *stages, rejected=str(tmp_path / "dropped"))
    fresh = [ExactDuplicates(id_field="id"), JsonlWriter(str(tmp_path / "fresh"))]
    kept = [row for row in rows if "/copy" not in row["url"]]
    run(write(tmp_path / "less", kept, files=1), *fresh, rejected=str(tmp_path / "fresh-dropped"))
    receipt = remove(list_of(tmp_path / "list.jsonl", {"url": "https://site2.example.com/copy"}), tmp_path / "out")
    assert receipt["dropped_copies"] == 0
    assert data(tmp_path / "out") == data(tmp_path / "fresh")
    assert not any(data(tmp_path / "dropped").values())


@given(
    texts=st.lists(st.integers(0, 6), min_size=1, max_size=24),
    gone=st.sets(st.integers(0, 23), min_size=1),
    files=st.integers(1, 3),
)
def test_of_copies_of_what_goes_the_one_stays_that_a_new_run_keeps(
    texts: list[int], gone: set[int], files: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("copies")
    rows = [
        {"id": f"d{n}", "n": n * 1.5, "url": f"http://a.example/{n}", "text": f"copy {text}"}
        for n, text in enumerate(texts)
    ]
    kept = [row for n, row in enumerate(rows) if n not in gone]
    for name, some in (("out", rows), ("fresh", kept)):
        stages: list[Stage] = [ExactDuplicates(id_field="id"), JsonlWriter(str(tmp_path / name))]
        run(write(tmp_path / f"{name}-in", some, files), *stages, rejected=str(tmp_path / f"{name}-dropped"))
    listed = list_of(tmp_path / "list.jsonl", *({"url": f"http://a.example/{n}"} for n in gone))
    receipt = remove(listed, tmp_path / "out")
    assert receipt["dropped_copies"] == 0
    assert sorted(lines_of(tmp_path / "out")) == sorted(lines_of(tmp_path / "fresh"))
    assert sorted(lines_of(tmp_path / "out-dropped")) == sorted(lines_of(tmp_path / "fresh-dropped"))
    assert remove(listed, tmp_path / "out")["documents"] == 0


def test_copies_that_cannot_be_put_back_are_counted(tmp_path: Path) -> None:
    rows = rows_of(10)
    rows += [{**row, "id": f"again {row['id']}", "url": "https://other.example"} for row in rows]
    for name, writer in (("parquet", ParquetWriter), ("longest", JsonlWriter)):
        keep = "longest" if name == "longest" else "first"
        stages: list[Stage] = [ExactDuplicates(id_field="id", keep=keep), writer(str(tmp_path / name))]
        run(write(tmp_path / f"{name}-in", rows, files=1), *stages, rejected=str(tmp_path / f"{name}-dropped"))
        receipt = remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / name)
        assert (receipt["documents"], receipt["put_back"], receipt["dropped_copies"]) == (2, 0, 2)


def test_embeddings_of_other_documents_stay_to_the_bit(tmp_path: Path) -> None:
    rows = rows_of(20)
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    table = pa.table(
        {
            "id": [row["id"] for row in rows],
            "embeddings": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
        }
    )
    (tmp_path / "out").mkdir()
    pq.write_table(table, tmp_path / "out" / "vectors.parquet", row_group_size=6)
    remove(list_of(tmp_path / "list.jsonl", {"id": "d3"}, {"id": "d11"}), tmp_path / "out")
    left = pq.read_table(tmp_path / "out" / "vectors.parquet")
    kept = [n for n in range(20) if n not in (3, 11)]
    assert left.equals(table.take(pa.array(kept)))
    assert [pq.ParquetFile(tmp_path / "out" / "vectors.parquet").metadata.row_group(n).num_rows for n in range(4)] == [
        5,
        5,
        6,
        2,
    ]


def test_files_that_documents_cannot_be_taken_out_of_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.jpg").write_bytes(b"picture")
    with pytest.raises(DataError, match=r"holds 'a.jpg', which are neither rows .* leave this output out"):
        remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
