from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    ColumnFilter,
    DataError,
    DocumentBatch,
    Filter,
    JsonlReader,
    JsonlWriter,
    PipelineError,
    Resources,
    Score,
    ScoreFilter,
)
from dcurate.core.fingerprint import fingerprint
from dcurate.core.stage import RowNeeds
from dcurate.io.json_write import JsonForm
from dcurate.rows import adapt_rows
from dcurate.rows.lines import LINE, with_lines
from dcurate.text import (
    DocumentFilter,
    LanguageFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    NumbersFilter,
    WordCountFilter,
)
from dcurate.text.score import MergedScoreFilter
from dcurate_testing.filter_oracle import RULES
from tests.text.strategies import texts


class Length(DocumentFilter):
    """A rule of a user's own."""

    def __init__(self, most: int = 3) -> None:
        super().__init__()
        self._most = most

    def score_document(self, text: str) -> int:
        return len(text)

    def keep_document(self, score: int) -> bool:
        return score <= self._most


def batch(*documents: str | None, **columns: list[Any]) -> DocumentBatch:
    return DocumentBatch(key=BatchKey("s"), data=pa.table({"text": pa.array(documents, pa.string()), **columns}))


def outcome(result: DocumentBatch) -> tuple[Any, ...]:
    gone = [(r.stage, r.reason, r.rows, r.nbytes, r.data.to_pydict(), r.data.schema) for r in result.rejections]
    return result.to_arrow().to_pydict(), result.to_arrow().schema, gone


def in_turn(stages: list[ScoreFilter], start: DocumentBatch) -> DocumentBatch:
    rejections: list[Any] = []
    for stage in stages:
        start = stage.process(start)
        rejections.extend(start.rejections)
    return replace(start, rejections=tuple(rejections))


def merged(stages: list[ScoreFilter]) -> Any:
    whole: Any = stages[0]
    for stage in stages[1:]:
        whole = whole.fuse_with(stage)
    return whole


score_filters = st.builds(
    ScoreFilter,
    st.sampled_from([rule for rule, _ in RULES] + [WordCountFilter(min_words=2), NumbersFilter(0.3)]),
    score_field=st.sampled_from([None, None, "a", "b", "id"]),
    invert=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(score_filters, min_size=2, max_size=6), st.lists(st.none() | texts, max_size=8))
def test_merged_filters_do_what_they_do_in_turn(stages: list[ScoreFilter], documents: list[str | None]) -> None:
    start = batch(*documents, id=list(range(len(documents))))
    assert outcome(merged(stages).process(start)) == outcome(in_turn(stages, start))


@settings(max_examples=30, deadline=None)
@given(st.lists(score_filters, min_size=2, max_size=4), st.lists(texts, max_size=6))
def test_a_list_of_filters_does_what_stages_in_turn_do(stages: list[Any], documents: list[str]) -> None:
    start = batch(*documents)
    fields = [stage.score_field for stage in stages]
    listed = ScoreFilter(
        [stage.filter_obj for stage in stages],
        score_field=fields,
        invert=[stage.invert for stage in stages],
        name="all",
    )
    kept = listed.process(start)
    expected = in_turn(stages, start)
    assert kept.to_arrow() == expected.to_arrow()
    assert [(r.stage, r.reason, r.rows) for r in kept.rejections] == [
        ("all", r.reason, r.rows) for r in expected.rejections
    ]


def test_merging_names_the_stages_and_the_first_filter_that_failed() -> None:
    chain = merged(
        [ScoreFilter(WordCountFilter(2, 9)), ScoreFilter(LongWordFilter(4)), ScoreFilter(NumbersFilter(0.5))]
    )
    assert [part.name for part in chain.parts] == ["word_count", "max_word_length", "numbers_ratio"]
    result = chain.process(batch("toolong", "fine then", "too loooong", "1 2 3"))
    assert result.to_arrow()["text"].to_pylist() == ["fine then"]
    assert [(r.stage, r.reason, r.rows, r.fault) for r in result.rejections] == [
        ("word_count", "word_count", 1, False),
        ("max_word_length", "max_word_length", 1, False),
        ("numbers_ratio", "numbers_ratio", 1, False),
    ]


@pytest.mark.parametrize(
    "following",
    [
        ScoreFilter(Length()),
        ScoreFilter(WordCountFilter(), text_field="title"),
        ScoreFilter(WordCountFilter(), score_field="text"),
        ScoreFilter([WordCountFilter(), Length()]),
        ScoreFilter(WordCountFilter()).with_(resources=Resources(cpus=2)),
        Score(WordCountFilter(), "n"),
    ],
)
def test_stages_that_cannot_share_a_pass_are_not_merged(following: Any) -> None:
    first = ScoreFilter(NumbersFilter())
    assert first.fuse_with(following) is None
    assert ScoreFilter(Length()).fuse_with(first) is None
    both = first.fuse_with(ScoreFilter(LongWordFilter()))
    assert isinstance(both, MergedScoreFilter)
    assert both.fuse_with(following) is None


