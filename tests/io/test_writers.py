from __future__ import annotations

import datetime as dt
import decimal
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    CsvWriter,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from tests.places import is_data, records

pytestmark = pytest.mark.program


def batch(rows, split="part-00.jsonl", path=()):
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    return DocumentBatch(data=table, key=BatchKey(split, path))


def ready(kind, path, **settings):
    writer = kind(str(path), **settings)
    writer.prepare(resume=False)
    return writer


def outputs(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file() and is_data(p))


def rows_of(kind, path):
    reader = kind(str(path))
    return [row for split in reader.splits() for row in reader.process(split).data.to_pylist()]


@pytest.mark.parametrize(("writer", "reader"), [(JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)])
def test_what_is_written_is_read_back_the_same(tmp_path, writer, reader):
    rows = [{"id": 1, "text": 'é\n"\\\u2028', "n": {"x": [1, 2]}, "f": 0.1, "b": True, "z": None}]
    group = ready(writer, tmp_path).process(batch(pa.Table.from_pylist(rows)))
    assert rows_of(reader, tmp_path) == rows
    (part,) = group.parts
    assert part.size == os.path.getsize(part.path)
    assert group.key == BatchKey("part-00.jsonl")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text() | st.none(), min_size=1, max_size=20))
@pytest.mark.parametrize(("writer", "reader"), [(JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)])
def test_any_text_is_read_back_the_same(tmp_path, writer, reader, texts):
    stage = writer(str(tmp_path), mode="ignore")
    stage.prepare(resume=False)
    stage.process(batch(pa.table({"t": pa.array(texts, pa.string()), "n": list(range(len(texts)))})))
    assert [row["t"] for row in rows_of(reader, tmp_path)] == texts


@pytest.mark.parametrize(
    ("compression", "ending"), [(None, ""), ("gzip", ".gz"), ("zstd", ".zst"), ("bz2", ".bz2"), ("xz", ".xz")]
)
def test_jsonl_is_compressed_as_asked_and_at_any_time_to_the_same_bytes(tmp_path, monkeypatch, compression, ending):
    writer = ready(JsonlWriter, tmp_path, compression=compression)
    (first,) = writer.process(batch({"t": ["x" * 1000] * 50})).data
    assert first.endswith(f".jsonl{ending}")
    before = Path(first).read_bytes()
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    writer.process(batch({"t": ["x" * 1000] * 50}))
    assert Path(first).read_bytes() == before
    assert len(rows_of(JsonlReader, tmp_path)) == 50


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "none", None])
def test_parquet_is_compressed_as_asked(tmp_path, compression):
    (path,) = ready(ParquetWriter, tmp_path, compression=compression).process(batch({"t": ["x"]})).data
    found = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert found == {"none": "UNCOMPRESSED", None: "UNCOMPRESSED"}.get(compression, (compression or "").upper())


def test_file_names_follow_from_the_key_alone(tmp_path):
    writer = ready(JsonlWriter, tmp_path)
    for split, path in (
        ("a/part-00.jsonl.gz", ()),
        ("a/part-00.jsonl.gz", (1,)),
        ("x.jsonl@00003", ()),
        ("_ß?.json", ()),
    ):
        writer.process(batch({"t": ["x"]}, split, path))
    digests = [BatchKey("a/part-00.jsonl.gz", p).digest for p in ((), (1,))] + [BatchKey("x.jsonl@00003").digest]
    wanted = [
        f"part-00-{digests[0]}",
        f"part-00-{digests[1]}",
        f"x-{digests[2]}",
        f"part-{BatchKey('_ß?.json').digest}",
    ]
    assert outputs(tmp_path) == sorted(f"{name}.jsonl" for name in wanted)


def test_a_batch_without_rows_writes_no_file(tmp_path):
    group = ready(JsonlWriter, tmp_path).process(batch({"t": []}))
    assert group.parts == ()
    assert outputs(tmp_path) == []


def test_a_batch_without_a_key_is_refused(tmp_path):
    with pytest.raises(PipelineError) as refusal:
        ready(JsonlWriter, tmp_path).process(DocumentBatch(data=pa.table({"t": ["x"]})))
    assert str(refusal.value) == (
        "jsonl_writer: the batch has no key; give it one: DocumentBatch(key=BatchKey('name'))"
    )


@pytest.mark.parametrize("kind", [JsonlWriter, ParquetWriter])
def test_only_the_wanted_fields_are_written(tmp_path, kind):
    reader = JsonlReader if kind is JsonlWriter else ParquetReader
    writer = ready(kind, tmp_path, fields=["b", "a"])
    writer.process(batch({"a": [1], "b": [2], "c": [3]}))
    assert [list(row) for row in rows_of(reader, tmp_path)] == [["b", "a"]]
    assert writer.inputs() == ([], ["b", "a"])
    with pytest.raises(DataError, match="no column 'b' to write; the rows have 'a'"):
        writer.process(batch({"a": [1]}))


