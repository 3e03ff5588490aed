"""Files that are not what a reader of JSON Lines takes them for."""

from __future__ import annotations

import os

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DataError, Filter, InlineExecutor, JsonlReader, JsonlWriter, ParquetReader, Pipeline
from tests.io.test_jsonl_reader import PACK

ROW = b'{"text": "one"}\n'


def refusal(path):
    reader = JsonlReader(str(path), on_bad_line="quarantine")
    with pytest.raises(DataError) as refused:
        [reader.process(split) for split in reader.splits()]
    return str(refused.value)


def test_parquet_given_to_the_jsonl_reader_is_refused_not_quarantined(tmp_path):
    pq.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "docs.parquet")
    assert "docs.parquet is not a JSONL file by its ending" in refusal(tmp_path / "docs.parquet")
    assert "read it with ParquetReader" in refusal(tmp_path / "docs.parquet")
    os.rename(tmp_path / "docs.parquet", tmp_path / "docs.jsonl")
    said = "docs.jsonl is a Parquet file; read it with ParquetReader or, named .parquet, with DocumentReader"
    assert refusal(tmp_path) == said


def test_parquet_among_good_files_stops_the_run_too(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(ROW)
    pq.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "b.jsonl")
    assert (
        refusal(tmp_path)
        == "b.jsonl is a Parquet file; read it with ParquetReader or, named .parquet, with DocumentReader"
    )


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_packed_content_under_a_plain_name_is_refused_and_says_what_to_call_it(tmp_path, ending):
    (tmp_path / "a.jsonl").write_bytes(PACK[ending](ROW))
    assert refusal(tmp_path).endswith(f"; let its name end in {ending}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_reported_with_and_without_its_mark(tmp_path, encoding):
    (tmp_path / "a.jsonl").write_bytes(ROW.decode().encode(encoding))
    assert refusal(tmp_path) == "a.jsonl is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8) and try again"


@pytest.mark.parametrize("indent", [0, orjson.OPT_INDENT_2])
def test_one_json_list_is_refused_with_how_to_make_lines(tmp_path, indent):
    (tmp_path / "a.json").write_bytes(orjson.dumps([{"text": "one"}, {"text": "two"}], option=indent))
    with pytest.raises(DataError, match=r"a.json line 1: .*; a document goes on a line of its own, as jq -c '\.\[\]'"):
        JsonlReader(str(tmp_path)).process(next(JsonlReader(str(tmp_path)).splits()))


def run(source, output):
    return Pipeline("copy", stages=[source, JsonlWriter(str(output))]).run(InlineExecutor()).report


def test_files_of_another_format_beside_the_input_are_reported(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(ROW)
    pq.write_table(pa.table({"text": ["two"]}), tmp_path / "in" / "b.parquet")
    assert run(JsonlReader(str(tmp_path / "in")), tmp_path / "one").notices == (
        "left out 'b.parquet', whose name is not that of a JSONL file; "
        "DocumentReader reads JSONL, Parquet and CSV together",
    )
    (tmp_path / "in" / "c.jsonl.lz4").write_bytes(b"")
    for about in ("_SUCCESS", "README.md", "LICENSE", "dataset.md"):
        (tmp_path / "in" / about).write_bytes(b"")
    assert run(JsonlReader([str(tmp_path / "in")] * 2), tmp_path / "two").notices == (
        "left out 2 files whose names are not those of JSONL files, of '.parquet', '.lz4'; "
        "DocumentReader reads JSONL, Parquet and CSV together",
    )
    assert run(ParquetReader(str(tmp_path / "in" / "*.parquet")), tmp_path / "three").notices == ()
    assert run(JsonlReader(str(tmp_path / "in" / "a.jsonl")), tmp_path / "four").notices == ()


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    said = "is a pipe, which cannot be read twice; write it into a file and name that"
    for path in (f"{tmp_path}/pipe", "-"):
        with pytest.raises(DataError) as refused:
            JsonlReader(path).columns()
        assert str(refused.value) == f"{path!r} {said}"


def test_the_report_distinguishes_malformed_lines_from_columns_of_another_type(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1}\n{"id": "x"}\nno json\n{"id": "y"}\n')
    reader, looks = JsonlReader(str(tmp_path / "a.jsonl"), on_bad_line="quarantine"), Filter(lambda value: True, "id")
    pipeline = Pipeline("types", stages=[reader, looks, JsonlWriter(str(tmp_path / "out"))])
    report = pipeline.run(InlineExecutor(), observers=[]).report
    assert report.stages[0].faulty == {"column 'id' of another type": 2, "malformed line": 1}
    assert report.stages[-1].rows_out == 1