def test_a_users_filter_and_a_function_score_document_by_document_and_null_is_empty_to_filters() -> None:
    scored = Score([Length(), lambda text: text is None], ["length", "is_null"]).process(batch("four", None))
    assert scored.to_arrow().to_pydict() == {"text": ["four", None], "length": [4, 0], "is_null": [False, True]}
    kept = ScoreFilter(Length(), score_field="n").process(batch("four", None))
    assert kept.to_arrow().to_pydict() == {"text": [None], "n": [0]}
    assert kept.rejections[0].data.to_pydict() == {"text": ["four"], "n": [4]}


def test_a_score_may_be_scored_in_its_turn() -> None:
    chain = ScoreFilter([Length(9), Length(2)], text_field=["text", "again"], score_field=["n", "m"])
    double = Score([str.upper, str.split], ["again", "words"], ["text", "again"]).process(batch("a b", "c"))
    assert double.to_arrow()["words"].to_pylist() == [["A", "B"], ["C"]]
    assert chain.process(double).to_arrow()["text"].to_pylist() == ["c"]


def test_a_filter_reads_its_score_from_a_column() -> None:
    start = batch("a", "b", "c", words=[1, 5, None])
    rule = WordCountFilter(min_words=2)
    assert Filter(rule, "words").process(start).to_arrow()["text"].to_pylist() == ["b"]
    assert Filter(rule, "words", invert=True).process(start).to_arrow()["text"].to_pylist() == ["a", "c"]
    assert Filter([Length(), lambda n: n == 1], ["words"] * 2, invert=[True, False]).inputs()[1] == ["words"]
    dropped = Filter(lambda n: n is not None, "words").process(start).rejections
    assert [(r.stage, r.reason, r.rows) for r in dropped] == [("words", "words", 1)]
    with pytest.raises(DataError, match="not numbers"):
        Filter(rule, "text").process(start)


def test_all_rows_dropped_leaves_an_empty_batch_with_its_columns() -> None:
    result = ScoreFilter(WordCountFilter(), score_field="n").process(batch("few words"))
    assert (result.num_items, result.get_columns(), result.key) == (0, ["text", "n"], BatchKey("s"))


def test_pandas_rows_are_scored_like_arrow_rows() -> None:
    frame = pd.DataFrame({"text": ["one two", None, "three"]}, index=[7, 8, 9])
    result = ScoreFilter(WordCountFilter(1, 1)).process(DocumentBatch(data=frame))
    assert result.to_pandas()["text"].tolist() == ["three"]


def test_stages_are_named_after_what_they_do_unless_named() -> None:
    assert ScoreFilter([WordCountFilter(), NumbersFilter()]).name == "score_filter_chain_of_word_count_numbers_ratio"
    assert Score(len, "n").name == "score_fn"
    assert Filter(NumbersFilter(), "n").name == "numbers_ratio"
    assert ScoreFilter(WordCountFilter(), name="mine").name == "mine"


def test_a_list_of_one_entry_represents_all() -> None:
    stage = ScoreFilter([WordCountFilter(1), MeanWordLengthFilter(1)], text_field=["text"], invert=[False])
    assert stage.inputs() == (["data"], ["text"])
    assert stage.outputs() == (["data"], [])
    assert stage.process(batch("some words")).num_items == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScoreFilter([]), "empty list"),
        (lambda: ScoreFilter(WordCountFilter), r"make one of it: WordCountFilter\(\)"),  # type: ignore[arg-type]
        (
            lambda: ScoreFilter(len),  # type: ignore[arg-type]
            "is not a filter; subclass DocumentFilter and call the function in its score_document",
        ),
        (lambda: ScoreFilter(WordCountFilter(), text_field=["a", "b"]), "2 entries for 1 functions"),
        (lambda: ScoreFilter([Length(), Length()], score_field="n"), "must name 2 columns"),
        (lambda: Score([Length(), Length()], "n"), "must name 2 columns"),
        (lambda: Filter([Length(), Length()], ["n"]), "must name 2 columns"),
    ],
)
def test_settings_that_do_not_fit_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="no column 'body'; the rows have 'text'"):
        ScoreFilter(WordCountFilter(), text_field="body").process(batch("a"))


def test_stages_travel_small_and_arrive_equal() -> None:
    chain = merged([ScoreFilter(rule, score_field=f"s{number}") for number, (rule, _) in enumerate(RULES)])
    assert pickle.loads(pickle.dumps(chain)) == chain
    assert len(pickle.dumps(chain)) < 8000
    assert len(pickle.dumps(chain.parts[0])) < 400


