"""Errors name the columns of a user, and none that rows carry for dcurate itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcurate import DcurateError, DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ProcessingStage
from dcurate.core.pipeline import AnyStage
from dcurate.frames.columns import column_of, numbers, only, values
from dcurate.frames.hashes import content_hashes, row_hashes
from dcurate.frames.rows import row_keys
from dcurate.frames.text import text_column
from dcurate.frames.tokens import tokens_of
from dcurate.media.refs import check_has_media, fetch
from dcurate.rows.hidden import HIDDEN

LOOKS: dict[str, Callable[[pa.Table], object]] = {
    "column_of": lambda table: column_of(table, "url"),
    "content_hashes": lambda table: content_hashes(table, "url"),
    "fetch": fetch,
    "media": lambda table: check_has_media(table.column_names, "stage"),
    "numbers": lambda table: numbers(table, "url"),
    "only": lambda table: only(table, ["url"]),
    "row_hashes": lambda table: row_hashes(table, ["url"]),
    "row_keys": lambda table: row_keys(table, ["url"], 0),
    "text_column": lambda table: text_column(table, "url"),
    "tokens_of": lambda table: tokens_of(table, "url"),
    "values": lambda table: values(table, "url"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_column_that_is_missing_is_told_with_those_of_the_user(look: str) -> None:
    table = pa.table({"text": ["one"], **{name: [0] for name in HIDDEN}})
    with pytest.raises(DcurateError) as raised:
        LOOKS[look](table)
    assert "'text'" in str(raised.value)
    assert "_dcurate_" not in str(raised.value)


class Lengths(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Looks at a column that it did not declare."""

    name = "lengths"

    def inputs(self) -> Any:
        return ["data"], ["text"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        text_column(task.to_arrow(), "body")
        return task


def test_a_stage_between_a_reader_and_a_writer_of_lines_names_no_hidden_column(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "one", "n": 1}\n')
    stages: list[AnyStage] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        Lengths(),
        JsonlWriter(str(tmp_path / "out")),
    ]
    with pytest.raises(DcurateError) as raised:
        Pipeline("test", stages=stages).run(InlineExecutor(), observers=[])
    assert "no column 'body'" in str(raised.value)
    assert "_dcurate_line" not in str(raised.value)
