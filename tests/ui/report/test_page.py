"""The page of a run, of real runs: what a person reads there is what the run did."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dcurate import (
    DaskExecutor,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    ScoreFilter,
    StageError,
    read_run,
)
from dcurate.core.pipeline import AnyStage
from dcurate.core.report import RunReport
from dcurate.events import GpuSample, HostSample, StageStats
from dcurate.run import Executor
from dcurate.runs.history import History, Point
from dcurate.runs.load import RecordedRun
from dcurate.runs.manifest import provenance
from dcurate.runs.snapshot import Note, OperatorFigures, RunSnapshot
from dcurate.text import DocumentFilter, LongWordFilter, WordCountFilter
from dcurate.ui.report.page import run_page, write_run_page

pytestmark = pytest.mark.cluster


class Page(HTMLParser):
    """Reads a page: its tables, its addresses, whether its tags are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.rows: list[list[str]] = []
        self.section = ""
        self.sections: dict[str, list[list[str]]] = {}
        self.scripts = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action", "data", "srcset")]
        self.scripts += tag == "script" or any(name.startswith("on") for name in named)
        if tag == "section":
            self.sections[named["id"] or ""] = self.rows = []
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and "details" not in self.open and ({"td", "th"} & {*self.open}):
            self.rows[-1][-1] += data

    def table(self, section: str) -> list[list[str]]:
        return [[cell.strip() for cell in row] for row in self.sections[section]]


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(3):
        rows = [
            {"id": f"{part}-{row}", "text": "<b>short</b>" if row % 4 == 0 else f"document {row} of part {part}"}
            for row in range(20)
        ]
        lines = [json.dumps(row) for row in rows]
        (folder / f"{part}.jsonl").write_text("\n".join([*lines, "{broken" if part == 1 else lines[1], ""]))
    return str(folder)


def pipeline(source: str, output: Path) -> Pipeline:
    return Pipeline(
        "small",
        "Keeps what has <enough> words",
        stages=[
            JsonlReader(source, files_per_partition=1, on_bad_line="quarantine"),
            ScoreFilter(WordCountFilter(min_words=3)),
            ScoreFilter(LongWordFilter(max_word_length=7)),
            JsonlWriter(str(output)),
        ],
    )


@pytest.fixture(params=["inline", "streaming"])
def run(request: pytest.FixtureRequest, source: str, tmp_path: Path) -> RecordedRun:
    """A run in this process, or on worker processes, as it is found beside its output."""
    executor: Executor = InlineExecutor()
    if request.param == "streaming":
        executor = DaskExecutor(cluster=request.getfixturevalue("cluster"))
    pipeline(source, tmp_path / "out").run(executor)
    return read_run(str(tmp_path / "out"))


def page_of(run: RecordedRun) -> Page:
    return Page(run_page(run.report, run.history, run.about))


def test_every_run_with_a_writer_leaves_a_page_that_needs_nothing_else(run: RecordedRun) -> None:
    page = Path(run.address, "report.html").read_text("utf-8")
    read = Page(page)
    assert {one for one in read.addresses if one[0] != "#"} <= {"data:,"}
    assert all(f'id="{one[1:]}"' in page for one in read.addresses if one[0] == "#")
    assert read.scripts == 0
    assert not re.search(r"https?://|@import|url\(", page)
    assert len(page) < 300_000
    assert read.open == []


def test_counts_on_the_page_are_those_of_the_report(run: RecordedRun) -> None:
    page = page_of(run)
    told = [[row[0], *row[2:6]] for row in page.table("funnel")[1:]]
    assert told == [
        [
            stage.name,
            f"{stage.rows_in:,}",
            f"{stage.rows_out:,}",
            f"{sum(stage.dropped.values()) or ''}",
            f"{sum(stage.faulty.values()) or ''}",
        ]
        for stage in run.report.stages
    ]
    assert told[1] == ["word_count", "62", "47", "15", ""]
    assert told[0] == ["jsonl_reader", "63", "62", "", "1"]


def test_each_reason_is_told_with_its_count_and_examples(run: RecordedRun) -> None:
    page = run_page(run.report, run.history, run.about)
    reasons = [[row[0], *row[2:]] for row in Page(page).table("reasons")]
    assert reasons == [
        ["max_word_length", "47", "74.6 %"],
        ["word_count", "15", "23.8 %"],
        ["jsonl_reader: malformed line quarantined", "1", "1.59 %"],
    ]
    assert "&lt;b&gt;short&lt;/b&gt;" in page
    assert "scores 1 from 0.jsonl" in page or "scores 1 from 1.jsonl" in page or "scores 1 from 2.jsonl" in page