def test_a_hosts_models_are_fetched_and_a_slots_loaded() -> None:
    calls = []

    class Model(Length):
        def model_check_or_download(self) -> None:
            calls.append("fetch")

        def load_model(self) -> None:
            calls.append("load")

    for stage in (ScoreFilter([Model(), WordCountFilter()]), Score(Model(), "n")):
        stage.setup_on_node()
        stage.setup()
    assert calls == ["fetch", "load"] * 2


class Doubled(WordCountFilter):
    """Scores each document in its own way, by what the filter it extends makes of it."""

    def score_document(self, text: str) -> int:
        return 2 * int(super().score_document(text))


class Below(WordCountFilter):
    def keep_document(self, score: Any) -> bool:
        return not super().keep_document(score)


class Labelled(LanguageFilter):
    def score_document(self, text: str) -> dict[str, Any]:
        return {"language": "xx", "score": 1.0}


class Share(ColumnFilter):
    def score_column(self, texts: Any) -> Any:
        return texts.str.len()

    def keep_column(self, scores: Any) -> Any:
        return scores > 3


class Opposite(Share):
    def score_document(self, text: str) -> Any:
        return -super().score_document(text)

    def keep_document(self, score: Any) -> bool:
        return not super().keep_document(-score)


@pytest.mark.parametrize(
    ("rule", "scores", "kept"),
    [
        (Doubled(min_words=3), [4], ["a b"]),
        (Below(min_words=2), [1], ["long"]),
        (Labelled(["xx"]), [{"language": "xx", "score": 1.0}] * 2, ["a b", "long"]),
        (Opposite(), [-3], ["a b"]),
    ],
)
def test_a_subclass_of_a_built_in_filter_scores_and_keeps_documents_in_its_own_way(
    rule: Any, scores: list[Any], kept: list[str]
) -> None:
    first = ScoreFilter(NumbersFilter())
    stage = ScoreFilter(rule, score_field="s")
    assert first.fuse_with(stage) is None or isinstance(rule, Below)
    found = stage.process(batch("a b", "long")).to_pandas()
    assert (found["text"].tolist(), found["s"].tolist()) == (kept, scores)


class Cut(ScoreFilter):
    """A stage of a user that does more than the one that it extends."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        found = super().process(task)
        return found.with_data(found.to_arrow().slice(0, 1))


def test_a_subclass_of_a_stage_that_filters_is_not_merged() -> None:
    own, built_in = Cut(WordCountFilter(min_words=1)), ScoreFilter(NumbersFilter())
    assert own.fuse_with(built_in) is None
    assert built_in.fuse_with(own) is None
    assert own.process(batch("a", "b")).num_items == 1


def test_dropped_rows_are_copied_when_they_are_asked_for_and_the_batch_stays_behind() -> None:
    given = batch("one", "two words", "a", "b", *["many words here " * 500] * 20)
    [gone] = ScoreFilter(WordCountFilter(min_words=2)).process(given).rejections
    expected = given.to_arrow().take([0, 2, 3])
    assert (gone.rows, gone.nbytes) == (3, expected.nbytes)
    assert gone.first(2).num_rows == 2
    sent = pickle.dumps(gone)
    assert len(sent) < 10_000
    assert pickle.loads(sent).data == gone.data == expected


def test_a_text_that_no_later_stage_looks_at_stays_in_the_lines_of_rows() -> None:
    lines = pa.array([b'{"text": "a"}\n', b'{"text": "b c"}\n'], pa.large_binary())
    rows = with_lines(pa.table({"text": ["a", "b c"]}), lines, ["text"])
    stage = ScoreFilter(WordCountFilter(min_words=2), score_field="words")
    for later, expected in (((), [LINE, "words"]), (("text",), ["text", LINE, "words"])):
        kept = stage.adapted(RowNeeds(later)).process(DocumentBatch(data=rows))
        assert kept.to_arrow().column_names == expected
        assert b"".join(map(bytes, JsonForm().pieces(kept.to_arrow()))) == b'{"text": "b c","words":2}\n'
        assert kept.rejections[0].data.column("text").to_pylist() == ["a"]


def test_a_filter_that_is_followed_by_a_writer_leaves_texts_and_its_fingerprint_stays() -> None:
    filters = [ScoreFilter(WordCountFilter()), ScoreFilter(NumbersFilter())]
    _, first, second, _ = adapt_rows([JsonlReader("in"), *filters, JsonlWriter("out")])
    assert isinstance(first, ScoreFilter)
    assert isinstance(second, ScoreFilter)
    assert (first._read_later, second._read_later) == (("text",), ())
    assert fingerprint([first, second]) == fingerprint(filters)
