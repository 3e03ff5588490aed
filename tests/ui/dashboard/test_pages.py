"""The dashboard in a real browser, beside real runs on a real cluster."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from dcurate import (
    AttachedCluster,
    DaskExecutor,
    DocumentBatch,
    FuzzyDuplicates,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    RunResult,
    ScoreFilter,
)
from dcurate.core.pipeline import AnyStage
from dcurate.core.report import RunReport
from dcurate.text import WordCountFilter
from dcurate.ui.dashboard import pages
from dcurate.ui.dashboard.pages import TITLES
from dcurate.ui.dashboard.text import count, percent
from dcurate.ui.scheduler_store import store_of
from dcurate_testing.browser import Browser
from dcurate_testing.dashboard_runs import Shape, history
from dcurate_testing.legibility import PHONE, broken, faint, outside
from tests.conftest import wait_for, wait_for_workers, wait_until, workers_of
from tests.forked import forked
from tests.ui.dashboard.proxy import below

pytestmark = pytest.mark.cluster

#: What a page needs before it can be read.
READY = "document.readyState === 'complete' && Boolean(window.Bokeh?.documents.length)"

#: How many operators the busy plot has a name of.
LABELS = "Bokeh.documents[0].get_model_by_name('busy').left[0].ticker.ticks.length"

#: The tables that are read in Bokeh's tooltips, which stand in documents of their own.
TIP = """(() => {
  const found = [], look = (under) => {
    for (const {shadowRoot} of under.querySelectorAll("*")) if (shadowRoot) {
      found.push(...[...shadowRoot.querySelectorAll("table")].map((table) => table.innerText));
      look(shadowRoot);
    }
  };
  look(document);
  return found.join();
})()"""


def card(name: str) -> str:
    """The selector of a figure at the top of the page."""
    return f'[data-part="card {name}"]'


def documents(folder: Path, files: int = 24, rows: int = 10) -> Path:
    """Files of documents of which the second of each ten is short and the third of each file malformed."""
    folder.mkdir(parents=True)
    for file in range(files):
        lines = [
            json.dumps({"id": f"{file}-{row}", "text": "a word " * (1 if row == 1 else 60)}) for row in range(rows)
        ]
        lines[2] = lines[2][:20]  # an open string
        (folder / f"{file:03}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@dataclass
class Dawdle(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes three seconds for a batch, until there is a file that says to hurry."""

    folder: str

    def process(self, task: DocumentBatch) -> DocumentBatch:
        end = time.monotonic() + 3
        while time.monotonic() < end and not Path(self.folder, "hurry").exists():
            time.sleep(0.05)
        return task


def pipeline(folder: Path, name: str = "web <b>pages</b>") -> Pipeline:
    """Reads, drops what is short, writes."""
    stages: list[AnyStage] = [
        JsonlReader(str(folder / "input"), files_per_partition=1, on_bad_line="quarantine"),
        ScoreFilter(WordCountFilter(min_words=20)),
        JsonlWriter(str(folder / "output")),
    ]
    return Pipeline(name, stages=stages)


@contextmanager
def running(pipeline: Pipeline, executor: DaskExecutor) -> Iterator[list[RunResult]]:
    """A run that goes on beside the test; its result is there at the end."""
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(pipeline.run(executor)))
    thread.start()
    try:
        yield results
    finally:
        thread.join(180)


def says(browser: Browser, report: RunReport) -> None:
    """Check that the page says what the report says, as soon as all that was sent to it is shown."""
    browser.wait("document.querySelector('[data-part=pill]').innerText === 'finished'")
    end = time.monotonic() + 30
    while True:
        try:
            return _says(browser, report)
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)


def _says(browser: Browser, report: RunReport) -> None:
    rows_in, rows_out = report.stages[0].rows_in, report.stages[-1].rows_out
    assert browser.text("[data-part=title]") == report.pipeline
    assert browser.text(card("rows-in")) == count(rows_in)
    assert browser.text(card("rows-out")) == count(rows_out)
    assert browser.text(card("kept")) == percent(rows_out / rows_in)
    assert browser.text(card("errors")) == count(sum(sum(one.faulty.values()) for one in report.stages))
    shown = browser.text("[data-part=dropped]")
    for stage in report.stages:
        for reason, rows in stage.dropped.items():
            assert {stage.name, reason} <= set(shown.replace("\t", "\n").split("\n"))
            assert count(rows) in shown
    assert all(reason in browser.text("[data-part=quarantine]") for one in report.stages for reason in one.faulty)


