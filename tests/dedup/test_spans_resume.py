"""Half a run and a resume equal one run, wherever the first was killed."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest

from dcurate import InlineExecutor
from tests.dedup.cut_spans import pipeline
from tests.dying import dying
from tests.forked import run_forked
from tests.places import is_data

pytestmark = pytest.mark.program


def content(folder: Path) -> dict[str, bytes]:
    """Every output file and its bytes, without the run's own records."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and is_data(path)
    }


def test_a_run_killed_in_any_round_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    draw = random.Random(5)
    lines = [f"this is line {number} of all the lines that there are to draw from" for number in range(60)]
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for file in range(8):
        texts = ["\n".join(draw.choices(lines, k=6)) + f" and {draw.random()}" for _ in range(5)]
        (source / f"{file}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for place in (
        "out.dcurate/rounds/span_duplicates_marks/*",
        "out.dcurate/rounds/substring_duplicates/rows/*",
        "out/*.jsonl",
    ):
        command = dying(tmp_path, place, "tests.dedup.cut_spans", source, output)
        assert run_forked(command) == -signal.SIGKILL, place
        assert any(tmp_path.glob(place))
    result = pipeline(str(source), str(output)).run(InlineExecutor(), resume=True)
    assert result.report.splits_before
    pipeline(str(source), str(tmp_path / "whole")).run(InlineExecutor())
    assert content(output) == content(tmp_path / "whole")
    assert content(tmp_path / "out-report") == content(tmp_path / "whole-report") != {}
