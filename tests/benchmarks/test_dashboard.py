"""The benchmark of the dashboard runs on a few updates and writes the figures that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.dashboard import SHAPES
from tests.benchmarks.test_pii import figures_of

pytestmark = pytest.mark.program


def test_the_dashboard_gives_cpu_and_bytes_of_each_update(tmp_path: Path) -> None:
    figures, printed = figures_of("dashboard", tmp_path, "--updates", "2", "--begun", "4")
    assert set(figures["pages"]) == set(SHAPES)
    for pages in figures["pages"].values():
        assert 0 < pages["curation"]["update_ms"] <= pages["curation"]["worst_update_ms"]
        assert 0 < pages["curation"]["update_kb"] < pages["curation"]["open_kb"]
        assert pages["status"]["cpu_ms_per_s_open"] > 0
    assert "worst update of /curation" in printed
