"""A proof knows what was removed by request, and nothing else passes for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, ParquetWriter, Pipeline
from dcurate.runs import prove
from tests.optouts.conftest import list_of, remove, write


@settings(max_examples=25)
@given(count=st.integers(1, 12), requests=st.lists(st.sets(st.integers(0, 11), max_size=4), min_size=1, max_size=3))
@pytest.mark.parametrize("writer", [JsonlWriter, ParquetWriter])
def test_rows_that_went_by_request_are_named_by_their_first_numbers(
    count: int, requests: list[set[int]], writer: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("proof")
    source = write(folder / "in", [{"id": f"d{number}", "text": f"text {number}"} for number in range(count)], files=1)
    stages: list[Any] = [JsonlReader(str(source)), writer(str(folder / "out"))]
    Pipeline("demo", stages=stages).run(InlineExecutor(), proof=True, observers=[])
    gone: dict[int, int] = {}
    for turn, numbers in enumerate(requests):
        list_path = list_of(folder / f"list{turn}.jsonl", *({"id": f"d{number}"} for number in numbers), {"id": "x"})
        remove(list_path, folder / "out", reason=f"mail {turn}")
        gone |= {number: turn for number in numbers if number < count and number not in gone}
    proof = prove(str(folder / "out"))
    assert {(change.what, change.row) for change in proof.changes} == {("removed", number) for number in gone}
    assert all(change.why.endswith(f"(mail {gone[change.row or 0]})") for change in proof.changes)
    assert proof.holds == (not gone)


def test_a_row_that_went_without_a_request_is_missing(tmp_path: Path) -> None:
    source = write(tmp_path / "in", [{"id": f"d{number}", "text": f"text {number}"} for number in range(6)], files=1)
    stages: list[Any] = [JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("demo", stages=stages).run(InlineExecutor(), proof=True, observers=[])
    remove(list_of(tmp_path / "list.jsonl", {"id": "d1"}), tmp_path / "out", reason="mail")
    [file] = (tmp_path / "out").glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    assert {(change.what, change.row) for change in prove(str(tmp_path / "out")).changes} == {
        ("missing", 1),
        ("missing", 5),
    }


def test_requests_before_a_run_do_not_count_for_its_rows(tmp_path: Path) -> None:
    source = write(tmp_path / "in", [{"id": f"d{number}", "text": f"text {number}"} for number in range(6)], files=1)
    out = tmp_path / "out"
    stages: list[Any] = [JsonlReader(str(source)), JsonlWriter(str(out), mode="overwrite")]
    for number in (1, 3):
        Pipeline("demo", stages=stages).run(InlineExecutor(), proof=True, observers=[])
        assert prove(str(out)).holds
        remove(list_of(tmp_path / f"list{number}.jsonl", {"id": f"d{number}"}), out, reason=f"mail {number}")
    assert [(change.what, change.row) for change in prove(str(out)).changes] == [("removed", 2)]

    Pipeline("demo", stages=stages).run(InlineExecutor(), proof=True, observers=[])
    [file] = out.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert [(change.what, change.row) for change in prove(str(out)).changes] == [("missing", 1)]
