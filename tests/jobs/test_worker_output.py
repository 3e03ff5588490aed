"""What stages print, log and warn on real workers is in the log of their job, and nowhere else that it was not."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dcurate
from dcurate.jobs import JobRecord, LogLine
from dcurate.jobs.archive import archived_lines
from dcurate.jobs.board import MAX_LOG, JobEntry
from dcurate.jobs.client import submit_spec
from dcurate.jobs.records import JobSpec
from tests.jobs.hosts import Hosts, hosts, kill_driver, until

pytestmark = pytest.mark.cluster

SPLITS = 6

#: A pipeline with a stage that speaks, as a script; its workers are not where it is loaded.
SPEAKS = """
import logging, sys, threading, time, warnings
from dcurate import JsonlReader, JsonlWriter, Pipeline, ProcessingStage, processing_stage

{before}

@processing_stage(name="speaks")
def speaks(batch):
    name = batch.to_pandas().id.iloc[0].partition("-")[0]
{body}
    return batch

def pipeline(input, output):
    return Pipeline("speaks", stages=[JsonlReader(input), speaks, JsonlWriter(output)])
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with hosts(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(SPLITS):
        (folder / f"part-{number:02d}.jsonl").write_text(json.dumps({"id": f"{number}-0", "text": "a"}) + "\n")
    return folder


def speaking(source: Path, output: Path, body: str, before: str = "") -> JobSpec:
    """A job whose stage runs some code for each split, of which ``name`` is the number."""
    text = SPEAKS.format(before=before, body="".join(f"    {line}\n" for line in body.splitlines()))
    settings = {"input": str(source), "output": str(output)}
    return JobSpec("script", "speaks.py", text.encode(), "pipeline", settings)


def of_workers(lines: list[LogLine]) -> list[LogLine]:
    """The lines that came from workers."""
    return [line for line in lines if line.source.startswith("tcp://")]


def log_of(cluster: Hosts) -> str:
    """What the workers of a cluster show themselves."""
    return (cluster.folder / "worker.log").read_text()


def test_what_stages_print_log_and_warn_is_in_the_log_of_their_job(
    cluster: Hosts, source: Path, tmp_path: Path
) -> None:
    body = """\
print("printed", name)
print("in", end=" "); print("parts", name)
print("error", name, file=sys.stderr)
logging.getLogger("mine").info("info %s", name)
logging.getLogger("mine").debug("debug %s", name)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("mine").exception("failed %s", name)
warnings.warn(f"warned {name}")
print("no end", name, end="")"""
    job = submit_spec(speaking(source, tmp_path / "out", body), cluster.address, "speaks")
    assert job.wait(120).state == "done"
    lines = of_workers(list(job.logs()))
    texts = {(line.level, line.text) for line in lines}
    for number in range(SPLITS):
        said = [f"printed {number}", f"in parts {number}", f"error {number}", f"no end {number}"]
        assert {("OUT", text) for text in said} <= texts
        assert {("INFO", f"info {number}"), ("ERROR", f"failed {number}")} <= texts
        assert any(level == "WARNING" and text.endswith(f"UserWarning: warned {number}") for level, text in texts)
    assert ("ERROR", "ZeroDivisionError: division by zero") in texts
    assert not [line for line in lines if "debug" in line.text]
    assert len([line for line in lines if "failed" in line.text]) == SPLITS  # once each, though it is shown, too
    assert [line for line in archived_lines(str(tmp_path / "out"), job.id) if line.text == "printed 3"]
    # The worker itself shows what it did without a job: what is printed, and warnings and errors.
    texts_shown = [f"{kind} {number}" for kind in ("printed", "error", "failed", "warned") for number in range(SPLITS)]
    limit = time.monotonic() + 20
    while missing := set(texts_shown) - {text for text in texts_shown if text in log_of(cluster)}:
        assert time.monotonic() < limit, missing
        time.sleep(0.2)
    assert "info 0" not in log_of(cluster)


def test_two_jobs_and_a_run_beside_them_do_not_mix(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    body = "for number in range(20):\n    print(WHO, name, number)\n    time.sleep(0.01)"
    jobs = {
        who: submit_spec(
            speaking(source, tmp_path / who, body, f"WHO = {who!r}"),
            cluster.address,
            who,
        )
        for who in ("first", "second")
    }

    @dcurate.processing_stage(name="alone")
    def alone(batch: dcurate.DocumentBatch) -> dcurate.DocumentBatch:
        print("alone speaks")  # noqa: T201
        return batch

    reader, writer = dcurate.JsonlReader(str(source)), dcurate.JsonlWriter(str(tmp_path / "alone"))
    dcurate.Pipeline("alone", stages=[reader, alone, writer]).run(dcurate.DaskExecutor(cluster=cluster.address))
    for who, job in jobs.items():
        assert job.wait(120).state == "done"
        spoken = [line for line in of_workers(list(job.logs())) if line.level == "OUT"]
        assert {line.text.split()[0] for line in spoken} == {who}
        for name in map(str, range(SPLITS)):
            rows = [line for line in spoken if line.text.split()[1] == name]
            assert [line.text for line in rows] == [f"{who} {name} {number}" for number in range(20)]
            assert len({line.source for line in rows}) == 1
    assert "alone speaks" in (cluster.folder / "worker.log").read_text()


def test_lines_of_a_worker_reach_a_follower_in_order_and_soon(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    body = """\
if name == "0":
    begin = time.monotonic()
    for number in range(6000):
        print("line", number, time.time())
        time.sleep(max(0.0, begin + number / 1000 - time.monotonic()))"""
    job = submit_spec(speaking(source, tmp_path / "out", body), cluster.address, "steady")
    numbers, delays, source_of = [], [], ""
    for line in job.logs(follow=True):
        # A slow call at the end of a run is copied to another worker, which prints the same.
        if line.text.startswith("line ") and line.source == (source_of or line.source):
            source_of = line.source
            _, number, moment = line.text.split()
            numbers.append(int(number))
            delays.append(time.time() - float(moment))
    assert numbers == list(range(6000))
    # Six seconds of lines: the first came long before the last was printed. `benchmarks.jobs` measures the delay.
    assert sorted(delays)[len(delays) // 2] < 3.0


def test_of_a_flood_lines_are_left_out_and_counted(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    # Of one split: of several, a slow call is copied to another worker, which prints the same.
    body = """\
if name == "0":
    for number in range(100_000):
        print("flood", number)
    sys.stdout.write("x" * 30_000_000 + "\\n")
    for number in range(1000):
        print("y" * 100_000)
print("over", name)"""
    job = submit_spec(speaking(source / "part-00.jsonl", tmp_path / "out", body), cluster.address, "flood")
    assert job.wait(120).state == "done"
    lines = of_workers(list(job.logs()))
    numbers = [int(line.text.split()[1]) for line in lines if line.text.startswith("flood")]
    missing = [re.match(r"([\d,]+) lines were left out", line.text) for line in lines]
    counts = [int(match[1].replace(",", "")) for match in missing if match]
    assert counts
    assert numbers == sorted(set(numbers))
    kept = len([line for line in lines if line.text[:5] in ("flood", "xxxxx", "yyyyy", "over ")])
    assert kept + sum(counts) == 100_000 + 1 + 1000 + 1
    assert max(len(line.text) for line in lines) <= 4000
    assert sum(len(line.text) for line in lines) <= 4 << 20


def test_a_board_keeps_the_last_lines_of_a_log_in_bounded_memory() -> None:
    entry = JobEntry(JobRecord("7f3a90c1", "monday", "alice@host", "recipe.yaml"))
    for number in range(4000):
        entry.write([LogLine(0.0, "driver", "OUT", f"{number:04d}" + "x" * 3996)])
    assert MAX_LOG - 4000 < sum(len(line.text) for line in entry.lines) == entry.size <= MAX_LOG
    assert (entry.dropped + len(entry.lines), entry.lines[-1].text[:4]) == (4000, "3999")
    entry.keep(1, MAX_LOG)
    assert [line.text[:4] for line in entry.lines] == ["3999"]


def test_secrets_of_the_driver_and_of_stages_are_hidden(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    before = "import os; os.environ['MY_API_KEY'] = 'known-to-the-driver'"
    body = """\
print("the key is known-to-the-driver")
logging.getLogger("mine").warning("https://me:hidden-login@host/a?sig=hidden-signature")
print("a" * 3990 + " https://me:cut-password@host/")
print("api_key=", end=""); print("hidden-pair")
sys.stderr.write("lone \\\\udc80 surrogate\\n")
logging.getLogger("mine").warning("lone \\udc80 surrogate")"""
    job = submit_spec(speaking(source, tmp_path / "out", body, before), cluster.address, "secret")
    assert job.wait(120).state == "done"
    lines = of_workers(list(job.logs()))
    text = "\n".join(line.text for line in lines)
    assert "the key is ***" in text
    assert "lone \\udc80 surrogate" in text
    for secret in ("known-to", "hidden-", "me:cut"):
        assert secret not in text


def test_set_up_and_tear_down_are_in_the_log(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    before = """
class Loads(ProcessingStage):
    name = "loads"
    def setup(self, worker_metadata=None):
        print("set up")
    def process(self, batch):
        return batch
    def teardown(self):
        print("torn down")
"""
    spec = speaking(source, tmp_path / "out", "pass", before)
    text = spec.payload.replace(b"speaks, JsonlWriter", b"Loads(), JsonlWriter")
    job = submit_spec(JobSpec("script", "loads.py", text, "pipeline", spec.settings), cluster.address, "loads")
    assert job.wait(120).state == "done"
    texts = [line.text for line in of_workers(list(job.logs()))]
    assert texts.count("set up") == texts.count("torn down") > 0


def test_a_driver_that_takes_over_has_the_lines_of_its_own_turn(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    job = submit_spec(
        speaking(source, tmp_path / "out", "print('begins', name)\ntime.sleep(0.5)"), cluster.address, "twice"
    )
    kill_driver(until(job, lambda record: record.splits_done >= 1))
    record = job.wait(120)
    assert (record.state, record.attempt) == ("done", 2)
    texts = {line.text for line in of_workers(list(job.logs()))}
    assert f"begins {SPLITS - 1}" in texts
