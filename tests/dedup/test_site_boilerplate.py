"""What most pages of a site repeat."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    DaskExecutor,
    DcurateError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    LocalCluster,
    Pipeline,
    PipelineError,
    RunResult,
)
from dcurate.dedup import RemoveSiteBoilerplate
from dcurate.dedup.site_boilerplate import site_of
from dcurate.frames.text import column_of
from dcurate.kernels.repeated_lines import lines_that_go
from tests.dedup.span_oracle import Rule, without
from tests.growth import assert_linear, repeated

pytestmark = pytest.mark.cluster

Row = tuple[str | None, str | None]

LINES = (
    "Home",
    "News of the day",
    "A text that no other page has",
    "# Name",
    "## Use",
    "- item",
    "    code",
    "\tx = 1",
)
MARKS = ("```", "````", "```py", "~~~", "$$", "$$a$$", "| a | b |", "    - deeper", "", " ", "Imprint", "İ ẞ")
texts = st.lists(st.sampled_from((*LINES, *MARKS)), max_size=9).map("\n".join)
urls = st.sampled_from(["http://a.org/1", "https://www.A.org:80/2?x", "http://b.org/", "/no/host", "http://[1", None])
rows = st.tuples(urls, st.one_of(st.none(), texts))
batches_of_rows = st.lists(st.lists(rows, max_size=6), min_size=1, max_size=4)
rules = st.builds(
    RemoveSiteBoilerplate,
    min_pages=st.integers(2, 4),
    min_fraction=st.sampled_from([0.01, 0.3, 0.5, 1.0]),
    min_chars=st.sampled_from([0, 10, 40]),
    normalize=st.sampled_from([(), ("case",), ("case", "whitespace")]),
)


def run(batches: Sequence[Sequence[Row]], *stages: Any) -> RunResult:
    numbers = iter(range(10**6))
    tasks = [
        DocumentBatch(
            data=pa.table(
                {
                    "n": pa.array([next(numbers) for _ in batch], pa.int64()),
                    "url": pa.array([url for url, _ in batch], pa.string()),
                    "text": pa.array([text for _, text in batch], pa.string()),
                }
            )
        )
        for batch in batches
    ]
    return Pipeline("test", stages=stages).run(InlineExecutor(), initial_tasks=tasks)


def left(result: RunResult) -> dict[int, str | None]:
    kept = [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]
    return {row["n"]: row["text"] for row in kept}


def outside_of_code(lines: Sequence[str]) -> list[bool]:
    """Return whether each line is outside of fences, tables and indented code."""
    out, fence = [], ""
    for line in lines:
        content = line.strip()
        row = len(content) - len(content.lstrip(content[0]))
        marks = content[0] * row if content[0] in "`~$" and row >= (2 if content[0] == "$" else 3) else ""
        code = line.startswith(("\t", "    ")) and content[0] not in "-*+0123456789"
        if fence:
            out.append(False)
            if marks == content and marks[0] == fence[0] and row >= len(fence):
                fence = ""
        elif marks and not (marks[0] == "$" and marks != content):
            out.append(False)
            fence = marks
        else:
            out.append(not marks and content[0] != "|" and not code)
    return out


def runs_that_go(shared: Sequence[bool], contents: Sequence[str], min_chars: int) -> set[int]:
    gone: set[int] = set()
    at = 0
    while at < len(shared):
        stop = at
        while stop < len(shared) and shared[stop]:
            stop += 1
        if stop > at and (at == 0 or stop == len(shared) or sum(map(len, contents[at:stop])) >= min_chars):
            last = stop
            while stop < len(shared) and last > at and contents[last - 1].startswith("#"):
                last -= 1
            gone.update(range(at, last))
        at = max(stop, at + 1)
    return gone


def rule_in_python(documents: Sequence[Row], stage: RemoveSiteBoilerplate) -> dict[int, str | None]:
    units = Rule("line", normalize=tuple(stage.normalize)).units
    sites = [site_of(url or "") for url, _ in documents]
    pages = Counter(site for site, (_, text) in zip(sites, documents, strict=True) if site and units(text or ""))
    with_line = Counter(
        (site, says)
        for site, (_, text) in zip(sites, documents, strict=True)
        for says in {unit[3] for unit in units(text or "")}
    )
    kept: dict[int, str | None] = {}
    for number, (site, (_, text)) in enumerate(zip(sites, documents, strict=True)):
        lines = units(text or "")
        counts = [with_line[site, says] for *_, says in lines]
        many = [
            bool(site) and count >= stage.min_pages and count / pages[site] >= stage.min_fraction for count in counts
        ]
        allowed = outside_of_code([(text or "")[start:stop].rstrip() for start, stop, *_ in lines])
        shared = [frequent and outside for frequent, outside in zip(many, allowed, strict=True)]
        gone = runs_that_go(shared, [content for _, _, content, _ in lines], stage.min_chars)
        places = {place for line in gone for place in range(lines[line][0], lines[line][1])}
        after = without(text, places) if text and places else text
        if after is None or after == text or after.strip():
            kept[number] = after
    return kept


@settings(deadline=None, max_examples=60)
@given(batches_of_rows, rules)
def test_what_is_left_is_what_the_rule_in_plain_python_leaves(
    batches: list[list[Row]], stage: RemoveSiteBoilerplate
) -> None:
    documents = [row for batch in batches for row in batch]
    expected = rule_in_python(documents, stage)
    result = run(batches, stage)
    assert left(result) == expected
    assert left(run([documents], stage)) == expected
    dropped = [report.dropped for report in result.report.stages if report.dropped]
    assert sum(sum(reasons.values()) for reasons in dropped) == len(documents) - len(expected)
    assert all(set(reasons) == {"nothing left"} for reasons in dropped)


@settings(deadline=None, max_examples=40)
@given(batches_of_rows, rules)
def test_cutting_twice_is_cutting_once_where_no_page_is_dropped(
    batches: list[list[Row]], stage: RemoveSiteBoilerplate
) -> None:
    unique = [[(url, f"{text}\n\n{at}.{number}\n\n{text}" if text else text) for number, (url, text) in enumerate(rows)]
              for at, rows in enumerate(batches)]  # fmt: skip
    once = left(run(unique, stage))
    assert left(run(unique, stage, stage.with_(name="again"))) == once


def site(pages: int) -> list[Row]:
    return [
        (f"https://example.org/{n}", f"Home\nAbout us\n\n# Page\n\nText {n}.\n\nNotes\n\nMore of {n}.\n\nImprint")
        for n in range(pages)
    ]


def test_menus_go_and_short_lines_within_the_text_stay() -> None:
    texts = left(run([site(10)], RemoveSiteBoilerplate()))
    assert texts[3] == "# Page\n\nText 3.\n\nNotes\n\nMore of 3."


def test_the_result_is_the_same_on_any_cluster_and_cut(cluster: LocalCluster, tmp_path: Path) -> None:
    rows = [{"n": n, "url": url, "text": text} for n, (url, text) in enumerate([*site(40), *site(5)])]
    for file in range(5):
        lines = (json.dumps(row) + "\n" for row in rows[file::5])
        (tmp_path / f"{file}.jsonl").write_text("".join(lines))
    results = [
        left(Pipeline("test", stages=[reader, RemoveSiteBoilerplate()]).run(executor))
        for reader, executor in (
            (JsonlReader(str(tmp_path)), InlineExecutor()),
            (JsonlReader(str(tmp_path), blocksize=700), InlineExecutor()),
            (JsonlReader(str(tmp_path), blocksize=1500), DaskExecutor(cluster=cluster)),
        )
    ]
    assert results[0] == results[1] == results[2]
    assert results[0][3] == "# Page\n\nText 3.\n\nNotes\n\nMore of 3."


def test_a_site_of_few_pages_is_left_alone() -> None:
    pages = site(9)
    assert left(run([pages], RemoveSiteBoilerplate())) == {n: text for n, (_, text) in enumerate(pages)}


def test_the_report_counts_lines_and_bytes() -> None:
    [stage] = [s for s in run([site(10)], RemoveSiteBoilerplate()).report.stages if s.found]
    assert stage.found == {"lines": 30, "bytes cut": 10 * len("Home\nAbout us\n\n" + "\n\nImprint")}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"min_pages": 1}, "min_pages=1"),
        ({"min_fraction": 0.0}, "min_fraction=0.0"),
        ({"min_fraction": 2}, "min_fraction=2"),
        ({"min_chars": -1}, "min_chars=-1"),
        ({"normalize": "case"}, "must be a list"),
        ({"normalize": ["cases"]}, "did you mean 'case'"),
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        RemoveSiteBoilerplate(**setting)


def test_addresses_that_are_not_text_are_refused() -> None:
    task = DocumentBatch(data=pa.table({"url": [1], "text": ["a"]}))
    with pytest.raises(DcurateError, match="choose another url_field"):
        Pipeline("test", stages=[RemoveSiteBoilerplate()]).run(InlineExecutor(), initial_tasks=[task])


@pytest.mark.parametrize("line", ["x\n", "```\n", "$$\n", "| a\n", "# a\n", "    x\n", "`", " ", "\0\n"])
def test_time_grows_with_the_text(line: str) -> None:
    finder = RemoveSiteBoilerplate().finder()

    def cut(text: str) -> None:
        column = column_of([text.encode()])
        lines = finder.spans(column)
        lines_that_go(*column, lines, lines.keys == lines.keys, 40)

    assert_linear(cut, [repeated(line)], lengths=(100_000, 1_000_000))
