"""Buckets of scores: each row is in one, and a sample is cut as asked."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError
from dcurate.testing import check_stage
from dcurate.text import ScoreBuckets, bucket_limits

ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.floats(0, 100), st.just(30.0)), st.sampled_from(["en", "de", "eo", None])),
    min_size=1,
    max_size=60,
)


def bucket(score: float | None, limits: list[float] | None) -> str | None:
    """The rule of CCNet in plain words."""
    if score is None or limits is None:
        return None
    return "head" if score < limits[0] else "middle" if score < limits[1] else "tail"


@given(ROWS, st.booleans())
def test_each_score_is_in_the_bucket_of_ccnet_for_its_language(rows, others):
    limits = {"en": [30.0, 60.0], "de": [10.0, 20.0], **({"": [50.0, 51.0]} if others else {})}
    frame = pd.DataFrame(rows, columns=["perplexity", "language"]).astype({"perplexity": "float64"})
    stage = ScoreBuckets(limits, group_field="language")
    made = stage.process(DocumentBatch(data=frame)).to_pandas()["bucket"].tolist()
    expected = [bucket(score, limits.get(language or "", limits.get(""))) for score, language in rows]
    assert [None if pd.isna(name) else name for name in made] == expected


@given(st.integers(0, 2**32), st.integers(200, 400))
def test_limits_of_a_sample_cut_it_as_asked_in_each_language(seed, count):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"perplexity": random.pareto(1, count) * 100, "language": random.choice(["en", "de"], count)})
    frame.loc[frame.language == "de", "perplexity"] *= 10
    limits = bucket_limits([frame[:100], frame[100:]], group_field="language", min_rows=20)
    stage = ScoreBuckets(limits, group_field="language")
    made = stage.process(DocumentBatch(data=frame)).to_pandas()
    for _, part in made.groupby("language"):
        shares = part.bucket.value_counts(normalize=True)
        assert abs(shares["head"] - 0.3) <= 1 / len(part)
        assert abs(shares["middle"] - 0.3) <= 2 / len(part)


def test_as_many_groups_as_rows_take_no_more_than_linear_time():
    count = 200_000
    frame = pd.DataFrame({"perplexity": np.arange(count) / 1.0, "language": [f"l{n}" for n in range(count)]})
    start = time.process_time()
    limits = bucket_limits(frame, group_field="language")
    ScoreBuckets(limits, group_field="language").process(DocumentBatch(data=frame))
    assert time.process_time() - start < 10  # a comparison of each row with each group would take minutes


def test_small_languages_have_the_limits_of_all_and_constant_scores_are_refused():
    frame = pd.DataFrame({"perplexity": range(200), "language": ["en"] * 190 + ["eo"] * 10})
    assert sorted(bucket_limits(frame, group_field="language")) == ["", "en"]
    with pytest.raises(PipelineError, match="or their scores are alike; give a larger sample"):
        bucket_limits(pd.DataFrame({"perplexity": [1.0] * 200}))
    with pytest.raises(PipelineError, match="must be numbers that ascend between 0 and 1"):
        bucket_limits(frame, fractions=(0.6, 0.3))
    with pytest.raises(PipelineError, match="must be numbers that ascend"):
        bucket_limits(frame, fractions=("a",))  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="min_rows='a' must be a whole number"):
        bucket_limits(frame, min_rows="a")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="must be a list of different names"):
        ScoreBuckets({"": [1.0, 2.0]}, buckets=["a", None, 3])  # type: ignore[list-item]
    with pytest.raises(PipelineError, match="are not rows"):
        bucket_limits("rows")
    with pytest.raises(DataError, match="no column 'score'"):
        bucket_limits(frame, "score")


def test_the_stage_keeps_the_contract_of_stages():
    frame = pd.DataFrame({"perplexity": [1.0, None, 70.0], "text": ["a", "b", "c"]})
    check_stage(ScoreBuckets({"": [30.0, 60.0]}), DocumentBatch(data=frame))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"limits": {}}, "bucket_limits finds them"),
        ({"limits": 300.0}, "bucket_limits finds them"),
        ({"limits": {"en": [1.0]}, "group_field": "l"}, "must be 2 numbers, one fewer than the buckets"),
        ({"limits": {"en": 5}, "group_field": "l"}, "must be 2 numbers, one fewer than the buckets"),
        ({"limits": {"en": ["a", "b"]}, "group_field": "l"}, "must be 2 numbers, one fewer than the buckets"),
        ({"limits": {"en": [2.0, 1.0]}, "group_field": "l"}, "limits of 'en' must ascend"),
        ({"limits": {"en": [1.0, float("nan")]}, "group_field": "l"}, "limits of 'en' must ascend"),
        ({"limits": {"en": [1.0, 2.0]}}, 'give group_field="language"'),
        ({"limits": {"": [1.0, 2.0]}, "buckets": ["a", "a", "b"]}, "must be a list of different names"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str):
    with pytest.raises(PipelineError, match=sentence):
        ScoreBuckets(**settings)
