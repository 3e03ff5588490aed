"""The benchmark of personal data runs on tiny input and writes the figures that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]


def figures_of(benchmark: str, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """What a benchmark writes as JSON, and what it prints."""
    file = folder / "figures.json"
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--json", str(file), *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(file.read_text()), ended.stdout


def test_pii_gives_recall_and_precision_by_kind(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    figures, printed = figures_of("pii", tmp_path, "--each", "3", "--times", "1", "--peer-python", nowhere)
    kinds = figures["dcurate"]["kinds"]
    assert kinds["EMAIL_ADDRESS"]["cases"] == 3
    assert {"found", "exact", "masked", "precision"} <= set(kinds["CREDIT_CARD"])
    assert figures["peers"] == {}
    assert {"find", "find and replace", "regexes"} == set(figures["speeds"])
    assert "the forms it finds least" in printed
