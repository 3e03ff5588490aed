"""The benchmark of datasets runs on tiny input and writes the figures that it promises."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program


def test_datasets_gives_rates_and_peaks(tmp_path: Path) -> None:
    rows = [{"text": f"Document {number}: " + "the quick brown fox. " * 20, "source": "a"} for number in range(40)]
    (tmp_path / "input.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures, printed = figures_of(
        "datasets", tmp_path, "--input", str(tmp_path / "input.jsonl"), "--sizes", "1", "--only", "shuffle"
    )
    assert figures["figures"]["shuffle"]["sizes"][0]["documents"] == 40
    assert {"marginal_mb_per_cpu_s", "peak_rss_mb"} <= set(figures["figures"]["shuffle"])
    assert "shuffle" in printed
