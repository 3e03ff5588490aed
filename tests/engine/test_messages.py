"""Whatever an exception says, or does instead, it costs its row and no more."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dcurate import (
    DaskExecutor,
    DataError,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    StageError,
)
from dcurate.fs.errors import storage_errors
from dcurate.redaction import LONGEST

pytestmark = pytest.mark.cluster


class Raises(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Exits(Exception):
    def __str__(self) -> str:  # noqa: PLE0307
        sys.exit(3)


class SaysNumber(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307


class Text(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise RuntimeError


class SaysOddText(Exception):
    def __str__(self) -> str:
        return Text("odd")


def caused() -> Exception:
    error = ValueError("b")
    error.__cause__ = Raises()
    error.add_note("x" * 10**6)
    return error


MESSAGES: dict[str, Callable[[], BaseException]] = {
    "raises": Raises,
    "exits": Exits,
    "says a number": SaysNumber,
    "says odd text": SaysOddText,
    "lone surrogate": lambda: ValueError("a\ud800b"),
    "NUL": lambda: ValueError("a\0b"),
    "bytes": lambda: ValueError(b"\xff"),
    "20 MB": lambda: ValueError("x" * 20_000_000),
    "10 MB of lines": lambda: ValueError("x\n" * 5_000_000),
    "10 MB of words": lambda: ValueError("x " * 5_000_000),
    "20 MB of dcurate": lambda: DataError("x" * 20_000_000),
    "surrogate of dcurate": lambda: DataError("\udfff"),
    "odd cause and long note": caused,
    "long name": lambda: type("N" * 100_000, (Exception,), {})("x"),
}


class Says(ProcessingStage[Any, Any]):
    """Raises on one row."""

    name = "says"

    def __init__(self, message: str) -> None:
        self.message = message

    def process(self, task: Any) -> Any:
        if "bad" in task.to_pandas()["text"].tolist():
            raise MESSAGES[self.message]()
        return task


@pytest.fixture(scope="module", params=["inline", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "inline":
        yield InlineExecutor()
        return
    with LocalCluster(n_workers=1) as cluster:
        yield DaskExecutor(cluster=cluster)


def pipeline(folder: Path, stage: Any) -> Pipeline:
    (folder / "in.jsonl").write_text('{"text": "good"}\n{"text": "bad"}\n')
    return Pipeline("p", stages=[JsonlReader(str(folder / "in.jsonl")), stage, JsonlWriter(str(folder / "out"))])


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_costs_its_row_alone_and_takes_little_space(tmp_path: Path, executor: Any, message: str) -> None:
    """Of a message that takes the square of its length the test would reach its time limit."""
    result = pipeline(tmp_path, Says(message).with_(ignore_failures=True)).run(executor, observers=[])
    assert (result.report.stages[-1].rows_out, sum(result.report.stages[1].faulty.values())) == (1, 1)
    records = tmp_path / "out.dcurate"
    [row] = pd.concat([pd.read_json(file, lines=True) for file in (records / "quarantine").rglob("*.jsonl")]).to_dict(
        "records"
    )
    assert row["text"] == "bad"
    assert len(row["_dcurate_error"]) <= LONGEST + 300
    assert sum(file.stat().st_size for file in records.rglob("*") if file.is_file()) < 2**20


@pytest.mark.parametrize("message", MESSAGES)
def test_a_run_that_a_message_ends_says_it_and_leaves_its_report(tmp_path: Path, executor: Any, message: str) -> None:
    with pytest.raises((StageError, DataError)) as caught:
        pipeline(tmp_path, Says(message)).run(executor, observers=[])
    assert len(str(caught.value)) <= LONGEST
    report = (tmp_path / "out.dcurate" / "report.json").read_bytes()
    assert len(report) < 2**20
    assert json.loads(report)


class Answers(ProcessingStage[Any, Any]):
    """Gives a batch data that is not a table."""

    name = "answers"

    def __init__(self, data: Any) -> None:
        self.data = data

    def process(self, task: Any) -> Any:
        task.data = self.data
        return task


@pytest.mark.parametrize("data", [None, "text", 3, [{"text": "a"}], {"text": ["a"]}], ids=repr)
def test_a_batch_whose_data_is_not_a_table_is_refused(tmp_path: Path, executor: Any, data: Any) -> None:
    with pytest.raises(StageError, match="stage 'answers' answered a batch whose data is a .*; give it a table"):
        pipeline(tmp_path, Answers(data)).run(executor, observers=[])


def test_a_batch_whose_data_is_a_frame_of_another_library_is_taken(tmp_path: Path, executor: Any) -> None:
    polars = pytest.importorskip("polars")
    result = pipeline(tmp_path, Answers(polars.DataFrame({"text": ["a", "b"]}))).run(executor, observers=[])
    assert result.report.stages[-1].rows_out == 2


class Opens(ProcessingStage[Any, Any]):
    """Opens a file that is not there, as on a host without a mount."""

    name = "opens"

    def process(self, task: Any) -> Any:
        with storage_errors("read", "/no/such/mount"):
            Path("/no/such/mount").read_bytes()


def test_the_error_of_a_file_that_is_not_there_names_the_worker(tmp_path: Path, executor: Any) -> None:
    with pytest.raises(DataError, match="cannot read '/no/such/mount': no such file") as caught:
        pipeline(tmp_path, Opens()).run(executor, observers=[])
    assert ("(on worker tcp://" in str(caught.value)) == isinstance(executor, DaskExecutor)