@pytest.mark.parametrize(("kind", "ending"), [(JsonlWriter, "jsonl"), (ParquetWriter, "parquet")])
def test_a_batch_of_too_many_rows_becomes_several_files(tmp_path, kind, ending):
    group = ready(kind, tmp_path, max_rows_per_file=4).process(batch({"n": list(range(10))}))
    stem = f"part-00-{BatchKey('part-00.jsonl').digest}"
    assert [os.path.basename(p) for p in group.data] == [
        f"{stem}.{ending}",
        f"{stem}-0001.{ending}",
        f"{stem}-0002.{ending}",
    ]
    read = JsonlReader if kind is JsonlWriter else ParquetReader
    reader = read(group.data)
    found = [reader.process(split).data["n"].to_pylist() for split in reader.splits()]
    assert sorted(map(len, found)) == [2, 4, 4]
    assert sorted(n for each in found for n in each) == list(range(10))


def test_jsonl_files_stay_below_the_bytes_given_and_rows_are_never_cut(tmp_path):
    lengths = [10, 200, 30, 40, 50, 500, 1]
    writer = ready(JsonlWriter, tmp_path, max_bytes_per_file=250)
    group = writer.process(batch({"t": ["x" * n for n in lengths]}))
    sizes = [part.size for part in group.parts]
    assert sizes == [19 + 209, 39 + 49 + 59, 509, 10]
    assert [
        len(row["t"]) for part in group.data for row in map(orjson.loads, Path(part).read_bytes().splitlines())
    ] == lengths


def test_parquet_files_have_about_the_bytes_given(tmp_path):
    writer = ready(ParquetWriter, tmp_path, max_bytes_per_file="10kB", compression="none")
    group = writer.process(batch({"t": [f"{n:0100}" for n in range(400)]}))
    assert len(group.parts) == 5
    assert sum(pq.read_metadata(path).num_rows for path in group.data) == 400


def test_dates_and_times_are_written_as_iso(tmp_path):
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678)
    table = pa.table(
        {
            "us": pa.array([moment], pa.timestamp("us")),
            "ns": pa.array([moment], pa.timestamp("ns")),
            "tz": pa.array([moment], pa.timestamp("s", "UTC")),
            "day": [dt.date(2024, 1, 2)],
            "time": [dt.time(3, 4)],
            "in": pa.array([[moment]], pa.list_(pa.timestamp("ns"))),
        }
    )
    (path,) = ready(JsonlWriter, tmp_path).process(batch(table)).data
    assert orjson.loads(Path(path).read_bytes()) == {
        "us": "2024-01-02T03:04:05.000678",
        "ns": "2024-01-02T03:04:05.000678",
        "tz": "2024-01-02T03:04:05+00:00",
        "day": "2024-01-02",
        "time": "03:04:00",
        "in": ["2024-01-02T03:04:05.000678"],
    }


def test_pandas_batches_and_categories_are_written(tmp_path):
    frame = pd.DataFrame({"t": ["x", None], "n": [1, 2], "c": pd.Categorical(["p", "q"]), "f": [np.nan, 1.5]})
    ready(JsonlWriter, tmp_path).process(DocumentBatch(data=frame, key=BatchKey("a")))
    assert rows_of(JsonlReader, tmp_path) == [
        {"t": "x", "n": 1, "c": "p", "f": None},
        {"t": None, "n": 2, "c": "q", "f": 1.5},
    ]


@pytest.mark.parametrize(
    ("values", "type_"),
    [([b"x"], "binary"), ([decimal.Decimal("1.5")], "decimal128(2, 1)"), ([[b"x"]], "list<item: binary>")],
)
def test_columns_that_json_has_no_form_for_are_refused(tmp_path, values, type_):
    writer = ready(JsonlWriter, tmp_path)
    with pytest.raises(DataError) as refusal:
        writer.process(batch({"x": values}))
    assert str(refusal.value) == (
        f"column 'x' holds {type_}, which JSON has no form for, so it cannot go to '{tmp_path}'; "
        f"leave it out with fields=, turn it into text, or use ParquetWriter"
    )


def test_text_that_is_not_utf8_is_refused_and_leaves_nothing(tmp_path):
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff"))
    with pytest.raises(DataError, match="a text is not valid UTF-8 .*; fix it before it is written"):
        ready(JsonlWriter, tmp_path).process(batch({"t": bad}))
    assert outputs(tmp_path) == []
    assert os.listdir(records(tmp_path) / "tmp") == []