def samples(browser: Browser, wanted: int) -> list[int]:
    """The documents read that the page shows, until so many different numbers were seen."""
    seen: list[int] = []
    end = time.monotonic() + 120
    while len(seen) < wanted and time.monotonic() < end:
        text = browser.text(card("rows-in")).replace(",", "")
        if text and (not seen or int(text) != seen[-1]):
            seen.append(int(text))
        time.sleep(0.1)
    return seen


def test_an_open_page_says_how_to_begin_then_follows_a_run_and_ends_with_the_counts_of_its_report(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path
) -> None:
    documents(tmp_path / "input")
    store = store_of(cluster.client.cluster.scheduler)

    async def forget() -> None:
        if store is not None:  # there is one once a run was here
            store.runs.clear()

    cluster.client.sync(forget)
    assert cluster.dashboard_link == f"{address}/curation"
    browser.open(cluster.dashboard_link)
    browser.wait(READY)
    browser.wait("document.querySelector('h1')?.innerText === 'No run yet'")
    assert "pipeline.run(" in browser.text(".empty pre")
    slow = pipeline(tmp_path)
    slow.stages.insert(1, Dawdle(str(tmp_path)))
    with running(slow, DaskExecutor(cluster=cluster)) as results:
        browser.wait("document.body.dataset.state === 'running'")
        seen = samples(browser, 3)
        assert len(seen) == 3
        assert seen == sorted(seen)
        assert "slot" in browser.text(".operator")
        (tmp_path / "hurry").touch()
    says(browser, results[0].report)
    browser.picture(tmp_path / "ended.png", whole=True)
    assert browser.complaints == []


def test_a_page_shows_the_newest_run_and_links_to_each_of_the_others(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path
) -> None:
    reports = []
    for number, files in enumerate((2, 3)):
        documents(tmp_path / str(number) / "input", files)
        done = pipeline(tmp_path / str(number), f"run number {number}").run(DaskExecutor(cluster=cluster))
        reports.append(done.report)
    browser.open(f"{address}/curation", 1024, 768)
    browser.wait(READY)
    says(browser, reports[1])
    listed = browser.value("[...document.querySelectorAll('.run b')].map(one => one.innerText)")
    assert listed[:2] == ["run number 1", "run number 0"]
    browser.value("document.querySelectorAll('a.run')[1].click()")
    browser.wait(f"location.search === '?run={reports[0].run}' && {READY}")
    says(browser, reports[0])
    assert browser.complaints == []


def test_an_open_page_goes_over_from_phase_to_phase_and_from_run_to_run(
    browser: Browser, cluster: LocalCluster, address: str
) -> None:
    store = store_of(cluster.client.cluster.scheduler)
    assert store is not None
    shapes = {"small": Shape(seconds=60), "large": Shape(12, 2, phases=3, seconds=60, hosts=3, workers=30)}
    browser.open(f"{address}/curation")
    browser.wait(READY)
    began = time.time() - 10
    for run, shape in shapes.items():
        for phase in range(shape.phases):

            async def tell(run: str = run, shape: Shape = shape, until: float = 5 + phase * 60 / shape.phases) -> None:
                store.runs.pop(run, None)
                store.runs[run] = history(run, shape, began, until)

            cluster.client.sync(tell)
            shown = shape.operators // shape.phases * (phase + 1)
            browser.wait(f"document.querySelectorAll('.operator, .chips li').length === {shown}")
            browser.wait(f"{LABELS} === {shown}")
            browser.wait(f"document.querySelector('[data-part=about]').innerText.startsWith('streaming, run {run}')")
    corner = "document.querySelector('.slots .plot').getBoundingClientRect()"
    x, y, wide, high = browser.value(f"(({{x, y, width, height}}) => [x, y, width, height])({corner})")
    for step in range(2):
        browser.hover(x + wide / 2 + step, y + high / 2)
    # The middle of the run so far is in its second phase.
    browser.wait(f"{TIP}.includes('minhash')")
    tip = browser.wait(f"{TIP}.includes('jsonl_writer') && {TIP}")
    assert "jsonl_reader" not in tip
    assert browser.complaints == []

    async def forget() -> None:
        for run in shapes:
            store.runs.pop(run)

    cluster.client.sync(forget)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_legible_in_either_scheme_and_whole_on_a_phone(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path, scheme: str
) -> None:
    documents(tmp_path / "input", 2)
    done = pipeline(tmp_path).run(DaskExecutor(cluster=cluster))
    browser.open(f"{address}/curation?run={done.report.run}")
    browser.scheme(scheme)
    browser.wait(READY)
    says(browser, done.report)
    assert (browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)") == (scheme == "dark")
    assert faint(browser) == []
    browser.resize(*PHONE)
    browser.wait(f"document.documentElement.scrollWidth === {PHONE[0]}")
    assert outside(browser) == []
    assert broken(browser) == []
    assert browser.complaints == []


