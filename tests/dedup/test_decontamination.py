"""Training data is kept clean of benchmarks."""

from __future__ import annotations

import json
import re
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
    DataError,
    Decontaminate,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup import Benchmark, NgramIndex, TaskDecontamination
from dcurate.dedup.span_removal import SpanRemoval

pytestmark = pytest.mark.cluster

QUESTION = "Which of the nine planets of old was taken off the list in the year 2006?"
SHORT = "Who wrote the book of the dead and why?"


def lines(path: Path, rows: list[Any]) -> str:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    rows = [{"q": QUESTION, "n": "q7"}, {"q": SHORT, "n": "q8"}, {"q": "Too short to tell", "n": "q9"}]
    return Benchmark(lines(tmp_path / "tasks" / "trivia.jsonl", rows), "q", id_field="n")


def batch(*documents: str | None) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"text": list(documents), "n": list(range(len(documents)))}))


DOCUMENTS = ["nothing here", f"Quiz: {QUESTION.upper()!r}", None, "", "so: who wrote - the book of the DEAD, and why."]


def test_documents_with_an_ngram_of_a_benchmark_go_and_it_is_said_which(benchmark: Benchmark) -> None:
    made = Decontaminate(benchmark).process(batch(*DOCUMENTS))
    assert made.to_arrow().to_pydict() == {"text": ["nothing here", None, ""], "n": [0, 2, 3]}
    (gone,) = made.rejections
    assert (gone.stage, gone.reason, gone.rows) == ("decontaminate", "contaminated: trivia", 2)
    told = gone.data.to_pylist()
    assert [row["contamination_example"] for row in told] == ["q7", "q8"]
    assert [row["contamination_matches"] for row in told] == [4, 1]
    assert told[0]["contamination_ngram"] == "which of the nine planets of old was taken off the list in"
    assert told[1]["contamination_ngram"] == "who wrote the book of the dead and why"


def test_flagged_documents_all_stay(benchmark: Benchmark) -> None:
    stage = Decontaminate(benchmark, action="flag")
    stage.setup()
    made = stage.process(batch(*DOCUMENTS)).to_arrow()
    assert made["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert made["contamination_matches"].to_pylist() == [0, 4, 0, 0, 1]
    assert made["contamination_benchmark"].to_pylist() == [None, "trivia", None, None, "trivia"]
    assert made.column_names[2:] == stage.outputs()[1]


def test_a_document_may_hold_fewer_ngrams_than_are_too_many(benchmark: Benchmark) -> None:
    made = Decontaminate(benchmark, min_matches=2).process(batch(*DOCUMENTS))
    assert made.to_arrow()["n"].to_pylist() == [0, 2, 3, 4]


def test_an_index_is_the_same_after_it_was_saved(benchmark: Benchmark, tmp_path: Path) -> None:
    index = NgramIndex.build([benchmark])
    path = str(tmp_path / "kept" / "index.ngrams")
    index.save(path)
    again = NgramIndex.load(path)
    assert [again.text_of(gram) for gram in range(len(again))] == [index.text_of(gram) for gram in range(len(index))]
    assert [again.found_in(gram) for gram in range(len(again))] == [index.found_in(gram) for gram in range(len(index))]
    assert (again.short, again.benchmarks) == ((1,), ("trivia",))
    expected = Decontaminate(benchmark, action="flag").process(batch(*DOCUMENTS)).to_arrow()
    assert Decontaminate(path, action="flag").process(batch(*DOCUMENTS)).to_arrow() == expected


def test_benchmarks_are_read_from_every_kind_of_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"q": [QUESTION], "a": [["x"]]}), tmp_path / "one.parquet")
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"q": [QUESTION], "r": [SHORT]}), tmp_path / "folder" / "part.parquet")
    (tmp_path / "two.txt").write_text(f"{SHORT}\n\n{QUESTION}\n")
    given = [
        Benchmark(str(tmp_path / "one.parquet"), "q"),
        Benchmark(str(tmp_path / "two.txt")),
        Benchmark(str(tmp_path / "folder"), ("q", "r")),
    ]
    index = NgramIndex.build(given)
    assert sorted(index.found_in(0)) == [("folder", "0"), ("one", "0"), ("two", "1")]
    assert len(index) == 5
    assert index.short == (0, 0, 0)


