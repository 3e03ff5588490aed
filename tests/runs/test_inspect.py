"""What became of documents, of real runs whose documents a person can count."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from dcurate import (
    DaskExecutor,
    DataError,
    Decontaminate,
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    inspect,
    processing_stage,
    read_run,
    trace,
)
from dcurate.cli import cli
from dcurate.core.pipeline import AnyStage
from dcurate.dedup.benchmarks import Benchmark
from dcurate.dedup.decontamination import TaskDecontamination
from dcurate.runs import RunPlaces
from dcurate.runs import inspect as inspect_module
from dcurate.text import WordCountFilter
from dcurate.text.presets import gopher
from tests.places import records

pytestmark = pytest.mark.cluster


@processing_stage(name="brittle")
def brittle(batch: DocumentBatch) -> DocumentBatch:
    if "poison" in " ".join(batch.to_arrow()["text"].to_pylist()):
        raise ValueError("poison is not for me")
    return batch


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files of fifty documents: of each, ten are short, one is poison and two are copies."""
    folder = tmp_path_factory.mktemp("in")
    for part in range(4):
        rows = [
            {"id": f"{part}-{row}", "text": "too short" if row % 5 == 0 else f"this is document {row} of part {part}"}
            for row in range(50)
        ]
        rows[7]["text"] = "poison in it"
        rows[8]["text"] = rows[9]["text"] = "the very same text"
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def run(source: str, folder: Path, executor: object, *, rejected: bool = True, writer: type = JsonlWriter) -> str:
    stages = [
        JsonlReader(source, files_per_partition=1),
        brittle.with_(ignore_failures=True),
        ScoreFilter(WordCountFilter(min_words=3), score_field="words"),
        ExactDuplicates(id_field="id", report_path=str(folder / "groups")),
        writer(str(folder / "out")),
    ]
    Pipeline("traced", stages=stages).run(
        executor,  # type: ignore[arg-type]
        rejected=str(folder / "rejected") if rejected else None,
    )
    return str(folder / "out")


