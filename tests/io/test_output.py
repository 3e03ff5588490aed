from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pytest

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.core.ledger import SplitRecord
from dcurate.core.pipeline import AnyStage
from dcurate.fs.stores import Directory
from dcurate.io.ledger import DirectoryLedger
from dcurate.io.output import check_claim, claim
from tests.places import is_data, records


def write(path, *splits, mode="error", resume=False, kind=JsonlWriter, **settings):
    writer = kind(str(path), mode=mode, **settings)
    writer.prepare(resume)
    ledger = DirectoryLedger.open(writer, {"writer": "1"}, resume)
    for split in splits:
        group = writer.process(DocumentBatch(data=pa.table({"t": [split], "l": ["x"]}), key=BatchKey(split)))
        ledger.record(SplitRecord(split, "1", tuple(group.data), ()))
    ledger.flush()
    return ledger


def outputs(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file() and is_data(p))


def name(split, mark=""):
    return f"{split}-{BatchKey(split).digest}{mark}.jsonl"


def test_error_takes_an_absent_or_empty_directory(tmp_path):
    write(tmp_path / "absent/deep", "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/.DS_Store").touch()
    write(tmp_path / "empty", "a")
    assert name("a") in outputs(tmp_path / "empty")


def test_error_refuses_the_output_of_an_earlier_run(tmp_path):
    write(tmp_path, "a")
    with pytest.raises(DataError) as refusal:
        write(tmp_path, "b")
    assert str(refusal.value) == (
        f"'{tmp_path}' holds the output of a finished or unfinished run; go on with it with resume=True, "
        f"replace it with mode='overwrite', add to it with mode='append', or name another directory"
    )
    assert write(tmp_path, "b", resume=True).count() == 2
    assert outputs(tmp_path) == [name("a"), name("b")]


def test_error_takes_a_directory_in_which_a_run_began_but_wrote_nothing(tmp_path):
    write(tmp_path)
    write(tmp_path, "a")
    assert outputs(tmp_path) == [name("a")]


@pytest.mark.parametrize(
    ("mode", "mend"),
    [
        ("error", "name an empty directory or use mode='ignore' to write beside them"),
        ("overwrite", "name an empty directory"),
    ],
)
def test_files_of_others_are_not_touched(tmp_path, mode, mend):
    for number in range(5):
        (tmp_path / f"mine{number}.txt").touch()
    with pytest.raises(DataError) as refusal:
        write(tmp_path, "a", mode=mode)
    assert str(refusal.value) == (
        f"'{tmp_path}' holds files that dcurate did not write: 'mine0.txt', 'mine1.txt', 'mine2.txt' and 2 more; {mend}"
    )


def test_overwrite_deletes_what_we_wrote_and_refuses_if_there_is_more(tmp_path):
    write(tmp_path, "a", "b", kind=ParquetWriter, partition_cols=["l"])
    (records(tmp_path) / "quarantine").mkdir()
    (records(tmp_path) / "quarantine/x.jsonl").touch()
    (tmp_path / "l=x/mine.txt").touch()
    with pytest.raises(DataError, match="holds files that dcurate did not write: 'l=x/mine.txt'; name an empty"):
        write(tmp_path, "c", mode="overwrite")
    (tmp_path / "l=x/mine.txt").unlink()
    ledger = write(tmp_path, "c", mode="overwrite")
    assert ledger.count() == 1
    assert outputs(tmp_path) == [name("c")]
    assert not (tmp_path / "l=x").exists()
    assert not (records(tmp_path) / "quarantine").exists()


def test_overwrite_with_resume_keeps_what_is_there(tmp_path):
    write(tmp_path, "a", mode="overwrite")
    assert write(tmp_path, "b", mode="overwrite", resume=True).count() == 2
    assert outputs(tmp_path) == [name("a"), name("b")]


def test_a_file_that_only_looks_like_ours_is_foreign_where_we_never_wrote(tmp_path):
    (tmp_path / name("a")).touch()
    with pytest.raises(DataError, match="holds files that dcurate did not write"):
        write(tmp_path, "b", mode="overwrite")


def test_ignore_writes_beside_what_is_there_and_forgets_the_earlier_run(tmp_path):
    (tmp_path / "mine.txt").touch()
    write(tmp_path, "a", mode="ignore")
    ledger = write(tmp_path, "a", "b", mode="ignore")
    assert ledger.count() == 2
    assert outputs(tmp_path) == [name("a"), name("b"), "mine.txt"]
    fresh = JsonlWriter(str(tmp_path), mode="ignore")
    fresh.prepare(resume=False)
    assert DirectoryLedger.open(fresh, {"writer": "1"}, resume=True).count() == 0


