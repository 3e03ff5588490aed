"""Runs that append, one day after the other: what a finished run has written stays, and each row is there once."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import (
    DataError,
    DcurateError,
    DocumentBatch,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ScoreFilter,
    TableWriter,
)
from dcurate.core.ledger import SplitRecord
from dcurate.fs.stores import Directory
from dcurate.io import earlier_runs
from dcurate.io.ledger import saved_records
from dcurate.text import WordCountFilter
from dcurate_testing.appends import FILE_KINDS, TABLE_KINDS, AppendedOutput, write_day
from tests.deadly import Broken
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

    def die(self) -> None:
        """Die now."""
        raise Killed

    def strike(self, act: Callable[[], object], touches: int) -> bool:
        """Do something that dies after a number of files; return whether it did."""
        self.left = touches
        try:
            act()
        except Killed:
            return True
        finally:
            self.left = None
        return False


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
                DEATHS.strike(partial(output.run, source), day.dies_after)
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


def three(kind: str, folder: Path) -> tuple[AppendedOutput, list[Path], list[Counter[str]]]:
    """An output, and three inputs whose files have the same names, with their rows."""
    output = AppendedOutput(kind, folder / "place")
    output.create()
    texts = [[f"input{number}row{row}" for row in range(3)] for number in range(3)]
    sources = [write_day(folder / f"in{number}", {"p0.parquet": own}) for number, own in enumerate(texts)]
    return output, sources, list(map(Counter, texts))


@dataclass
class Meanwhile(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Does something else before it lets a batch pass."""

    act: Callable[[], object]
    name: str = "meanwhile"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.act()
        return task


def test_a_table_of_lance_that_another_run_makes_meanwhile_is_appended_to_by_a_resumed_run(tmp_path: Path) -> None:
    pytest.importorskip("lance")
    output, sources, rows = three("lance", tmp_path)
    reader, writer = output.stages(sources[0])
    stages = [reader, Meanwhile(lambda: output.rows() or output.run(sources[1])), writer]
    with pytest.raises(DataError, match="another program made table .* meanwhile; nothing was committed: go on with"):
        Pipeline("append", stages=stages).run(InlineExecutor(), observers=[])
    assert output.rows() == rows[1]
    Pipeline("append", stages=stages).run(InlineExecutor(), observers=[], resume=True)
    assert output.rows() == rows[0] + rows[1]


@pytest.mark.parametrize(
    ("kind", "existing"), [(kind, there) for kind in TABLE_KINDS for there in (False, True) if there or kind != "lance"]
)
def test_appends_to_a_table_within_each_other_all_count(kind: str, existing: bool, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    if existing:
        output.run(sources[2])
    reader, writer = output.stages(sources[0])
    inner = Meanwhile(lambda: output.run(sources[1]))
    Pipeline("append", stages=[reader, inner, writer]).run(InlineExecutor(), observers=[])
    assert output.rows() == rows[0] + rows[1] + (rows[2] if existing else Counter())
    for source in sources[1 : 2 + existing]:
        output.run(source, resume=True)  # each goes on with the run that has read it
    assert output.rows() == rows[0] + rows[1] + (rows[2] if existing else Counter())


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_appends_to_a_table_at_once_all_count(kind: str, resume: bool, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    first = write_day(tmp_path / "first", {"p0.parquet": ["first"]})
    output.run(first)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda source: output.run(source, resume), sources))
    assert output.rows() == rows[0] + rows[1] + rows[2] + Counter(["first"])


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_a_killed_append_goes_on_beside_another(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, sources, rows = three(kind, tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "complete", lambda *_: DEATHS.die())
        with pytest.raises(Killed):
            output.run(sources[0])
    output.run(sources[1], resume=True)
    output.run(sources[0], resume=True)
    output.run(sources[1], resume=True)
    assert output.rows() == rows[0] + rows[1]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "tokens"])
def test_of_two_appends_to_a_folder_one_ends_with_a_sentence_and_no_file_is_replaced(kind: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    output.run(sources[2])

    def meanwhile() -> None:
        (tmp_path / "place" / "out.dcurate" / "owner.json").unlink()  # where nothing keeps the other out
        output.run(sources[1])

    reader, *writers = output.stages(sources[0])
    stages = [reader, Meanwhile(meanwhile), *writers]
    sentence = "another run wrote to .*out' at the same time, .* which have '-g1' in their names, and append again"
    with pytest.raises(DataError, match=sentence):
        Pipeline("append", stages=stages).run(InlineExecutor(), observers=[])
    assert not (rows[1] + rows[2]) - output.rows()


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_append_is_not_replaced_by_changed_input(kind: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    output.run(sources[0])
    output.run(sources[1], resume=True)
    write_day(sources[1], {"p0.parquet": list("abc")})
    for _ in range(2):
        with pytest.raises(DataError, match="are of input that changed since .* so the new rows would come twice; add"):
            output.run(sources[1], resume=True)
        assert output.rows() == rows[0] + rows[1]
    output.run(sources[1])
    assert output.rows() == rows[0] + rows[1] + Counter("abc")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("rounds", "tokens")])
