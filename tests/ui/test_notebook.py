import re
import threading
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from dcurate.events import Decided, RunEnded, RunStarted, SlotsChanged, SourceListed, SplitDone, StageStats, TaskDone
from dcurate.ui.notebook import NotebookProgress

pytestmark = pytest.mark.program

EVENTS = [
    RunStarted(100.0, "7f3a", "demo <b>", "streaming", (("read",), ("write",))),
    SourceListed(100.1, splits=2, finished_before=0),
    SlotsChanged(100.2, "read", "a", 2, 2, 0.1),
    TaskDone(101.0, "read", "part-0", (StageStats("read", rows_in=1000, rows_out=990, bytes_in=4_000_000),), 0.25),
    SplitDone(101.6, "part-0", ()),
    Decided(101.7, "read", 2, 1, "write needs the room"),
]


class Place:
    def __init__(self):
        self.shown = []

    def update(self, obj):
        self.shown.append(obj._repr_html_())


def test_the_view_ends_with_the_run_as_it_came_out():
    place = Place()
    with NotebookProgress(place) as view:
        for event in [*EVENTS, RunEnded(102.0, "")]:
            view.on_event(event)
    last = place.shown[-1]
    assert "demo &lt;b&gt;" in last
    assert "1,000 rows in, 0 out" in last
    assert "1 of 2 splits, 2.0 s" in re.sub("<[^>]*>", "", last)
    assert "write needs the room" in last
    assert "dcurate-view" not in [thread.name for thread in threading.enumerate()]


def test_a_run_that_has_ended_has_no_headings_without_a_value() -> None:
    place = Place()
    with NotebookProgress(place) as view:
        for event in [*EVENTS, RunEnded(102.0, "")]:
            view.on_event(event)
    assert re.findall(r"<th>([^<]*)</th>", place.shown[-1]) == ["", "busy", "batches", "each"]


def test_words_of_the_engine_say_what_they_mean_when_pointed_at() -> None:
    place = Place()
    stages = ("read", "near", "write")
    with NotebookProgress(place) as view:
        view.on_event(
            RunStarted(100.0, "7f3a", "demo", "inline", (("pairs",),), 1, stages, {"pairs": "near"}, phases=3)
        )
        view.on_event(SlotsChanged(100.2, "pairs", "a", 1, 1, 0.1))
        view._show()
    [splits, rounds] = re.findall('<abbr title="([^"]*)">(?:splits|round 2 of 3)</abbr>', place.shown[-1])
    assert splits.startswith("parts of the input")
    assert rounds.startswith("a part of the run")
    assert "round 2 of 3: near" in re.sub("<[^>]*>", "", place.shown[-1])


def test_a_run_that_failed_looks_stopped():
    place = Place()
    with NotebookProgress(place) as view:
        for event in [*EVENTS, RunEnded(102.0, "stage 'write' failed")]:
            view.on_event(event)
    assert 'class="track stopped"' in place.shown[-1]
    assert "stage &#39;write&#39; failed" in place.shown[-1]


def test_phases_of_a_run_share_one_view():
    place = Place()
    with NotebookProgress(place) as view:
        for event in [*EVENTS, RunEnded(102.0, "", last=False)]:
            view.on_event(event)
        assert "dcurate-view" in [thread.name for thread in threading.enumerate()]
        view.on_event(RunStarted(103.0, "7f3a", "demo", "streaming", (("mark",),), phase=1))
        view.on_event(RunEnded(104.0, ""))
    assert all(name in place.shown[-1] for name in ("<td>read</td>", "<td>write</td>", "<td>mark</td>"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_in_a_notebook_a_pipeline_is_a_picture_and_its_run_a_view_and_a_summary(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook()
    book.cells = [
        nbformat.v4.new_code_cell(cell)
        for cell in (
            "import pandas as pd\n"
            "from dcurate import *\n"
            "from dcurate.text import WordCountFilter\n"
            "rows = [DocumentBatch(data=pd.DataFrame({'text': ['one two', 'one']})) for _ in range(3)]\n"
            "pipeline = Pipeline('counted', stages=[ScoreFilter(WordCountFilter(min_words=2))])\n"
            "pipeline",
            "result = pipeline.run(InlineExecutor(), initial_tasks=rows)\nresult",
            "pipeline.run(InlineExecutor(), initial_tasks=rows, observers=[]);",
            "from IPython.display import display\n"
            "display(rows[0])\n"
            f"pipeline.add_stage(JsonlWriter({str(tmp_path / 'out')!r}))\n"
            "display(pipeline.run(InlineExecutor(), initial_tasks=rows, observers=[]))\n"
            f"display(inspect({str(tmp_path / 'out')!r}, 'word_count'))",
        )
    ]
    NotebookClient(book, timeout=100).execute()
    picture, run, quiet, shown = ([output["data"]["text/html"] for output in cell.outputs] for cell in book.cells)
    assert "word_count" in picture[0]
    view, summary = run
    assert "6 rows in, 3 out" in view
    assert "What became of the documents" in summary
    assert quiet == []
    batch, written, inspected = shown
    assert "<p>2 rows</p>" in batch
    assert "<td>one two</td>" in batch
    assert f"{tmp_path}/out.dcurate/report.html" in re.sub("<wbr>", "", written)
    assert "word_count dropped 3 of 6 documents" in re.sub("<[^>]*>", "", inspected)
