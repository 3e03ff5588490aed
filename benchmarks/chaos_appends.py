"""Kill runs that append, to files and to tables, at random moments: what finished runs wrote stays, and comes once.

``python -m benchmarks.chaos_appends [--kills 200] [--days 4] [--seed 0] [--json FILE]``

For each writer the input of one day after the other is appended, its files of the same names every day. A run is a
process of its own, forked with all modules loaded, and is killed by SIGKILL: in half of the tries at one of the files
that the `prepare` of its writer touches, in the others after a random part of the time that a run takes. Then it is
started again with ``resume=True``, until the kills of the day have struck, and left to end. After every second day all
records beside the output are deleted. After each kill and each end the rows are counted with other libraries than those
that wrote them. Kills of a run that had ended already do not count.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import called, machine, save, scratch_folder, table, versions
from dcurate.io.sink import FileWriter
from dcurate_testing.appends import FILE_KINDS, TABLE_KINDS, TABLE_LIBRARIES, AppendedOutput, write_day

FILES, ROWS = 6, 20
#: Files that `prepare` touches, about, and tries for each kill that is to strike before the end of a run.
TOUCHES, TRIES = 12, 4
#: Audit events of Python before it touches files; `os.replace` raises that of a rename.
EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link"}


@dataclass
class Campaign:
    """Kills of the runs of one writer.

    Args:
        output: what is appended to.
        draw: of moments.
        whole_s: seconds that a run takes when it is left alone.
    """

    output: AppendedOutput
    draw: random.Random
    whole_s: float = 0.0
    struck: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    failed: int = 0
    finished: Counter[str] = field(default_factory=Counter)

    def day(self, source: Path, own: Sequence[str], kills: int) -> None:
        """Append a day, with kills."""
        before = sum(self.struck.values())
        for _ in range(TRIES * kills):
            if sum(self.struck.values()) == before + kills:
                break
            self.kill(source)
            self.lost += (self.finished - _asked(self.output.rows)).total()
        begun = time.monotonic()
        self.failed += _ended(_forked(lambda: self.output.run(source, resume=True))) != 0
        self.whole_s = self.whole_s or time.monotonic() - begun
        self.finished += Counter(own)
        rows = _asked(self.output.rows)
        self.lost += (self.finished - rows).total()
        self.doubled += (rows - self.finished).total()

    def kill(self, source: Path) -> None:
        """Start a run, and kill it in `prepare` or at any time."""
        prepares = self.draw.random() < 0.5
        touches = self.draw.randrange(TOUCHES)

        def act() -> None:
            if prepares:
                _die_in_prepare(touches)
            self.output.run(source, resume=True)

        child = _forked(act)
        if not prepares:
            time.sleep(self.draw.uniform(0.0, 1.0) * self.whole_s)
            os.kill(child, signal.SIGKILL)
        code = _ended(child)
        self.failed += code > 0
        if code == -signal.SIGKILL:
            self.struck["in prepare" if prepares else "at any time"] += 1


def _die_in_prepare(touches: int) -> None:
    """Have this process die in `prepare` of the writer after it has touched a number of files."""
    left, inside = touches, False

    def look(event: str, _: Sequence[Any]) -> None:
        nonlocal left
        if inside and event in EVENTS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def watched(prepare: Callable[[Any, bool], None]) -> Callable[[Any, bool], None]:
        def go(self: Any, resume: bool) -> None:
            nonlocal inside
            inside = True
            prepare(self, resume)
            inside = False

        return go

    for kind in [FileWriter, *_below(FileWriter)]:
        if "prepare" in vars(kind):
            setattr(kind, "prepare", watched(vars(kind)["prepare"]))  # noqa: B010 - it is a type of any writer
    sys.addaudithook(look)


def _below(kind: type) -> list[type]:
    return [each for child in kind.__subclasses__() for each in (child, *_below(child))]


def _forked(act: Callable[[], object]) -> int:
    """Run a function in a process of its own; return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        act()
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(code)


def _ended(child: int) -> int:
    """Wait for a process; return its exit code, negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _asked(act: Callable[[], Mapping[str, int]]) -> Counter[str]:
    """Return what a function returns in a process of its own: threads of libraries of tables outlive no fork."""
    reads, writes = os.pipe()
    child = _forked(lambda: os.write(writes, pickle.dumps(dict(act()))))
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        data = file.read()
    if _ended(child):
        raise RuntimeError("the rows cannot be counted")
    return Counter(pickle.loads(data))


def campaign(kind: str, at: Path, kills: int, days: int, draw: random.Random) -> dict[str, Any]:
    """Append day after day to an output of a kind, with kills."""
    output = AppendedOutput(kind, at)
    assert _ended(_forked(output.create)) == 0
    run = Campaign(output, draw)
    begun = time.monotonic()
    for day in range(days):
        texts = [[f"day{day}file{file}row{row}" for row in range(ROWS)] for file in range(FILES)]
        source = at / f"in{day}"
        files = {f"p{file}.parquet": own for file, own in enumerate(texts)}
        assert _ended(_forked(lambda source=source, files=files: write_day(source, files))) == 0  # type: ignore[misc]
        share = kills * (day + 1) // days - kills * day // days
        run.day(source, [text for own in texts for text in own], share)
        if day % 2:
            output.forget()
    return {
        "writer": kind,
        "kills": sum(run.struck.values()),
        **{f"kills_{name.replace(' ', '_')}": run.struck[name] for name in ("in prepare", "at any time")},
        "rows": sum(run.finished.values()),
        "lost": run.lost,
        "doubled": run.doubled,
        "failed": run.failed,
        "seconds": round(time.monotonic() - begun, 1),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", help="folder for files made on the way")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    draw, kinds = random.Random(options.seed), [*FILE_KINDS, *TABLE_KINDS]
    rows = []
    with scratch_folder("chaos-appends", options.scratch) as scratch:
        os.environ["DCURATE_CACHE"] = str(scratch / "cache")
        for place, kind in enumerate(kinds):
            share = options.kills * (place + 1) // len(kinds) - options.kills * place // len(kinds)
            rows.append(campaign(kind, scratch / kind, share, options.days, draw))
            print(rows[-1], file=sys.stderr, flush=True)
    figures = {"machine": machine(), "versions": versions("pyarrow", *TABLE_LIBRARIES.values()), "writers": rows}
    columns = ["writer", "kills", "kills_in_prepare", "rows", "lost", "doubled", "failed", "seconds"]
    print(table([name.replace("_", " ") for name in columns], [[one[name] for name in columns] for one in rows]))
    sums = {name: sum(one[name] for one in rows) for name in columns[1:-1]}
    print(
        f"{sums['kills']} kills, {sums['kills_in_prepare']} of them in prepare; rows lost: {sums['lost']}, doubled: "
        f"{sums['doubled']}; runs that failed: {sums['failed']}"
    )
    save(options.json, figures)
    sys.exit(1 if sums["lost"] or sums["doubled"] or sums["failed"] else 0)


if __name__ == "__main__":
    called(main)
