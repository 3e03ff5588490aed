"""``dcurate label``, against a real endpoint."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dcurate import PipelineError, ResourceError
from dcurate.cli import cli
from dcurate.cli.group import message_of
from dcurate.cli.label import _show
from dcurate.learn import measure_agreement
from dcurate_testing.llm_server import Endpoint
from tests.ui.report.test_page import Page

pytestmark = pytest.mark.cluster

ROWS = 60


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    for file in range(3):
        rows = (
            {"id": f"{file}-{row}", "text": f"text {file} {row}", "language": "de" if row % 10 == 0 else "en", "n": 1}
            for row in range(ROWS // 3)
        )
        (tmp_path / f"in-{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "in-*.jsonl")


def invoked(endpoint: Endpoint, corpus: str, *arguments: str, fails: bool = False) -> Result:
    folder = Path(corpus).parent
    command = ["label", corpus, "-o", str(folder / "out"), "--schema", "quality", "--endpoint", endpoint.url]
    mode = [] if "--mode" in arguments else ["--mode", "inline"]
    result = CliRunner().invoke(cli, [*command, "--model", "m", *mode, *arguments])
    assert fails or result.exit_code == 0, (result.output, result.exception)
    return result


def written(corpus: str) -> list[dict[str, Any]]:
    folder = Path(corpus).parent / "out"
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_a_sample_is_labelled_in_equal_numbers_of_each_stratum(endpoint: Endpoint, corpus: str) -> None:
    result = invoked(
        endpoint, corpus, "--rows", "8", "--by", "language", "--keep", "id", "--json", f"{corpus[:-10]}f.json"
    )
    rows = written(corpus)
    assert Counter(row["language"] for row in rows) == {"de": 4, "en": 4}
    assert all(list(row) == ["text", "id", "language", "stratum", "sampling_weight", "quality"] for row in rows)
    assert {row["language"]: row["sampling_weight"] for row in rows} == {"de": 1.5, "en": 13.5}
    assert endpoint.seen.requests == 8
    assert "labelled 8 rows; requests 8," in result.output


def test_a_dry_run_says_what_the_run_takes_and_sends_nothing(endpoint: Endpoint, corpus: str) -> None:
    arguments = ("--rows", "20", "--price", "1,2")
    estimate = json.loads(invoked(endpoint, corpus, *arguments, "--dry-run", "--json", "-").output)
    assert endpoint.seen.requests == 0
    assert not (Path(corpus).parent / "out").exists()
    assert not (Path(corpus).parent / "out.answers").exists()
    assert (estimate["rows"], estimate["requests"], estimate["cached"]) == (20, 20, 0)
    assert estimate["cost"] == pytest.approx((estimate["prompt_tokens"] + 2 * estimate["completion_tokens"]) / 1e6)
    figures = json.loads(invoked(endpoint, corpus, *arguments, "--json", "-", "--quiet").output)
    assert endpoint.seen.paid == figures["requests"] == estimate["requests"]
    again = json.loads(invoked(endpoint, corpus, *arguments, "--dry-run", "--json", "-").output)
    assert (again["requests"], again["cached"], again["cost"]) == (0, 20, 0)


def test_a_run_at_its_limit_ends_and_the_next_pays_for_the_rest_alone(endpoint: Endpoint, corpus: str) -> None:
    limits = ("--price", "1000,1000", "--max-cost")
    failed = invoked(endpoint, corpus, *limits, "6", fails=True)
    assert isinstance(failed.exception, ResourceError)
    assert "raise --max-cost, then resume" in message_of(failed.exception, ["label"])
    paid = endpoint.seen.paid
    assert 0 < paid < ROWS
    figures = json.loads(invoked(endpoint, corpus, *limits, "1000", "--resume", "--json", "-", "--quiet").output)
    assert (len(written(corpus)), endpoint.seen.paid, figures["rows"]) == (ROWS, ROWS, ROWS)


@pytest.mark.program
def test_a_run_that_was_killed_pays_again_for_requests_in_flight_alone(endpoint: Endpoint, corpus: str) -> None:
    endpoint.behave(latency=0.05)
    arguments = ("--concurrency", "2", "--price", "1,2", "--max-cost", "1")
    command = ["label", corpus, "-o", str(Path(corpus).parent / "out"), "--schema", "quality", "--mode", "inline"]
    program = [sys.executable, "-m", "dcurate.cli", *command, "--endpoint", endpoint.url, "--model", "m", *arguments]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while endpoint.seen.paid < 25 and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
    paid = endpoint.seen.paid
    assert 25 <= paid < ROWS
    invoked(endpoint, corpus, *arguments, "--resume", "--quiet")
    assert len(written(corpus)) == ROWS
    assert ROWS <= endpoint.seen.paid <= ROWS + 2


def test_two_judges_and_repeats_are_compared(endpoint: Endpoint, corpus: str) -> None:
    arguments = ("--model", "other", "--repeats", "2", "--rows", "30", "--json", "-", "--quiet")
    figures = json.loads(invoked(endpoint, corpus, *arguments).output)
    pairs = figures["labels"]["quality"]["pairs"]
    assert [(pair["first"], pair["second"]) for pair in pairs[:3]] == [
        ("quality", "quality_2"),
        ("quality", "quality_3"),
        ("quality", "quality_4"),
    ]
    assert [pair["rows"] for pair in pairs] == [30] * 6
    # The endpoint's answer follows from the text, so that all judges agree.
    assert {pair["kappa"] for pair in pairs} == {1.0} == {figures["labels"]["quality"]["alpha"]}
    assert endpoint.seen.requests == 120
    assert {(body["model"], body["seed"]) for body in endpoint.seen.bodies} <= {
        (model, seed) for model in ("m", "other") for seed in (0, 1)
    }
    records = Path(corpus).parent / "out.dcurate"
    assert json.loads((records / "agreement.json").read_text())["quality"]["pairs"] == pairs
    table = Page((records / "report.html").read_text()).table("agreement")[1:]
    assert [row[1:4] for row in table] == [
        ["m", "m, asked again", "repeat"],
        ["m", "other", "two judges"],
        ["m", "other, asked again", "two judges"],
        ["m, asked again", "other", "two judges"],
        ["m, asked again", "other, asked again", "two judges"],
        ["other", "other, asked again", "repeat"],
    ]
    assert {tuple(row[4:]) for row in table} == {("30", "1.000", "1.000", "1.000")}
    page = records.parent / "again.html"
    CliRunner().invoke(cli, ["report", str(records.parent / "out"), "--html", str(page)], catch_exceptions=False)
    assert Page(page.read_text()).table("agreement")[1:] == table


def test_judges_have_different_names_on_the_page(endpoint: Endpoint, corpus: str) -> None:
    long = "x" * 305
    models = ("--model", f"{long}a", "--model", f"{long}b", "--repeats", "3", "--rows", "4")
    invoked(endpoint, corpus, *models, "--quiet")
    table = Page((Path(corpus).parent / "out.dcurate" / "report.html").read_text()).table("agreement")[1:]
    names = [
        model + end for model in ("m", f"{long}a", f"{long}b") for end in ("", ", asked again", ", asked again (2)")
    ]
    assert [tuple(row[1:3]) for row in table] == list(itertools.combinations(names, 2))
    assert Counter(row[3] for row in table) == {"repeat": 9, "two judges": 27}


def test_agreement_without_rows_in_common_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"quality": 1, "quality_2": null}\n{"quality": null, "quality_2": 2}\n')
    _show({"rows": 2, "labels": measure_agreement(str(path), "quality")})
    assert "quality and quality_2: 0 rows, unknown equal, weighted kappa unknown" in capsys.readouterr().out


def test_labels_are_the_same_on_worker_processes_and_as_parquet(endpoint: Endpoint, corpus: str) -> None:
    invoked(endpoint, corpus, "--rows", "10", "--keep", "id")
    first = written(corpus)
    invoked(
        endpoint,
        corpus,
        "--rows",
        "10",
        "--keep",
        "id",
        "--overwrite",
        "--filetype",
        "parquet",
        "--workers",
        "1",
        "--mode",
        "streaming",
    )
    assert pq.read_table(Path(corpus).parent / "out").to_pylist() == first


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--by", "language"], "--by and --band spread a sample; give its size with --rows"),
        (["--rows", "5", "--band", "1,2"], "--band needs a column"),
        (["--rows", "5", "--band", "text=a"], "'text=a' has something else than numbers"),
        (["--price", "1"], "--price takes two numbers"),
        (["--output", "memory://out"], "--output is not on this machine; give --cache a folder"),
    ],
)
def test_wrong_use_is_one_sentence(endpoint: Endpoint, corpus: str, arguments: list[str], sentence: str) -> None:
    result = invoked(endpoint, corpus, *arguments, fails=True)
    assert (result.exit_code, sentence in result.output) == (2, True)


def test_a_limit_without_a_price_is_refused(endpoint: Endpoint, corpus: str) -> None:
    failed = invoked(endpoint, corpus, "--max-cost", "1", fails=True)
    assert isinstance(failed.exception, PipelineError)
    assert "needs prices=" in str(failed.exception)
