import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import BatchKey, DocumentBatch, Filter, Score, ScoreFilter
from dcurate.core.batch import Rejection, Scored
from dcurate.engine.worker import samples
from dcurate.engine.worker.operator_task import OperatorSpec, run_operator
from dcurate.engine.worker.samples import ScoreSampler, to_code, to_json
from dcurate.events import EXAMPLES, StageStats
from dcurate.text import LongWordFilter, WordCountFilter
from dcurate.text.score import MergedScoreFilter

KEY = BatchKey("a.jsonl")


def batch(*texts: str, split: str = "a.jsonl") -> DocumentBatch:
    ids = [f"{split}-{place}" for place in range(len(texts))]
    return DocumentBatch(key=BatchKey(split), data=pa.table({"id": ids, "text": list(texts)}))


def stats_of(stage, *batches, examples: bool = True) -> list[list[StageStats]]:
    return run_operator(OperatorSpec("test", (stage,), examples=examples), batches).stats


def test_scores_of_a_filter_are_counted_for_the_report() -> None:
    ((stats,),) = stats_of(ScoreFilter(WordCountFilter(min_words=2)), batch("one", "one two", "one two", "a b c"))
    assert stats.scores == {"word_count": {"1": 1, "2": 2, "3": 1}}


def test_stages_that_were_merged_have_scores_and_examples_of_their_own() -> None:
    merged = ScoreFilter(WordCountFilter(min_words=2)).fuse_with(ScoreFilter(LongWordFilter(max_word_length=3)))
    assert isinstance(merged, MergedScoreFilter)
    ((words, longest),) = stats_of(merged, batch("one", "one two", "three words"))
    assert (words.scores, longest.scores) == (
        {"word_count": {"1": 1, "2": 2}},
        {"max_word_length": {"3": 1, "5": 1}},
    )
    assert words.examples == {"word_count": [{"id": "a.jsonl-0", "excerpt": "one", "score": 1, "source": "a.jsonl"}]}
    assert [one["score"] for one in longest.examples["max_word_length"]] == [5]


def test_scores_that_are_added_or_read_from_a_column_are_counted_too() -> None:
    ((scored,),) = stats_of(Score(len, "length"), batch("abc", "ab"))
    rows = DocumentBatch(key=KEY, data=pd.DataFrame({"text": ["x", "y"], "rank": [0.5, 2.0]}))
    ((read,),) = stats_of(Filter(lambda rank: rank > 1, "rank"), rows)
    assert scored.scores == {"length": {"2": 1, "3": 1}}
    assert read.scores == {"rank": {"0.5": 1, "2": 1}}
    assert read.examples["rank"] == [{"excerpt": "x", "score": 0.5, "source": "a.jsonl"}]


def test_labels_are_counted_as_they_are_and_other_things_not_at_all() -> None:
    found = StageStats("s")
    scored = [Scored("s", "lang", ["en", "de", "en"]), Scored("s", "pair", [["en", 0.5]])]
    ScoreSampler().add([found], scored, [], KEY)
    assert found.scores == {"lang": {"en": 2, "de": 1}}


def test_labels_of_rows_that_a_rule_drops_are_counted_too() -> None:
    rows = DocumentBatch(key=KEY, data=pa.table({"language": ["en", "la", "en", "de"] * 300}))
    ((stats,),) = stats_of(Filter(lambda language: language in ("en", "de"), "language"), rows)
    assert stats.scores == {"language": {"en": 600, "la": 300, "de": 300}}
    assert stats.dropped_labels == {"language": {"la": 300}}
    assert "dropped_labels" not in stats.counts()
    assert "dropped_labels" not in StageStats("s").to_dict()


def test_labels_beyond_those_that_are_counted_by_name_are_counted_together() -> None:
    found = StageStats("s")
    ScoreSampler().add([found], [Scored("s", "lang", [f"l{number}" for number in range(50)])], [], KEY)
    assert sum(found.scores["lang"].values()) == 50
    assert found.scores["lang"]["(other labels)"] == 10


