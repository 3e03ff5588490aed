"""What runs leave about what they read and wrote."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, JsonlReader, JsonlWriter, ScoreFilter, TableReader, TableWriter
from dcurate.datasets import Blend
from dcurate.io.input_list import InputList, ListedFile, listed_files
from dcurate.runs import lineage
from dcurate.runs.lineages.record import LineageRecord, read_lineage
from dcurate.text import WordCountFilter
from tests.runs.lineages.conftest import run

SECRET = "qwertysecret0987"


def write_rows(path: Path, *ids: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": str(name), "text": f"text of {name}"}) + "\n" for name in ids))
    return str(path)


def record_of(output: Path) -> LineageRecord:
    [record] = read_lineage(str(output))
    return record


def test_a_run_leaves_its_files_with_their_versions_its_output_and_its_plan(tmp_path: Path) -> None:
    paths = [write_rows(tmp_path / "in" / f"{name}.jsonl", f"{name}1", f"{name}2") for name in "ab"]
    drops = ScoreFilter(WordCountFilter(min_words=1), name="words")
    run("copy", JsonlReader(str(tmp_path / "in")), drops, JsonlWriter(str(tmp_path / "out")))
    record = record_of(tmp_path / "out")
    files = list(record.input_files())
    assert [file.path for file in files] == paths
    assert [file.size for file in files] == [Path(path).stat().st_size for path in paths]
    assert all(str(Path(file.path).stat().st_mtime) in file.version for file in files)
    assert record.inputs["files"] == 2
    assert record.inputs["nbytes"] == sum(file.size for file in files)
    assert (record.rows_in, record.rows_out, record.files) == (4, 4, 2)
    assert record.nbytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert list(record.fingerprints) == ["jsonl_reader", "words", "jsonl_writer"]
    assert [stage["name"] for stage in record.about["stages"]] == list(record.fingerprints)
    assert record.about["versions"]["dcurate"]
    assert LineageRecord.from_dict(json.loads(json.dumps(record.to_dict()))).to_dict() == json.loads(
        json.dumps(record.to_dict())
    ) | {"roots": record.roots, "tables": record.tables}


def test_the_plan_and_the_digest_change_with_settings_and_input_alone(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.jsonl", 1)
    records = []
    for number, least in enumerate((1, 1, 2)):
        stages: list[Any] = [JsonlReader(str(tmp_path / "in")), ScoreFilter(WordCountFilter(min_words=least))]
        run("copy", *stages, JsonlWriter(str(tmp_path / f"out{number}")))
        records.append(record_of(tmp_path / f"out{number}"))
    assert records[0].plan == records[1].plan != records[2].plan
    assert len({record.inputs["digest"] for record in records}) == 1
    write_rows(tmp_path / "in" / "b.jsonl", 2)
    run("copy", JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "more")))
    assert record_of(tmp_path / "more").inputs["digest"] != records[0].inputs["digest"]


def test_runs_that_append_each_leave_a_record_and_one_that_resumes_replaces_that_of_its_attempt(tmp_path: Path) -> None:
    for name in "ab":
        write_rows(tmp_path / name / f"{name}.jsonl", name)
        run("add", JsonlReader(str(tmp_path / name)), JsonlWriter(str(tmp_path / "out"), mode="append"))
    records = read_lineage(str(tmp_path / "out"))
    assert [[Path(file.path).name for file in record.input_files()] for record in records] == [["a.jsonl"], ["b.jsonl"]]
    write_rows(tmp_path / "b" / "c.jsonl", "c")
    stages = (JsonlReader(str(tmp_path / "b")), JsonlWriter(str(tmp_path / "copy")))
    run("copy", *stages)
    first = record_of(tmp_path / "copy")
    write_rows(tmp_path / "b" / "d.jsonl", "d")
    run("copy", *stages, resume=True)
    again = record_of(tmp_path / "copy")
    assert again.run != first.run
    assert (again.rows_in, len(list(again.input_files()))) == (3, 3)
    run("copy", JsonlReader(str(tmp_path / "a")), JsonlWriter(str(tmp_path / "copy"), mode="overwrite"))
    assert record_of(tmp_path / "copy").rows_in == 1


def test_rows_that_a_later_run_of_their_label_replaced_are_not_in_the_records(tmp_path: Path) -> None:
    for name, label in (("a", "monday"), ("b", "tuesday"), ("c", "monday")):
        write_rows(tmp_path / name / f"{name}.jsonl", name)
        writer = JsonlWriter(str(tmp_path / "out"), mode="append", label=label)
        run("day", JsonlReader(str(tmp_path / name)), writer)
    read = [Path(file.path).name for record in read_lineage(str(tmp_path / "out")) for file in record.input_files()]
    assert read == ["b.jsonl", "c.jsonl"]


def test_a_run_that_fails_leaves_what_it_read_and_why_it_ended(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.jsonl", 1)
    (tmp_path / "in" / "b.jsonl").write_text("{not json\n")
    with pytest.raises(DataError):
        run("copy", JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "out")))
    record = record_of(tmp_path / "out")
    assert "b.jsonl" in record.error
    assert record.inputs["files"] == 2


def test_all_readers_of_a_blend_are_in_the_record(tmp_path: Path) -> None:
    readers: list[Any] = []
    for name in ("web", "books"):
        write_rows(tmp_path / name / "a.jsonl", *range(5))
        readers.append(JsonlReader(str(tmp_path / name)))
    run("blend", Blend(8, readers, [0.5, 0.5]), JsonlWriter(str(tmp_path / "out")))
    record = record_of(tmp_path / "out")
    assert [file.path for file in record.input_files()] == [
        str(tmp_path / name / "a.jsonl") for name in ("web", "books")
    ]
    assert list(record.roots) == [str(tmp_path / name) for name in ("web", "books")]


@pytest.mark.parametrize("form", ["delta", "iceberg", "lance"])
def test_tables_are_recorded_with_their_versions(form: str, tmp_path: Path) -> None:
    where: dict[str, Any] = {"format": form}
    path = str(tmp_path / "table")
    if form == "iceberg":
        (tmp_path / "warehouse").mkdir()
        where["catalog"] = {
            "name": "local",
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/warehouse",
        }
        catalog = importlib.import_module("pyiceberg.catalog").load_catalog(
            "local", **{name: value for name, value in where["catalog"].items() if name != "name"}
        )
        catalog.create_namespace("corpus")
        path = "corpus.web"
    versions = []
    for name in "ab":
        write_rows(tmp_path / name / f"{name}.jsonl", name)
        run("add", JsonlReader(str(tmp_path / name)), TableWriter(path, **where, mode="append"))
        run("read", TableReader(path, **where), JsonlWriter(str(tmp_path / f"out-{name}")))
        [table] = record_of(tmp_path / f"out-{name}").tables
        versions.append(table["version"])
    assert versions[0] != versions[1]
    output = table["path"]
    assert [record.table["version"] for record in read_lineage(output) if record.table] == versions
    again = TableReader(path, **where, version=versions[0])
    run("read", again, JsonlWriter(str(tmp_path / "earlier")))
    assert record_of(tmp_path / "earlier").tables[0]["version"] == versions[0]


def test_no_secret_of_an_address_is_in_a_record(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.jsonl", 1)
    reader = JsonlReader(str(tmp_path / "in"), storage_options={"key": SECRET})
    run("copy", reader, JsonlWriter(str(tmp_path / "out"), storage_options={"token": SECRET}))
    written = b"".join(path.read_bytes() for path in (tmp_path / "out.dcurate").rglob("*") if path.is_file())
    assert SECRET.encode() not in written


def test_a_record_that_is_damaged_is_named(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.jsonl", 1)
    run("copy", JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "out")))
    record = record_of(tmp_path / "out")
    [file] = (tmp_path / "out.dcurate" / "lineage").glob("*.zst")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"{file.name}' is damaged.*; delete it to see the lineage without its files"):
        list(record.input_files())
    file.write_bytes(b"junk")
    with pytest.raises(DataError, match=rf"{file.name}' is damaged.*; delete it to see the lineage without its files"):
        lineage(str(tmp_path / "out"))
    next((tmp_path / "out.dcurate" / "lineage").glob("*.json")).write_text("{")
    for read in (read_lineage, lineage):
        with pytest.raises(DataError, match=r"\.json' is damaged .*; delete it, and its run has no lineage"):
            read(str(tmp_path / "out"))


@given(st.lists(st.tuples(st.text(), st.integers(0, 2**50), st.text()), unique_by=lambda entry: entry[0]))
def test_a_list_is_read_as_it_was_written_and_parts_of_one_file_count_once(entries: list[tuple[str, int, str]]) -> None:
    files = [
        ListedFile(path.encode("utf-8", "ignore").decode(), size, version.encode("utf-8", "ignore").decode())
        for path, size, version in entries
        if path
    ]
    inputs = InputList()
    for file in files:
        inputs.add(file)
        inputs.add(file)
    assert list(listed_files(inputs.data(), "list")) == files
    assert (inputs.files, inputs.nbytes) == (len(files), sum(file.size for file in files))