def test_phases_with_long_names_fit_a_phone(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path
) -> None:
    documents(tmp_path / "input", 2)
    stages = pipeline(tmp_path).stages
    done = Pipeline("phases", stages=[*stages[:-1], FuzzyDuplicates(), stages[-1]]).run(DaskExecutor(cluster=cluster))
    browser.open(f"{address}/curation?run={done.report.run}", *PHONE)
    browser.wait(READY)
    browser.wait("document.querySelectorAll('.chips li').length > 3")
    browser.wait(f"document.documentElement.scrollWidth === {PHONE[0]}")
    assert outside(browser) == []
    assert broken(browser) == []


def test_workers_have_their_names_below_their_bars(browser: Browser, cluster: LocalCluster, address: str) -> None:
    browser.open(f"{address}/individual-curation-workers", 700, 420)
    browser.wait(READY)
    axis = "Bokeh.documents[0].get_model_by_name('workers').below[0]"
    browser.wait(f"{axis}.ticker.ticks.length === 2")
    shown = browser.value(f"[...{axis}.major_label_overrides.values()]")
    assert shown == sorted(str(one["name"]) for one in workers_of(cluster.client).values())


def test_a_run_that_nobody_knows_is_said_to_be_unknown_and_its_name_does_no_harm(
    browser: Browser, address: str
) -> None:
    browser.open(f"{address}/curation?run=%3Cscript%3Ewindow.harm=1%3C/script%3E")
    browser.wait(READY)
    browser.wait("document.querySelector('h1')?.innerText.includes('is not known here')")
    assert "Run <script>window.harm=1</script> is not known here" in browser.text("h1")
    assert browser.value("window.harm") is None


def test_every_section_has_a_page_of_its_own_that_jupyterlab_is_told_of(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path
) -> None:
    documents(tmp_path / "input", 2)
    pipeline(tmp_path).run(DaskExecutor(cluster=cluster))
    with urlopen(f"{address}/individual-plots.json") as answer:
        plots = json.load(answer)
    assert plots["Individual Task Stream"] == "/individual-task-stream"
    for name, title in TITLES.items():
        assert plots[f"Individual Curation {name.title()}"] == f"/individual-curation-{name}"
        browser.open(f"{address}/individual-curation-{name}", 700, 420)
        browser.wait(READY)
        browser.wait(f"document.querySelector('h2')?.innerText.includes({json.dumps(title)})")
        height = browser.wait(
            "Math.max(0, document.querySelector('.plot, .scroll').getBoundingClientRect().height - 200)"
        )
        assert height < 220
        assert browser.complaints == []


def test_dasks_own_pages_and_ours_link_to_each_other(browser: Browser, address: str) -> None:
    # `browser.wait` fails the test when what it waits for does not come.
    browser.open(f"{address}/status")
    browser.wait(READY)
    browser.wait("[...document.querySelectorAll('.navbar a')].some(one => one.innerText === 'Curation')")
    browser.value("[...document.querySelectorAll('.navbar a')].find(one => one.innerText === 'Curation').click()")
    browser.wait(f"location.pathname === '/curation' && {READY}")
    browser.wait("[...document.querySelectorAll('.dask a')].some(one => one.innerText === 'status')")
    browser.value("[...document.querySelectorAll('.dask a')].find(one => one.innerText === 'status').click()")
    browser.wait(f"location.pathname === '/status' && {READY}")


def test_a_closed_tab_ends_its_session(browser: Browser, cluster: LocalCluster, address: str) -> None:
    server = cluster.client.cluster.scheduler.http_application.applications[0]
    browser.open(f"{address}/curation")
    browser.wait(READY)
    assert server.get_sessions("/curation")
    browser.close()
    wait_until(lambda: not server.get_sessions("/curation"))


#: How often pages are kept up to date in tests that wait for what does not happen, in milliseconds.
QUICK_MS = 100


