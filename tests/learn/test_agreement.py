"""Agreement of judges is what scikit-learn and krippendorff compute, whatever the batches."""

import json
import math
import time
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from dcurate import DataError, PipelineError
from dcurate.learn import Label, cohen_kappa, measure_agreement
from dcurate.learn.agreement import LabelCounts

SCALE = Label("s", "scale", "d", min=1, max=4)
CHOICE = Label("s", "enumeration", "d", values={"a": "", "b": "", "c": ""})
FLAG = Label("s", "flag", "d")


def counted(label: Label, rows: list[tuple[Any, ...]], batches: int = 1) -> LabelCounts:
    columns = [f"j{number}" for number in range(len(rows[0]))]
    counts = LabelCounts(label, columns)
    for start in range(batches):
        part = rows[start::batches]
        counts.add(pa.table({name: [row[place] for row in part] for place, name in enumerate(columns)}))
    return counts


def ratings(label: Label, judges: int, missing: bool) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    values = st.sampled_from(LabelCounts(label, ["a", "b"]).values)
    value = st.one_of(values, st.none()) if missing else values
    return st.lists(st.tuples(*[value] * judges), min_size=1, max_size=30)


@given(
    st.sampled_from([SCALE, CHOICE, FLAG]).flatmap(lambda label: st.tuples(st.just(label), ratings(label, 2, False)))
)
def test_kappa_is_that_of_scikit_learn(case: tuple[Label, list[tuple[Any, ...]]]) -> None:
    label, rows = case
    counts = counted(label, rows)
    order = {value: number for number, value in enumerate(counts.values)}
    first, second = ([order[row[place]] for row in rows] for place in (0, 1))
    weights = "quadratic" if label is SCALE else None
    kappa = counts.figures()["pairs"][0]["kappa"]
    if len({*first, *second}) == 1:
        assert math.isnan(kappa)
    else:
        expected = cohen_kappa_score(first, second, labels=range(len(order)), weights=weights)
        assert kappa == pytest.approx(expected, abs=1e-12)


@given(
    st.sampled_from([SCALE, CHOICE, FLAG]).flatmap(
        lambda label: st.tuples(st.just(label), st.integers(2, 4).flatmap(lambda judges: ratings(label, judges, True)))
    ),
    st.integers(1, 4),
)
def test_alpha_is_that_of_krippendorff_for_any_judges_and_batches(
    case: tuple[Label, list[tuple[Any, ...]]], batches: int
) -> None:
    label, rows = case
    counts = counted(label, rows)
    order = {value: number for number, value in enumerate(counts.values)}
    given_values = [
        [math.nan if value is None else order[value] for value in judge] for judge in zip(*rows, strict=True)
    ]
    alpha = counts.figures()["alpha"]
    paired = [value for row in rows if sum(v is not None for v in row) > 1 for value in row if value is not None]
    if len(set(paired)) < 2:
        assert math.isnan(alpha)
    else:
        level: Any = "interval" if label is SCALE else "nominal"
        expected = krippendorff.alpha(
            reliability_data=np.array(given_values), value_domain=list(range(len(order))), level_of_measurement=level
        )
        assert alpha == pytest.approx(expected, abs=1e-12)
    assert str(counted(label, rows, batches).figures()) == str(counts.figures())


def test_full_agreement_is_one_and_chance_is_zero() -> None:
    assert cohen_kappa([[5, 0], [0, 5]]) == 1
    assert cohen_kappa([[5, 5], [5, 5]]) == 0


def labels_file(folder: Path, rows: list[dict[str, Any]]) -> str:
    path = folder / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_of_labels_gives_the_figures_of_each_label(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"topic": "health", "format": "faq", "topic_2": "health", "format_2": "listicle"},
        {"topic": "games", "format": "faq", "topic_2": "games", "format_2": "faq"},
        {"topic": "games", "format": "faq", "topic_2": None, "format_2": None},
    ]
    figures = measure_agreement(labels_file(tmp_path, rows), "topic-format")
    given_topics = dict(zip(figures["topic"]["values"], figures["topic"]["given"]["topic"], strict=True))
    assert {value: count for value, count in given_topics.items() if count} == {"health": 1, "games": 2}
    topic, form = figures["topic"]["pairs"][0], figures["format"]["pairs"][0]
    assert (topic["first"], topic["second"], topic["rows"], topic["equal"], topic["kappa"]) == (
        "topic",
        "topic_2",
        2,
        1,
        1,
    )
    assert (form["rows"], form["equal"], form["kappa"]) == (2, 0.5, 0)


def test_labels_that_the_schema_does_not_have_are_one_sentence(tmp_path: Path) -> None:
    path = labels_file(tmp_path, [{"quality": 3, "quality_2": 9}])
    with pytest.raises(DataError, match="column 'quality_2': a label is 9, not a whole number from 1 to 5; correct it"):
        measure_agreement(path, "quality")
    with pytest.raises(DataError, match="no column 'quality_3'"):
        measure_agreement(path, "quality", suffixes=["", "_3"])
    with pytest.raises(PipelineError, match="must be a list of different ends"):
        measure_agreement(path, "quality", suffixes=["", ""])


def test_time_grows_with_the_number_of_labels_and_memory_does_not() -> None:
    def seconds(count: int) -> float:
        table = pa.table({name: np.random.default_rng(7).integers(1, 5, count) for name in ("j0", "j1", "j2")})
        counts = LabelCounts(SCALE, ["j0", "j1", "j2"])
        start = time.process_time()
        counts.add(table)
        return time.process_time() - start

    seconds(1000)
    small, large = min(seconds(100_000) for _ in range(3)), seconds(1_000_000)
    assert large < 25 * small
