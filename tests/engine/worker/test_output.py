"""What is taken of a thread's output: whole lines, once, bounded, and of no other thread."""

from __future__ import annotations

import asyncio
import io
import logging
import multiprocessing
import sys
import threading
from collections.abc import Iterator

import pytest

from dcurate.engine.dask.output import PASSED_AT_ONCE, Relay
from dcurate.engine.worker.output import LONGEST, MOST_SENT, MOST_WAITING, RunOutput, weight


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Iterator[RunOutput]:  # where pytest has its own standard output
    del capsys
    output = RunOutput()
    yield output
    output.close()


def texts(output: RunOutput) -> list[str]:
    """All lines that wait."""
    found: list[str] = []
    while lines := output.take():
        found += [line.text for line in lines]
    return found


def test_lines_are_put_together_of_what_is_written(output: RunOutput) -> None:
    for part in ("a", "b\nc", "\n\n", "d\ne\nf"):
        output.write(part)
    output.write("\r 10%\r 20%")
    output.write("\r 30%\n")
    output.write("windows\r\n")
    assert texts(output) == ["ab", "c", "", "d", "e", " 30%", "windows"]


def test_only_the_thread_that_works_for_a_run_is_heard(output: RunOutput, capsys: pytest.CaptureFixture[str]) -> None:
    other = RunOutput()

    def speaks(run: RunOutput | None, word: str) -> None:
        if run is None:
            print(word)  # noqa: T201
            return
        with run.taken():
            print(word)  # noqa: T201
            asyncio.run(asyncio.to_thread(print, f"{word} of asyncio"))

    threads = [threading.Thread(target=speaks, args=pair) for pair in ((output, "mine"), (other, "its"), (None, "no"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts(output) == ["mine", "mine of asyncio"]
    assert texts(other) == ["its", "its of asyncio"]
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "its", "its of asyncio", "mine", "mine of asyncio", "no"]
    other.close()


def test_what_is_logged_is_taken_once_whatever_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, logger = io.StringIO(), logging.getLogger("test.output")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(sys, "stderr", shown)
    before = sys.stdout, sys.stderr, logging.getLogRecordFactory(), logging.getLogger().level
    output = RunOutput()
    handler = logging.StreamHandler()  # to the standard error of this moment, as a stage has that sets its logging up
    monkeypatch.setattr(logger, "handlers", [handler])
    with output.taken():
        logger.error("%d is odd", 3)
        logging.getLogger("distributed.core").info("of Dask")
        logger.error("wrong %d", "arguments")
        logging.makeLogRecord({"msg": "of elsewhere"})
    output.close()
    first, second, *rest = texts(output)
    assert (first, second) == ("3 is odd", "wrong %d")
    assert rest[0] == "--- Logging error ---"  # logging prints that
    assert shown.getvalue().startswith("3 is odd\n--- Logging error ---\n")
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory(), logging.getLogger().level) == before


def test_what_does_not_fit_is_counted_at_its_place(output: RunOutput) -> None:
    for number in range(MOST_WAITING + 7):
        output.put(str(number), "INFO")
    assert len(output.take()) == MOST_SENT
    output.put("after", "INFO")
    found = texts(output)
    assert found[-3:] == [
        str(MOST_WAITING - 1),
        "7 lines were left out, as more came than can be sent",
        "after",
    ]
    output.write("x" * 10_000_000)
    output.write("x" * 10_000_000 + "\n")
    (long,) = texts(output)
    assert long == "x" * LONGEST
    for _ in range(MOST_WAITING):
        output.put("y" * 100_000, "INFO")
    *lines, last = texts(output)
    assert len(lines) <= MOST_WAITING / weight("y" * LONGEST) + 1
    assert last == f"{MOST_WAITING - len(lines):,} lines were left out, as more came than can be sent"


def test_a_secret_at_the_cut_of_a_line_is_hidden_whole(output: RunOutput) -> None:
    output.put("a" * (LONGEST - 20) + " https://me:password@host/", "INFO")
    (line,) = texts(output)
    assert "me:" not in line
    assert "pass" not in line


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_is_forked_takes_nothing_and_waits_for_nobody(output: RunOutput) -> None:
    with output.taken(), output._lock:  # another thread has it as the child begins
        child = multiprocessing.get_context("fork").Process(target=print, args=("of the child",))
        child.start()
    child.join(60)
    assert child.exitcode == 0
    assert texts(output) == []


class _Scheduler:
    """What a relay uses of a scheduler."""

    def __init__(self) -> None:
        self.workers: dict[str, object] = {}
        self.events: list[dict[str, object]] = []

    def send_all(self, messages: dict[str, list[dict[str, tuple[float, dict[str, object]]]]], _: object) -> None:
        self.events += [message["event"][1] for batch in messages.values() for message in batch]


def test_a_scheduler_passes_on_so_many_lines_of_a_run_and_counts_the_rest() -> None:
    scheduler = _Scheduler()
    relay = Relay(scheduler, "topic", "client")
    lines = [[0.0, "OUT", str(number)] for number in range(MOST_SENT)]
    workers = [f"tcp://10.0.0.{number}:1" for number in range(100)]
    for worker in workers:
        relay.pass_on(worker, lines, False)
    for worker in workers:
        relay.pass_on(worker, [], True)
    passed = [line for event in scheduler.events for line in event["lines"]]  # type: ignore[attr-defined]
    kept = [line for line in passed if line[1] == "OUT"]
    left_out = [int(line[2].split()[0].replace(",", "")) for line in passed if line[1] == "WARNING"]
    assert PASSED_AT_ONCE <= len(kept) < 3 * PASSED_AT_ONCE
    assert len(kept) + sum(left_out) == MOST_SENT * len(workers)
    assert len(scheduler.events) == 2 * len(workers)  # the driver counts them
