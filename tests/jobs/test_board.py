"""When the board of jobs takes a job from its driver: on a real scheduler, with clocks that are set."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from distributed import Scheduler

from dcurate.jobs import board as board_of_jobs
from dcurate.jobs.board import LEASE_S, MAX_DEATHS, START_S, JobBoard, JobEntry
from dcurate.jobs.records import JobRecord

pytestmark = pytest.mark.cluster


def silent_for(board: JobBoard, entry: JobEntry, state: str, seconds: float) -> str:
    """Give a job a driver that has been silent for so long; return the state of the job then."""
    entry.record, entry.token = replace(entry.record, state=state), "token"
    entry.signed = time.monotonic() - seconds
    board._check(entry)
    return entry.record.state


async def check_silences() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        board = JobBoard()
        await board.start(scheduler)
        entry = board.entries["a"] = JobEntry(JobRecord("a", "a", "alice@host", "recipe.yaml"))
        assert silent_for(board, entry, "running", LEASE_S - 1) == "running"
        assert silent_for(board, entry, "running", LEASE_S + 1) == "waiting"
        assert silent_for(board, entry, "running", 2 * LEASE_S - 1) == "running"
        assert silent_for(board, entry, "running", 2 * LEASE_S + 1) == "waiting"
        assert silent_for(board, entry, "starting", 4 * START_S - 1) == "starting"
        entry.record = replace(entry.record, state="running")
        sign = {"client": "", "begun": True, "progress": {"splits_done": 1}}
        assert board.on_renew("a", "token", [], sign) == {"order": ""}
        assert [silent_for(board, entry, "running", 200 * LEASE_S) for _ in range(MAX_DEATHS)] == [
            *["waiting"] * (MAX_DEATHS - 1),
            "failed",
        ]
        await board.close()


def test_a_driver_has_longer_to_give_a_sign_the_more_were_silent_before_without_progress() -> None:
    asyncio.run(check_silences())


async def check_start() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        board = JobBoard()
        await board.start(scheduler)
        entry = board.entries["a"] = JobEntry(JobRecord("a", "a", "alice@host", "recipe.yaml"))
        # A worker that left just now.
        board._host_for = lambda _: "tcp://127.0.0.1:9"  # type: ignore[method-assign, assignment]
        for _ in range(2 * MAX_DEATHS):
            await board._start(entry)
        assert (entry.record.state, entry.deaths) == ("waiting", 0)
        assert "cannot start a driver" in entry.record.why
        await board.close()


def test_workers_that_do_not_answer_fail_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_of_jobs, "LEASE_S", 0.2)
    asyncio.run(check_start())