@pytest.fixture(scope="module")
def by_one(source: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of a run in this process, as JSONL."""
    return run(source, tmp_path_factory.mktemp("one"), InlineExecutor())


@pytest.fixture(scope="module")
def by_many(source: str, tmp_path_factory: pytest.TempPathFactory, cluster: LocalCluster) -> str:
    """The output of a run on worker processes, as Parquet."""
    return run(source, tmp_path_factory.mktemp("many"), DaskExecutor(cluster=cluster), writer=ParquetWriter)


@pytest.fixture(scope="module")
def without_rejected(source: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of a run that kept nothing of what it dropped."""
    return run(source, tmp_path_factory.mktemp("without"), InlineExecutor(), rejected=False)


@pytest.fixture(params=["by_one", "by_many"])
def output(request: pytest.FixtureRequest) -> str:
    """The output of a run, one way or the other; only to be read."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def own(by_one: str, tmp_path: Path) -> str:
    """A copy of an output, to be changed."""
    shutil.copytree(Path(by_one).parent, tmp_path / "copy")
    return str(tmp_path / "copy" / "out")


def test_dropped_documents_are_shown_with_their_scores_and_some_that_were_kept(output: str) -> None:
    found = inspect(output, "word_count", n=6)
    assert (found.rows, found.rows_in, found.keeps) == (40, 196, (">= 3", "<= 100000"))
    assert len({one.id for one in found.dropped}) == 6
    assert {(one.score, one.excerpt, one.stage) for one in found.dropped} == {(2, "too short", "word_count")}
    assert all(int(one.id.split("-")[1]) % 5 == 0 for one in found.dropped)
    assert len(found.kept) == 3
    assert all(one.scores["words"] >= 3 and one.stage == "" for one in found.kept)


def test_documents_that_a_stage_could_not_process_are_shown_too(output: str) -> None:
    found = inspect(output, "brittle", n=9, kept=0)
    assert found.rows == len(found.dropped) == 4
    assert {(one.excerpt, one.reason) for one in found.dropped} == {("poison in it", "ValueError")}


def test_the_same_seed_draws_the_same_documents_and_another_draws_others(output: str) -> None:
    first, again, other = (inspect(output, "word_count", n=5, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert {one.id for one in first.dropped} != {one.id for one in other.dropped}


def test_documents_are_drawn_from_several_files_and_not_all_are_read(
    output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_module, "FILES", 2)
    monkeypatch.setattr(inspect_module, "PLENTY", 2)
    found = inspect(output, "word_count", n=3)
    assert found.looked.startswith("3 drawn from 20 in ")
    monkeypatch.setattr(inspect_module, "MOST_BYTES", 1)
    assert " in 1 of 8 files " in inspect(output, "word_count", n=3).looked


def test_without_kept_rejections_the_examples_of_the_report_are_shown(without_rejected: str) -> None:
    found = inspect(without_rejected, "word_count", n=3)
    assert [one.id for one in found.dropped] == ["0-0", "0-5", "0-10"]
    assert "run with rejected=" in found.looked


def test_an_excerpt_can_be_cut_around_what_is_sought(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "far " * 400 + "needle in it" + " far" * 400}, {"id": 2, "text": "one two"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stages: list[AnyStage] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        ScoreFilter(WordCountFilter(min_words=1, max_words=10)),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("long", stages=stages).run(InlineExecutor(), rejected=str(tmp_path / "gone"))
    (found,) = inspect(str(tmp_path / "out"), "word_count", find="needle").dropped
    assert "needle in it" in found.excerpt
    assert found.excerpt.startswith("… ")


@pytest.mark.parametrize(
    ("stage", "reason", "said"),
    [
        ("word_counts", None, "no stage 'word_counts'; documents were dropped by 'brittle', 'word_count', 'exact"),
        ("word_counts", None, "; did you mean 'word_count'?"),
        ("jsonl_reader", None, "'jsonl_reader' dropped nothing; documents were dropped by 'brittle', 'word_count'"),
        ("word_count", "colour", "dropped nothing for 'colour'; its reasons: 'word_count'"),
    ],
)
def test_a_stage_or_reason_that_dropped_nothing_is_refused_with_those_that_did(
    by_one: str, stage: str, reason: str | None, said: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        inspect(by_one, stage, reason=reason)
    assert said in str(refused.value)


def test_the_fate_of_each_document_is_reported(output: str) -> None:
    short, poison, copy, first, kept, nowhere = trace(output, ["1-5", "2-7", "3-9", "0-8", "3-1", "9-9"]).fates
    assert (short.outcome, short.stage, short.score, short.keeps) == ("dropped", "word_count", 2, (">= 3", "<= 100000"))
    assert short.passed == ("jsonl_reader", "brittle")
    assert short.place.endswith("(counted from 0)")
    assert (poison.outcome, poison.stage, poison.passed) == ("quarantined", "brittle", ("jsonl_reader",))
    assert "ValueError: poison is not for me" in poison.error
    assert (copy.outcome, copy.stage, copy.duplicate_of) == ("dropped", "exact_duplicates", "0-8")
    assert (first.outcome, first.duplicate_of) == ("kept", "")
    assert (kept.outcome, kept.excerpt) == ("kept", "this is document 1 of part 3")
    assert kept.passed[-1] in ("jsonl_writer", "parquet_writer")
    assert nowhere.outcome == "not found"


def test_the_reported_place_is_that_of_the_document(by_one: str) -> None:
    for fate in trace(by_one, ["1-5", "3-1"]).fates:
        path, _, row = fate.place.removesuffix(" (counted from 0)").rpartition(", row ")
        assert json.loads(Path(path).read_text().splitlines()[int(row)])["id"] == fate.id


def test_where_nothing_is_found_the_searched_places_are_reported(output: str) -> None:
    found = trace(output, ["9-9"])
    assert len(found.looked) == 4
    console = Console(width=200)
    with console.capture() as shown:
        console.print(found)
    assert "looked in: " in shown.get()
    assert "groups" in shown.get()
    assert "ids were compared with one column of each file, the first of 'id', " in shown.get()
    assert trace(output, ["9-9"], id_field="url").compared == "ids were compared with the column 'url'"


def test_a_run_that_kept_no_rejections_tells_of_those_in_its_report(without_rejected: str) -> None:
    shown, other = trace(without_rejected, ["0-5", "3-45"]).fates
    assert (shown.outcome, shown.stage, shown.score) == ("dropped", "word_count", 2)
    assert other.outcome == "not found"


def test_another_column_may_hold_the_ids(by_one: str) -> None:
    (fate,) = trace(by_one, ["this is document 2 of part 2"], id_field="text").fates
    assert fate.outcome == "kept"


def test_rejected_documents_may_be_named_where_the_report_is_gone(own: str) -> None:
    for file in records(own).glob("*.json"):
        file.unlink()
    (fate,) = trace(RunPlaces(own, str(Path(own).parent / "rejected")), ["1-5"]).fates
    assert (fate.outcome, fate.stage, fate.passed) == ("dropped", "word_count", ())


def test_what_is_rejected_into_a_folder_of_the_output_is_not_taken_for_kept(tmp_path: Path) -> None:
    rows = [{"id": number, "text": "short" if number % 2 else "this is long enough"} for number in range(9)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = str(tmp_path / "out")
    stages: list[AnyStage] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        ScoreFilter(WordCountFilter(min_words=3)),
        JsonlWriter(output),
    ]
    Pipeline("within", stages=stages).run(InlineExecutor(), rejected=f"{output}/rejected")
    found = inspect(output, "word_count", n=9, kept=9)
    assert ({one.excerpt for one in found.dropped}, {one.excerpt for one in found.kept}) == (
        {"short"},
        {"this is long enough"},
    )
    assert [fate.outcome for fate in trace(output, ["1", "2"]).fates] == ["dropped", "kept"]


def test_ids_that_are_numbers_or_need_quoting_are_found(tmp_path: Path) -> None:
    rows = [{"id": 12, "text": "a"}, {"id": 'say "hi"/\\é', "text": "b"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:1]))
    (tmp_path / "more.jsonl").write_text(json.dumps(rows[1]) + "\n")
    for name in ("in", "more"):
        stages: list[AnyStage] = [JsonlReader(str(tmp_path / f"{name}.jsonl")), JsonlWriter(str(tmp_path / name))]
        Pipeline("p", stages=stages).run(InlineExecutor())
    assert trace(str(tmp_path / "in"), ["12"]).fates[0].outcome == "kept"
    assert trace(str(tmp_path / "more"), ['say "hi"/\\é']).fates[0].outcome == "kept"
    assert trace(str(tmp_path / "in"), ["1"]).fates[0].outcome == "not found"


def test_the_records_of_a_run_are_read_from_its_output_or_the_folder_in_it(output: str) -> None:
    assert read_run(output).report == read_run(f"{output}.dcurate/").report
    assert read_run(f"{output}.dcurate").report.pipeline == "traced"
    assert read_run(output).missing == ()


def test_a_run_of_an_earlier_version_is_read_and_what_it_lacks_is_said(own: str) -> None:
    folder = records(own)
    report = json.loads((folder / "report.json").read_text())
    old = {name: value for name, value in report.items() if name not in ("about", "inputs_digest", "outputs_digest")}
    for stage in old["stages"]:
        for name in ("scores", "examples", "metrics"):
            stage.pop(name, None)
    (folder / "report.json").write_text(json.dumps(old))
    (folder / "history.json").unlink()
    found = read_run(own)
    assert found.report.stages[2].dropped == {"word_count": 40}
    assert "history.json is missing" in found.missing[0]
    assert inspect(own, "word_count").keeps == ()


def test_a_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no report"):
        read_run(str(tmp_path))
    with pytest.raises(DataError, match="holds no report"):
        trace(str(tmp_path / "nothing"), ["1"])


def test_a_damaged_report_is_reported(own: str) -> None:
    (records(own) / "report.json").write_text("{")
    with pytest.raises(DataError, match=r"report.json' is damaged"):
        read_run(own)


def test_a_report_outlives_its_damaged_history_as_the_error_says(own: str) -> None:
    history = records(own) / "history.json"
    history.write_text("{")
    with pytest.raises(DataError, match=r"history.json' is damaged .*; delete it to see the report without"):
        read_run(own)
    history.unlink()
    assert read_run(own).report.stages


def command(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, arguments, env={"COLUMNS": "140"})
    assert done.exit_code == code, done.output
    return done.output


def test_the_commands_show_the_same_and_write_json_and_pages(by_one: str, tmp_path: Path) -> None:
    output = by_one
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    shown = command("report", output, "--html", str(page), "--json", str(figures))
    assert "word_count" in shown
    assert str(page) in shown
    assert json.loads(figures.read_text())["stages"][2]["dropped"] == {"word_count": 40}
    assert "What became of the documents" in page.read_text()
    assert "too short" in command("inspect", output, "--dropped-by", "word_count", "-n", "2")
    found = json.loads(command("inspect", output, "--dropped-by", "word_count", "--json", "-"))
    assert len(found["dropped"]) == 10
    assert "No stage removed more or fewer" in command("compare", output, output)
    assert "dropped by word_count" in command("trace", "1-5", output)
    nothing = " ".join(command("trace", "1-5", "9-9", output, code=1).split())
    assert "looked in: " in nothing
    assert "; name another with --id-field COLUMN" in nothing


def test_workers_on_a_cluster_leave_the_same_report_as_one_process(by_one: str, by_many: str) -> None:
    one, many = ([stage.scores for stage in read_run(output).report.stages] for output in (by_one, by_many))
    assert one == many
    assert one[2] == {"word_count": {"2": 40, "4": 8, "7": 148}}


def test_the_limits_of_the_filter_of_a_rule_set_that_dropped_a_document_are_named(tmp_path: Path) -> None:
    source, output = tmp_path / "in.jsonl", str(tmp_path / "out")
    source.write_text('{"id": "short", "text": "one"}\n')
    stages: list[AnyStage] = [JsonlReader(str(source)), ScoreFilter(list(gopher()), name="gopher")]
    for rejected in (str(tmp_path / "rejected"), None):
        Pipeline("rules", stages=[*stages, JsonlWriter(output, mode="overwrite")]).run(
            InlineExecutor(), rejected=rejected, observers=[]
        )
        limits = (">= 50", "<= 100000")
        inspected = inspect(output, "gopher", reason="gopher_word_count")
        assert (inspected.keeps, [document.keeps for document in inspected.dropped]) == (limits, [limits])
        [document] = inspect(output, "gopher").dropped
        assert document.keeps == limits
        [fate] = trace(output, ["short"]).fates
        assert fate.keeps == limits
    shown = io.StringIO()
    Console(file=shown, width=100).print(inspect(output, "gopher"))
    assert "gopher_word_count, which keeps >= 50 and <= 100000" in shown.getvalue()


@pytest.mark.parametrize("make", [Decontaminate, TaskDecontamination])
def test_a_contaminated_document_is_shown_with_the_question_and_the_words_in_common(make: Any, tmp_path: Path) -> None:
    question = "how many ships sailed from the old harbour before the storm of that winter"
    tasks = [Benchmark(str(tmp_path / "history.jsonl"), "q", id_field="id")]
    other = "a question of eight words and not one more"
    lines = "".join(json.dumps({"id": name, "q": text}) + "\n" for name, text in (("q8", other), ("q7", question)))
    (tmp_path / "history.jsonl").write_text(lines)
    texts = {"clean": "nothing of the kind is here", "copied": f"It was asked {question}, and nobody knew."}
    rows = "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items())
    (tmp_path / "in.jsonl").write_text(rows)
    stages: list[AnyStage] = [JsonlReader(str(tmp_path / "in.jsonl")), make(tasks), JsonlWriter(str(tmp_path / "out"))]
    report = Pipeline("clean", stages=stages).run(InlineExecutor(), observers=[], rejected=str(tmp_path / "no")).report
    [stage] = [stage.name for stage in report.stages if stage.dropped]
    inspected = inspect(str(tmp_path / "out"), stage)
    [document] = inspected.dropped
    words = " ".join(question.split()[:13])
    assert document.evidence == {"benchmark": "history", "example": "q7", "words": words}
    assert [kept.evidence for kept in inspected.kept] == [{}]
    fates = trace(str(tmp_path / "out"), ["copied", "clean"]).fates
    assert [fate.evidence for fate in fates] == [document.evidence, {}]
    shown = CliRunner().invoke(cli, ["inspect", str(tmp_path / "out"), "--dropped-by", stage], env={"COLUMNS": "200"})
    assert all(line in shown.output for line in ("benchmark: history", "example: q7", f"words: {words}"))
