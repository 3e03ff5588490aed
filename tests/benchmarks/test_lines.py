"""The benchmark of JSON Lines runs on tiny input and writes the figures that it promises."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program


def test_lines_gives_rates_and_peaks(tmp_path: Path) -> None:
    rows = [{"text": f"Document {number} " * 9, "url": f"b{number}"} for number in range(40)]
    (tmp_path / "input.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures, printed = figures_of(
        "lines", tmp_path, "--input", str(tmp_path / "input.jsonl"), "--stages", "read and write"
    )
    assert {run["files"] for run in figures["runs"]} == {"documents", "chats"}
    assert all(run["cpu_s"] > 0 for run in figures["runs"])
    assert {run["rows"] for run in figures["runs"] if run["files"] == "documents"} == {40}
    assert "documents: read and write" in printed
