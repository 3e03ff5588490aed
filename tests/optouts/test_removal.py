"""What a removal does beyond the files: later runs, receipts, near-copies, and what it refuses."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import dcurate
from dcurate import (
    CsvWriter,
    DataError,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    TokenWriter,
    WebDatasetReader,
    WebDatasetWriter,
)
from dcurate.cli import cli
from dcurate.core.stage import Stage
from dcurate.fs.compression import packing
from dcurate.fs.stores import Directory
from dcurate.io import row_removal
from dcurate.io.lock import OutputLock
from dcurate.io.optouts import ComparedColumns, standing
from dcurate.io.receipts import receipts
from dcurate.optouts.listing import read_list
from dcurate.optouts.remove import OptOutRemoval
from dcurate.text import WordCountFilter
from dcurate.tokens.shard_writer import TokenShardWriter
from tests.optouts.conftest import data, in_this_process, list_of, remove, rows_of, run, write

GONE = {"domain": "site2.example.com"}


def ids_in(folder: Path) -> list[str]:
    return [json.loads(line)["id"] for content in data(folder).values() for line in content.splitlines()]


def texts_of(number: int) -> str:
    return " ".join(f"word{number}and{place}" for place in range(40))


@given(
    words=st.lists(st.integers(1, 20), max_size=25),
    gone=st.sets(st.integers(0, 24)),
    least=st.integers(1, 12),
    by=st.sampled_from(["id", "url", "text"]),
)
def test_removing_from_a_run_is_running_without(
    words: list[int], gone: set[int], least: int, by: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("law")
    texts = [f"t{n} " + "w " * count for n, count in enumerate(words)]
    rows = [{"id": f"d{n}", "url": f"http://a.example/{n}", "text": text} for n, text in enumerate(texts)]
    kept = [row for n, row in enumerate(rows) if n not in gone]
    for name, some in (("out", rows), ("fresh", kept)):
        stages: list[Stage] = [
            ScoreFilter(WordCountFilter(min_words=least), score_field="words"),
            JsonlWriter(str(tmp_path / name)),
        ]
        run(write(tmp_path / f"{name}-in", some), *stages, rejected=str(tmp_path / f"{name}-dropped"))
    listed = list_of(tmp_path / "list.jsonl", *({by: rows[n][by]} for n in gone if n < len(rows)), {by: "nobody"})
    remove(listed, tmp_path / "out")
    for left, fresh in (("out", "fresh"), ("out-dropped", "fresh-dropped")):
        contents, wanted = ({k: v for k, v in data(tmp_path / name).items() if v} for name in (left, fresh))
        assert contents == wanted
    before = data(tmp_path / "out")
    assert remove(listed, tmp_path / "out")["documents"] == 0
    assert data(tmp_path / "out") == before


def test_a_second_time_does_nothing_and_leaves_no_further_receipt(tmp_path: Path) -> None:
    run(write(tmp_path / "in", rows_of(20)), JsonlWriter(str(tmp_path / "out")))
    listed = list_of(tmp_path / "list.jsonl", GONE)
    assert remove(listed, tmp_path / "out", reason="mail 17")["documents"] == 4
    records = data(tmp_path / "out.dcurate")
    assert remove(listed, tmp_path / "out")["documents"] == 0
    assert data(tmp_path / "out.dcurate") == records
    [receipt] = receipts(Directory(str(tmp_path / "out")))
    assert (receipt["why"], receipt["asked"], len(receipt["removed"])) == ("mail 17", {"domain": 1}, 4)
    assert "site2" not in json.dumps(receipt)


def test_a_second_time_leaves_a_document_that_shares_its_id_with_one_that_went(tmp_path: Path) -> None:
    rows = [{"id": "a", "url": f"https://example.com/{number}", "text": "words"} for number in range(3)]
    run(write(tmp_path / "in", rows, files=1), JsonlWriter(str(tmp_path / "out")))
    listed = list_of(tmp_path / "list.jsonl", {"url": rows[1]["url"]})
    assert remove(listed, tmp_path / "out")["documents"] == 1
    left = data(tmp_path / "out")
    assert remove(listed, tmp_path / "out")["documents"] == 0
    assert data(tmp_path / "out") == left


@pytest.mark.parametrize("writer", [JsonlWriter, ParquetWriter, CsvWriter, WebDatasetWriter])
def test_appended_runs_leave_the_documents_out_and_count_them(writer: Any, tmp_path: Path) -> None:
    rows = [{**row, "file_name": f"{row['id']}.txt", "txt": row["text"]} for row in rows_of(20)]
    run(write(tmp_path / "in", rows), writer(str(tmp_path / "out")))
    remove(list_of(tmp_path / "list.jsonl", GONE, {"text": rows[0]["text"]}, {"id": "d6"}), tmp_path / "out")
    copies = [{**row, "id": f"new {row['id']}"} for row in rows] + [rows[6]]
    report = run(write(tmp_path / "more", copies), writer(str(tmp_path / "out"), mode="append")).report
    expected = sum("site2" in row["url"] or row["text"] == rows[0]["text"] or row["id"] == "d6" for row in copies)
    assert report.stages[-1].dropped == {"removed by request": expected}
    assert report.stages[-1].rows_in == len(copies)
    if writer is JsonlWriter:
        assert not [doc for doc in ids_in(tmp_path / "out") if doc in ("d2", "new d2", "d0", "new d0", "d6")]
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and b"site2" in path.read_bytes()]


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_runs_in_other_modes_leave_them_out_as_well(mode: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(20))
    run(source, JsonlWriter(str(tmp_path / "out")))
    remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    left = data(tmp_path / "out")
    run(source, JsonlWriter(str(tmp_path / "out"), mode=mode))
    assert data(tmp_path / "out") == left
    assert len(receipts(Directory(str(tmp_path / "out")))) == 1


@pytest.mark.parametrize("reader", [JsonlReader, ParquetReader])
def test_later_runs_compare_the_ids_that_the_output_has(reader: Any, tmp_path: Path) -> None:
    rows = [{"id": number, "doc_id": f"d{number}", "text": f"text {number}"} for number in range(6)]
    (tmp_path / "in").mkdir()
    if reader is JsonlReader:
        list_of(tmp_path / "in/a.jsonl", *rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in/a.parquet")
    writer = JsonlWriter(str(tmp_path / "out"), mode="overwrite", fields=["doc_id", "text"])
    pipeline = Pipeline("chosen", stages=[reader(str(tmp_path / "in")), writer])
    pipeline.run(InlineExecutor(), observers=[])
    remove(list_of(tmp_path / "list.jsonl", {"id": "d2"}, {"id": "4"}), tmp_path / "out")
    left = data(tmp_path / "out")
    pipeline.run(InlineExecutor(), observers=[])
    assert data(tmp_path / "out") == left


def test_later_runs_keep_other_documents_with_the_same_id(tmp_path: Path) -> None:
    rows = [{"id": n % 4, "url": f"https://a.example/{n}", "text": f"text {n}"} for n in range(8)]
    (tmp_path / "in").mkdir()
    list_of(tmp_path / "in/a.jsonl", *rows)
    pipeline = Pipeline(
        "same", stages=[JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "out"), mode="overwrite")]
    )
    pipeline.run(InlineExecutor(), observers=[])
    listed = list_of(tmp_path / "list.jsonl", {"url": "https://a.example/5"})
    remove(listed, tmp_path / "out")
    left = data(tmp_path / "out")
    assert len(b"".join(left.values()).splitlines()) == 7
    for _ in range(2):
        pipeline.run(InlineExecutor(), observers=[])
        assert data(tmp_path / "out") == left
        assert remove(listed, tmp_path / "out")["documents"] == 0


def test_a_run_that_ended_early_goes_on_without_them(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(30))
    out = tmp_path / "out"
    bad = (source / "2.jsonl").read_text()
    (source / "2.jsonl").write_text("{broken\n")
    stages: list[Stage] = [JsonlReader(str(source)), JsonlWriter(str(out))]
    with pytest.raises(DataError):
        Pipeline("corpus", stages=stages).run(InlineExecutor(), observers=[])
    assert data(out)
    remove(list_of(tmp_path / "list.jsonl", GONE), out)
    (source / "2.jsonl").write_text(bad)
    report = Pipeline("corpus", stages=stages).run(InlineExecutor(), observers=[], resume=True).report
    assert report.splits_before > 0
    assert sorted(ids_in(out)) == sorted(row["id"] for row in rows_of(30) if "site2" not in row["url"])
    again = Pipeline("corpus", stages=stages).run(InlineExecutor(), observers=[], resume=True).report
    assert again.nothing_was_left


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (JsonlWriter, JsonlReader),
        (lambda path: JsonlWriter(path, compression="gzip"), JsonlReader),
        (ParquetWriter, ParquetReader),
        (WebDatasetWriter, WebDatasetReader),
    ],
    ids=["jsonl", "gzip", "parquet", "shards"],
)
def test_a_finished_run_of_which_all_rows_went_has_nothing_left_to_do(writer: Any, reader: Any, tmp_path: Path) -> None:
    rows = [{**row, "txt": row["text"], "file_name": f"{row['id']}.png"} for row in rows_of(10)]
    rows[3]["txt"] = None  # a sample without members
    source = write(tmp_path / "in", rows)
    out = str(tmp_path / "out")
    stages: list[Stage] = [JsonlReader(str(source)), writer(out)]
    Pipeline("corpus", stages=stages).run(InlineExecutor(), observers=[])
    assert remove(list_of(tmp_path / "list.jsonl", {"domain": "example.com"}), tmp_path / "out")["documents"] == 10
    report = Pipeline("corpus", stages=stages).run(InlineExecutor(), observers=[], resume=True).report
    assert report.nothing_was_left
    read = Pipeline("read", stages=[reader(out), JsonlWriter(str(tmp_path / "again"))])
    assert read.run(InlineExecutor(), observers=[]).report.stages[-1].rows_out == 0


def test_ids_of_one_output_go_from_the_others_whenever_they_are_named(tmp_path: Path) -> None:
    rows = rows_of(20)
    run(write(tmp_path / "in", rows), JsonlWriter(str(tmp_path / "out")))
    bare = [{"id": row["id"], "score": n} for n, row in enumerate(rows)]
    for name in ("scores", "later"):
        run(write(tmp_path / f"{name}-in", bare), ParquetWriter(str(tmp_path / name)))
    listed = list_of(tmp_path / "list.jsonl", GONE)
    receipt = remove(listed, tmp_path / "scores", tmp_path / "out")
    assert [product["by"] for product in receipt["products"]] == [{"id elsewhere": 4}, {"domain": 4}]
    assert remove(listed, tmp_path / "later", tmp_path / "out")["documents"] == 4
    assert standing(Directory(str(tmp_path / "later")))


def test_near_copies_go_on_request_and_the_receipt_says_of_what(tmp_path: Path) -> None:
    rows = [{"id": f"d{n}", "url": f"http://site{n}.example.com/", "text": texts_of(n)} for n in range(9)]
    rows += [{"id": "near", "url": "http://other.example", "text": texts_of(2) + " and more"}]
    rows += [{"id": "by text", "url": "http://other.example", "text": "x " + texts_of(77)}]
    for name in ("out", "left"):
        run(write(tmp_path / f"{name}-in", rows), JsonlWriter(str(tmp_path / name)))
    listed = list_of(tmp_path / "list.jsonl", GONE, {"text": texts_of(77)})
    assert remove(listed, tmp_path / "left")["documents"] == 1
    receipt = remove(listed, tmp_path / "out", near=0.7)
    assert receipt["near_copies"] == 2
    removed = receipts(Directory(str(tmp_path / "out")))[0]["removed"]
    assert {match["id"]: match["of"] for match in removed} == {"d2": "", "near": "d2", "by text": "text 1 of the list"}
    assert all(0.7 <= match["similarity"] <= 1 for match in removed if match["by"] == "near-copy")
    assert set(ids_in(tmp_path / "out")) == {f"d{n}" for n in range(9) if n != 2}


def test_trace_and_report_say_what_was_removed_when_and_why(tmp_path: Path) -> None:
    run(write(tmp_path / "in", rows_of(20)), JsonlWriter(str(tmp_path / "out")))
    remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out", reason="mail 17")
    gone, kept = dcurate.trace(str(tmp_path / "out"), ["d2", "d3"]).fates
    assert (gone.outcome, kept.outcome) == ("removed by request", "kept")
    assert gone.removed.endswith(", by domain, mail 17")
    recorded = dcurate.read_run(str(tmp_path / "out"))
    assert recorded.report.stages[-1].rows_out == 20
    assert [len(removal["removed"]) for removal in recorded.removals] == [4]
    said = CliRunner().invoke(cli, ["report", str(tmp_path / "out")]).output
    assert "4 documents were removed by request on" in " ".join(said.split())
    assert "(mail 17); the counts are those of the run" in " ".join(said.split())


def test_the_command_shows_first_and_then_does_it(tmp_path: Path) -> None:
    run(write(tmp_path / "in", rows_of(20)), JsonlWriter(str(tmp_path / "out")))
    (tmp_path / "list.csv").write_text("domain,asked by\nsite2.example.com,me\nsite9.example.com,me\n")
    before, records = data(tmp_path / "out"), data(tmp_path / "out.dcurate")
    arguments = [
        "optout",
        str(tmp_path / "list.csv"),
        str(tmp_path / "out"),
        "--receipt",
        str(tmp_path / "receipt.json"),
    ]
    shown = CliRunner().invoke(cli, [*arguments, "--dry-run"], catch_exceptions=False).output
    assert "1 of 2 domains name documents that are there" in shown
    assert "4 documents would be removed" in shown
    nowhere = CliRunner().invoke(cli, [*arguments[:3], "--receipt", str(tmp_path / "none/receipt.json")])
    assert "receipt.json is in a folder that does not exist; make it first" in str(nowhere.exception)
    assert (data(tmp_path / "out"), data(tmp_path / "out.dcurate")) == (before, records)
    assert not Path(tmp_path, "none").exists()
    missing = CliRunner().invoke(cli, ["optout", str(tmp_path / "list.csv"), str(tmp_path / "none")])
    assert "there is nothing in" in str(missing.exception)
    assert not list(tmp_path.glob("none*"))
    done = CliRunner().invoke(cli, [*arguments, "--reason", "mail 17"], catch_exceptions=False).output
    assert "list.csv that were not used: asked by" in done
    assert "4 documents removed" in done
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert (receipt["why"], receipt["named"], receipt["documents"]) == ("mail 17", {"domain": 1}, 4)
    again = CliRunner().invoke(cli, arguments, catch_exceptions=False).output
    assert "nothing to remove: no output holds any of them" in again
    assert json.loads((tmp_path / "receipt.json").read_text()) == receipt


def test_an_output_that_is_written_to_is_refused(tmp_path: Path) -> None:
    run(write(tmp_path / "in", rows_of(20)), JsonlWriter(str(tmp_path / "out")))
    before = data(tmp_path / "out")
    with OutputLock("7f3a90c1") as lock:
        lock.acquire(Directory(str(tmp_path / "out")))
        with pytest.raises(DataError, match=r"is being written by run 7f3a90c1 of .*; wait for its end"):
            remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    assert data(tmp_path / "out") == before


def test_outputs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    bare = [{"id": row["id"], "text": row["text"]} for row in rows_of(9)]
    run(write(tmp_path / "in", bare), JsonlWriter(str(tmp_path / "out")))
    with pytest.raises(DataError, match=r"the rows in '.*out' have no column 'url' to compare with '.*list"):
        remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    compared = ComparedColumns(id="name")
    with pytest.raises(DataError, match=r"have no column 'name' to compare"):
        remove(list_of(tmp_path / "list.jsonl", {"id": "d1"}), tmp_path / "out", compared=compared)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"there is nothing in '.*empty'; name the output of a run"):
        remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "empty")
    with pytest.raises(PipelineError, match=r"near=1.5 is not a similarity"):
        remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out", near=1.5)


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(write(tmp_path / "in", rows_of(20)), JsonlWriter(str(tmp_path / "out")))
    before, listed = data(tmp_path / "out"), list_of(tmp_path / "list.jsonl", GONE)
    opened: list[str] = []

    def full(file: BinaryIO, ending: str) -> Any:
        opened.append(ending)
        if len(opened) == 2:
            raise OSError(errno.ENOSPC, "no space left on device")
        return packing(file, ending)

    with monkeypatch.context() as patch:
        patch.setattr(row_removal, "packing", full)
        with pytest.raises(
            DataError, match=r"^no space left on device while writing .*; free some and run this again$"
        ):
            remove(listed, tmp_path / "out")
    assert len(opened) == 2
    assert data(tmp_path / "out") == before
    assert not list(Path(f"{tmp_path / 'out'}.dcurate").glob("replacing*"))
    assert remove(listed, tmp_path / "out")["documents"] == 4


def test_outputs_in_a_store_are_rid_of_documents_as_those_on_a_disk(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(20))
    outputs = [Directory(f"memory://optouts/{tmp_path.name}"), Directory(str(tmp_path / "out"))]
    for output in outputs:
        run(source, JsonlWriter(output.url))
    listed = list_of(tmp_path / "list.jsonl", GONE)
    wanted = read_list(str(listed), texts=False)
    for output in outputs:
        with OptOutRemoval(wanted, [output.url]) as removal:
            removal.lock()
            removal.find()
            removal.commit(in_this_process)
    far, near = ({name: output.read(name) for name in output.files()} for output in outputs)
    assert far == near
    assert [len(receipt["removed"]) for output in outputs for receipt in receipts(output)] == [4, 4]
    assert not [name for name in outputs[0].files(own=True) if "replacing" in name or "owner" in name]


def test_dropped_rows_that_are_elsewhere_now_are_named(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(20))
    stages: list[Stage] = [ScoreFilter(WordCountFilter(min_words=9)), JsonlWriter(str(tmp_path / "out"))]
    run(source, *stages, rejected=str(tmp_path / "dropped"))
    (tmp_path / "dropped").rename(tmp_path / "moved")
    listed = list_of(tmp_path / "list.jsonl", GONE)
    arguments = ["optout", str(listed), str(tmp_path / "out"), "--dry-run"]
    said = CliRunner().invoke(cli, arguments, catch_exceptions=False).output
    assert f"the run kept dropped rows in '{tmp_path}/dropped', where nothing is any more" in said
    assert remove(listed, tmp_path / "out")["unseen"] == [f"{tmp_path}/dropped"]
    assert remove(listed, tmp_path / "moved")["documents"] > 0


@pytest.mark.parametrize("id_field", [None, "name"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_tokens_leave_the_documents_out_of_later_runs(
    mode: Any, id_field: str | None, tokenizer: str, tmp_path: Path
) -> None:
    rows = [{**row, "name": f"name {row['id']}"} for row in rows_of(40)]
    source = write(tmp_path / "in", rows, files=1)
    tokens = tmp_path / "tokens"
    run(source, JsonlWriter(str(tmp_path / "rows")))
    run(source, TokenWriter(str(tokens), tokenizer, id_field=id_field))
    compared = None if id_field is None else ComparedColumns(id=id_field)
    listed = list_of(tmp_path / "list.jsonl", GONE)
    remove(listed, tmp_path / "rows", tokens, compared=compared)
    more = [{**row, "id": f"new {row['id']}", "name": f"new {row['name']}"} for row in rows] + [rows[2]]
    # One without a URL is known by its id alone.
    more += [{name: value for name, value in rows[7].items() if name != "url"}]
    later = run(
        write(tmp_path / "more", more, files=1), TokenWriter(str(tokens), tokenizer, id_field=id_field, mode=mode)
    )
    assert later.report.stages[1].dropped == {"removed by request": 10}
    spans = [path for path in (tokens / "spans").iterdir() if path.suffix == ".parquet"]
    docs = {doc for path in spans for doc in pq.read_table(path)["doc"].to_pylist()}
    column = id_field or "id"
    gone = {row[column] for row in [*rows, *more] if "site2" in row.get("url", "site2")}
    kept = {row[column] for row in [*(rows if mode == "append" else ()), *more]} - gone
    assert docs == kept
    again = remove(listed, tmp_path / "rows", tokens, compared=compared)
    assert again["documents"] == 0


@pytest.mark.parametrize("mode", ["error", "append"])
def test_a_run_of_tokens_that_has_not_ended_is_refused_as_it_holds_documents(
    mode: Any, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    source, listed = write(tmp_path / "in", rows_of(20)), list_of(tmp_path / "list.jsonl", {"id": "d2"}, {"id": "d3"})
    if mode == "append":
        run(source, TokenWriter(str(tmp_path / "out"), tokenizer))
    with monkeypatch.context() as patch:
        patch.setattr(TokenShardWriter, "process", full)
        with pytest.raises(dcurate.DcurateError):
            run(source, TokenWriter(str(tmp_path / "out"), tokenizer, mode=mode))
    with pytest.raises(DataError, match="has not ended"):
        remove(listed, tmp_path / "out")
    run(source, TokenWriter(str(tmp_path / "out"), tokenizer, mode=mode), resume=True)
    assert remove(listed, tmp_path / "out")["documents"] == 2


def test_rows_that_later_runs_drop_or_cannot_process_are_not_kept_either(tmp_path: Path) -> None:
    def later(rows: list[dict[str, Any]], name: str) -> tuple[list[str], int]:
        out, dropped = tmp_path / name, tmp_path / f"{name}-dropped"
        stages: list[Stage] = [ScoreFilter(WordCountFilter(min_words=9)), JsonlWriter(str(out), mode="append")]
        report = run(write(tmp_path / f"{name}-more", rows), *stages, rejected=str(dropped)).report
        return ids_in(dropped), sum(report.stages[1].dropped.values())

    rows = rows_of(20)
    kept = [row for row in rows if "site2" not in row["url"]]
    for name in ("out", "fresh"):
        run(write(tmp_path / f"{name}-in", rows), JsonlWriter(str(tmp_path / name)))
    remove(list_of(tmp_path / "list.jsonl", GONE), tmp_path / "out")
    left, counted = later(rows, "out")
    assert left == later(kept, "fresh")[0]
    assert counted == len(left) + sum("site2" in row["url"] and len(row["text"].split()) < 9 for row in rows)
    assert counted > len(left)
