"""What a stage says of the columns that it reads decides which columns are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    ProcessingStage,
)
from dcurate.datasets import Rebatch, Shuffle
from dcurate.llm import CleanKnowledgeList
from dcurate.text import AddId

#: The second value of the column "n" has another type than the schema says: whoever parses the column says so.
LINES = b'{"text": "one two", "n": 1.0}\n{"n" :"x", "text": "three"}\n'


class Passes(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Says nothing of the columns that it reads."""

    declares_columns = True

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


class ReadsText(Passes):
    declares_columns = True

    def inputs(self) -> Any:
        return ["data"], ["text"]


class ReadsTextWhereThereIsAny(Passes):
    declares_columns = True

    def optional_inputs(self) -> Sequence[str]:
        return ["text"]


class ReadsAll(ReadsText):
    declares_columns = True

    def columns_read(self) -> None:
        """None: any."""


class SaysNothing(ReadsText):
    """A class of a user, which may do more than the one that it extends."""


def written(folder: Path, *stages: Any) -> bytes:
    (folder / "in.jsonl").write_bytes(LINES)
    reader = JsonlReader(str(folder / "in.jsonl"), schema={"n": "int64"})
    pipeline = Pipeline("needed", stages=[reader, *stages, JsonlWriter(str(folder / "out"))])
    pipeline.run(InlineExecutor(), observers=[])
    return b"".join(path.read_bytes() for path in sorted((folder / "out").glob("*.jsonl")))


@pytest.mark.parametrize("stage", [ReadsText(), ReadsTextWhereThereIsAny(), Rebatch(rows=5)], ids=lambda s: s.name)
def test_columns_that_no_stage_reads_are_not_parsed_and_written_as_they_came(stage: Any, tmp_path: Path) -> None:
    assert written(tmp_path, stage) == LINES


def test_built_in_stages_need_not_say_more_than_their_inputs(tmp_path: Path) -> None:
    lines = written(tmp_path, CleanKnowledgeList(input_field="text"), AddId("id", id_prefix="d"), Shuffle(seed=1))
    assert b'"n": 1.0' in lines
    assert b'"n" :"x"' in lines


@pytest.mark.parametrize("stage", [Passes(), ReadsAll(), SaysNothing()], ids=lambda s: s.name)
def test_all_columns_are_parsed_where_a_stage_may_read_any(stage: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'n'"):
        written(tmp_path, stage)
