"""Pages and notebook outputs as a person sees them: in the light, in the dark, and on a phone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dcurate import InlineExecutor, profile, read_run
from dcurate.events import RunEnded
from dcurate.runs.state import RunState
from dcurate.text import LongWordFilter, WordCountFilter
from dcurate.ui.compare import compare, comparison_page
from dcurate.ui.notebook import live_html, summary_html
from dcurate.ui.pace import Pace
from dcurate.ui.profile_page import page as profile_page
from dcurate.ui.report.page import run_page
from dcurate_testing.browser import Browser
from dcurate_testing.legibility import PHONE, broken, faint, outside
from tests.ui.report.test_page import made_up, pipeline, told_over_time
from tests.ui.test_notebook import EVENTS

pytestmark = pytest.mark.cluster

#: Background and text of the themes of notebooks, and the scheme of the system, which need not be the same.
THEMES = {
    "jupyter-light": ("#ffffff", "rgba(0, 0, 0, 0.87)", "dark"),
    "jupyter-dark": ("#111111", "#ffffff", "light"),
    "vscode-dark": ("#1f1f1f", "#cccccc", "light"),
}


def live(*events: object) -> str:
    run, pace = RunState(), Pace()
    for event in events:
        run.apply(event)  # type: ignore[arg-type]
    pace.see(run.snapshot(102.0))
    return live_html(run, pace, 102.0)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pages by name, and the outputs of a notebook."""
    folder = tmp_path_factory.mktemp("pages")
    for part in range(2):
        rows = [
            {
                "id": f"{part}-{row}",
                "source": "gutenberg",
                "text": "short" if row % 4 == 0 else f"document number {row}",
            }
            for row in range(20)
        ]
        (folder / f"{part}.jsonl").write_text("\n".join([*map(json.dumps, rows), "{broken", ""]))
    source = str(folder / "*.jsonl")
    runs = []
    for output in (folder / "one", folder / "two"):
        stages = pipeline(source, output)
        stages.run(InlineExecutor())
        runs.append(read_run(str(output)))
    corpus = profile(
        source, filters=[WordCountFilter(2), LongWordFilter(5)], columns=["source"], executor=InlineExecutor()
    )
    outputs = [
        stages._repr_html_(),
        live(*EVENTS),
        live(*EVENTS, RunEnded(102.0, "")),
        summary_html(runs[0].report, told_over_time(), runs[0].about),
    ]
    return {
        "report": run_page(runs[0].report, told_over_time(), runs[0].about),
        "report of a failure": run_page(replace(made_up(), error="it broke"), told_over_time(), {}),
        "profile": profile_page(corpus),
        "comparison": comparison_page(compare(*runs)),
        "notebook": "".join(outputs),
    }


def show(browser: Browser, page: str, folder: Path, scheme: str, width: int = 1280, height: int = 800) -> None:
    (folder / "page.html").write_text(page)
    browser.open((folder / "page.html").as_uri(), width, height)
    browser.scheme(scheme)
    browser.wait("document.readyState === 'complete' && Boolean(document.body)")
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def in_notebook(outputs: str, theme: str) -> str:
    background, ink, _ = THEMES[theme]
    return f'<!doctype html><meta charset="utf-8"><body style="background:{background};color:{ink}">{outputs}</body>'


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "report of a failure", "profile", "comparison"])
def test_every_text_of_a_page_has_contrast_in_either_scheme(
    browser: Browser, pages: dict[str, str], tmp_path: Path, name: str, scheme: str
) -> None:
    show(browser, pages[name], tmp_path, scheme)
    dark = browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    assert faint(browser) == []


@pytest.mark.parametrize("theme", THEMES)
def test_outputs_of_a_notebook_have_contrast_in_its_theme_whatever_the_system_prefers(
    browser: Browser, pages: dict[str, str], tmp_path: Path, theme: str
) -> None:
    show(browser, in_notebook(pages["notebook"], theme), tmp_path, THEMES[theme][2])
    assert faint(browser) == []


@pytest.mark.parametrize("name", ["report", "report of a failure", "profile", "comparison", "notebook"])
def test_on_a_phone_no_column_is_lost_and_no_word_broken(
    browser: Browser, pages: dict[str, str], tmp_path: Path, name: str
) -> None:
    page = pages[name] if name != "notebook" else in_notebook(pages[name], "jupyter-dark")
    viewport = '<meta name="viewport" content="width=device-width">'
    show(browser, viewport + page, tmp_path, "light", *PHONE)
    assert outside(browser) == []
    assert browser.value("document.documentElement.scrollWidth") == PHONE[0]
    assert broken(browser) == []


def test_a_cell_on_a_phone_says_what_it_is(browser: Browser, pages: dict[str, str], tmp_path: Path) -> None:
    show(browser, pages["report"], tmp_path, "light", *PHONE)
    said = "getComputedStyle(document.querySelectorAll('#funnel tr')[2].querySelectorAll('td')[3], '::before').content"
    assert browser.value(said) == '"dropped "'


@pytest.mark.parametrize("name", ["report", "profile", "comparison"])
def test_a_phone_shows_contents_that_lead_to_every_section(
    browser: Browser, pages: dict[str, str], tmp_path: Path, name: str
) -> None:
    show(browser, pages[name], tmp_path, "light", *PHONE)
    titles = browser.value("[...document.querySelectorAll('main section > h2')].map(e => e.textContent)")
    links = "[...document.querySelectorAll('.contents a')]"
    assert len(titles) >= 3
    assert browser.value(f"{links}.map(e => e.textContent)") == titles
    led = f"{links}.map(e => document.getElementById(e.getAttribute('href').slice(1)).querySelector('h2').textContent)"
    assert browser.value(led) == titles
    assert browser.value(f"{links}.every(e => e.getBoundingClientRect().height >= 30)")
    browser.resize(1280, 800)
    browser.wait(f"{links}.every(e => e.getBoundingClientRect().height === 0)")
