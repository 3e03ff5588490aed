"""A removal that is killed at any moment leaves each file old or new, and the next one finishes it."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from dcurate import JsonlWriter, ParquetWriter, TokenWriter
from dcurate.fs.stores import Directory
from dcurate.io.receipts import receipts
from dcurate.tokens.check import verify
from dcurate.tokens.folder import TokenFolder
from dcurate.tokens.tokenizer import TokenizerSource
from tests.forked import run_forked
from tests.optouts.conftest import data, list_of, remove, rows_of, run, write

pytestmark = pytest.mark.program

_PROGRAM = [sys.executable, "-m", "tests.optouts.program"]
#: Every so many touches of files the process is killed once.
_STEP = 7


def test_rows_of_a_removal_that_is_killed_at_any_moment_are_old_or_new_and_then_new(tmp_path: Path) -> None:
    source = write(tmp_path / "in", rows_of(24))
    for writer in (JsonlWriter, ParquetWriter):
        run(source, writer(str(tmp_path / writer.__name__)))
    names = ["JsonlWriter", "ParquetWriter"]
    old = {name: data(tmp_path / name) for name in names}
    listed, ended = list_of(tmp_path / "list.jsonl", {"domain": "site2.example.com"}), False
    shutil.copytree(tmp_path, tmp_path / "whole")
    whole = [tmp_path / "whole" / name for name in names]
    receipt = remove(tmp_path / "whole" / "list.jsonl", *whole)
    assert receipt["documents"] == 10
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
