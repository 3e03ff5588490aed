"""JSON Lines and Parquet as one input."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import (
    CsvReader,
    CsvWriter,
    DataError,
    DocumentBatch,
    DocumentReader,
    DocumentWriter,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.io.csv import SIGNS
from tests.conftest import ROOT
from tests.dying import dying
from tests.forked import finished

pytestmark = pytest.mark.program

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def put(folder: Path, **files: Any) -> str:
    """A folder with files: ``a_jsonl=[...]`` is ``a.jsonl``, a table or a list for a name that ends in ``parquet``."""
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        path = folder / name.replace("_", ".")
        if path.suffix == ".parquet":
            pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows), path)
        else:
            path.write_bytes(PACK.get(path.suffix, bytes)(lines(*rows)))
    return str(folder)


def batches(reader: Any) -> list[DocumentBatch]:
    return [batch for split in reader.splits() if (batch := reader.process(split)) is not None]


def rows(reader: Any) -> list[dict[str, Any]]:
    return [row for batch in batches(reader) for row in batch.to_arrow().to_pylist()]


def types(reader: Any) -> set[pa.Schema]:
    return {tuple((field.name, str(field.type)) for field in batch.to_arrow().schema) for batch in batches(reader)}


def refusal(reader: Any) -> str:
    with pytest.raises(DataError) as refused:
        rows(reader)
    return str(refused.value)


def content(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.glob("*.*") if path.is_file()}


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """A file of each format and compression, of two rows each."""
    names = [*(f"{number}_jsonl{ending}" for number, ending in enumerate(PACK)), "5_parquet", "6_ndjson", "7_pq"]
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in names:
        path = folder / name.replace("_", ".")
        two = [{"text": f"{name} {row}", "n": row} for row in range(2)]
        if path.suffix in (".parquet", ".pq"):
            pq.write_table(pa.Table.from_pylist(two), path)
        else:
            path.write_bytes(PACK.get(path.suffix, bytes)(lines(*two)))
    return str(folder)


def stored(folder: Path, form: str, rows: list[dict[str, Any]]) -> str:
    """The rows as a file of a format, with their columns in the order of the first row."""
    path = folder / f"a.{form}"
    if form == "parquet":
        pq.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("any_format", [False, True])
@given(
    names=st.lists(st.sampled_from("abcdef"), min_size=1, unique=True),
    declared=st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True),
    clash=st.booleans(),
)
@example(names=["a", "b", "c"], declared=["b"], clash=False)
@example(names=["e"], declared=["a", "e"], clash=True)
def test_columns_keep_the_order_of_the_file_with_any_declared_types(
    form: str, any_format: bool, names: list[str], declared: list[str], clash: bool
) -> None:
    rows: list[dict[str, Any]] = [dict.fromkeys(names, 1), dict.fromkeys(names, 2)]
    if clash and form == "jsonl":
        rows.append({name: "x" if name in declared else 3 for name in names})
    with TemporaryDirectory() as folder:
        path = stored(Path(folder), form, rows)
        kind = DocumentReader if any_format else {"jsonl": JsonlReader, "parquet": ParquetReader}[form]
        reader = kind(path, schema=dict.fromkeys(declared, "string"))
        (split,) = reader.splits()
        made = reader.process(split)
    assert made is not None
    expected = [*names, *(name for name in declared if name not in names)]
    assert reader.columns() == made.to_arrow().column_names == expected
    assert made.to_arrow().to_pylist() == [
        {name: None if name not in row else str(row[name]) if name in declared else row[name] for name in expected}
        for row in rows
    ]


def test_csv_is_read_beside_other_formats_and_its_bad_rows_go_to_quarantine(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"id": "7", "text": "one"}])
    Path(path, "b.csv").write_bytes(b'id,text\n007,"two\nlines"\n008,three,too many\n')
    Path(path, "c.tsv.gz").write_bytes(gzip.compress(b"text\tid\nfour\t9\n"))
    reader = DocumentReader(path, blocksize="1MiB", on_bad_line="quarantine")
    batch = next(iter(batches(reader)))
    assert batch.to_arrow().to_pylist() == [
        {"id": "7", "text": "one"},
        {"id": "007", "text": "two\nlines"},
        {"id": "9", "text": "four"},
    ]
    assert [(one.reason, one.rows) for one in batch.rejections] == [("malformed row", 1)]
    assert next(iter(reader.splits())).parts[1].path.endswith("b.csv")
    divided = reader.divided(next(iter(reader.splits())))
    assert [part.rows for part in divided.parts] == [(0, 1), (0, 2), (0, 1)]
    clash = put(tmp_path / "clash", a_jsonl=[{"id": 7}])
    Path(clash, "b.csv").write_bytes(b"id\n007\n")
    assert "schema=" in refusal(DocumentReader(clash))


def test_every_format_and_compression_is_read_in_path_order(mixed):
    reader = DocumentReader(mixed)
    assert [row["text"] for row in rows(reader)] == [
        f"{name} {row}"
        for name in (
            "0_jsonl",
            "1_jsonl.gz",
            "2_jsonl.bz2",
            "3_jsonl.xz",
            "4_jsonl.zst",
            "5_parquet",
            "6_ndjson",
            "7_pq",
        )
        for row in range(2)
    ]
    assert reader.columns() == ["text", "n"]
    assert types(reader) == {(("text", "string"), ("n", "int64"))}
    assert reader.notices() == []


@pytest.mark.parametrize("settings", [{"files_per_partition": 3}, {"blocksize": "1MiB"}])
def test_a_split_of_files_of_both_formats_has_the_rows_of_all_in_path_order(mixed, settings):
    one_by_one = DocumentReader(mixed)
    packed = DocumentReader(mixed, **settings)
    assert rows(packed) == rows(one_by_one)
    assert len(list(packed.splits())) == (3 if "files_per_partition" in settings else 1)
    assert types(packed) == types(one_by_one)


@pytest.mark.parametrize("settings", [{}, {"blocksize": 40}, {"blocksize": "1KiB"}, {"files_per_partition": 2}])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_files_of_one_format_give_the_splits_and_rows_of_its_own_reader(tmp_path, ending, settings):
    files = {f"{name}_{ending}": [{"text": name * 9, "n": n} for n in range(4)] for name in "abc"}
    path = put(tmp_path / "in", **files)
    alone: Any = {"jsonl": JsonlReader, "parquet": ParquetReader}[ending](path, **settings)
    together = DocumentReader(path, **settings)
    assert list(together.splits()) == list(alone.splits())
    assert [batch.to_arrow() for batch in batches(together)] == [batch.to_arrow() for batch in batches(alone)]


def test_an_output_has_the_file_names_and_bytes_that_the_reader_of_the_format_leads_to(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"text": "a"}], b_jsonl_gz=[{"text": "b"}])
    for name, reader in (("one", JsonlReader(path)), ("two", DocumentReader(path))):
        Pipeline("copy", stages=[reader, JsonlWriter(str(tmp_path / name))]).run(InlineExecutor())
    assert content(tmp_path / "one") == content(tmp_path / "two") != {}


def test_whole_numbers_of_one_format_and_floats_of_the_other_become_floats(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"x": 1, "y": 0.5}], b_parquet=[{"x": 0.5, "y": 1}])
    settings: Any
    for settings in ({}, {"blocksize": "1MiB"}):
        reader = DocumentReader(path, **settings)
        assert types(reader) == {(("x", "double"), ("y", "double"))}
        assert rows(reader) == [{"x": 1.0, "y": 0.5}, {"x": 0.5, "y": 1.0}]


def test_columns_missing_from_a_file_are_null_there(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"text": "a", "tags": ["x"]}], b_parquet=[{"text": "b", "n": 1}])
    settings: Any
    for settings in ({}, {"blocksize": "1MiB"}):
        reader = DocumentReader(path, **settings)
        assert rows(reader) == [{"text": "a", "tags": ["x"], "n": None}, {"text": "b", "tags": None, "n": 1}]
        assert len(types(reader)) == 1


def test_the_types_of_few_parquet_files_among_many_others_are_known_from_the_first_split_on(tmp_path):
    files: dict[str, Any] = {f"{number:03}_jsonl": [{"n": number}] for number in range(60)}
    path = put(tmp_path / "in", **files, **{"0305_parquet": [{"n": 0.5, "more": "x"}]})
    assert types(DocumentReader(path)) == {(("n", "double"), ("more", "string"))}


def test_large_text_dictionaries_and_small_integers_of_parquet_go_with_what_json_holds(tmp_path):
    table = pa.table(
        {
            "text": pa.array(["b"], pa.large_string()),
            "kind": pa.array(["x"]).dictionary_encode(),
            "n": pa.array([1], pa.int8()),
        }
    )
    path = put(tmp_path / "in", a_jsonl=[{"text": "a", "kind": "y", "n": 300}], b_parquet=table)
    reader = DocumentReader(path)
    assert types(reader) == {(("text", "large_string"), ("kind", "string"), ("n", "int64"))}
    assert rows(reader) == [{"text": "a", "kind": "y", "n": 300}, {"text": "b", "kind": "x", "n": 1}]


def test_columns_of_types_that_json_does_not_have_are_null_in_its_rows(tmp_path):
    table = pa.table(
        {
            "text": ["b"],
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "raw": pa.array([b"\xff"]),
            "day": pa.array([datetime.date(2024, 1, 2)]),
        }
    )
    path = put(tmp_path / "in", a_jsonl=[{"text": "a"}], b_parquet=table)
    nothing = {"vector": None, "raw": None, "day": None}
    reader = DocumentReader(path)
    assert rows(reader)[0] == {"text": "a", **nothing}
    assert rows(reader)[1] == {"text": "b", "vector": [1.0, 2.0], "raw": b"\xff", "day": datetime.date(2024, 1, 2)}
    assert len(types(reader)) == 1


@pytest.mark.parametrize("on_bad_line", ["raise", "quarantine"])
def test_types_that_clash_between_formats_are_refused_before_a_row_is_read(tmp_path, on_bad_line):
    path = put(tmp_path / "in", a_jsonl=[{"id": "one"}], b_parquet=[{"id": 2}])
    assert refusal(DocumentReader(path, on_bad_line=on_bad_line)) == (
        "column 'id' is int64 in b.parquet but string in a.jsonl; say which it is to be with schema={'id': 'string'}, "
        "leave it out with fields=, or read the files apart"
    )
    reader = DocumentReader(path, schema={"id": "string"}, on_bad_line=on_bad_line)
    assert rows(reader) == [{"id": "one"}, {"id": "2"}]
    assert types(reader) == {(("id", "string"),)}


def test_a_clash_beyond_the_first_rows_names_the_file(tmp_path):
    late = [*({"text": "x" * 300} for _ in range(1500)), {"text": "x", "id": "one"}]
    path = put(tmp_path / "in", a_parquet=[{"text": "a", "id": 1}], b_jsonl=late)
    assert refusal(DocumentReader(path)) == (
        "column 'id' is string in b.jsonl but int64 in a.parquet; say which it is to be with schema={'id': 'string'}, "
        "leave it out with fields=, or read the files apart"
    )
    reader = DocumentReader(path, blocksize="10MiB", on_bad_line="quarantine")
    (batch,) = batches(reader)
    assert batch.num_items == 1501
    assert [(gone.stage, gone.reason, gone.rows) for gone in batch.rejections] == [
        ("document_reader", "column 'id' of another type", 1)
    ]


def test_the_bad_lines_of_every_file_of_a_split_go_to_quarantine(tmp_path):
    path = put(tmp_path / "in", b_parquet=[{"text": "b"}])
    for name in ("a", "c"):
        (tmp_path / "in" / f"{name}.jsonl").write_bytes(lines({"text": name}) + b"{bad\n")
    reader = DocumentReader(path, blocksize="1MiB", on_bad_line="quarantine")
    (batch,) = batches(reader)
    assert batch.to_arrow()["text"].to_pylist() == ["a", "b", "c"]
    assert [gone.data["file"].to_pylist() for gone in batch.rejections] == [["a.jsonl"], ["c.jsonl"]]
    assert "a.jsonl line 2: " in refusal(DocumentReader(path))


def test_fields_are_those_of_all_files_together(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"text": "a", "url": "u", "x": 1}], b_parquet=[{"text": "b", "n": 1, "x": 1}])
    assert rows(DocumentReader(path, fields=["n", "text"])) == [{"n": None, "text": "a"}, {"n": 1, "text": "b"}]
    assert refusal(DocumentReader(path, fields=["txt"])).startswith(
        "document_reader: no column 'txt' in the first rows of the files; they have 'text', 'url', 'x', 'n': "
    )


def test_directories_with_values_in_their_names_make_columns_of_parquet_files(tmp_path):
    put(tmp_path / "in", a_jsonl=[{"text": "a", "lang": "de"}])
    put(tmp_path / "in" / "lang=en", b_parquet=[{"text": "b"}])
    assert rows(DocumentReader(str(tmp_path / "in"))) == [{"text": "a", "lang": "de"}, {"text": "b", "lang": "en"}]


def test_large_files_of_both_formats_are_cut(tmp_path):
    many = [{"text": f"{number} " * 20} for number in range(400)]
    path = put(tmp_path / "in", a_jsonl=many)
    pq.write_table(pa.Table.from_pylist(many), tmp_path / "in" / "b.parquet", row_group_size=50, compression="none")
    reader = DocumentReader(path, blocksize="8KiB")
    names = [str(split.key) for split in reader.splits()]
    assert names[0] == "a.jsonl@00000"
    assert names[-1].startswith("b.parquet@0000")
    assert rows(reader) == many + many


@pytest.mark.parametrize("name", ["corpus.txt", "part-00000", "a.table"])
def test_a_file_that_is_named_itself_is_read_under_any_name(tmp_path, name):
    put(tmp_path / "in", a_jsonl=[{"text": "a"}], b_parquet=[{"text": "b"}])
    for made, text in (("a.jsonl", "a"), ("b.parquet", "b")):
        named = tmp_path / name
        named.write_bytes((tmp_path / "in" / made).read_bytes())
        assert rows(DocumentReader(str(named))) == [{"text": text}]


def test_content_that_is_not_what_the_ending_says_is_refused(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"text": "a"}], b_parquet=[{"text": "b"}])
    (tmp_path / "in" / "a.jsonl").rename(tmp_path / "in" / "c.parquet")
    assert refusal(DocumentReader(path)).startswith("c.parquet is truncated or not a Parquet file (")
    (tmp_path / "in" / "c.parquet").unlink()
    (tmp_path / "in" / "b.parquet").rename(tmp_path / "in" / "b.jsonl")
    assert refusal(DocumentReader(path)) == (
        "b.jsonl is a Parquet file; read it with ParquetReader or, named .parquet, with DocumentReader"
    )


def test_files_of_other_formats_are_reported_and_alone_refused(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"text": "a"}])
    (tmp_path / "in" / "c.avro").write_text("text\na\n")
    (tmp_path / "in" / "d.parquet.gz").write_bytes(b"")
    reader = DocumentReader(path)
    assert len(rows(reader)) == 1
    assert reader.notices() == [
        "left out 2 files whose names are not those of JSONL, Parquet or CSV files, of '.avro', '.gz'"
    ]
    (tmp_path / "in" / "a.jsonl").unlink()
    assert refusal(DocumentReader(path)) == (
        f"no JSONL, Parquet or CSV file at '{path}' (looked for .jsonl .json .ndjson, each plain or with .gz .bz2 .zst "
        ".xz; .parquet .pq; .csv .tsv, each plain or with .gz .bz2 .zst .xz), "
        "only 2 of '.avro', '.gz'; name the files themselves or use the reader for their format"
    )


def test_an_empty_folder_is_refused(tmp_path):
    assert refusal(DocumentReader(str(tmp_path))) == (
        f"the directory '{tmp_path}' is empty (names that begin with '_' or '.' are left out); name another"
    )


def test_files_without_rows_give_no_batch(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[], b_parquet=pa.table({"text": pa.array([], pa.string())}))
    assert batches(DocumentReader(path)) == batches(DocumentReader(path, blocksize="1MiB")) == []


def test_options_of_one_format_reach_that_format_alone(tmp_path):
    path = put(tmp_path / "in", a_jsonl=[{"text": "a"}], b_parquet=[{"text": "b"}])
    reader = DocumentReader(path, read_kwargs={"lines": True, "memory_map": True, "dtype_backend": "pyarrow"})
    assert rows(reader) == [{"text": "a"}, {"text": "b"}]
    with pytest.raises(DataError, match="b.parquet is truncated"):
        rows(DocumentReader(path, read_kwargs={"thrift_string_size_limit": 1}))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"read_kwargs": {"chunksize": 3}},
            "document_reader: read_kwargs 'chunksize' mean nothing here; there are 'li",
        ),
        (
            {"read_kwargs": {"lines": False}},
            "document_reader: read_kwargs 'lines' mean nothing here, as pandas is not ",
        ),
        ({"on_bad_line": "skip"}, "document_reader: on_bad_line='skip' must be 'raise' or 'quarantine'"),
        ({"frames": "polars"}, "document_reader: frames='polars' is not one of 'arrow', 'cudf'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, sentence):
    with pytest.raises(PipelineError) as refused:
        DocumentReader("in", **settings)
    assert str(refused.value).startswith(sentence)


@pytest.mark.s3
def test_what_is_on_s3_is_read_like_what_is_on_a_disk(bucket, mixed):
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for path in Path(mixed).iterdir():
        store.pipe_file(f"{url}/in/{path.name}", path.read_bytes())
    store.pipe_file(f"{url}/else/part-0", (Path(mixed) / "5.parquet").read_bytes())
    here = DocumentReader(mixed, blocksize="1MiB")
    there = DocumentReader(f"{url}/in", blocksize="1MiB", storage_options=options)
    assert [split.key for split in there.splits()] == [split.key for split in here.splits()]
    assert rows(there) == rows(here)
    assert rows(DocumentReader(f"{url}/else/part-0", storage_options=options)) == rows(
        DocumentReader(f"{mixed}/5.parquet")
    )


@pytest.mark.parametrize(("filetype", "kind"), [("jsonl", JsonlWriter), ("parquet", ParquetWriter), ("csv", CsvWriter)])
def test_the_writer_of_documents_writes_what_the_writer_of_the_format_does(tmp_path, filetype, kind):
    settings: dict[str, Any] = {"max_rows_per_file": 2, "fields": ["n"], "separate_by": "text"}
    for mode in ("error", "append"):
        for name, stage in (
            ("alone", kind(str(tmp_path / "alone"), mode=mode, **settings)),
            ("named", DocumentWriter(str(tmp_path / "named"), mode=mode, filetype=filetype, **settings)),
        ):
            path = put(tmp_path / "in", a_jsonl=[{"text": "ab"[n % 2], "n": n} for n in range(9)])
            Pipeline(name, stages=[DocumentReader(path), stage]).run(InlineExecutor())
    alone, named = (
        {
            str(path.relative_to(tmp_path / name)): path.read_bytes()
            for path in (tmp_path / name).glob(f"*/*.{filetype}")
        }
        for name in ("alone", "named")
    )
    assert len(alone) == 10
    assert alone == named


def test_a_format_that_is_none_is_refused():
    with pytest.raises(PipelineError) as refused:
        DocumentWriter("out", filetype="parqet")
    assert str(refused.value) == (
        "document_writer: filetype='parqet' is not one of 'jsonl', 'parquet', 'csv'; did you mean 'parquet'?"
    )


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """Twelve files of five texts, by turns JSON Lines, packed or not, and Parquet; one text is in all of them."""
    words = [f"word{number}" for number in range(400)]
    files: dict[str, Any] = {}
    for number in range(12):
        ending = ("jsonl", "jsonl_gz", "jsonl_zst", "parquet")[number % 4]
        texts = [" ".join([*words[30 * number + 6 * row :][:6], f"own {number} {row}"]) for row in range(4)]
        own = [{"text": text, "score": 1 if number % 4 else 0.5} for text in texts]
        files[f"part-{number:02}_{ending}"] = [*own, {"text": "said everywhere", "score": 1}]
    return put(tmp_path / "in", **files)


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dcurate.cli", *arguments]
    return finished(command, env=ENVIRONMENT, timeout_s=180)


def written(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(output.glob("*.jsonl")) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_a_bundled_recipe_reads_a_folder_of_both_formats(corpus, tmp_path, mode):
    done = cli("run", "dedup", "--input", corpus, "--output", str(tmp_path / "out"), "--mode", mode)
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stdout
    found = written(tmp_path / "out")
    assert len(found) == 12 * 4 + 1
    assert len({row["text"] for row in found}) == 49
    assert {type(row["score"]) for row in found} == {float}
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 12


def test_a_bundled_recipe_packs_small_files_and_writes_parquet(corpus, tmp_path):
    settings = ("--set", "blocksize=64MiB", "--set", "output_format=parquet", "--mode", "inline")
    done = cli("run", "dedup", "--input", corpus, "--output", str(tmp_path / "out"), *settings)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "out").glob("*.parquet")
    table = pq.read_table(file)
    assert (table.num_rows, table.schema.field("score").type) == (49, pa.float64())


def test_a_bundled_recipe_that_is_killed_over_both_formats_goes_on_to_the_same_bytes(corpus, tmp_path):
    given = ("run", "dedup", "--input", corpus, "--mode", "inline")
    assert cli(*given, "--output", str(tmp_path / "whole")).returncode == 0
    again = (*given, "--output", str(tmp_path / "out"), "--resume")
    command = dying(tmp_path / "out", "part-0[3-9]*.jsonl", "dcurate.cli", *again)
    assert finished(command, env=ENVIRONMENT).returncode == -signal.SIGKILL
    assert 0 < len(content(tmp_path / "out")) < 12
    done = cli(*again)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_csv_file_that_looks_divided_by_another_sign_is_named_in_a_notice_and_in_the_first_rows(tmp_path):
    (tmp_path / "a.csv").write_text("id;text\n1;one\n")
    (tmp_path / "b.jsonl").write_text('{"a;b": "x"}\n')
    (tmp_path / "c.csv").write_text("only\nx\n")
    for reader in (DocumentReader(str(tmp_path)), CsvReader(str(tmp_path / "*.csv"))):
        pipeline = Pipeline("p", stages=[reader])
        [notice] = pipeline.run(InlineExecutor(), observers=[]).report.notices
        assert notice.startswith("the rows of a.csv have one column, 'id;text', which looks divided by ';': give")
        assert notice in pipeline.head(1).notices
        assert notice in repr(pipeline.head(1))


def test_settings_for_the_form_of_csv_files_are_those_of_the_reader_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text("'one; two';3\n'it\\'s';4\n")
    (tmp_path / "b.jsonl").write_text('{"text": "five", "n": "6"}\n')
    form: dict[str, Any] = {"delimiter": ";", "quote": "'", "escape": "\\", "header": ["text", "n"]}
    assert set(form) == set(SIGNS)
    alone = Pipeline("p", stages=[CsvReader(str(tmp_path / "a.csv"), **form)]).run(InlineExecutor(), observers=[])
    both = Pipeline("p", stages=[DocumentReader(str(tmp_path), **form)]).run(InlineExecutor(), observers=[])
    rows = [*alone.to_arrow().to_pylist(), {"text": "five", "n": "6"}]
    assert (
        both.to_arrow().to_pylist()
        == rows
        == [{"text": t, "n": n} for t, n in [("one; two", "3"), ("it's", "4"), ("five", "6")]]
    )
    assert both.report.notices == ()
    with pytest.raises(PipelineError, match="document_reader: delimiter=';;' must be one ASCII character"):
        DocumentReader(str(tmp_path), delimiter=";;")
    unused = Pipeline("p", stages=[DocumentReader(str(tmp_path / "b.jsonl"), delimiter=";")])
    [notice] = unused.run(InlineExecutor(), observers=[]).report.notices
    assert notice == "'delimiter' of document_reader had no effect, as the input has no CSV file"


def test_a_column_of_the_schema_that_no_file_has_is_named_if_another_is_like_it(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one", "score": 1}\n')
    for schema, notices in (
        ({"scor": "string"}, 1),
        ({"other": "string"}, 0),
        ({"score": "string", "scores": "int64"}, 0),
    ):
        for reader in (DocumentReader(str(tmp_path), schema=schema), JsonlReader(str(tmp_path), schema=schema)):
            report = Pipeline("p", stages=[reader]).run(InlineExecutor(), observers=[]).report
            assert len(report.notices) == notices
            assert all("column 'scor', which the first" in notice and "'score'?" in notice for notice in report.notices)
