"""The benchmarks run on tiny input and write the figures that they promise."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program


def figures_of(benchmark: str, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """What a benchmark writes as JSON, and what it prints."""
    file = folder / "figures.json"
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--json", str(file), *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(file.read_text()), ended.stdout


def check_filters(figures: Mapping[str, Any]) -> None:
    assert {"marginal_mb_per_cpu_s", "mb_per_cpu_s", "wall_s_per_mb", "peak_rss_mb", "rules"} <= set(figures["dcurate"])
    assert [size["documents_in"] for size in figures["dcurate"]["sizes"]] == [40, 80]
    assert figures["peers"] == {}
    assert {"machine", "versions", "ratio"} <= set(figures)


def check_overhead(figures: Mapping[str, Any]) -> None:
    assert figures["import"]["import dcurate"]["heavy"] == []
    assert figures["first_output"]["command line"]["first_s"] > 0
    assert set(figures["per_task"]) >= {"dropped", "written", "mapped"}
    assert figures["memory"]["streamed_gb"]["0.008"]["splits"] == 2
    assert figures["memory"]["ratio"]["driver"]["rss_mb"] == 1


def check_lines(figures: Mapping[str, Any]) -> None:
    assert {run["files"] for run in figures["runs"]} == {"documents", "chats"}
    assert all(run["cpu_s"] > 0 for run in figures["runs"])
    assert {run["rows"] for run in figures["runs"] if run["files"] == "documents"} == {40}


def check_parquet(figures: Mapping[str, Any]) -> None:
    assert {run["files"] for run in figures["runs"]} == {"text", "dictionaries"}
    assert all(run["cpu_s"] > 0 for run in figures["runs"])
    assert {run["rows"] for run in figures["runs"]} == {40}


def check_semantic(figures: Mapping[str, Any]) -> None:
    (size,) = figures["dcurate"]
    assert (size["pairs"], size["recall"]) == (400, 1.0)
    assert set(size["steps"]) == {"stage", "k-means", "assign", "compare", "write"}


def check_spans(figures: Mapping[str, Any]) -> None:
    assert figures["figures"]["substrings"]["sizes"][0]["found"]["copies"] > 0
    exact = figures["exact"]["variants"]
    assert exact["default"]["stood_before"] == exact["window 12"]["stood_before"] == 1
    assert 0.8 < exact["default"]["found"] < exact["window 12"]["found"] <= 1


def check_llm(figures: Mapping[str, Any]) -> None:
    assert [(run["who"], run["rows"]) for run in figures["runs"]] == [
        ("dcurate", 12),
        ("dcurate over AsyncOpenAI", 12),
        ("AsyncOpenAI and gather", 12),
        ("OpenAI, one at a time", 3),
    ]
    assert all(run["cpu_s"] > 0 for run in figures["runs"])
    assert {"machine", "versions"} <= set(figures)


def check_pii(figures: Mapping[str, Any]) -> None:
    kinds = figures["dcurate"]["kinds"]
    assert kinds["EMAIL_ADDRESS"]["cases"] == 3
    assert {"found", "exact", "masked", "precision"} <= set(kinds["CREDIT_CARD"])
    assert figures["peers"] == {}
    assert {"find", "find and replace", "regexes"} == set(figures["speeds"])


FOX = "the quick brown fox jumps over it. "
LICENCE = " ".join(f"sentence {number} of the licence." for number in range(20))


#: By the benchmark: texts of its input, its options, a check of its figures, and what it prints.
def check_proof_optout(figures: Mapping[str, Any]) -> None:
    for name in ("spread", "in one file"):
        assert figures[name]["removed"] == {"jsonl": 1, "parquet": 1, "tokens": 1}
        assert figures[name]["of_a_run"] > 0


BENCHMARKS: dict[str, tuple[list[str], str, Callable[[Mapping[str, Any]], None], str]] = {
    "filters": (
        [f"Document {number}: " + FOX * 20 for number in range(40)],
        "--repeat 1 --sizes 1,2 --workers 1 --peer datatrove --peer-python NOWHERE",
        check_filters,
        "datatrove: not installed here",
    ),
    "lines": (
        [f"Document {number} " * 9 for number in range(40)],
        "--repeat 1 --stages 'read and write'",
        check_lines,
        "documents: read and write",
    ),
    "llm": (
        [],
        "--repeat 1 --latency 0.01 --spread 0.5 --concurrency 4 --rounds 3",
        check_llm,
        "",
    ),
    "overhead": (
        [],
        "--repeat 1 --partitions 40 --streamed-gb 0.008 --workers 1 --only import first_output per_task memory",
        check_overhead,
        "trivial partitions",
    ),
    "proof_optout": (
        [f"Document {number}: " + FOX * 20 for number in range(40)],
        "",
        check_proof_optout,
        "1 documents, spread",
    ),
    "parquet": (
        [f"Document {number}" for number in range(40)],
        "--repeat 1 --copies 2 --stages 'exact duplicates'",
        check_parquet,
        "dictionaries: exact duplicates, now",
    ),
    "pii": ([], "--each 3 --times 1 --peer-python NOWHERE", check_pii, "the forms it finds least"),
    "semantic": (
        [],
        "--repeat 1 --rows 8000 --dim 16 --clusters 1 --sizes 1",
        check_semantic,
        "CPU-us a row",
    ),
    "spans": (
        [f"Document {number} says: {LICENCE} And {number} more." for number in range(20)],
        "--repeat 1 --only substrings",
        check_spans,
        "suffix array",
    ),
}


def rows_of(texts: Sequence[str]) -> bytes:
    """JSON Lines of documents, with a source and an address."""
    return b"\n".join(
        orjson.dumps({"text": text, "source": "a", "url": f"b{number}"}) for number, text in enumerate(texts)
    )


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_gives_its_figures(benchmark: str, tmp_path: Path) -> None:
    texts, options, check, said = BENCHMARKS[benchmark]
    command = shlex.split(options.replace("NOWHERE", shlex.quote(str(tmp_path / "nowhere"))))
    if texts:
        (tmp_path / "input.jsonl").write_bytes(rows_of(texts))
        command += ["--input", str(tmp_path / "input.jsonl")]
    figures, printed = figures_of(benchmark, tmp_path, *command)
    check(figures)
    assert said in printed


def test_cpu_of_a_process_that_nobody_waits_for_is_counted() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    measured = (
        f"import sys; from benchmarks.measure import measure; print(measure([sys.executable, '-c', {parent!r}]).cpu_s)"
    )
    ended = subprocess.run([sys.executable, "-c", measured], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(ended.stdout) > 0.3
