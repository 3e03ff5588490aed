"""`label=`: a repeated day replaces what it appended, whenever a run died, and other days stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import FuzzyDuplicates, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError, TableWriter
from dcurate.core.stage import Stage
from dcurate.io import output as output_records
from dcurate_testing.appends import FILE_KINDS, TABLE_KINDS, AppendedOutput, write_day
from tests.run.test_appends import DEATHS, Killed


class LabelledRun(NamedTuple):
    """A run with a label, which may be killed.

    Args:
        label: label of its rows; None for none.
        dies_after: number of touched files after which it is killed; None if it is not.
        resume: whether it is asked to resume.
    """

    label: str | None
    dies_after: int | None = None
    resume: bool = False


RUNS = st.lists(
    st.builds(
        LabelledRun,
        label=st.sampled_from(["monday", "tuesday", None]),
        dies_after=st.none() | st.none() | st.integers(0, 150),
        resume=st.booleans(),
    ),
    min_size=2,
    max_size=5,
)
LABELLED_TABLES = [kind for kind in TABLE_KINDS if kind != "lance"]
MONDAY, TUESDAY = LabelledRun("monday"), LabelledRun("tuesday")
KILLED = [LabelledRun("monday", touches) for touches in range(60, 160, 10)]


@pytest.mark.parametrize("kind", [*FILE_KINDS, *LABELLED_TABLES])
@given(runs=RUNS)
@example(runs=[MONDAY, TUESDAY, MONDAY])
@example(runs=[MONDAY, *KILLED, TUESDAY])
@example(runs=[MONDAY, LabelledRun("monday", 90), LabelledRun("monday", resume=True)])
@settings(max_examples=8, deadline=None)
def test_the_rows_of_a_label_are_those_of_its_last_run_that_ended(kind: str, runs: list[LabelledRun]) -> None:
    with TemporaryDirectory() as scratch:
        output = AppendedOutput(kind, Path(scratch, "place"))
        output.create()
        # What each label may have: of a run that died, all rows or none, as it ends, or another run takes them away.
        may_have: dict[str, list[Counter[str]]] = {}
        others, doubtful = Counter[str](), Counter[str]()
        for number, run in enumerate(runs):
            texts: dict[str, Sequence[str]] = {
                f"p{file}.parquet": [f"run{number}file{file}row{row}" for row in range(2)] for file in range(2)
            }
            rows = Counter(text for part in texts.values() for text in part)
            act = partial(output.run, write_day(Path(scratch, f"in{number}"), texts), run.resume, label=run.label)
            died = run.dies_after is not None and DEATHS.strike(act, run.dies_after)
            if run.dies_after is None:
                act()
            present = output.rows() if number or not died else Counter[str]()
            for label, ways in may_have.items():
                assert any(not way - present for way in [*ways, *([rows] if label == run.label else [])])
            if run.label is None:
                # What a run without a label wrote stays, whether it ended or not; see `test_appends`.
                doubtful += rows
                others += Counter() if died else rows
            elif died:
                may_have[run.label] = [*may_have.get(run.label, [Counter()]), rows]
            else:
                may_have[run.label] = [rows]
                for label, ways in may_have.items():
                    shown = present & sum(ways, Counter[str]())
                    assert shown in ways
                    may_have[label] = [shown]
                assert not others - present
                expected = sum((way for [way] in may_have.values()), Counter[str]()) + others
                assert not present - expected - doubtful


@pytest.mark.parametrize("kind", FILE_KINDS)
@pytest.mark.parametrize("next_label", ["tuesday", "monday", None])
def test_what_a_repeated_day_wrote_before_it_died_goes_when_another_run_begins(
    kind: str, next_label: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = AppendedOutput(kind, tmp_path / "place")
    output.create()
    sources = {text: write_day(tmp_path / text, {"p0.parquet": [text]}) for text in ("old", "new", "other")}
    output.run(sources["old"], label="monday")

    with monkeypatch.context() as patch:
        patch.setattr(output_records, "complete_label", lambda *_: DEATHS.die())
        with pytest.raises(Killed):
            output.run(sources["new"], label="monday")
    assert output.rows()["old"] == 1
    output.run(sources["other"], label=next_label)

    assert output.rows() == Counter(["other"] if next_label == "monday" else ["old", "other"])


@pytest.mark.parametrize("kind", FILE_KINDS)
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_died_while_it_replaced_rows_has_replaced_them(
    kind: str, resume: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = AppendedOutput(kind, tmp_path / "place")
    output.create()
    sources = {text: write_day(tmp_path / text, {"p0.parquet": [text]}) for text in ("old", "new", "other")}
    output.run(sources["old"], label="monday")

    with monkeypatch.context() as patch:
        patch.setattr(output_records, "remove_runs", lambda _, runs: DEATHS.die() if runs else None)
        with pytest.raises(Killed):
            output.run(sources["new"], label="monday")
    assert output.rows()["new"] == 1
    if resume:
        output.run(sources["new"], resume=True, label="monday")
        assert output.rows() == Counter(["new"])
    output.run(sources["other"], label="tuesday")

    assert output.rows() == Counter(["new", "other"])


def test_rows_that_a_replaced_run_rejected_are_not_kept_either(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    for bad in ("one", "two"):
        source.write_text(f'{{"text": "good"}}\n{{"text": {bad}\n')
        stages: list[Stage] = [
            JsonlReader(str(source), on_bad_line="quarantine"),
            JsonlWriter(str(tmp_path / "out"), mode="append", label="monday"),
        ]
        Pipeline("day", stages=stages).run(InlineExecutor(), observers=[])

    [quarantined] = (tmp_path / "out.dcurate" / "quarantine").rglob("*.jsonl")
    assert "two" in quarantined.read_text()


def _texts(folder: Path) -> list[str]:
    return sorted(line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines())


def _curate(folder: Path, label: str, texts: list[str], resume: bool = False) -> list[str]:
    """Append texts under a label, without near-duplicates of what other labels have."""
    (folder / f"{label}.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    stages: list[Stage] = [
        JsonlReader(str(folder / f"{label}.jsonl")),
        FuzzyDuplicates(index_path=str(folder / "seen")),
        JsonlWriter(str(folder / "out"), mode="append", label=label),
    ]
    Pipeline("day", stages=stages).run(InlineExecutor(), observers=[], resume=resume)
    return _texts(folder / "out")


def test_a_repeated_day_is_not_a_duplicate_of_itself(tmp_path: Path) -> None:
    one, two, three = (f"{word} " * 3 + f"is the text that begins with the word {word}" for word in ("a", "b", "c"))

    assert len(_curate(tmp_path, "monday", [one, two])) == 2
    assert len(_curate(tmp_path, "tuesday", [three, three])) == 3
    assert len(_curate(tmp_path, "wednesday", [one])) == 3
    repeated = _curate(tmp_path, "monday", [one, two, three])
    assert sum(one in row for row in repeated) == 1  # wednesday dropped its copy
    assert sum(three in row for row in repeated) == 2  # tuesday is as it was
    assert len(repeated) == 4


def test_a_repeated_day_replaces_its_rows_also_where_it_is_asked_to_resume(tmp_path: Path) -> None:
    output = AppendedOutput("parquet", tmp_path / "place")
    for texts in (["old"], ["new", "more"]):
        output.run(write_day(tmp_path / "in", {"p0.parquet": texts}), resume=True, label="monday")
        before = output.rows()
        output.run(tmp_path / "in", resume=True, label="monday")  # has nothing to do

        assert output.rows() == before == Counter(texts)


def test_rows_without_a_label_stay(tmp_path: Path) -> None:
    output = AppendedOutput("jsonl", tmp_path / "place")
    output.run(write_day(tmp_path / "before", {"p0.parquet": ["before"]}), mode="error")
    for text in ("old", "new"):
        output.run(write_day(tmp_path / text, {"p0.parquet": [text]}), label="monday")

    assert output.rows() == Counter(["before", "new"])


def test_overwriting_forgets_all_labels(tmp_path: Path) -> None:
    output = AppendedOutput("jsonl", tmp_path / "place")
    source = write_day(tmp_path / "in", {"p0.parquet": ["a"]})
    output.run(source, label="monday")
    output.run(source, mode="overwrite")
    output.run(source, label="monday")

    assert output.rows() == Counter(["a", "a"])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"label": "monday"}, "mode='error' does not add rows to those of others; give mode='append'"),
        ({"label": "", "mode": "append"}, "must be text"),
        ({"label": 28, "mode": "append"}, "must be text"),
    ],
)
def test_a_label_that_has_no_meaning_is_refused(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        JsonlWriter("out", **settings)  # type: ignore[arg-type]


def test_a_table_of_lance_has_no_labels() -> None:
    with pytest.raises(PipelineError, match="of a table of Lance no rows are replaced by their label; leave out"):
        TableWriter("out", format="lance", mode="append", label="monday")