def test_a_resumed_append_adds_what_came_to_its_input(kind: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    output.run(sources[0])
    write_day(sources[0], {"p1.parquet": list("abc")})
    for _ in range(2):
        output.run(sources[0], resume=True)
        assert output.rows() == rows[0] + Counter("abc")


@pytest.mark.parametrize("mode", ["append", "error", "overwrite"])
@pytest.mark.parametrize("kind", ["jsonl", *TABLE_KINDS])
def test_the_advice_for_a_run_that_cannot_be_resumed_works(kind: str, mode: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    output.run(sources[0], mode=mode)

    def run(mode: str, resume: bool = False) -> None:
        reader, writer = output.stages(sources[0], mode=mode)
        stages = [reader, ScoreFilter(WordCountFilter(1)), writer]
        Pipeline("append", stages=stages).run(InlineExecutor(), observers=[], resume=resume)

    write_day(sources[0], {"p1.parquet": list("abc")})
    with pytest.raises(PipelineError, match="was begun by another pipeline") as refusal:
        run(mode, resume=True)
    advice = str(refusal.value)
    assert ("mode='append'" in advice) is (kind in TABLE_KINDS or mode == "append")
    expected = rows[0]
    for advised in ("append", "overwrite"):
        if f"mode={advised!r}" in advice:
            run(advised)
            expected = rows[0] + Counter("abc") + (expected if advised == "append" else Counter())
            assert output.rows() == expected


def test_a_notice_of_removed_input_does_not_advise_to_replace_what_was_appended(tmp_path: Path) -> None:
    output, sources, rows = three("jsonl", tmp_path)
    write_day(sources[0], {"p1.parquet": list("abc")})
    output.run(sources[0])
    (sources[0] / "p0.parquet").unlink()
    (notice,) = output.run(sources[0], resume=True).report.notices
    assert "1 splits that the input does not have any more" in notice
    assert "overwrite" not in notice
    assert output.rows() == rows[0] + Counter("abc")


@pytest.mark.parametrize("repaired_first", [False, True])
@pytest.mark.parametrize("kind", ["jsonl", "parquet", *TABLE_KINDS])
def test_a_resumed_append_reads_a_file_that_could_not_be_read(kind: str, repaired_first: bool, tmp_path: Path) -> None:
    output, mark, source = AppendedOutput(kind, tmp_path / "place"), tmp_path / "mark", tmp_path / "in"
    output.create()
    mark.touch()
    source.mkdir()

    def add(name: str) -> None:
        (source / name).write_text(f'{{"text": "row of {name}"}}\n')

    def run() -> Counter[str]:
        reader = Broken(str(source), files_per_partition=1, mark=str(mark)).with_(ignore_failures=True)
        stages = [reader, output.stages(source)[-1]]
        Pipeline("append", stages=stages).run(InlineExecutor(), observers=[], resume=True)
        return output.rows()

    def repair() -> None:
        mark.unlink()
        (source / "b.jsonl").write_text('{"text": "repaired row of b.jsonl"}\n')

    changes = [lambda: add("c.jsonl"), repair]
    for name in ("a.jsonl", "b.jsonl"):
        add(name)
    assert run() == run() == Counter(["row of a.jsonl"])
    for change in reversed(changes) if repaired_first else changes:
        change()
        names = {path.name for path in source.iterdir()}
        expected = {f"row of {name}" for name in names - {"b.jsonl"}}
        assert run() == Counter(expected if mark.exists() else expected | {"repaired row of b.jsonl"})
    assert run() == Counter(["row of a.jsonl", "repaired row of b.jsonl", "row of c.jsonl"])


@pytest.mark.parametrize("kind", KINDS)
def test_input_of_a_run_before_the_last_is_not_appended_again(kind: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    for source in sources[:2]:
        output.run(source, resume=True)
    if kind in TABLE_KINDS:
        output.run(sources[0], resume=True)
    else:
        with pytest.raises(DataError, match="so the new rows would come twice"):
            output.run(sources[0], resume=True)
    assert output.rows() == rows[0] + rows[1]


def records_in_memory() -> int:
    """How many records of splits there are; ``isinstance`` would ask proxies of Torch, which warn."""
    gc.collect()
    return sum(type(value) is SplitRecord for value in gc.get_objects())


def test_a_resumed_append_holds_the_records_of_few_earlier_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake")
    output = AppendedOutput("delta", tmp_path / "place")
    held = []

    def counted(directory: Directory) -> Any:
        records = saved_records(directory)
        held.append(records_in_memory() - before)
        return records

    for day in range(8):
        source = write_day(tmp_path / f"day{day}", {"p0.parquet": [f"{day}"]})
        output.run(source, resume=True)
    monkeypatch.setattr(earlier_runs, "saved_records", counted)
    before = records_in_memory()
    output.run(write_day(tmp_path / "last", {"p0.parquet": ["last"]}), resume=True)
    assert len(held) == 8
    assert max(held) <= 3
    assert output.rows() == Counter([*map(str, range(8)), "last"])


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_a_run_that_was_refused_does_not_keep_the_next_from_making_the_table(kind: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    (sources[0] / "p1.parquet").write_bytes(b"no Parquet")
    with pytest.raises(DcurateError):
        output.run(sources[0], mode="error")
    (sources[0] / "p1.parquet").unlink()
    output.run(sources[0], mode="error")
    assert output.rows() == rows[0]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("last", ["jsonl", "parquet", "rounds"])
def test_a_preparation_that_is_killed_anywhere_is_done_again(last: str, mode: str, tmp_path: Path) -> None:
    for touches in range(1000):
        output, sources, rows = three(last, tmp_path / f"{touches}")
        output.run(sources[0])
        writer = output.stages(sources[1], mode=mode)[-1]
        if not DEATHS.strike(partial(writer.prepare, resume=False), touches):
            break
        kept = Counter[str]() if mode == "overwrite" else rows[0]
        output.run(sources[1], resume=True, mode=mode)
        assert output.rows() == kept + rows[1]
    assert touches > 5


@pytest.mark.parametrize("first", ["append", "error"])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("kind", ["jsonl", *TABLE_KINDS])
def test_rejected_rows_of_earlier_days_stay(kind: str, keeps: bool, first: str, tmp_path: Path) -> None:
    output = AppendedOutput(kind, tmp_path / "place")
    output.create()
    for day in range(3):
        (tmp_path / f"day{day}").mkdir()
        lines = [f'{{"text": "kept on {day}"}}'] * keeps + [f'{{"text": "{day}"}}', f"broken {day}"]
        (tmp_path / f"day{day}" / "a.jsonl").write_text("\n".join(lines) + "\n")
        writer = output.stages(tmp_path, mode="append" if day else first)[-1]
        reader = JsonlReader(str(tmp_path / f"day{day}"), on_bad_line="quarantine")
        stages = [reader, ScoreFilter(WordCountFilter(2)), writer]
        rejected = str(tmp_path / "rejected")
        report = Pipeline("append", stages=stages).run(InlineExecutor(), rejected=rejected, resume=day > 1).report
        assert report.quarantine_path is not None
        for folder, word in ((report.quarantine_path, "broken {}"), (rejected, '"{}"')):
            texts = [path.read_text() for path in Path(folder).rglob("*.jsonl")]
            assert all(sum(word.format(number) in text for text in texts) == 1 for number in range(day + 1))


@pytest.mark.parametrize("kind", ["jsonl", "delta"])
def test_an_index_keeps_all_days_where_records_are_deleted(kind: str, tmp_path: Path) -> None:
    output = AppendedOutput(kind, tmp_path / "place")
    output.create()
    texts = [" ".join(f"word{day * 100 + n}" for n in range(60)) for day in range(4)]
    for day in range(5):
        source = write_day(tmp_path / f"day{day}", {"p0.parquet": texts[: day + 1]})
        reader, writer = output.stages(source)
        stages = [reader, FuzzyDuplicates(index_path=str(tmp_path / "seen")), writer]
        Pipeline("append", stages=stages).run(InlineExecutor(), observers=[])
        assert output.rows() == Counter(texts[: day + 1])
        if day == 1:
            output.forget()


@dataclass
class Turns(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Runs the same pipeline once more, as another process would that thinks the first dead, at its second batch."""

    output: AppendedOutput
    source: Path
    name: str = "turns"

    def stages(self) -> list[Any]:
        reader, writer = self.output.stages(self.source)
        return [reader, self, writer]

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        turn = self.source.parent / "turn"
        if task.key is not None and task.key.split == "p1.parquet" and not turn.exists():
            turn.touch()
            for path in self.source.parent.rglob("owner.json"):
                path.unlink()
            Pipeline("append", stages=self.stages()).run(InlineExecutor(), observers=[], resume=True)
        return task


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_of_two_processes_that_go_on_with_one_append_one_commits(kind: str, tmp_path: Path) -> None:
    output, sources, rows = three(kind, tmp_path)
    output.run(sources[1])
    turns = Turns(output, sources[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableWriter, "complete", lambda *_: DEATHS.die())
        assert DEATHS.strike(lambda: Pipeline("a", stages=turns.stages()).run(InlineExecutor(), observers=[]), 10**9)
    write_day(sources[0], {"p1.parquet": list("abc")})
    with pytest.raises(DataError, match="another process goes on with this run, .* let the other one end"):
        Pipeline("append", stages=turns.stages()).run(InlineExecutor(), observers=[], resume=True)
    assert output.rows() == rows[0] + rows[1] + Counter("abc")