def test_a_page_that_no_browser_shows_is_not_kept_up_to_date(
    cluster: LocalCluster, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "UPDATE_MS", QUICK_MS)
    server = cluster.client.cluster.scheduler.http_application.applications[0]
    before = server.get_sessions("/curation")
    urlopen(f"{address}/curation").close()
    (session,) = (one for one in server.get_sessions("/curation") if one not in before)
    session.block_expiration()  # nobody looks at it, and the run may take its time
    (texts,) = session.document.get_model_by_name("watch").tags
    documents(tmp_path / "input", 2)
    done = pipeline(tmp_path).run(DaskExecutor(cluster=cluster))
    time.sleep(3 * QUICK_MS / 1000)
    assert session in server.get_sessions("/curation")
    assert f"run {done.report.run}" not in texts.data["name"]
    session.unblock_expiration()


def test_a_page_in_a_tab_behind_others_is_kept_up_to_date_again_when_it_is_seen(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "UPDATE_MS", QUICK_MS)
    server = cluster.client.cluster.scheduler.http_application.applications[0]
    before = server.get_sessions("/curation")
    browser.open(f"{address}/curation")
    browser.wait(READY)
    (session,) = (one for one in server.get_sessions("/curation") if one not in before)
    for hidden in ("true", "false"):
        browser.value(f"Object.defineProperty(document, 'hidden', {{get: () => {hidden}, configurable: true}})")
        browser.value("document.dispatchEvent(new Event('visibilitychange'))")
        if hidden == "true":
            wait_until(lambda: session.document.get_model_by_name("watch").text == "hidden")
            documents(tmp_path / "input", 2)
            done = pipeline(tmp_path).run(DaskExecutor(cluster=cluster))
            time.sleep(3 * QUICK_MS / 1000)
            assert done.report.run not in browser.text("[data-part=about]")
    browser.wait(f"document.querySelector('[data-part=about]').innerText.includes('{done.report.run}')")


def test_the_page_and_its_links_work_below_the_path_of_a_proxy(
    browser: Browser, cluster: LocalCluster, address: str, tmp_path: Path
) -> None:
    documents(tmp_path / "input", 2)
    with below("/user/me/proxy/8787", int(address.rpartition(":")[2])) as proxied:
        browser.open(f"{proxied}/curation")
        browser.wait(READY)
        done = pipeline(tmp_path, "proxied").run(DaskExecutor(cluster=cluster))
        browser.wait("document.querySelector('[data-part=title]').innerText === 'proxied'")
        says(browser, done.report)
        for link, leads_to in (("a.run", "curation"), (".dask a", "status")):
            browser.wait(f"Boolean(document.querySelector('{link}'))")
            browser.value(f"document.querySelector('{link}').click()")
            browser.wait(f"location.pathname === '/user/me/proxy/8787/{leads_to}' && {READY}")
        assert browser.complaints == []
        browser.close()


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A scheduler process of its own behind a prefix, with a worker; its address and that of its pages."""
    folder = tmp_path_factory.mktemp("apart")
    info = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    where = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    options = ["--dashboard-prefix", "/far/away", "--preload", "dcurate.preload", "--scheduler-file", str(info)]
    with forked(*dask, "scheduler", *where, *options, log=folder / "scheduler.log"):
        wait_for(info)
        options = ["--scheduler-file", str(info), "--no-dashboard", "--local-directory", str(folder)]
        with forked(*dask, "worker", *options, log=folder / "worker.log"):
            known: dict[str, Any] = json.loads(info.read_text())
            wait_for_workers(known["address"], 1)
            yield known["address"], f"http://127.0.0.1:{known['services']['dashboard']}/far/away"


def test_a_scheduler_process_behind_a_prefix_shows_a_run_of_a_driver_elsewhere(
    browser: Browser, apart: tuple[str, str], tmp_path: Path
) -> None:
    scheduler, pages = apart
    browser.open(f"{pages}/curation")
    browser.wait(READY)
    browser.wait("document.querySelector('h1')?.innerText === 'No run yet'")
    documents(tmp_path / "input", 3)
    done = pipeline(tmp_path).run(DaskExecutor(cluster=AttachedCluster(scheduler)))
    says(browser, done.report)
    browser.value("document.querySelector('a.run').click()")
    browser.wait(f"location.pathname === '/far/away/curation' && location.search !== '' && {READY}")
    says(browser, done.report)
    assert browser.complaints == []
