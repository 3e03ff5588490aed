"""The first rows of a pipeline and of files."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from fsspec.implementations.local import LocalFileOpener

from dcurate import (
    CsvReader,
    DataError,
    DocumentReader,
    ExactDuplicates,
    Filter,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Modify,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    RunError,
    ScoreFilter,
    WarcReader,
    peek,
    read_rejected,
)
from dcurate.cli import cli
from dcurate.core.stage import Stage
from dcurate.plan.compile import compile_plan
from dcurate.recipe import SAMPLE
from dcurate.text import AddId, LanguageId, WordCountFilter
from tests.archives import archive, page, warc_record

ROWS = [{"text": f"row {number}", "n": number} for number in range(300)]


def files(folder: Path) -> Path:
    """Rows in files of every format, some with blank lines, lines that break off, and line ends in values."""
    folder.mkdir()
    lines = [json.dumps(row) for row in ROWS]
    (folder / "a.jsonl").write_text("\n\n\n".join(lines[:7]) + "\n")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[7:100]).encode()))
    pq.write_table(pa.Table.from_pylist(ROWS[100:200]), folder / "c.parquet", row_group_size=30)
    csv = "".join(f'"row\n{row["n"]}",{row["n"]}\n' for row in ROWS[200:])
    (folder / "d.csv").write_text("text,n\n" + csv)
    return folder


@pytest.mark.parametrize("n", [1, 6, 8, 99, 150, 204, 299, 300, 1000])
def test_the_head_is_the_first_rows_of_a_run(n: int, tmp_path: Path) -> None:
    reader = DocumentReader(str(files(tmp_path / "in")), schema={"n": "int64"}, on_bad_line="quarantine")
    pipeline = Pipeline("x", stages=[reader, AddId("id"), Filter(lambda number: number % 3 > 0, "n")])
    expected = pipeline.run(InlineExecutor(), observers=[]).to_arrow().to_pylist()
    assert len(expected) == 200
    head = pipeline.head(n)
    assert head.to_arrow().to_pylist() == expected[:n]
    assert len(head) == min(n, 200)
    assert head.schema.names == ["text", "n", "id"]


def test_the_head_of_small_files_that_share_a_split_is_that_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}.jsonl").write_text("".join(f'{{"n": {10 * number + k}}}\n\n' for k in range(3)))
    pipeline = Pipeline("x", stages=[JsonlReader(str(tmp_path / "in"), files_per_partition=4), AddId("id")])
    expected = pipeline.run(InlineExecutor(), observers=[]).to_arrow().to_pylist()
    for n in range(1, 16):
        assert pipeline.head(n).to_arrow().to_pylist() == expected[:n]


def test_records_that_are_no_rows_are_passed_over(tmp_path: Path) -> None:
    requests = [warc_record(b"GET / HTTP/1.1\r\n\r\n", kind="request") for _ in range(100)]
    pages = [warc_record(page("x"), f"http://x.org/{number}") for number in range(3)]
    (tmp_path / "a.warc").write_bytes(archive([*requests, *pages], "plain"))
    (tmp_path / "b.warc").write_bytes(archive([warc_record(page("y"), "http://y.org")], "plain"))
    pipeline = Pipeline("x", stages=[WarcReader(str(tmp_path))])
    assert [row["url"] for row in pipeline.head(4).to_arrow().to_pylist()] == [
        *(f"http://x.org/{number}" for number in range(3)),
        "http://y.org",
    ]


def bytes_read(monkeypatch: pytest.MonkeyPatch, reader: Any, n: int = 5) -> int:
    """The bytes that are read of files through fsspec for the head of a reader."""
    count = [0]

    def read(self: LocalFileOpener, size: int = -1) -> bytes:
        data: bytes = self.f.read(size)
        count[0] += len(data)
        return data

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileOpener, "read", read, raising=False)
        assert len(Pipeline("x", stages=[reader]).head(n)) == n
    return count[0]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".csv", ".csv.gz"])
def test_no_more_is_read_of_a_large_file_than_its_first_rows_need(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{"text": "%s"}\n' if "jsonl" in ending else "%s\n"
    head = "" if "jsonl" in ending else "text\n"
    texts = (random.Random(number).randbytes(64).hex() for number in range(60_000))
    data = (head + "".join(line % text for text in texts)).encode()
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(data, 1) if ending.endswith(".gz") else data)
    reader = CsvReader(str(path)) if ".csv" in ending else JsonlReader(str(path))
    assert path.stat().st_size > 3_900_000
    assert 0 < bytes_read(monkeypatch, reader) < 3_000_000


def test_pages_of_a_row_group_are_read_as_they_are_needed(tmp_path: Path) -> None:
    texts = [random.Random(number).randbytes(500).hex() for number in range(20_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False, compression="none")
    assert (tmp_path / "a.parquet").stat().st_size > 20_000_000
    pipeline = Pipeline("x", stages=[ParquetReader(str(tmp_path / "a.parquet"))])
    pipeline.head(1)
    before = psutil.Process().io_counters().read_chars
    assert pipeline.head(5).to_pandas().text.tolist() == texts[:5]
    assert psutil.Process().io_counters().read_chars - before < 8_000_000


def test_a_filter_that_keeps_nothing_ends_the_search(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(5000)))
    stages: list[Stage] = [JsonlReader(str(path)), Filter(lambda n: n >= 1000, "n")]
    head = Pipeline("x", stages=stages).head(3, read_rows=1000)
    assert len(head) == 0
    assert head.rows_read == 1000
    assert "0 rows, from the first 1,000 of the input" in repr(head)


def test_the_head_writes_nothing_and_a_deduplication_sees_the_rows_that_were_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "{number // 2}"}}\n' for number in range(100)))
    stages: list[Stage] = [JsonlReader(str(path)), ExactDuplicates(), JsonlWriter(str(tmp_path / "out"))]
    head = Pipeline("x", stages=stages).head(4)
    assert head.to_pandas().text.tolist() == ["0", "1", "2", "3"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


def test_the_head_of_rows_that_are_given() -> None:
    head = Pipeline("x", stages=[Filter(lambda n: n > 7, "n")]).head(2, pd.DataFrame({"n": range(10)}))
    assert head.to_pandas().n.tolist() == [8, 9]


@pytest.mark.parametrize("content", ['[{"n": 1},\n{"n": 2}]\n', '[{"n": 1}]', '{\n  "n": 1\n}\n'])
def test_peek_says_why_no_line_can_be_read(content: str, tmp_path: Path) -> None:
    (tmp_path / "array.json").write_text(content)
    with pytest.raises(DataError, match=r"array\.json line 1: .*; a document goes on a line of its own, as jq -c"):
        peek(str(tmp_path))


def test_peek_leaves_out_lines_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{broken\n{"n": 2}\n{"n": 3}\n')
    assert peek(str(tmp_path), 3).to_pandas().n.tolist() == [1, 2, 3]
    assert peek(ParquetReader(str(files(tmp_path / "in") / "c.parquet")), 1).to_pandas().n.tolist() == [100]


def test_what_is_no_number_of_rows_is_refused(tmp_path: Path) -> None:
    for wrong in (0, -1, True, 2.5, "5"):
        with pytest.raises(PipelineError, match="must be a whole number of at least 1"):
            Pipeline("x", stages=[JsonlReader(str(tmp_path))]).head(wrong)  # type: ignore[arg-type]


def test_rejected_rows_are_a_frame_and_no_row_of_a_run_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {number}}}\n' for number in range(50)) + "{broken\n")
    stages: list[Stage] = [
        JsonlReader(str(tmp_path / "a.jsonl"), on_bad_line="quarantine"),
        Filter(lambda n: n % 5 > 0, "n").with_(name="fifth"),
        Filter(lambda n: n < 40, "n").with_(name="high"),
        JsonlWriter(str(tmp_path / "out")),
    ]
    dropped = str(tmp_path / "dropped")
    result = Pipeline("x", stages=stages).run(InlineExecutor(), rejected=dropped, observers=[])
    rejected = result.rejected()
    assert len(rejected) + result.report.stages[-1].rows_out == 51
    assert sorted(rejected.n.dropna()) == sorted({*range(0, 50, 5), *range(40, 50)})
    assert rejected["_dcurate_stage"].value_counts().to_dict() == {"fifth": 10, "high": 8, "jsonl_reader": 1}
    assert rejected["_dcurate_reason"].notna().all()
    pd.testing.assert_frame_equal(read_rejected(str(tmp_path / "out")), rejected)
    assert read_rejected(dropped, stage="high").n.tolist() == [41, 42, 43, 44, 46, 47, 48, 49]
    assert read_rejected(dropped, limit=3).shape == (3, 5)


def test_a_run_that_kept_no_rejected_rows_says_how_to_keep_them(tmp_path: Path) -> None:
    stages: list[Stage] = [Filter(lambda n: n > 1, "n"), JsonlWriter(str(tmp_path / "out"))]
    result = Pipeline("x", stages=stages).run(InlineExecutor(), pd.DataFrame({"n": range(4)}), observers=[])
    with pytest.raises(RunError, match="did not keep what it dropped; run it with rejected='FOLDER'"):
        result.rejected()
    with pytest.raises(Exception, match="did not keep what it dropped; run it with rejected='FOLDER'"):
        read_rejected(str(tmp_path / "out"))
    with pytest.raises(Exception, match="holds no rejected rows"):
        read_rejected(str(tmp_path))
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(Exception, match="holds no rejected rows"):
        read_rejected(str(tmp_path))


def test_a_plan_shows_the_types_of_the_input(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "n": 1, "at": [0.5]}\n')
    plan = compile_plan(Pipeline("x", stages=[JsonlReader(str(tmp_path)), AddId("id")]).build()).explain()
    assert "rows: text string, n int64, at list<item: double>" in plan
    fields = compile_plan(Pipeline("x", stages=[JsonlReader(str(tmp_path), fields=["n"])]).build()).explain()
    assert "rows: n int64\n" in fields


def test_the_schemas_are_those_of_the_outputs_of_a_run_that_ends_there(tmp_path: Path) -> None:
    source = str(SAMPLE / "part-00.jsonl")
    made: list[Stage] = [AddId("n"), LanguageId(), ExactDuplicates(), FuzzyDuplicates(id_field="id")]
    stages: list[Stage] = [DocumentReader(source), *made]
    schemas = Pipeline("x", stages=[*stages, JsonlWriter(str(tmp_path / "none"))]).schemas()
    assert list(schemas) == [stage.name for stage in stages]
    assert not (tmp_path / "none").exists()
    for number, stage in enumerate(stages, start=1):
        writer = ParquetWriter(str(tmp_path / str(number)))
        Pipeline("x", stages=[*stages[:number], writer]).run(InlineExecutor(), observers=[])
        written = pq.read_schema(next((tmp_path / str(number)).glob("*.parquet"))).remove_metadata()
        assert schemas[stage.name] == written


def test_types_behind_a_stage_that_leaves_no_rows_are_left_out() -> None:
    rows = pd.DataFrame({"text": ["a", "b"]})
    stages: list[Stage] = [AddId("id"), Filter(lambda text: text == "c", "text", name="none"), AddId("more")]
    assert list(Pipeline("x", stages=stages).schemas([rows])) == ["initial_tasks", "add_id"]


def test_plan_shows_the_types_of_the_input_and_what_each_stage_changes(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["plan", "demo", "--types", "--output", str(tmp_path / "out")])
    lines = done.output.splitlines()
    assert "document_reader: id string, url string, text string, source string, kilobytes double" in lines
    assert {"word_count: word_count int64", "exact_duplicates: the same", "add_id: doc_id string"} <= {*lines}


def test_a_frame_in_the_place_of_a_number_is_one_sentence() -> None:
    with pytest.raises(PipelineError, match=r"n=a DataFrame must be a whole number of at least 1$"):
        Pipeline("x", stages=[AddId("id")]).head(pd.DataFrame({"text": ["a"]}))  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match=r"executor=a DataFrame is not an executor; .* initial_tasks=frame$"):
        Pipeline("x", stages=[AddId("id")]).run(pd.DataFrame({"text": ["a"]}))  # type: ignore[arg-type]


def test_a_run_without_a_writer_keeps_each_row_that_it_takes_out(tmp_path: Path) -> None:
    def refuse(text: str) -> str:
        if text == "bad":
            raise ValueError(text)
        return text

    def run(**options: Any) -> Any:
        rows = pd.DataFrame({"text": ["bad", "two words", "short"]})
        pipeline = Pipeline("t", stages=[Modify(refuse), ScoreFilter(WordCountFilter(min_words=2))])
        return pipeline.run(InlineExecutor({"ignore_failures": True}), rows, observers=[], **options)

    kept = run(rejected=tmp_path / "out")
    assert kept.to_arrow()["text"].to_pylist() == ["two words"]
    assert dict(zip(kept.rejected()["_dcurate_stage"], kept.rejected()["text"], strict=True)) == {
        "refuse": "bad",
        "word_count": "short",
    }
    assert kept.report.stages[0].rows_in == len(kept.to_arrow()) + len(kept.rejected())
    lost = run()
    with pytest.raises(RunError, match="did not keep what it dropped"):
        lost.rejected()
