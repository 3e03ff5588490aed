from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.benchmarks.test_benchmarks import figures_of

pytestmark = pytest.mark.program


def test_observers_gives_cpu_with_and_without_and_inside_each_part(tmp_path: Path) -> None:
    rows = [{"id": number, "text": f"Document {number}: " + "the quick brown fox " * number} for number in range(40)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)) + b"\n")
    figures, printed = figures_of(
        "observers", tmp_path, "--input", str(tmp_path / "in"), "--times", "1", "--workers", "1"
    )
    assert set(figures["in_turn"]["cpu_s"]) == {"watched", "unwatched"}
    assert all(len(runs) == 1 for runs in figures["in_turn"]["runs"].values())
    spent = figures["by_part"]["parts"]
    assert set(spent) == {"scores and examples", "history", "report, history and page as files"}
    assert all(seconds > 0 for seconds in spent.values())
    assert 0 < figures["by_part"]["share"] < 1
    assert "scores and examples" in printed
