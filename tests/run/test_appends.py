"""Runs that append, one day after the other: what a finished run has written stays, and each row is there once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate_testing.appends import FILE_KINDS, TABLE_KINDS, AppendedOutput, write_day
from tests.dying import TOUCHES

KINDS = [*FILE_KINDS, *TABLE_KINDS]


class Killed(BaseException):
    """The run died."""


@dataclass
class Deaths:
    """Lets the process touch a number of files, and none after that: what is cleaned up later is not, as after a kill.

    Args:
        left: how many it may still touch; None for any number.
    """

    left: int | None = None

    def look(self, event: str, _: Sequence[Any]) -> None:
        if self.left is not None and event in TOUCHES:
            if self.left <= 0:
                raise Killed
            self.left -= 1

    @contextmanager
    def after(self, touches: int) -> Iterator[None]:
        """Die after a number of files."""
        self.left = touches
        try:
            yield
        except Killed:
            pass
        finally:
            self.left = None


DEATHS = Deaths()
sys.addaudithook(DEATHS.look)


@dataclass(frozen=True)
class Day:
    """A day's input, and how it is appended.

    Args:
        files: how many it has, of the same names every day.
        dies_after: number of touched files after which the first try is killed; None if it is not.
        resume: whether the run that ends well is asked to resume.
        forgets: whether the records are deleted afterwards.
        repeats: whether it is resumed once more when it has finished.
    """

    files: int
    dies_after: int | None
    resume: bool
    forgets: bool
    repeats: bool


DAYS = st.lists(
    st.builds(
        Day,
        files=st.integers(1, 2),
        dies_after=st.none() | st.integers(0, 150),
        resume=st.booleans(),
        forgets=st.booleans(),
        repeats=st.booleans(),
    ),
    min_size=2,
    max_size=3,
)
WELL = Day(1, None, False, False, False)
GONE = Day(1, None, False, True, False)
RESUMED = Day(1, None, True, False, False)
KILLED = [Day(1, touches, True, False, False) for touches in range(0, 30, 3)]


@pytest.mark.parametrize("kind", KINDS)
@given(days=DAYS)
@example(days=[GONE, GONE, WELL])
@example(days=[WELL, RESUMED, RESUMED])
@example(days=[WELL, *KILLED[:5]])
@example(days=[WELL, *KILLED[5:]])
@settings(max_examples=6)
def test_rows_of_finished_runs_stay_and_come_once(kind: str, days: list[Day]) -> None:
    with TemporaryDirectory() as scratch:
        output = AppendedOutput(kind, Path(scratch, "place"))
        output.create()
        rows = Counter[str]()
        for number, day in enumerate(days):
            texts = {f"p{file}.parquet": [f"day{number}file{file}row{row}" for row in range(3)] for file in range(2)}
            source = write_day(Path(scratch, f"day{number}"), dict(list(texts.items())[: day.files]))
            own = {text for part in list(texts.values())[: day.files] for text in part}
            if day.dies_after is not None:
                before = output.rows() if number else Counter[str]()
                with DEATHS.after(day.dies_after):
                    output.run(source)
                assert not before - output.rows() if number else True
            # Without resume, what a killed run wrote to a folder or committed to a table stays there.
            again = day.dies_after is not None and not day.resume
            output.run(source, day.resume)
            found = output.rows()
            assert {text: found[text] for text in rows} == rows
            assert set(found) == {*rows, *own}
            assert all(found[text] == 1 or (again and found[text] == 2) for text in own)
            rows = found
            if day.repeats:
                output.run(source, resume=True)
                assert output.rows() == rows
            if day.forgets:
                output.forget()
