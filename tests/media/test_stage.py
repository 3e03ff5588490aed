"""Stages over the file of each row: heads and whole files, here and in a child process, and quarantine."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from dcurate import DocumentBatch, PipelineError
from dcurate.media import File, FileReading, FileStage, MediaError, Ref, ref_array
from dcurate.testing import check_stage


@dataclass
class Measured(FileStage):
    """Reads a format of its own: a mark, and a number of four bytes."""

    name: str = "measured"
    columns: ClassVar[Mapping[str, pa.DataType]] = {"number": pa.int64(), "file_bytes": pa.int64()}

    def read(self, file: File) -> tuple[int, int]:
        if file.data[:4] != b"MINE":
            raise MediaError("not of mine")
        return struct.unpack_from("<I", file.data, 4)[0], file.size


@dataclass
class MeasuredByHead(Measured):
    """The same from the start of the file, unless that says that the number is at its end."""

    reads_heads = True

    def is_enough(self, head: bytes) -> bool:
        return head[8:12] != b"LATE"


@dataclass
class Wild(FileStage):
    """Calls a function that does what decoders do to bad files."""

    name: str = "wild"
    columns: ClassVar[Mapping[str, pa.DataType]] = {"n": pa.int64(), "k": pa.int64()}
    function = "tests.media.wild:decode"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"k": 7}


@dataclass
class WildOnRequest(Wild):
    in_child = "on request"


def mine(number: int, rest: bytes = b"") -> bytes:
    return b"MINE" + struct.pack("<I", number) + rest


def batch_of(*files: bytes | None) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"id": range(len(files)), "bytes": pa.array(files, pa.large_binary())}))


def faults(batch: DocumentBatch) -> dict[int, str]:
    return {row: fault.reason for fault in batch.rejections for row in fault.data["id"].to_pylist()}


def test_each_row_has_its_columns_or_is_in_quarantine() -> None:
    rows = batch_of(mine(5), b"<html>", None, mine(6, b"more"))
    result = Measured().process(rows)
    assert result.to_arrow().select(["id", "number", "file_bytes"]).to_pylist() == [
        {"id": 0, "number": 5, "file_bytes": 8},
        {"id": 3, "number": 6, "file_bytes": 12},
    ]
    assert faults(result) == {1: "not of mine", 2: "no reference"}
    assert Measured().process(batch_of()).to_arrow().column_names == ["id", "bytes", "number", "file_bytes"]


def test_a_stage_of_a_user_keeps_the_contract_of_stages() -> None:
    check_stage(Measured(), batch_of(mine(5), b"<html>", mine(6)))


@pytest.mark.parametrize("stage", [Wild(), WildOnRequest(reading=FileReading(sandbox=True, timeout_s=5))])
def test_a_file_that_kills_its_child_costs_one_row(stage: FileStage) -> None:
    """The neighbours are read, before and after it."""
    try:
        result = stage.process(batch_of(b"one", b"segv!", b"four", b"error", b"exit!", b""))
    finally:
        stage.teardown()
    assert result.to_arrow()["id"].to_pylist() == [0, 2, 5]
    assert result.to_arrow()["n"].to_pylist() == [3, 4, 0]
    assert result.to_arrow()["k"].to_pylist() == [7, 7, 7]
    assert faults(result) == {1: "crashed: SIGSEGV", 3: "encrypted", 4: "crashed: exit 3"}


def test_a_function_makes_the_same_in_this_process() -> None:
    result = WildOnRequest().process(batch_of(b"one", b"error", b"four"))
    assert result.to_arrow()["n"].to_pylist() == [3, 4]
    assert faults(result) == {1: "encrypted"}


def test_a_head_is_read_of_a_file_that_is_too_large_to_be_fetched(tmp_path: Path) -> None:
    rest = bytes(300_000)
    files = {"early": mine(1, rest), "late": mine(2, b"LATE" + rest), "small": mine(3, b"LATE")}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    refs = ref_array([Ref(str(tmp_path / name), None, 0, len(data)) for name, data in files.items()])
    rows = DocumentBatch(data=pa.table({"id": range(3), "media_ref": refs}))
    result = MeasuredByHead(reading=FileReading(max_file_bytes="100kB")).process(rows)
    assert result.to_arrow()["number"].to_pylist() == [1, 3]
    assert result.to_arrow()["file_bytes"].to_pylist() == [len(files["early"]), len(files["small"])]
    assert faults(result) == {1: "too large"}
    assert MeasuredByHead().process(rows).to_arrow()["number"].to_pylist() == [1, 2, 3]
    limited = MeasuredByHead(reading=FileReading(max_file_bytes="100kB"))
    limited.limits_heads = True  # type: ignore[misc]
    assert faults(limited.process(rows)) == {0: "too large", 1: "too large"}


def test_settings_without_effect_are_refused() -> None:
    for reading, stage, message in (
        (FileReading(sandbox=True), Measured, "does not decode files in a child process"),
        (FileReading(timeout_s=3), Measured, "limits of a child process$"),
        (FileReading(memory="1GiB"), WildOnRequest, "limits of a child process; give sandbox=True, too"),
        (FileReading(sandbox=False), Wild, "always reads files in a child process"),
    ):
        with pytest.raises(PipelineError, match=message):
            stage(reading=reading)
    for limits, message in (
        ({"timeout_s": 0}, "timeout_s=0 must be above zero"),
        ({"memory": "much"}, "memory='much' is not a size"),
        ({"max_file_bytes": 0}, "max_file_bytes=0"),
    ):
        with pytest.raises(PipelineError, match=message):
            FileReading(**limits)
    with pytest.raises(PipelineError, match="needs a column 'media_ref' or 'bytes'"):
        Measured().process(DocumentBatch(data=pa.table({"id": [1]})))


def test_options_of_a_store_are_not_among_the_settings_that_decide_rows() -> None:
    stage = Wild(reading=FileReading(storage_options={"secret": "hunter2"}, sandbox=True))
    assert stage.settings()["reading"] == Wild().settings()["reading"]
    assert "hunter2" not in repr(stage)