def test_of_a_large_batch_a_sample_stands_for_all_rows() -> None:
    texts = ["one two"] * 1000
    ((stats,),) = stats_of(ScoreFilter(WordCountFilter(min_words=1)), batch(*texts))
    assert stats.scores == {"word_count": {"2": 1000}}


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_a_score_is_cut_to_two_digits_towards_zero(scores: list[float]) -> None:
    for score, code in zip(scores, to_code(np.array(scores)).tolist(), strict=True):
        pairs = float(samples._text(code))
        if abs(score) <= 1e-300 or np.isinf(score):
            assert pairs in (0.0, score)
        else:
            assert abs(pairs) <= abs(score) * (1 + 1e-8)
            assert abs(score - pairs) <= 0.1000001 * abs(score)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2))
def test_the_order_of_scores_is_kept_when_they_are_cut(scores: list[float]) -> None:
    codes = to_code(np.sort(np.array(scores)))
    assert (np.diff(codes) >= 0).all()


def test_no_number_is_left_out_but_those_that_are_none() -> None:
    found = StageStats("s")
    ScoreSampler().add([found], [Scored("s", "s", np.array([1.0, np.nan, -0.0, np.inf, -np.inf]))], [], KEY)
    assert found.scores == {"s": {"-inf": 1, "0": 1, "1": 1, "inf": 1}}


def test_a_slot_shows_a_few_rows_of_each_reason_and_then_no_more() -> None:
    stage = ScoreFilter(WordCountFilter(min_words=2))
    shown = ScoreSampler()
    outcomes = [
        run_operator(OperatorSpec("test", (stage,)), [batch("a", "b", "c", split=f"{n}.jsonl")], sampler=shown)
        for n in range(3)
    ]
    taken = [one for result in outcomes for one in result.stats[0][0].examples.get("word_count", [])]
    assert [one["id"] for one in taken] == ["0.jsonl-0", "0.jsonl-1", "0.jsonl-2", "1.jsonl-0", "1.jsonl-1"]
    assert len(taken) == EXAMPLES
    assert sum(result.stats[0][0].dropped["word_count"] for result in outcomes) == 9


def test_examples_can_be_switched_off_and_scores_stay() -> None:
    ((stats,),) = stats_of(ScoreFilter(WordCountFilter(min_words=2)), batch("secret"), examples=False)
    assert stats.examples == {}
    assert stats.scores == {"word_count": {"1": 1}}


def test_an_example_shows_how_a_text_begins_on_one_line() -> None:
    ((stats,),) = stats_of(ScoreFilter(WordCountFilter(min_words=10**6, max_words=10**7)), batch("word\n" * 500))
    (example,) = stats.examples["word_count"]
    assert len(example["excerpt"]) <= 200
    assert example["excerpt"].startswith("word word")
    assert example["excerpt"].endswith("…")


def test_a_stage_with_very_many_reasons_shows_some_of_them() -> None:
    found = StageStats("s")
    rejections = [Rejection("s", f"reason {n}", 1, 1, pa.table({"text": ["x"]})) for n in range(100)]
    ScoreSampler().add([found], [], rejections, KEY)
    assert len(found.examples) == samples.MAX_REASONS


def test_rows_without_an_arrow_form_are_not_shown_and_do_no_harm() -> None:
    found = StageStats("s")
    mixed = pd.DataFrame({"text": ["x", 1]})
    ScoreSampler().add([found], [], [Rejection("s", "odd", 2, 9, mixed)], KEY)
    assert found.examples == {}


def test_once_many_rows_are_counted_scores_take_only_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "FREE_ROWS", 2)
    some, found = ScoreSampler(), StageStats("s")
    scored = [Scored("s", "s", np.array([1.0, 2.0]))]
    for _ in range(3):
        some.add([found], scored, [], KEY)
    assert found.scores == {"s": {"1": 1, "2": 1}}
    some.add_work(3600)
    some.add([found], scored, [], KEY)
    assert found.scores == {"s": {"1": 2, "2": 2}}


def test_evidence_pickles_as_its_setting() -> None:
    assert pickle.loads(pickle.dumps(ScoreSampler(examples=False))).examples is False


def test_scores_are_told_as_json_can_hold_them() -> None:
    assert [to_json(one) for one in (np.int64(3), np.float64(0.5), float("nan"), None, True)] == [
        3,
        0.5,
        "nan",
        None,
        True,
    ]


def test_stats_for_the_ledger_hold_neither_scores_nor_examples() -> None:
    ((stats,),) = stats_of(ScoreFilter(WordCountFilter(min_words=2)), batch("one"))
    assert set(stats.to_dict()) - set(stats.counts()) == {"scores", "examples"}
