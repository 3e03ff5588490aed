"""Lines, paragraphs and sentences that occur in a dataset more than once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    DaskExecutor,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    LocalCluster,
    Pipeline,
    PipelineError,
    RunResult,
    SpanDuplicates,
)
from dcurate.dedup.spans import NORMAL_FORMS, UnitFinder
from dcurate.frames.text import column_of
from dcurate.kernels.units import SpanLimits
from tests.dedup.span_oracle import Rule

pytestmark = pytest.mark.cluster

UNITS = ("line", "paragraph", "sentence")
ALPHABET = "aAéẞς1٣ .!?”。\n\r\t\u2028-_ﬁ\u0301\u0323한\u200b\0ꯍ𝟘"
texts = st.one_of(
    st.text(ALPHABET, max_size=30),
    st.text(max_size=20),
    st.lists(st.sampled_from(["One two. ", "Three! ", "four", "\n", "\n\n", "Five?” ", " "]), max_size=12).map("".join),
)
forms = st.sampled_from([(), *((form,) for form in NORMAL_FORMS), NORMAL_FORMS[:2], NORMAL_FORMS])


def run(batches: Sequence[Sequence[str | None]], *stages: Any) -> RunResult:
    """Stages on rows that are numbered over all batches."""
    numbers = iter(range(10**6))
    tasks = [
        DocumentBatch(data=pa.table({"n": [next(numbers) for _ in batch], "text": pa.array(batch, pa.string())}))
        for batch in batches
    ]
    return Pipeline("test", stages=stages).run(InlineExecutor(), initial_tasks=tasks)


def left(result: RunResult) -> dict[int, str | None]:
    """The rest of each document."""
    rows = [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]
    return {row["n"]: row["text"] for row in rows}


def stage(rule: Rule) -> SpanDuplicates:
    return SpanDuplicates(**vars(rule))


@settings(deadline=None, max_examples=150)
@given(texts, st.sampled_from(UNITS), forms)
def test_units_are_where_python_finds_them_and_equal_where_python_says(
    text: str, unit: Any, normalize: tuple[str, ...]
) -> None:
    texts = [text, text.upper(), text + "."]
    column = column_of(each.encode() for each in texts)
    spans = UnitFinder(unit, SpanLimits(1, 0, 0), normalize).spans(column)
    says: dict[str, int] = {}
    for row, each in enumerate(texts):
        own = slice(spans.bounds[row], spans.bounds[row + 1])
        expected = Rule(unit, normalize=normalize).units(each)
        begin = column.offsets[row]
        starts = [len(each[:start].encode()) for start, _, _, _ in expected]
        assert (spans.starts[own] - begin).tolist() == starts
        assert (spans.stops[own] - begin).tolist() == [len(each[:stop].encode()) for _, stop, _, _ in expected]
        for key, (*_, what) in zip(spans.keys[own].tolist(), expected, strict=True):
            assert says.setdefault(what, key) == key
    assert len(set(says.values())) == len(says)


rules = st.builds(
    Rule,
    unit=st.sampled_from(UNITS),
    span=st.integers(1, 3),
    normalize=forms,
    min_chars=st.sampled_from([0, 4]),
    min_words=st.sampled_from([0, 2]),
    max_copies=st.integers(1, 2),
    keep=st.sampled_from(["first", "none"]),
)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(st.one_of(st.none(), texts), max_size=4), min_size=1, max_size=4), rules)
def test_what_is_left_is_what_the_rule_in_plain_python_leaves(batches: list[list[str | None]], rule: Rule) -> None:
    documents = [text for batch in batches for text in batch]
    expected = {
        number: after
        for number, (before, after) in enumerate(zip(documents, rule.cut(documents), strict=True))
        if after is None or after == before or after.strip()
    }
    assert left(run(batches, stage(rule))) == expected
    assert left(run([documents], stage(rule))) == expected


@settings(deadline=None, max_examples=8)
@given(st.lists(st.lists(texts, max_size=4), min_size=1, max_size=3), st.sampled_from(UNITS), forms)
def test_cutting_units_twice_is_cutting_them_once(batches: list[list[str]], unit: Any, normalize: Any) -> None:
    once = SpanDuplicates(unit=unit, normalize=normalize)
    assert left(run(batches, once, once.with_(name="again"))) == left(run(batches, once))


@settings(deadline=None, max_examples=8)
@given(st.lists(st.lists(texts, max_size=4), min_size=1, max_size=3), rules)
def test_all_that_was_said_is_said_still(batches: list[list[str]], rule: Rule) -> None:
    rule.keep = "first"
    documents = [text for batch in batches for text in batch]
    after = " ".join(text or "" for text in left(run(batches, stage(rule))).values())
    for text in documents:
        for _, _, content, _ in Rule(rule.unit).units(text):
            if not rule.normalize:
                assert content in after


def test_three_sentences_in_a_row_go_as_in_c4() -> None:
    footer = "All rights reserved. See our terms. Call us!"
    batches = [[f"A page. {footer}", f"Another one?\n{footer}\nThe end."], ["See our terms. Call us! It is new."]]
    result = run(batches, SpanDuplicates(unit="sentence", span=3))
    assert left(result) == {0: batches[0][0], 1: "Another one?\nThe end.", 2: batches[1][0]}
    assert result.report.stages[-1].found == {"copies": 1, "bytes cut": len(footer) + 1}


def test_paragraph_hashes_of_ccnet_leave_out_case_digits_and_punctuation() -> None:
    stages = SpanDuplicates(unit="line", normalize=["case", "digits", "punctuation"])
    result = run([["Posted 3 May\nNews", "posted, 7 MAY!\nOther"]], stages)
    assert left(result) == {0: "Posted 3 May\nNews", 1: "Other"}


def test_a_text_of_which_nothing_goes_stays_to_the_byte() -> None:
    odd = "a \r\n\n \x85b\r\rc\u2028 d  \n\t"
    assert left(run([[odd, "", None, " \n "]], SpanDuplicates(unit="line"))) == {0: odd, 1: "", 2: None, 3: " \n "}


def test_newlines_of_what_stays_are_as_they_were() -> None:
    result = run([["x\r\ny\nz", "one\r\nx\r\ntwo\rz\nthree\r\ny"]], SpanDuplicates(unit="line"))
    assert left(result)[1] == "one\r\ntwo\rthree"


def test_documents_of_which_little_is_left_leave_whole_with_a_reason(tmp_path: Path) -> None:
    texts = ["first line\nsecond line", "first line", "short\nfirst line", "never cut"]
    stages = SpanDuplicates(unit="line", min_document_words=2)
    tasks = [DocumentBatch(data=pa.table({"n": range(4), "text": texts}))]
    rejected = tmp_path / "rejected"
    result = Pipeline("test", stages=[stages]).run(InlineExecutor(), initial_tasks=tasks, rejected=str(rejected))
    assert left(result) == {0: texts[0], 3: texts[3]}
    assert result.report.stages[-1].dropped == {"nothing left": 1, "too short": 1}
    rows = [json.loads(line) for path in rejected.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert sorted(row["text"] for row in rows) == ["first line", "short\nfirst line"]


def test_a_report_shows_the_spans_of_which_most_copies_went(tmp_path: Path) -> None:
    batches = [["Menu\nab", "Menu\ncd"], ["menu\ncd", "once"], ["MENU"]]
    run(batches, SpanDuplicates(unit="line", report_path=str(tmp_path)))
    rows = sorted(pq.read_table(tmp_path).to_pylist(), key=lambda row: -row["copies"])
    assert rows == [
        {"text": "Menu\n", "copies": 4, "removed": 3, "document": 0},
        {"text": "cd", "copies": 2, "removed": 1, "document": 1},
    ]


def test_a_million_equal_lines_and_one_endless_line_are_no_trouble() -> None:
    endless = "y" * 50_000_000
    result = left(run([["x\n" * 1_000_000], [endless, endless + "z"]], SpanDuplicates(unit="line")))
    assert result == {0: "x\n", 1: endless, 2: endless + "z"}


def test_the_result_is_the_same_on_any_cluster_and_cut(cluster: LocalCluster, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    lines = [f"line {number} of some length" for number in range(300)]
    source = tmp_path / "in"
    source.mkdir()
    for file in range(5):
        documents = ["\n".join(random.choice(lines, 20)) for _ in range(30)]
        rows = [json.dumps({"n": 30 * file + row, "text": text}) + "\n" for row, text in enumerate(documents)]
        (source / f"{file}.jsonl").write_text("".join(rows))
    results = [
        left(Pipeline("test", stages=[reader, SpanDuplicates(unit="line")]).run(executor))
        for reader, executor in (
            (JsonlReader(str(source)), InlineExecutor()),
            (JsonlReader(str(source), blocksize=3000), InlineExecutor()),
            (JsonlReader(str(source), blocksize=7000), DaskExecutor(cluster=cluster)),
        )
    ]
    assert results[0] == results[1] == results[2]
    kept = [line for text in results[0].values() for line in (text or "").splitlines()]
    assert sorted(kept) == sorted(set(kept))
    assert set(kept) <= set(lines)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "lines"}, "span_duplicates: no unit 'lines'; did you mean 'line'?"),
        ({"span": 0}, "span_duplicates: span=0 must be a whole number of at least 1"),
        ({"normalize": ["cases"]}, "span_duplicates: no normalize 'cases'; did you mean 'case'?"),
        ({"normalize": "case"}, "span_duplicates: normalize='case' must be a list, such as ['case']"),
        ({"keep": "last"}, "span_duplicates: no keep 'last'; did you mean 'first'?"),
        ({"max_copies": 0}, "span_duplicates: max_copies=0 must be a whole number of at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as error:
        SpanDuplicates(**settings)
    assert str(error.value).startswith(message.partition(";")[0])