def test_append_overwrites_nothing_also_when_resumed(tmp_path):
    (tmp_path / "mine.txt").touch()
    write(tmp_path, "a", mode="append")
    assert outputs(tmp_path) == [name("a", "-g1"), "mine.txt"]
    write(tmp_path, "a", mode="append")
    ledger = write(tmp_path, "a", "b", mode="append", resume=True)
    assert ledger.count() == 2
    assert outputs(tmp_path) == sorted([name("a", "-g1"), name("a", "-g2"), name("b", "-g2"), "mine.txt"])
    write(tmp_path, "a", mode="append", resume=False)
    assert name("a", "-g3") in outputs(tmp_path)


def test_append_on_a_worker_needs_a_directory_that_was_made_ready(tmp_path):
    writer = JsonlWriter(str(tmp_path), mode="append")
    with pytest.raises(PipelineError, match="was not made ready; call prepare"):
        writer.process(DocumentBatch(data=pa.table({"t": ["x"]}), key=BatchKey("a")))


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("mode", ["error", "overwrite", "ignore", "append"])
def test_half_written_files_are_cleared_away(tmp_path, mode, resume):
    write(tmp_path)
    (records(tmp_path) / "tmp").mkdir(exist_ok=True)
    (records(tmp_path) / "tmp/.half").touch()
    write(tmp_path, mode=mode, resume=resume)
    assert not (records(tmp_path) / "tmp/.half").exists()


def test_resume_without_an_earlier_run_begins_afresh(tmp_path):
    assert write(tmp_path, "a", resume=True).count() == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.txt").touch()
    with pytest.raises(DataError, match="holds files that dcurate did not write"):
        write(tmp_path / "other", "a", resume=True)


def test_a_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError) as refusal:
        write(tmp_path / "file", "a")
    assert str(refusal.value) == f"'{tmp_path}/file' is a file, and output goes to a directory; name another path"
    with pytest.raises(DataError, match="cannot list '.*/file/below': Not a directory"):
        write(tmp_path / "file/below", "a")


def test_a_directory_that_cannot_be_written_is_refused(read_only):
    with pytest.raises(DataError) as refusal:
        write(read_only / "out", "a")
    assert str(refusal.value) == f"cannot write '{read_only}/out/_dcurate/output.json': Read-only file system"


def test_a_damaged_record_is_refused(tmp_path):
    write(tmp_path)
    (records(tmp_path) / "output.json").write_text("{")
    with pytest.raises(DataError, match="output.json' is damaged; name another directory"):
        write(tmp_path, "a")


def test_outputs_are_named_relative_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("out", "a")
    assert JsonlWriter("out").output_path == os.path.join(tmp_path, "out")
    assert outputs(tmp_path / "out") == [name("a")]


def test_a_check_refuses_what_prepare_would_and_writes_nothing(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="holds files that dcurate did not write: 'notes.txt'"):
        JsonlWriter(str(full)).check()
    JsonlWriter(str(full), mode="ignore").check()
    JsonlWriter(str(tmp_path / "new")).check()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "notes.txt"]


def test_an_output_that_is_in_use_is_refused_before_an_executor_is_opened(tmp_path):
    class Unopened(InlineExecutor):
        def session(self):
            raise AssertionError("opened")

    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    stages: list[AnyStage] = [JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "out"))]
    with pytest.raises(DataError, match="name an empty directory"):
        Pipeline("p", stages=stages).run(Unopened())


@pytest.mark.parametrize("executor", ["streaming", {"execution_mode": "batch"}, InlineExecutor])
def test_what_is_no_executor_is_refused_in_a_sentence(tmp_path, executor):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    stages: list[AnyStage] = [JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "out"))]
    with pytest.raises(PipelineError, match=r"is not an executor; give DaskExecutor\(\.\.\.\) or InlineExecutor\(\)"):
        Pipeline("p", stages=stages).run(executor)


def test_other_tools_see_nothing_but_data_in_an_output_directory(tmp_path):
    write(tmp_path / "out", "a")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name("a")]
    assert (tmp_path / "out.dcurate" / "output.json").is_file()


def test_records_stay_where_an_earlier_version_left_them(tmp_path):
    (tmp_path / "out" / "_dcurate").mkdir(parents=True)
    assert records(tmp_path / "out") == tmp_path / "out" / "_dcurate"
    write(tmp_path / "out")
    assert (tmp_path / "out" / "_dcurate" / "output.json").is_file()
    assert not (tmp_path / "out.dcurate").exists()


@pytest.mark.parametrize("url", ["memory://", "memory:///", "s3://bucket", "s3://bucket/"])
def test_the_root_of_a_store_keeps_its_records_inside(url):
    store = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9"} if url.startswith("s3") else {}
    assert Directory(url, store).records.rpartition("/")[2] == "_dcurate"


def test_an_output_that_is_deleted_while_it_is_written_ends_the_run(tmp_path):
    write(tmp_path / "out", "a")
    directory = Directory(str(tmp_path / "out"))
    claim(directory, "run")
    check_claim(directory, "run", [directory.path(name("a"))])
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(DataError, match="was deleted while the run wrote to it"):
        check_claim(directory, "run", [directory.path(name("a"))])