def test_the_size_of_ngrams_follows_from_the_lengths_of_examples_where_asked() -> None:
    for words, size in ((5, 8), (10, 10), (40, 13)):
        index = NgramIndex.of_texts({"t": [" ".join(f"w{n}" for n in range(words))] * 20}, "auto")
        assert len(index) == (max(words - size + 1, 0))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: NgramIndex.build([Benchmark(f"{folder}/no.txt")]), DataError, "no such file"),
        (lambda folder: NgramIndex.build([Benchmark(f"{folder}/tasks/trivia.jsonl", "x")]), DataError, "'x'"),
        (lambda folder: NgramIndex.load(f"{folder}/no.ngrams"), DataError, "is not there; make one"),
        (lambda folder: NgramIndex.load(f"{folder}/tasks/trivia.jsonl"), DataError, "is not an index"),
        (lambda folder: NgramIndex.build([]), PipelineError, "at least one"),
        (
            lambda folder: NgramIndex.build([Benchmark("a/t.txt"), Benchmark("b/t.txt")]),
            PipelineError,
            "name of its own",
        ),
        (lambda folder: Decontaminate(["a.jsonl"]), PipelineError, "is not a benchmark"),  # type: ignore[list-item]
        (lambda folder: Decontaminate(Benchmark("a"), action="hide"), PipelineError, "no action 'hide'"),  # type: ignore[arg-type]
        (lambda folder: Decontaminate(Benchmark("a"), ngram_size=0), PipelineError, "must be a number of words"),
        (lambda folder: TaskDecontamination(Benchmark("a"), max_splits=-1), PipelineError, "not be negative"),
        (lambda folder: Benchmark("", "x"), PipelineError, "is not a path"),
        (lambda folder: Benchmark("a", ()), PipelineError, "at least one column"),
    ],
)
def test_what_cannot_be_done_is_reported(
    benchmark: Benchmark, tmp_path: Path, make: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        make(tmp_path)


SENTENCE = "The sun rose over the hills and all was well. "


def padded(middle: str, count: int = 10) -> str:
    return SENTENCE * count + middle + " " + SENTENCE * count


def corpus(folder: Path) -> str:
    """Files with a question once, one too often, one split too much, one with nothing left, and one that is common."""
    common = "it is a truth universally acknowledged that a single man must want a wife"
    files: list[Any] = [
        [{"id": "clean", "text": padded("Clean.")}, {"id": "once", "text": padded(QUESTION)}],
        [{"id": "often", "text": padded(QUESTION + " ", 10) * 11}, {"id": "gone", "text": QUESTION}],
        [{"id": f"common-{n}", "text": padded(common)} for n in range(14)] + [{"id": "null", "text": None}],
    ]
    for number, rows in enumerate(files):
        lines(folder / f"{number}.jsonl", rows)
    return str(folder)


def cleaned(source: str, tasks: Any, executor: Any, folder: Path, **settings: Any) -> tuple[list[dict[str, Any]], Any]:
    stages: list[AnyStage] = [JsonlReader(source), TaskDecontamination(tasks, **settings), JsonlWriter(str(folder))]
    report = Pipeline("test", stages=stages).run(executor, rejected=str(folder / "rejected")).report
    rows = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return rows, report


def test_benchmarks_are_cut_out_of_documents_in_every_mode(cluster: LocalCluster, tmp_path: Path) -> None:
    source = corpus(tmp_path / "in")
    common = "It is a truth universally acknowledged, that a single man must want a wife"
    tasks = Benchmark(lines(tmp_path / "tasks" / "t.jsonl", [{"text": QUESTION}, {"text": common}]))
    told = tmp_path / "found.jsonl"
    rows, report = cleaned(source, tasks, InlineExecutor(), tmp_path / "inline", max_matches=13, report_path=str(told))
    pieces = [row["text"] for row in rows if row["id"] == "once"]
    assert len(pieces) == 2
    assert all(set(re.split(r"(?<=\.) *", piece.strip())) <= {SENTENCE.strip(), ""} for piece in pieces)
    assert [len(piece) >= 200 for piece in pieces] == [True, True]
    assert [row["id"] for row in rows if not row["id"].startswith("common")] == ["clean", "once", "once", "null"]
    dropped = next(stage.dropped for stage in report.stages if stage.dropped)
    assert dropped == {"split into more than 10": 1, "nothing left": 1}
    found = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(row["count"], row["ignored"]) for row in found] == [(14, True)] * 2 + [(13, False)] * 4
    assert found[0]["examples"] == [{"benchmark": "t", "id": "1"}]
    again, _ = cleaned(source, tasks, DaskExecutor(cluster=cluster), tmp_path / "streamed", max_matches=13)
    assert again == rows


def test_an_ngram_that_is_common_is_left(tmp_path: Path) -> None:
    text = padded(QUESTION)
    tasks = Benchmark(lines(tmp_path / "tasks" / "t.jsonl", [{"text": QUESTION}]))
    for often, expected in ((10, 20), (11, 11)):
        source = lines(tmp_path / str(often) / "in.jsonl", [{"text": text}] * often)
        rows, _ = cleaned(str(Path(source).parent), tasks, InlineExecutor(), tmp_path / f"out{often}")
        assert len(rows) == expected


def original_pieces(text: str, stretches: list[tuple[int, int]], side: int, shortest: int) -> list[str]:
    """The rule in single steps, after the original: look backwards and forwards for the end of a sentence."""
    pieces, base = [], 0
    for start, stop in stretches:
        if start < base:
            continue
        rest = text[base:]
        place = start - base - side
        while place > 0 and rest[place] not in ".!?":
            place -= 1
        if place > 0 and place + 1 >= shortest:
            pieces.append(rest[: place + 1])
        place = stop - base + side
        while place < len(rest) and rest[place] not in ".!?":
            place += 1
        base += min(place + 1, len(rest))
    if base < len(text) and len(text) - base >= shortest:
        pieces.append(text[base:])
    return pieces


@settings(deadline=None, max_examples=300)
@given(
    st.text("ab.! é中", max_size=60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(1, 9)), max_size=5),
    st.integers(0, 9),
    st.integers(1, 9),
)
def test_what_is_left_is_what_the_rule_leaves(text: str, cuts: list[tuple[int, int]], side: int, shortest: int) -> None:
    stretches = sorted((start, min(start + size, len(text))) for start, size in cuts if start < len(text))
    encoded = text.encode()
    places = np.array([[len(text[:at].encode()) for at in pair] for pair in stretches], np.int64).reshape(-1, 2)
    kept = SpanRemoval(shortest, side, 10).pieces(encoded, places)
    if stretches:
        assert [encoded[start:stop].decode() for start, stop in kept] == original_pieces(
            text, stretches, side, shortest
        )
