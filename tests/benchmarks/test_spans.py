"""The benchmark of repeated spans runs on tiny input and writes the figures that it promises."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program


def test_spans_gives_rates_and_what_a_suffix_array_finds(tmp_path: Path) -> None:
    shared = " ".join(f"sentence {number} of the licence." for number in range(20))
    rows = [{"text": f"Document {number} says: {shared} And {number} more."} for number in range(20)]
    (tmp_path / "input.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures, printed = figures_of("spans", tmp_path, "--input", str(tmp_path / "input.jsonl"), "--only", "substrings")
    assert figures["figures"]["substrings"]["sizes"][0]["found"]["copies"] > 0
    exact = figures["exact"]["variants"]
    assert exact["default"]["stood_before"] == exact["window 12"]["stood_before"] == 1
    assert 0.8 < exact["default"]["found"] < exact["window 12"]["found"] <= 1
    assert "suffix array" in printed
