"""The benchmarks of personal data and of decontamination run on tiny input and write the figures that they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
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


def test_decontamination_gives_speeds_and_finds_what_plain_python_finds(tmp_path: Path) -> None:
    rows = [{"text": f"Document {n}: " + " ".join(f"w{n}x{k}" for k in range(300))} for n in range(1, 9)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (tmp_path / "tasks.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows[:2])))
    files = ("--input", str(tmp_path / "in.jsonl"), "--tasks", str(tmp_path / "tasks.jsonl"))
    figures, _ = figures_of("decontamination", tmp_path, *files, "--ngrams", "100", "1000", "--times", "1")
    assert [index["ngrams"] for index in figures["indexes"]] == [100, 580]
    assert {"build_mb_s", "find_mb_s", "plain_mb_s", "matches"} <= set(figures["indexes"][0])
