"""The benchmark of semantic duplicates runs on tiny input and writes the figures that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program


def test_semantic_gives_recall_and_cost_by_step(tmp_path: Path) -> None:
    asked = ["--rows", "8000", "--dim", "16", "--clusters", "1", "--sizes", "1"]
    figures, printed = figures_of("semantic", tmp_path, *asked)
    (found,) = figures["dcurate"]
    assert (found["pairs"], found["recall"]) == (400, 1.0)
    assert set(found["steps"]) == {"stage", "k-means", "assign", "compare", "write"}
    assert "CPU-us a row" in printed
