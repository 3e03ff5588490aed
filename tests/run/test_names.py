"""Names that users give become no name of a file that a file system refuses, or that lies elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    DaskExecutor,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Modify,
    Pipeline,
    PipelineError,
    Score,
    ScoreFilter,
)
from dcurate.core.names import LONGEST
from dcurate.text import WordCountFilter
from dcurate.text.presets import gopher

pytestmark = pytest.mark.cluster

NAMES = ["n" * 5000, "ü" * 200, "a/b", "../../outside", ".", "..", "a\nb", "*?<>|:", "%", "CON", ""]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The folders and files that are made, wherever they are."""
    made: set[str] = set()
    opened, makedirs, mkdir = os.open, os.makedirs, os.mkdir
    for module, name, function in ((os, "makedirs", makedirs), (os, "mkdir", mkdir), (os, "open", opened)):

        def told(path: Any, *arguments: Any, _function: Any = function, **named: Any) -> Any:
            made.add(os.fsdecode(path) if not isinstance(path, int) else "")
            return _function(path, *arguments, **named)

        monkeypatch.setattr(module, name, told)
    return made


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    rows = "".join(f'{{"text": "{text}"}}\n' for text in ("one two", "one", "one two", "three four"))
    (tmp_path / "in" / "a.jsonl").write_text(rows)
    return str(tmp_path / "in")


@pytest.mark.parametrize("name", [name for name in NAMES if name], ids=lambda name: name[:9])
@pytest.mark.parametrize("writes", [True, False])
def test_stages_of_any_name_run_and_write_within_the_output(
    name: str, writes: bool, source: str, tmp_path: Path, made: set[str]
) -> None:
    out = tmp_path / "far" / "within" / "out"
    stages: list[Any] = [
        JsonlReader(source).with_(name=f"{name}-read"),
        ScoreFilter(WordCountFilter(min_words=2), name=name),
        ExactDuplicates(name=f"{name}-twice"),
        *([JsonlWriter(str(out), name=f"{name}-write")] if writes else []),
    ]
    result = Pipeline(name, stages=stages).run(
        InlineExecutor(), rejected=str(tmp_path / "far" / "rejected") if writes else None
    )
    assert result.report.stages[-1].rows_out == 2
    assert {step for path in made for step in path.split("/") if len(step.encode()) > 255} == set()
    if writes:
        assert {path.name for path in tmp_path.iterdir()} == {"in", "far"}
        assert {path.name for path in (tmp_path / "far").iterdir()} == {"within", "rejected"}


def test_a_chain_of_many_filters_runs_without_a_writer(source: str, cluster: LocalCluster) -> None:
    stages: list[Any] = [JsonlReader(source), ScoreFilter(list(gopher("dclm"))), ScoreFilter(list(gopher("datatrove")))]
    for executor in (InlineExecutor(), DaskExecutor(cluster=cluster)):
        result = Pipeline("p", stages=stages).run(executor)
        assert sum(result.report.stages[1].dropped.values()) == 4


def test_generated_names_are_short_and_tell_chains_apart() -> None:
    functions: list[Any] = [str.strip, str.lower, str.upper, str.title] * 5
    makes: tuple[Any, ...] = (
        lambda rules: ScoreFilter(rules).name,
        lambda rules: Score(rules, [f"c{number}" for number, _ in enumerate(rules)]).name,
        lambda rules: Modify([functions[len(rules) % 4], *functions]).name,
    )
    rules: list[Any] = [*gopher("dclm"), *gopher("datatrove")]
    for make in makes:
        names = [make(rules), make(rules[:-1]), make(rules[:-2])]
        assert len(set(names)) == 3
        assert all(len(name) <= LONGEST for name in names)
        assert names == [make(rules), make(rules[:-1]), make(rules[:-2])]


#: What a run keeps in the folder of its records.
OWN = ["quarantine", "ledger", "tmp", "output.json", "running", "report.json", "finished.json", "strays", "rounds"]


@pytest.mark.parametrize("name", OWN)
def test_a_stage_of_rounds_may_have_the_name_of_what_a_run_keeps(name: str, source: str, tmp_path: Path) -> None:
    with open(f"{source}/a.jsonl", "a") as file:
        file.write("{broken\n")
    stages = [
        JsonlReader(source, on_bad_line="quarantine"),
        ExactDuplicates(name=name),
        JsonlWriter(str(tmp_path / "out")),
    ]
    report = Pipeline("names", stages=stages).run(InlineExecutor()).report
    assert [(stage.rows_in, stage.rows_out) for stage in report.stages] == [(5, 4), (4, 3), (3, 3)]
    assert report.quarantine_path is not None
    (kept,) = Path(report.quarantine_path).glob("*.jsonl")
    assert kept.read_text().count("\n") == 1
    (written,) = (tmp_path / "out").glob("*.jsonl")
    assert written.read_text().count("\n") == 3
    resumed = Pipeline("names", stages=stages).run(InlineExecutor(), resume=True).report
    assert resumed.splits_before == 1


def test_a_stage_with_the_name_of_one_that_another_makes_for_its_rounds_is_refused(source: str, tmp_path: Path) -> None:
    stages = [JsonlReader(source), ExactDuplicates(), JsonlWriter(str(tmp_path / "out"))]
    names = {stage.name for stage in ExactDuplicates().map_stages(str(tmp_path), {})} | {"exact_duplicates_marks"}
    for name in names:
        named = [*stages[:2], ExactDuplicates(name=name), JsonlWriter(str(tmp_path / name))]
        with pytest.raises(PipelineError, match=f"stage '{name}' has the name of a stage that 'exact_duplicates'"):
            Pipeline("names", stages=named).run(InlineExecutor())


@pytest.mark.parametrize("place", ["out", "out/", "out.dcurate", "out.dcurate/quarantine"])
def test_rejected_rows_are_kept_apart_from_output_and_records(place: str, source: str, tmp_path: Path) -> None:
    stages = [JsonlReader(source), ExactDuplicates(), JsonlWriter(str(tmp_path / "out"))]
    with pytest.raises(PipelineError, match="is where the output or records of the run are; name another folder"):
        Pipeline("names", stages=stages).run(InlineExecutor(), rejected=f"{tmp_path}/{place}")
    assert not (tmp_path / "out").exists()
    report = Pipeline("names", stages=stages).run(InlineExecutor(), rejected=str(tmp_path / "out-rejected")).report
    assert report.stages[1].rows_out == 3
    assert len(list((tmp_path / "out-rejected").glob("*.jsonl"))) == 1