def test_partition_columns_become_directories_and_come_back(tmp_path):
    writer = ready(ParquetWriter, tmp_path, partition_cols=["lang", "year"])
    table = {"t": list("abcd"), "lang": ["en", "a/b c", None, "en"], "year": [1, 1, 2, 1]}
    group = writer.process(batch(table))
    name = f"part-00-{BatchKey('part-00.jsonl').digest}.parquet"
    assert [os.path.relpath(path, tmp_path) for path in group.data] == [
        f"lang=en/year=1/{name}",
        f"lang=a%2Fb c/year=1/{name}",
        f"lang=__HIVE_DEFAULT_PARTITION__/year=2/{name}",
    ]
    found = sorted(rows_of(ParquetReader, tmp_path), key=lambda row: row["t"])
    assert found == [
        {"t": "a", "lang": "en", "year": 1},
        {"t": "b", "lang": "a/b c", "year": 1},
        {"t": "c", "lang": None, "year": 2},
        {"t": "d", "lang": "en", "year": 1},
    ]
    reader = ParquetReader(str(tmp_path), fields=["year", "t"], schema={"year": "int64"})
    assert reader.process(next(reader.splits())).data.schema.names == ["year", "t"]
    only = ParquetReader(str(tmp_path), fields=["lang"])
    assert sorted(str(row["lang"]) for s in only.splits() for row in only.process(s).data.to_pylist()) == [
        "None",
        "a/b c",
        "en",
        "en",
    ]
    assert pq.read_table(tmp_path).shape == (4, 3)


#: Columns of values that are easily given one name, though they are not the same.
NAN_BITS = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
KEYS = {
    "text": pa.array([None, "__HIVE_DEFAULT_PARTITION__", "", "1", "%null", "%empty", "None", "nan", "a/b", "a%2Fb"]),
    "floats": pa.array([*NAN_BITS, 0.0, -0.0, None], from_pandas=False),
    "times": pa.array([0, 1, 999, 1000, None], pa.int64()).cast(pa.time64("ns")),
    "instants": pa.array([0, 1, 2, 1000, None], pa.timestamp("ns", "UTC")),
    "far": pa.array([0, 2**31 - 1, 2**31 - 2, None], pa.date32()),
    "dictionary": pa.array([None, "__HIVE_DEFAULT_PARTITION__", ""]).dictionary_encode(),
    "bytes": pa.array([b"", b"a", b"\xff", None]),
    "flags": pa.array([True, False, None]),
}


@pytest.mark.parametrize("setting", ["partition_cols", "separate_by"])
@pytest.mark.parametrize("column", KEYS)
@given(data=st.data())
@settings(max_examples=8)
def test_no_two_values_overwrite_each_other_in_a_folder(column, setting, data, tmp_path_factory):
    values = KEYS[column]
    places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)) + list(range(len(values)))
    folder = tmp_path_factory.mktemp("out")
    writer = ready(ParquetWriter, folder, **{setting: [column] if setting == "partition_cols" else column})
    table = pa.table({"n": list(range(len(places))), column: values.take(pa.array(places))})
    written = writer.process(DocumentBatch(data=table, key=BatchKey("part-00.jsonl"))).data
    assert len(set(written)) == len(written)
    assert sorted(n for path in written for n in pq.read_table(path, partitioning=None)["n"].to_pylist()) == list(
        range(len(places))
    )
    if column == "text" and setting == "partition_cols":
        read = {row["n"]: row[column] for row in rows_of(ParquetReader, folder)}
        assert read == dict(enumerate(table[column].to_pylist()))


@pytest.mark.parametrize(("writer", "reader"), [(JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)])
def test_any_store_that_fsspec_knows_will_do(writer, reader):
    url = f"memory://{time.time_ns()}"
    stage = ready(writer, url)
    (path,) = stage.process(batch({"t": ["x"], "n": [1]})).data
    assert path.startswith(f"memory:///{url.removeprefix('memory://')}/part-00-")
    assert rows_of(reader, url) == [{"t": "x", "n": 1}]
    with pytest.raises(DataError, match="holds the output of a"):
        stage.prepare(resume=False)
    if writer is ParquetWriter:
        ready(writer, url, mode="overwrite", partition_cols=["n"]).process(batch({"t": ["y"], "n": [2]}))
        assert rows_of(reader, url) == [{"t": "y", "n": 2}]
    ready(writer, url, mode="overwrite")
    with pytest.raises(DataError, match="is empty"):
        rows_of(reader, url)