def test_scores_are_drawn_with_the_thresholds_of_the_filter(run: RecordedRun) -> None:
    page = run_page(run.report, run.history, run.about)
    assert "<title>1: 0 kept, 15 dropped</title>" in page
    assert "<title>5: 47 kept</title>" in page
    assert "<code>&gt;= 3</code> and <code>&lt;= 100000</code>" in page


def test_scores_that_drop_most_come_first_and_those_that_drop_nothing_are_folded(source: str, tmp_path: Path) -> None:
    stages: list[AnyStage] = [
        JsonlReader(source, on_bad_line="quarantine"),
        ScoreFilter(WordCountFilter(min_words=1), name="any"),
        ScoreFilter(WordCountFilter(min_words=3), name="some"),
        ScoreFilter(LongWordFilter(max_word_length=7), name="most"),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("sorted", stages=stages).run(InlineExecutor())
    run = read_run(str(tmp_path / "out"))
    shown, folded = run_page(run.report, run.history, run.about).split('id="scores"')[1].split("1 score without a drop")
    assert re.findall(r'<article id="score-\d"><h3>(\w+)', shown) == ["most", "some"]
    assert re.findall(r'<article id="score-\d"><h3>(\w+)', folded) == ["any"]


def test_a_reason_leads_to_its_scores_and_these_to_examples_of_what_was_dropped(run: RecordedRun) -> None:
    page = run_page(run.report, run.history, run.about)
    for name in ("max_word_length", "word_count"):
        (card,) = re.findall(rf'<a href="#(score-\d)"[^>]*>{name}</a>', page)
        (examples,) = re.findall(rf'<article id="{card}"><h3>{name} <em><a href="#(examples-\d)"', page)
        assert f'<dl id="{examples}">' in page


def test_what_ran_is_told_with_settings_versions_and_digests(run: RecordedRun) -> None:
    page = page_of(run)
    settings = {row[0]: row for row in page.table("what")[1:]}
    assert settings["word_count"][1:3] == ["ScoreFilter", "1 CPU"]
    assert "filter_obj=WordCountFilter(min_words=3, max_words=100000, language='en')" in settings["word_count"][3]
    where = dict(row[:2] for row in page.table("where") if len(row) > 1)
    assert where["input digest"] == run.report.inputs_digest != ""
    assert where["output digest"] == run.report.outputs_digest
    assert {"dcurate", "Python", "dask", "pyarrow"} <= where.keys()


def test_the_same_input_and_pipeline_give_the_same_digests_however_it_is_run(
    source: str, tmp_path: Path, cluster: LocalCluster
) -> None:
    first = pipeline(source, tmp_path / "a").run(InlineExecutor()).report
    second = pipeline(source, tmp_path / "b").run(DaskExecutor(cluster=cluster)).report
    assert (first.inputs_digest, first.outputs_digest) == (second.inputs_digest, second.outputs_digest)
    again = pipeline(source, tmp_path / "a").run(InlineExecutor(), resume=True).report
    assert (again.splits_before, again.inputs_digest) == (3, first.inputs_digest)
    assert again.outputs_digest == first.outputs_digest


class Fails(DocumentFilter):
    def score_document(self, text: str) -> int:
        raise ZeroDivisionError("nothing to <divide> by")

    def keep_document(self, score: int) -> bool:
        return True


def test_a_run_that_failed_leaves_a_page_that_says_why_and_how_to_go_on(source: str, tmp_path: Path) -> None:
    stages: list[AnyStage] = [
        JsonlReader(source, on_bad_line="quarantine"),
        ScoreFilter(Fails()),
        JsonlWriter(str(tmp_path / "out")),
    ]
    with pytest.raises(StageError, match="divide"):
        Pipeline("failing", stages=stages).run(InlineExecutor())
    page = (tmp_path / "out.dcurate" / "report.html").read_text("utf-8")
    assert "stopped early" in page
    assert "nothing to &lt;divide&gt; by" in page
    assert "pipeline.run(executor, resume=True)" in page


def test_of_a_run_that_stopped_early_documents_between_stages_are_not_taken_for_dropped() -> None:
    stages = (StageStats("read", 1, 100, 100), StageStats("score", 1, 40, 20), StageStats("write", 1, 10, 10))
    report = RunReport("r", "p", "inline", 0.0, 1.0, stages, error="the disk is full")
    assert "50 % kept of what stages saw" in run_page(report, History(), {})
    assert "<small>10 % kept</small>" in run_page(replace(report, error=""), History(), {})


def test_texts_stay_out_of_the_report_where_that_is_asked_for(source: str, tmp_path: Path) -> None:
    pipeline(source, tmp_path / "out").run(InlineExecutor(), examples=False)
    for file in (tmp_path / "out.dcurate").glob("report.*"):
        assert "short" not in file.read_text("utf-8")


def test_secrets_in_settings_stay_out_of_the_page(source: str, tmp_path: Path) -> None:
    options = {"key": "AKIAXYZ", "secret": "hush", "token": "hush"}
    stages = [JsonlReader(source, read_kwargs={"storage_options": options})]
    told = provenance(Pipeline("p", stages=stages), stages)
    page = run_page(RunReport("r", "p", "inline", 0, 1, (StageStats("jsonl_reader"),)), History(), told)
    assert "hush" not in page
    assert "AKIAXYZ" not in page
    assert "secret: ..." in page


# Of history that a test makes up: times and slots are not those of any one run.


def told_over_time() -> History:
    names = ("read", "score-write")
    history = History()
    for moment in range(60):
        operators = tuple(
            OperatorFigures(
                name,
                (name,) if name == "read" else ("score", "write"),
                slots=1 + moment // 30,
                waiting_bytes=10_000 * moment,
                calls=moment,
                seconds=0.5 * moment,
                slot_seconds=1.0 * moment,
                latency=(0, moment, 0, 1) + (0,) * 12,
            )
            for name in names
        )
        history.points.append(
            Point(
                1000.0 + moment,
                rows_in=10 * moment,
                bytes_in=1000 * moment,
                rows_out=5 * moment,
                cpu=1.5,
                memory=5 * 10**8,
                memory_limit=10**9,
                operators=operators,
            )
        )
    history.notes.append(Note(1030.0, "decision", "read 1 -> 2 slots: it waits", "read", 1, 2))
    history.notes.append(Note(1031.0, "lost", "worker <tcp> is gone"))
    history._taken = RunSnapshot("r", "p", "streaming", started=1000.0, time=1060.0, operators=operators, notes=2)
    return history


def made_up() -> RunReport:
    stages = (StageStats("read", 60, 600, 600, 60_000, 60_000, 30.0), StageStats("score", 60, 600, 300, seconds=20.0))
    return RunReport("r", "p", "streaming", 1000.0, 60.0, (*stages, StageStats("write", 60, 300, 300, seconds=10.0)))


def test_plots_over_time_are_there_for_what_was_sampled() -> None:
    page = run_page(made_up(), told_over_time(), {})
    titles = re.findall(r"<article><h3>([^<]+)</h3><svg", page)
    assert titles == [
        "documents a second",
        "input a second",
        "slots",
        "share of slots that are busy",
        "bytes that wait between operators",
        "memory of workers",
        "CPUs in use",
    ]
    assert "in: 10\nout: 5" in page
    assert "read: 50 %" in page


def test_operators_are_told_with_idle_time_and_how_long_calls_took() -> None:
    rows = Page(run_page(made_up(), told_over_time(), {})).table("stages")
    by_name = {row[0].partition("\n")[0]: row for row in rows}
    assert by_name["read"] == [
        "read",
        "50 %",
        "2",
        "",
        "59",
        "29.5 s",
        "29.5 s",
        "20",
        "0.0",
        "25 ms",
        "25 ms",
        "100 ms",
    ]


def test_what_happened_is_told_in_order_with_reasons() -> None:
    page = Page(run_page(made_up(), told_over_time(), {}))
    assert page.table("happened") == [
        ["30 s", "balancer", "read", "1 → 2 slots", "it waits"],
        ["31 s", "worker lost", "", "", "worker <tcp> is gone"],
    ]


def test_text_from_data_never_becomes_markup_anywhere_on_the_page() -> None:
    evil = "<img src=x onerror=alert(1)>'\"&"
    example = {"id": evil, "score": evil, "source": evil, "excerpt": evil}
    stage = StageStats(evil, 1, 9, 9, scores={"s": {evil: 3}}, dropped={"s": 1}, faulty={evil: 4}, found={evil: 1})
    stages = (replace(stage, examples={"s": [example]}), StageStats("numbers", 1, 9, 9, scores={"s": {"0.5": 3}}))
    report = RunReport(evil, evil, evil, 1000.0, 60.0, stages, error=evil, notices=(evil,), files=1)
    report = replace(report, output_path=evil, rejected_path=evil, quarantine_path=evil)
    history = told_over_time()
    assert history._taken is not None
    operators = tuple(replace(one, name=evil, stages=(evil, evil)) for one in history._taken.operators)
    hosts = (HostSample(evil, 1, 1, 0.5, 1, 2, gpus=(GpuSample(evil, 1, 2, 0.5),)),)
    history._taken = replace(history._taken, operators=operators, hosts=hosts)
    history.notes.append(Note(1032.0, evil, evil, evil))
    one = {"name": evil, "kind": evil, "needs": evil, "settings": {evil: evil}}
    texts = dict.fromkeys(("description", "recipe", "command", "resume", "reproduce"), evil)
    thresholds = {evil: {"s": [{"keeps": evil, "value": 0.5}]}, "numbers": {"s": [{"keeps": evil, "value": 0.5}]}}
    more = {"params": {evil: evil}, "inputs": [evil], "versions": {evil: evil}, "thresholds": thresholds}
    page = run_page(report, history, {**texts, **more, "stages": [one]})
    assert page.replace("<wbr>", "").count("onerror=alert(1)") > 40
    assert "<img" not in page
    assert Page(page).scripts == 0


def test_a_run_of_which_only_the_report_is_known_has_a_page_without_the_rest() -> None:
    page = Page(run_page(made_up(), History(), {}))
    assert list(page.sections) == ["funnel", "stages", "where"]


def test_a_run_with_very_many_stages_has_a_page_that_stays_small() -> None:
    scores = {str(value / 100): 10 for value in range(100)}
    stages = tuple(
        StageStats(
            f"s{n}", 1, 9, 9, scores={"s": scores}, dropped={"s": 1}, examples={"s": [{"excerpt": "x" * 200}] * 5}
        )
        for n in range(300)
    )
    page = run_page(RunReport("r", "p", "inline", 0.0, 1.0, stages), History(), {})
    assert len(page) < 2_000_000
    assert "240 more are in report.json" in page


@pytest.mark.parametrize("name", ["page.html", "folder"])
def test_the_page_is_written_to_a_file_or_into_a_directory(name: str, tmp_path: Path) -> None:
    written = Path(write_run_page(made_up(), History(), {}, str(tmp_path / "new" / name)))
    assert written == tmp_path / "new" / (name if name.endswith("html") else "folder/report.html")
    assert [path.name for path in written.parent.iterdir()] == [written.name]


def test_stages_that_make_several_rows_of_one_or_one_of_several_keep_and_remove_none() -> None:
    """Clips of films, and their films again: neither is a share of what came in."""
    fans = (
        StageStats("read", 1, 10, 10),
        StageStats("clips", 1, 10, 48, dropped={"short": 2}),
        StageStats("pool", 1, 48, 6),
    )
    report = RunReport("r", "p", "inline", 0.0, 1.0, fans)
    page = run_page(report, History(), {})
    assert [row[2:5] + row[6:7] for row in Page(page).table("funnel")[1:]] == [
        ["10", "10", "", "100 %"],
        ["10", "48", "2", "4.8 times"],
        ["48", "6", "", "60 %"],
    ]
    assert "60 % kept" in page
    assert page.count('class="drop-part"') == 1
    more = run_page(replace(report, stages=fans[:2]), History(), {})
    assert "4.8 for each document in" in more
    assert "% kept" not in more
    stopped = run_page(replace(report, stages=fans[:2], error="stopped"), History(), {})
    assert "4.8 for each of what stages saw" in stopped


def test_the_agreement_of_judges_that_cannot_be_computed_is_unknown_and_other_runs_have_none() -> None:
    pair = {"first": "good", "second": "good_2", "rows": 0, "equal": None, "kappa": None}
    figures = {"given": {"good": [3], "good_2": [0]}, "pairs": [pair], "alpha": None}
    judges = {"good": "<qwen>", "good_2": "gpt"}
    page = Page(run_page(made_up(), History(), {"agreement": {"good": {**figures, "judges": judges}}}))
    assert page.table("agreement")[1:] == [["good", "<qwen>", "gpt", "two judges", "0", *3 * ["unknown"]]]
    for about in ({}, {"agreement": None}, {"agreement": {"good": figures}}):
        assert "agreement" not in Page(run_page(made_up(), History(), about)).sections
