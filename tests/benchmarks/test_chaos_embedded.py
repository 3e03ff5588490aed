"""Kills of each sort in each phase of runs with workers of their own; `benchmarks.chaos` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos_embedded import ROWS, Blow, fits, one_run, rows_of, write_input

#: Until a run whose workers are killed as often as they are started has ended, in seconds; much of it is the machine's.
ENDS_S = 120.0

#: By the phase of a run: files that its output has then.
PHASES = {"start": "in", "first round": "out.dcurate/rounds/exact_duplicates", "last round": "out/*.jsonl"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_input(tmp_path / "in")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("phase", "victim"),
    [("start", "all workers"), ("first round", "all but the driver"), ("last round", "the resource tracker")],
)
def test_a_run_whose_processes_are_killed_ends_well_and_without_a_word(
    phase: str, victim: str, source: Path, tmp_path: Path
) -> None:
    blow = Blow(victim, lambda _: any(tmp_path.glob(PHASES[phase])))
    run = one_run(source, tmp_path / "out", blow)
    assert run["killed"]
    assert (run["exit_code"], run["said"], run["hung"], run["left_over"]) == (0, [], False, 0)
    assert rows_of(tmp_path / "out") == dict.fromkeys(range(ROWS), 1)


def test_a_run_whose_workers_are_killed_whenever_they_start_ends_with_one_sentence(
    source: Path, tmp_path: Path
) -> None:
    run = one_run(source, tmp_path / "out", Blow("all workers", lambda _: True, again=True))
    assert run["exit_code"] == 1
    assert fits(run), run["said"]
    assert "worker processes are killed while they start, 4 times in a row" in run["said"][0]
    assert run["seconds"] < ENDS_S