def test_partition_columns_that_are_not_there_are_refused(tmp_path):
    writer = ready(ParquetWriter, tmp_path, partition_cols=["lang"])
    with pytest.raises(DataError, match="partition_cols 'lang' must be some of the columns, and not all: 't'"):
        writer.process(batch({"t": ["x"]}))
    assert writer.inputs() == ([], ["lang"])
    with pytest.raises(DataError, match="partition_cols 't' hold 'list<item: int64>', of which one names no directory"):
        ready(ParquetWriter, tmp_path, partition_cols=["t"]).process(batch({"t": [[1]], "n": [1]}))


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (JsonlWriter, {"mode": "replace"}, "mode='replace' is not one of 'error', 'overwrite', 'ignore', 'append'"),
        (JsonlWriter, {"compression": "zip"}, "compression='zip' is not known; did you mean 'gzip'?"),
        (JsonlWriter, {"max_rows_per_file": 0}, "max_rows_per_file=0 must be a whole number of at least 1"),
        (JsonlWriter, {"max_bytes_per_file": "x"}, "max_bytes_per_file='x' is not a size"),
        (JsonlWriter, {"write_kwargs": {"indent": 2}}, "write_kwargs 'indent' mean nothing here"),
        (ParquetWriter, {"compression": "zip"}, "pyarrow refuses compression='zip' or write_kwargs: "),
        (ParquetWriter, {"write_kwargs": {"colour": 1}}, " or write_kwargs: "),
        (ParquetWriter, {"partition_cols": "lang"}, "partition_cols must be a list: ['lang']"),
    ],
)
def test_settings_that_mean_nothing_are_refused(kind, settings, sentence):
    with pytest.raises(PipelineError) as refusal:
        kind("out", **settings)
    assert sentence in str(refusal.value)


def test_write_kwargs_reach_pyarrow(tmp_path):
    writer = ready(ParquetWriter, tmp_path, write_kwargs={"row_group_size": 3, "compression": "snappy"})
    (path,) = writer.process(batch({"n": list(range(9))})).data
    assert pq.read_metadata(path).num_row_groups == 3


def test_settings_leave_out_where_the_output_goes():
    one = JsonlWriter("here", mode="append", storage_options={"key": "x"})
    assert one.settings() == JsonlWriter("there").settings()
    assert one.settings() != JsonlWriter("here", compression="gzip").settings()


@pytest.mark.parametrize("kind", [JsonlWriter, ParquetWriter])
def test_a_full_disk_is_reported_and_leaves_no_part_of_a_file(small_disk, kind):
    noise = np.random.default_rng(0).integers(0, 2**62, 400_000)
    writer = ready(kind, small_disk / "out")
    with pytest.raises(DataError) as refusal:
        writer.process(batch({"n": noise}))
    ending = "jsonl" if kind is JsonlWriter else "parquet"
    name = f"part-00-{BatchKey('part-00.jsonl').digest}.{ending}"
    assert str(refusal.value) == (
        f"no space left on device while writing '{small_disk}/out/{name}'; free some and run again with resume=True"
    )
    assert outputs(small_disk / "out") == []
    assert os.listdir(small_disk / "out.dcurate/tmp") == []


WRITE_FOR_EVER = """
import sys, pyarrow as pa
from dcurate import BatchKey
from dcurate import DocumentBatch
from dcurate import JsonlWriter
writer = JsonlWriter(sys.argv[1], mode="ignore")
table = pa.table({"t": ["x" * 1000] * 20_000})
print("go", flush=True)
while True:
    for number in range(10):
        writer.process(DocumentBatch(data=table, key=BatchKey(f"part-{number}")))
"""


def test_a_killed_process_leaves_whole_files_only(tmp_path):
    ready(JsonlWriter, tmp_path)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        while not outputs(tmp_path):
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert outputs(tmp_path)
        assert {os.path.getsize(tmp_path / name) for name in outputs(tmp_path)} == {20_000 * 1009}
    JsonlWriter(str(tmp_path)).prepare(resume=True)
    assert not os.path.exists(records(tmp_path) / "tmp") or os.listdir(records(tmp_path) / "tmp") == []


@pytest.mark.parametrize("kind", [JsonlWriter, ParquetWriter, CsvWriter])
@pytest.mark.parametrize(
    ("name", "noticed"),
    [("out.jsonl", True), ("out.PARQUET/", True), ("a.csv.gz", True), ("v1.0", False)],
)
def test_a_folder_that_is_named_like_a_file_is_said_to_be_one(tmp_path, kind, name, noticed):
    stages = [kind(f"{tmp_path}/{name}")]
    result = Pipeline("t", stages=stages).run(InlineExecutor(), pd.DataFrame({"a": [1]}), observers=[])
    assert (tmp_path / name).is_dir()
    assert ["is a folder, with a file for each split" in notice for notice in result.report.notices] == [True] * noticed
    assert stages[0].forecast() == list(result.report.notices)
    [append] = [kind(f"{tmp_path}/{name}", mode="append")]
    assert append.forecast() == []
