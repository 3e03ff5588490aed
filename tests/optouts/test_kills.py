"""A removal that is killed at any moment leaves each file old or new, and the next one finishes it."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from dcurate import CsvWriter, ExactDuplicates, JsonlWriter, ParquetWriter, TokenWriter
from dcurate.core.stage import Stage
from dcurate.fs.stores import Directory
from dcurate.io.receipts import receipts
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.tokenizer import TokenizerSource
from tests.forked import run_forked
from tests.optouts.conftest import data, lines_of, list_of, remove, rows_of, run, write

pytestmark = pytest.mark.program

_PROGRAM = [sys.executable, "-m", "tests.optouts.program"]
#: Touches of files from one kill to the next.
_STEP = 7


def test_rows_of_a_removal_that_is_killed_at_any_moment_are_old_or_new_and_then_new(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(24))
    for writer in (JsonlWriter, ParquetWriter, CsvWriter):
        run(source, writer(str(tmp_path / writer.__name__)))
    names = ["JsonlWriter", "ParquetWriter", "CsvWriter"]
    old = {name: data(tmp_path / name) for name in names}
    listed, ended = list_of(tmp_path / "list.jsonl", {"domain": "site2.example.com"}), False
    shutil.copytree(tmp_path, tmp_path / "whole")
    whole = [tmp_path / "whole" / name for name in names]
    receipt = remove(tmp_path / "whole" / "list.jsonl", *whole)
    assert receipt["documents"] == 15
    new = {name: data(tmp_path / "whole" / name) for name in names}
    number = 1
    while not ended:
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for name in names:
            shutil.copytree(tmp_path / name, work / name)
            shutil.copytree(tmp_path / f"{name}.dcurate", work / f"{name}.dcurate")
        shutil.copy(listed, work / "list.jsonl")
        outputs = [work / name for name in names]
        code = run_forked([*_PROGRAM, number, work / "list.jsonl", *outputs])
        ended = code == 0
        assert ended or code == -signal.SIGKILL
        for name in names:
            left = data(work / name)
            assert left.keys() == old[name].keys()
            assert all(content in (old[name][file], new[name][file]) for file, content in left.items())
        remove(work / "list.jsonl", *outputs)
        assert {name: data(work / name) for name in names} == new, number
        for output in outputs:
            counted = [receipt["products"][0]["documents"] for receipt in receipts(Directory(str(output)))]
            assert sum(counted) == 5, number
            assert not list(Path(f"{output}.dcurate").glob("replacing*"))
        number += _STEP
    assert number > 20


def test_files_of_rows_are_removed_by_the_next_removal_whenever_one_is_killed(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    list_of(old / "metadata.jsonl", *({**row, "file_name": f"{row['id']}.wav"} for row in rows_of(10)))
    for row in rows_of(10):
        (old / f"{row['id']}.wav").write_bytes(row["text"].encode())
    kept = {f"{row['id']}.wav" for row in rows_of(10) if "site2" not in row["url"]}
    ended, number = False, 1
    while not ended:
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(old, work / "out")
        path = list_of(work / "list.jsonl", {"domain": "site2.example.com"})
        ended = run_forked([*_PROGRAM, number, path, work / "out"]) == 0
        remove(path, work / "out")
        left = data(work / "out")
        assert left.keys() == kept | {"metadata.jsonl"}, number
        assert len(left["metadata.jsonl"].splitlines()) == len(kept)
        number += _STEP
    assert number > 10


def test_tokens_are_rid_of_documents_whose_rows_went_before_a_kill(tokenizer: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(24), files=1)
    run(source, JsonlWriter(str(tmp_path / "rows")))
    run(source, TokenWriter(str(tmp_path / "tokens"), tokenizer, shard_tokens=400))
    listed, ended, number = {"domain": "site2.example.com"}, False, 1
    while not ended:
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for name in ("rows", "tokens"):
            shutil.copytree(tmp_path / name, work / name)
            shutil.copytree(tmp_path / f"{name}.dcurate", work / f"{name}.dcurate")
        outputs = [work / "rows", work / "tokens"]
        path = list_of(work / "list.jsonl", listed)
        ended = run_forked([*_PROGRAM, number, path, *outputs]) == 0
        remove(path, *outputs)
        folder = TokenFolder(str(work / "tokens"))
        assert verify(folder, TokenizerSource(tokenizer), [str(work / "rows")], sample=99).wrong == []
        ids = [json.loads(line)["id"] for content in data(work / "rows").values() for line in content.splitlines()]
        spans = verify(folder, TokenizerSource(tokenizer), [str(work / "rows")], sample=99)
        assert spans.documents == len(ids) == spans.found == 19, number
        number += 2 * _STEP


def test_copies_are_put_back_once_whenever_a_removal_is_killed(tmp_path: Path) -> None:
    rows = rows_of(10)
    rows += [{**row, "id": f"{row['id']} again", "url": "https://other.example"} for row in rows + rows[:5]]
    kept = [row for row in rows if "site2" not in row["url"]]
    names = ["out", "out.dcurate", "dropped"]
    for folder, some in (("old", rows), ("fresh", kept)):
        stages: list[Stage] = [ExactDuplicates(id_field="id"), JsonlWriter(str(tmp_path / folder / "out"))]
        run(write(tmp_path / folder / "in", some, files=2), *stages, rejected=str(tmp_path / folder / "dropped"))
    fresh = [sorted(lines_of(tmp_path / "fresh" / name)) for name in ("out", "dropped")]
    ended, number = False, 1
    while not ended:
        work = tmp_path / "old"  # as its report says where rejected rows are
        if number == 1:
            shutil.copytree(work, tmp_path / "copy")
        for name in names:
            shutil.rmtree(work / name)
            shutil.copytree(tmp_path / "copy" / name, work / name)
        shutil.rmtree(work / "dropped.dcurate", ignore_errors=True)
        path = list_of(work / "list.jsonl", {"domain": "site2.example.com"})
        ended = run_forked([*_PROGRAM, number, path, work / "out"]) == 0
        remove(path, work / "out")
        assert [sorted(lines_of(work / name)) for name in ("out", "dropped")] == fresh, number
        number += _STEP
    assert number > 20
