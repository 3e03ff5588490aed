"""Jobs of a real scheduler and real workers: submitted, followed, stopped, resumed, and taken over after real kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import LocalCluster as DaskCluster

import dcurate
from dcurate import (
    DocumentBatch,
    ElasticCluster,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    PipelineError,
    RunError,
    processing_stage,
    submit,
)
from dcurate.cluster import Kind
from dcurate.fs.stores import Directory
from dcurate.jobs import Job, JobRecord, jobs_on
from dcurate.jobs.archive import archived_jobs, archived_lines
from dcurate.jobs.client import submit_spec
from dcurate.jobs.records import JobSpec
from dcurate.running.proving import RunProof
from dcurate.runs import prove
from dcurate.ui import OpenLineageSettings
from tests.conftest import wait_until
from tests.forked import finished
from tests.jobs.hosts import SCRIPT, Hosts, hosts, kill_driver, until
from tests.ui.test_heartbeat import Hook, hook  # noqa: F401 - the second is a fixture

pytestmark = pytest.mark.cluster

SPLITS = 24


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with hosts(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(SPLITS):
        rows = [{"id": f"{number}-{row}", "text": f"row {row} of {number}"} for row in range(3)]
        (folder / f"part-{number:02d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def slow(source: Path, output: Path, seconds: float = 0.3, **options: object) -> JobSpec:
    """A job of `SPLITS` splits that take some time."""
    text = SCRIPT.format(seconds=seconds).encode()
    settings = {"input": str(source), "output": str(output), **options}
    return JobSpec("script", "slow.py", text, "pipeline", settings=settings)


def rows_of(output: Path) -> dict[str, bytes]:
    """The files of an output."""
    return {path.name: path.read_bytes() for path in sorted(output.glob("*.jsonl"))}


@pytest.fixture
def expected(source: Path, tmp_path: Path) -> dict[str, bytes]:
    """What a run without kills writes."""
    Pipeline("plain", stages=[JsonlReader(str(source)), JsonlWriter(str(tmp_path / "plain"))]).run(
        dcurate.InlineExecutor()
    )
    return rows_of(tmp_path / "plain")


def test_a_job_runs_and_its_record_and_log_are_kept_beside_the_output(
    cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    output = tmp_path / "out"
    job = submit_spec(slow(source, output, 0.0), cluster.address, "first")
    record = job.wait(120)
    assert (record.state, record.exit_code, record.why, record.attempt) == ("done", 0, "", 1)
    assert (record.output, record.splits, record.splits_done) == (str(output), SPLITS, SPLITS)
    assert rows_of(output) == expected
    (archived,) = archived_jobs(str(output))
    assert (archived.id, archived.state, archived.exit_code) == (job.id, "done", 0)
    assert any("done" in line.text for line in archived_lines(str(output), job.id))
    assert next(iter(job.logs())).source == "scheduler"
    assert record in jobs_on(cluster.address)


def test_a_pipeline_of_python_is_a_job(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    @processing_stage(name="shout")
    def shout(batch: DocumentBatch) -> DocumentBatch:
        return batch.with_data(batch.to_pandas().assign(text=lambda rows: rows.text.str.upper()))

    pipeline = Pipeline("shouts", stages=[JsonlReader(str(source)), shout, JsonlWriter(str(tmp_path / "out"))])
    record = submit(pipeline, cluster.address).wait(120)
    assert (record.name, record.state) == ("shouts", "done"), record
    assert b"ROW 1 OF 7" in b"".join(rows_of(tmp_path / "out").values())


def test_another_driver_takes_over_from_one_that_was_killed(
    cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = submit_spec(slow(source, tmp_path / "out"), cluster.address, "killed")
    for attempt in (1, 2, 3):
        least = attempt, 3 * attempt
        kill_driver(until(job, lambda record, least=least: (record.attempt, record.splits_done) >= least))
    record = job.wait(120)
    assert (record.state, record.attempt) == ("done", 4), record
    assert rows_of(tmp_path / "out") == expected
    assert sum("ended by signal 9" in line.text for line in job.logs()) == 3


def test_the_proof_of_a_job_whose_driver_is_killed_is_that_of_one_whose_driver_is_not(
    cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    whole = submit_spec(replace(slow(source, tmp_path / "whole"), proof=True), cluster.address, "whole")
    assert whole.wait(120).state == "done"
    job = submit_spec(replace(slow(source, tmp_path / "out"), proof=True), cluster.address, "proved")
    kill_driver(until(job, lambda record: record.splits_done >= 3))
    record = job.wait(120)
    assert (record.state, record.attempt) == ("done", 2), record
    assert rows_of(tmp_path / "out") == expected
    proof = prove(str(tmp_path / "out"))
    assert proof.holds
    assert proof.root == prove(str(tmp_path / "whole")).root


def test_another_driver_takes_over_from_one_that_hangs(
    cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = submit_spec(slow(source, tmp_path / "out", 0.6), cluster.address, "hung")
    record = until(job, lambda record: record.splits_done >= 2)
    kill_driver(record, signal.SIGSTOP)
    record = job.wait(120)
    assert (record.state, record.attempt) == ("done", 2), record
    assert rows_of(tmp_path / "out") == expected


def test_a_driver_whose_host_ends_hands_its_job_back(
    cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = submit_spec(slow(source, tmp_path / "out"), cluster.address, "handed-back")
    kill_driver(until(job, lambda record: record.splits_done >= 3), signal.SIGTERM)
    record = job.wait(120)
    assert (record.state, record.attempt) == ("done", 2), record
    assert rows_of(tmp_path / "out") == expected
    assert any("handed it back" in line.text for line in job.logs())


def test_a_job_stops_and_resumes(cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]) -> None:
    job = submit_spec(slow(source, tmp_path / "out"), cluster.address, "stopped")
    until(job, lambda record: record.splits_done >= 3)
    job.stop()
    record = job.wait(60)
    assert (record.state, record.exit_code) == ("stopped", 143)
    finished_files = rows_of(tmp_path / "out")
    assert 0 < len(finished_files) < SPLITS
    assert job.resume().state == "waiting"
    with pytest.raises(PipelineError, match=r"is (waiting|starting|running); it can be resumed when it has ended"):
        job.resume()
    assert job.wait(120).state == "done"
    assert rows_of(tmp_path / "out") == expected
    with pytest.raises(PipelineError, match="is done; submit it again"):
        job.resume()


def test_a_job_that_is_stopped_as_it_starts_runs_nothing(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    job = submit_spec(slow(source, tmp_path / "out"), cluster.address, "at-once")
    job.stop()
    assert job.wait(90).state == "stopped"
    assert not rows_of(tmp_path / "out")


def test_a_log_is_followed_while_it_is_written(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    job = submit_spec(slow(source, tmp_path / "out", 0.1), cluster.address, "followed")
    lines = list(job.logs(follow=True))
    assert job.describe().state == "done"
    assert lines[-1].text == "done"
    assert [line for line in lines if "splits" in line.text]


def test_a_job_that_fails_says_why_and_is_not_tried_again(cluster: Hosts, tmp_path: Path) -> None:
    job = submit_spec(slow(tmp_path / "nowhere", tmp_path / "out"), cluster.address, "fails")
    record = job.wait(120)
    assert (record.state, record.exit_code, record.attempt) == ("failed", 1, 1)
    assert "there is nothing at" in record.why


@pytest.mark.parametrize(
    ("text", "attribute", "sentence"),
    [
        ("import no_such_package", "pipeline", "needs 'no_such_package', which is not installed"),
        ("x = 1", "pipeline", "has no 'pipeline'; its pipelines are nothing"),
        ("pipeline = 3", "pipeline", "is a int, not a dcurate.Pipeline"),
        ("from dcurate import Pipeline, JsonlReader\np = Pipeline('p', stages=[JsonlReader(IN)])", "p", "no writer"),
    ],
)
def test_a_script_that_cannot_be_run_fails_with_a_sentence(
    cluster: Hosts, source: Path, text: str, attribute: str, sentence: str
) -> None:
    text = text.replace("IN", repr(str(source)))
    record = submit_spec(JobSpec("script", "odd.py", text.encode(), attribute), cluster.address, "odd").wait(120)
    assert record.state == "failed"
    assert sentence in record.why


def test_what_cannot_be_submitted_is_refused_at_once(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    without_writer = Pipeline("lost", stages=[JsonlReader(str(source))])
    assert "has no writer" in submit(without_writer, cluster.address).wait(120).why
    with pytest.raises(PipelineError, match="is not a dcurate.Pipeline"):
        submit("demo", cluster.address)  # type: ignore[arg-type]
    job = submit_spec(slow(source, tmp_path / "out"), cluster.address, "taken")
    with pytest.raises(PipelineError, match=f"job {job.id} of .* has the name 'taken'"):
        submit_spec(slow(source, tmp_path / "out2"), cluster.address, "taken")
    job.stop()
    job.wait(60)
    with pytest.raises(PipelineError, match="job 'no-such' does not exist"):
        Job(cluster.address, "no-such").describe()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        closed = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
    with pytest.raises(RunError, match="no Dask scheduler answers"):
        jobs_on(closed)


def test_who_submits_a_job_again_that_goes_on_is_attached_to_it(
    cluster: Hosts, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    spec = slow(source, tmp_path / "out", 0.1)
    again = replace(spec, resume=True)
    job = submit_spec(spec, cluster.address, "nightly", attach=True)
    assert submit_spec(again, cluster.address, "nightly", attach=True).id == job.id
    with pytest.raises(PipelineError, match=f"job {job.id} of .* has the name 'nightly' and is .*; give another"):
        submit_spec(again, cluster.address, "nightly")
    with pytest.raises(PipelineError, match="has the name 'nightly' and is .*, but runs something else; give another"):
        submit_spec(slow(source, tmp_path / "other", 0.1), cluster.address, "nightly", attach=True)
    assert job.wait(120).state == "done"
    assert rows_of(tmp_path / "out") == expected
    after = submit_spec(again, cluster.address, "nightly", attach=True)
    assert after.id != job.id
    assert after.wait(120).state == "done"


def test_a_scheduler_without_jobs_lists_none(tmp_path: Path) -> None:
    with hosts(tmp_path, 0) as fresh:
        assert jobs_on(fresh.address) == []
        with pytest.raises(RunError, match="has no jobs; submit one with"):
            Job(fresh.address, "any").describe()


@pytest.mark.parametrize("kept", [False, True])
def test_jobs_go_on_when_their_scheduler_is_started_again(
    kept: bool, source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    options = ["--preload", "dcurate.preload", "--jobs-folder", str(tmp_path / "jobs")] if kept else []
    with hosts(folder, 2, *options) as cluster:
        job = submit_spec(slow(source, tmp_path / "out"), cluster.address, "outlives")
        record = until(job, lambda record: record.splits_done >= 3)
        if kept:  # nobody is left who knows the job, but the folder
            assert (tmp_path / "jobs" / f"{job.id}.json").stat().st_mode & 0o077 == 0
            kill_driver(record)
        cluster.kill_scheduler()
        cluster.start()
        record = until(job, lambda record: not record.is_live, 240)
        assert record.state == "done", record
    assert rows_of(tmp_path / "out") == expected


def test_a_job_waits_for_workers(source: Path, tmp_path: Path, expected: dict[str, bytes]) -> None:
    with hosts(tmp_path, 1) as cluster:
        job = submit_spec(slow(source, tmp_path / "out", 0.2), cluster.address, "waits")
        until(job, lambda record: record.splits_done >= 3)
        for worker in cluster.workers:
            worker.kill()
        until(job, lambda record: record.is_live)
        cluster.start_workers(2)
        record = job.wait(120)
    assert record.state == "done", record
    assert rows_of(tmp_path / "out") == expected


@pytest.mark.timeout(300)
def test_a_job_asks_a_cluster_that_dask_scales_from_none_for_workers(
    source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with DaskCluster(
        n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs=50
    ) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=10)
        job = submit_spec(slow(source, tmp_path / "out", 0.1), cluster.scheduler_address, "scales")
        record = job.wait(200)
        assert (record.state, record.attempt) == ("done", 1), record
        wait_until(lambda: not cluster.scheduler.workers)
    assert rows_of(tmp_path / "out") == expected


@pytest.mark.timeout(300)
def test_a_job_has_a_cluster_of_kinds_start_its_first_worker(
    source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    kinds = {"cpu": Kind.cpus_here(maximum=2, memory_limit=10**9), "gpu": Kind.simulated_gpus_here(maximum=1)}
    with ElasticCluster(kinds, interval_s=0.2, wait_count=10) as cluster:
        assert cluster.numbers == {"cpu": 0, "gpu": 0}
        job = submit_spec(slow(source, tmp_path / "out", 0.1), cluster, "scales")
        record = job.wait(200)
        assert record.state == "done", [line.text for line in job.logs()]
        wait_until(lambda: cluster.numbers == {"cpu": 0, "gpu": 0})
    assert rows_of(tmp_path / "out") == expected


def test_a_job_whose_workers_go_before_it_runs_waits_for_others(
    source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    spec = slow(source, tmp_path / "out", 0.05)
    slow_payload = b"import time\ntime.sleep(4)\n" + spec.payload
    loads_slowly = replace(spec, payload=slow_payload, executor={"worker_timeout_s": 3.0})
    with hosts(tmp_path, 1) as cluster:
        job = submit_spec(loads_slowly, cluster.address, "early")
        until(job, lambda record: record.state == "running")
        for worker in cluster.workers:
            worker.kill()
        waiting = until(job, lambda record: record.state == "waiting")
        cluster.start_workers(1)
        record = job.wait(120)
    assert "no workers" in waiting.why or "lost all its workers" in waiting.why
    assert record.state == "done", record
    assert rows_of(tmp_path / "out") == expected


def test_the_command_line_submits_lists_describes_and_stops(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SCRIPT.format(seconds=5))
    environment = {**os.environ, "DASK_SCHEDULER_ADDRESS": cluster.address, "COLUMNS": "160"}

    def dcurate_command(*arguments: str) -> tuple[int, str, str]:
        ended = finished([sys.executable, "-m", "dcurate.cli", *arguments], tmp_path, environment)
        return ended.returncode, ended.stdout, ended.stderr

    code, printed, error = dcurate_command(
        "submit", "slow.py:pipeline", "--input", "in", "--output", "out", "--proof", "--name", "by-hand", "--json"
    )
    assert code == 0, error
    job = Job(**{name if name != "job" else "id": value for name, value in json.loads(printed).items()})
    until(job, lambda record: record.splits_done >= 1)
    code, printed, _ = dcurate_command("jobs")
    assert code == 0
    assert job.id in printed
    assert "by-hand" in printed
    code, printed, _ = dcurate_command("describe", "by-hand", "--json")
    assert JobRecord.from_dict(json.loads(printed)).output == str(tmp_path / "out")
    code, printed, _ = dcurate_command("stop", "by-hand")
    assert "stopped" in printed
    code, _, _ = dcurate_command("wait", job.id)
    assert code == 143
    code, printed, _ = dcurate_command("logs", job.id, "--output", str(tmp_path / "out"))
    assert code == 0
    assert "splits" in printed
    code, printed, _ = dcurate_command("jobs", str(tmp_path / "out"), "--json")
    assert [entry["state"] for entry in json.loads(printed)] == ["stopped"]
    for command in ("logs", "describe"):
        code, _, error = dcurate_command(command, "no-such", "--output", str(tmp_path / "out"))
        assert (code, "no job 'no-such' wrote to" in error) == (2, True)
    assert RunProof(Directory(str(tmp_path / "out"))).begun
    code, _, error = dcurate_command("logs", "no-such")
    assert (code, "job 'no-such' does not exist" in error) == (2, True)


def test_many_lines_reach_a_follower_in_order(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    text = (
        "import sys, time\n"
        "for number in range(3000):\n"
        "    print(number, time.time(), flush=True)\n"
        "    time.sleep(0.001)\n" + SCRIPT.format(seconds=0.0)
    )
    settings = {"input": str(source), "output": str(tmp_path / "out")}
    job = submit_spec(JobSpec("script", "chatty.py", text.encode(), "pipeline", settings), cluster.address, "chatty")
    came: list[tuple[int, float]] = []
    for line in job.logs(follow=True):
        if line.text[:1].isdigit() and line.level == "OUT" and line.source == "driver":
            number, moment = line.text.split()
            came.append((int(number), time.time() - float(moment)))
    assert [number for number, _ in came] == list(range(3000))


def test_calls_at_once_are_answered(cluster: Hosts) -> None:
    failures: list[Exception] = []

    def ask() -> None:
        try:
            for _ in range(20):
                jobs_on(cluster.address)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_a_job_renews_its_heartbeat(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    beat = tmp_path / "beat.json"
    spec = replace(slow(source, tmp_path / "out", 0.0), heartbeat=str(beat))
    job = submit_spec(spec, cluster.address, "beating")
    assert job.wait(120).state == "done"
    content = json.loads(beat.read_text())
    assert (content["state"], content["job"], content["name"]) == ("done", job.id, "beating")
    assert content["splits_done"] == SPLITS


def test_a_job_posts_its_states_to_a_webhook_whose_address_shows_nowhere(
    cluster: Hosts,
    source: Path,
    tmp_path: Path,
    hook: Hook,  # noqa: F811 - as above
) -> None:
    job = submit_spec(replace(slow(source, tmp_path / "out"), webhook=hook.url), cluster.address, "posting")
    kill_driver(until(job, lambda record: record.splits_done >= 2), signal.SIGTERM)
    record = job.wait(120)
    assert (record.state, record.attempt) == ("done", 2)
    assert hook.states == ["running", "waiting", "running", "done"]
    assert {(post["job"], post["name"]) for post in hook.posts} == {(job.id, "posting")}
    assert (hook.posts[-1]["splits_done"], hook.posts[-1]["output"]) == (SPLITS, str(tmp_path / "out"))
    hook.answers.extend([500, 404])  # the first is tried again
    failing = replace(slow(source, tmp_path / "out"), webhook=hook.url)  # the output is there
    failed = submit_spec(failing, cluster.address, "posting again")
    assert failed.wait(120).state == "failed"
    assert hook.states[4:] == ["failed", "failed"]
    assert "holds the output of a finished" in hook.posts[-1]["why"]
    texts = [str(one.describe()) + "".join(line.text for line in one.logs()) for one in (job, failed)]
    assert "the webhook did not receive a new state: it answered 404" in texts[1]
    written = [path for path in tmp_path.rglob("*") if path.is_file() and b"T0KEN" in path.read_bytes()]
    assert (written, "T0KEN" in "".join(texts)) == ([], False)


def test_all_drivers_of_a_job_tell_openlineage_of_one_run(cluster: Hosts, source: Path, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    spec = replace(slow(source, tmp_path / "out"), openlineage=OpenLineageSettings(str(file)).to_dict())
    job = submit_spec(spec, cluster.address, "told")
    kill_driver(until(job, lambda record: record.splits_done >= 2), signal.SIGKILL)
    assert job.wait(120).state == "done"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 1


@pytest.mark.parametrize("given", ["option", "environment"])
def test_the_command_line_submits_a_job_with_a_webhook(
    given: str,
    cluster: Hosts,
    source: Path,
    tmp_path: Path,
    hook: Hook,  # noqa: F811 - as above
) -> None:
    (tmp_path / "slow.py").write_text(SCRIPT.format(seconds=0.0))
    options = ["--webhook", hook.url] if given == "option" else []
    where = ["--scheduler", cluster.address, "--input", str(source), "--output", str(tmp_path / "out")]
    command = [sys.executable, "-m", "dcurate.cli", "submit", "slow.py:pipeline", *where, "--name", given, "--json"]
    environment = os.environ if options else {**os.environ, "DCURATE_WEBHOOK": hook.url}
    done = finished([*command, *options], cwd=tmp_path, env=dict(environment))
    assert done.returncode == 0, done.stderr
    assert Job(cluster.address, json.loads(done.stdout)["job"]).wait(120).state == "done"
    assert hook.states == ["running", "done"]
    assert "T0KEN" not in done.stdout + done.stderr
