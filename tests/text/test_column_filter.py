from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import ColumnFilter, DocumentBatch, Filter, PipelineError, Score, ScoreFilter
from dcurate.text import DocumentFilter, WordCountFilter
from tests.text.strategies import texts


class ShareOfA(ColumnFilter):
    def score_column(self, texts: Any) -> Any:
        return texts.str.count("a") / texts.str.len().clip(lower=1)

    def keep_column(self, scores: Any) -> Any:
        return scores <= 0.5


class ShareOfAOneByOne(DocumentFilter):
    _name = "share_of_a"

    def score_document(self, text: str) -> float:
        return text.count("a") / max(1, len(text))

    def keep_document(self, score: float) -> bool:
        return score <= 0.5


class TooFew(ShareOfA):
    def score_column(self, texts: Any) -> Any:
        return texts.str.len()[1:]


class OneForAll(ShareOfA):
    def keep_column(self, scores: Any) -> Any:
        return np.bool_(True)


def batch(documents: list[str | None]) -> DocumentBatch:
    kind = pa.string() if len(documents) % 2 else pa.large_string()
    return DocumentBatch(data=pa.table({"text": pa.array(documents, kind), "row": range(len(documents))}))


def outcome(result: DocumentBatch) -> tuple[Any, ...]:
    return result.to_arrow().to_pydict(), [(r.stage, r.reason, r.data.to_pydict()) for r in result.rejections]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | texts | st.text("ab"), max_size=6), st.booleans())
def test_a_rule_over_a_column_does_what_the_same_rule_does_one_by_one(
    documents: list[str | None], inverted: bool
) -> None:
    found = []
    for rule in (ShareOfA(), ShareOfAOneByOne()):
        chain: list[DocumentFilter] = [
            WordCountFilter(min_words=0),
            rule,
        ]
        both = ScoreFilter(chain, score_field=[None, "share"], invert=[False, inverted], name="both")
        found.append(outcome(both.process(batch(documents))))
    assert found[0] == found[1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.none() | st.text("ab "), max_size=6))
def test_scoring_first_and_filtering_then_keeps_the_same_rows(documents: list[str | None]) -> None:
    at_once = ScoreFilter(ShareOfA(), score_field="share").process(batch(documents))
    scored = Score(ShareOfA(), score_field="share").process(batch(documents))
    assert Filter(ShareOfA(), "share").process(scored).to_arrow().to_pydict() == at_once.to_arrow().to_pydict()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (TooFew(), r"TooFew.score_column returned values of shape \(1,\) for 2 texts; return one value for each"),
        (OneForAll(), r"OneForAll.keep_column returned values of shape \(\) for 2 texts; return one value for each"),
    ],
)
def test_an_answer_of_another_length_is_refused(rule: ColumnFilter, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        ScoreFilter(rule).process(batch(["a", "b"]))
