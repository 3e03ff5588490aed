"""Which copy stays, by values of every type that has an order, and in every search for copies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    Pipeline,
    PipelineError,
    deduplicate,
)
from dcurate.dedup import Highest, Lowest, Preferred
from dcurate.groups.keep import keep_of, ranks_in, with_ranks

DAY, NEXT = dt.date(2024, 5, 6), dt.date(2024, 5, 7)
WHEN, LATER = dt.datetime(2024, 5, 6, 7, 8, 9, 999998), dt.datetime(2024, 5, 6, 7, 8, 9, 999999)
#: The lower and the higher of two values that are as near to each other as the type allows.
VALUES: dict[str, tuple[Any, Any, pa.DataType]] = {
    "whole numbers": (2**53, 2**53 + 1, pa.int64()),
    "the largest whole numbers": (2**63 - 2, 2**63 - 1, pa.int64()),
    "the smallest whole numbers": (-(2**63), -(2**63) + 1, pa.int64()),
    "unsigned numbers": (2**64 - 2, 2**64 - 1, pa.uint64()),
    "small numbers": (-3, -2, pa.int8()),
    "floats": (0.1, 0.1 + 2**-55, pa.float64()),
    "decimals": (Decimal("12345678901234567890.01"), Decimal("12345678901234567890.02"), pa.decimal128(30, 2)),
    "dates": (DAY, NEXT, pa.date32()),
    "dates of 64 bits": (DAY, NEXT, pa.date64()),
    "moments": (WHEN, LATER, pa.timestamp("us")),
    "moments with a zone": (WHEN, LATER, pa.timestamp("us", "Asia/Tokyo")),
    "nanoseconds": (1_700_000_000_000_000_001, 1_700_000_000_000_000_002, pa.timestamp("ns", "UTC")),
    "seconds": (-2, -1, pa.timestamp("s")),
    "times": (WHEN.time(), LATER.time(), pa.time64("us")),
    "durations": (dt.timedelta(microseconds=1), dt.timedelta(microseconds=2), pa.duration("us")),
    "dates in text": ("0999-12-31", "1000-01-01", pa.string()),
    "moments in large text": ("2024-05-06T07:08:09.999998", "2024-05-06 07:08:09.999999", pa.large_string()),
    "moments of zones in text": ("2024-05-06T09:00:00+02:00", "2024-05-06T07:00:01Z", pa.string_view()),
    "booleans": (False, True, pa.bool_()),
}
STAGES: dict[str, Callable[[Any], Any]] = {
    "exact": lambda keep: ExactDuplicates(keep=keep),
    "exact by a column": lambda keep: ExactDuplicates(fields=["text"], keep=keep),
    "fuzzy": lambda keep: FuzzyDuplicates(keep=keep),
    "fuzzy, stars": lambda keep: FuzzyDuplicates(keep=keep, clustering="star"),
}
TEXT = "one and the same text of some words that is here again and again"


def kept(stage: Any, *tables: pa.Table) -> list[Any]:
    batches = [DocumentBatch(key=BatchKey(f"part-{place}"), data=table) for place, table in enumerate(tables)]
    made = Pipeline("keep", stages=[stage]).run(InlineExecutor(), batches, observers=[])
    return made.to_arrow()["n"].to_pylist()


@pytest.mark.parametrize(
    ("kind", "how"),
    [*((kind, "exact") for kind in VALUES), *(("whole numbers", how) for how in STAGES if how != "exact")],
)
def test_the_highest_and_the_lowest_value_of_every_type_stay(kind: str, how: str) -> None:
    low, high, dtype = VALUES[kind]
    values = pa.array([None, high, low, None], dtype)
    table = pa.table({"text": [TEXT] * 4, "by": values, "n": [0, 1, 2, 3]})
    for rule, wanted in ((Highest("by"), 1), (Lowest("by"), 2)):
        assert kept(STAGES[how](rule), table) == [wanted]
        assert kept(STAGES[how](rule), *(table.slice(place, 1) for place in range(4))) == [wanted]


@pytest.mark.parametrize("kind", ["whole numbers", "moments", "dates in text"])
def test_a_frame_keeps_the_highest_and_the_lowest_value(kind: str) -> None:
    low, high, dtype = VALUES[kind]
    frame = pd.DataFrame({"text": [TEXT] * 2, "by": pa.array([low, high], dtype).to_pandas(), "n": [0, 1]})
    ddf = dd.from_pandas(frame, npartitions=2)
    for method in ("exact", "fuzzy"):
        for rule, wanted in ((Highest("by"), [1]), (Lowest("by"), [0])):
            assert deduplicate(ddf, method=method, keep=rule).compute(scheduler="sync").n.tolist() == wanted


@pytest.mark.parametrize("how", STAGES)
def test_of_several_rules_the_next_decides_where_those_before_find_no_difference(how: str) -> None:
    days, scores = ["2026-11-27", "2026-11-28", "2026-11-28", None], [2**53 + 3, 2**53, 2**53 + 1, 2**53 + 4]
    table = pa.table({"text": [TEXT] * 4, "day": days, "score": scores, "n": [0, 1, 2, 3]})
    apart = [table.slice(place, 1) for place in (3, 1, 2, 0)]
    for rules, wanted in (
        ([Highest("day"), Highest("score")], 2),
        ([Highest("day"), Lowest("score")], 1),
        ((Lowest("day"),), 0),
        ([Preferred("day", ["2026-11-28"]), Highest("score")], 2),
    ):
        assert kept(STAGES[how](rules), table) == [wanted]
        assert kept(STAGES[how](rules), *apart) == [wanted]
    assert kept(STAGES[how](["longest", Highest("day"), "first"]), table) == [1]


@given(st.lists(st.tuples(*[st.none() | st.integers(2**53, 2**53 + 3)] * 3), min_size=1, max_size=8))
def test_several_rules_order_rows_as_tuples_are_ordered(rows: list[tuple[int | None, ...]]) -> None:
    table = pa.table(
        {name: pa.array(values, pa.int64()) for name, values in zip("abc", zip(*rows, strict=True), strict=True)}
    )
    rule = keep_of([Highest("a"), Lowest("b"), Highest("c")], "stage")
    ranks = ranks_in(with_ranks(table, rule, table, "text")).tolist()

    def key(place: int) -> list[tuple[bool, int]]:
        return [(value is None, sign * (value or 0)) for value, sign in zip(rows[place], (-1, 1, -1), strict=True)]

    places = range(len(rows))
    assert sorted(places, key=lambda place: ranks[place]) == sorted(places, key=key)


def test_a_frame_keeps_by_several_rules() -> None:
    frame = pd.DataFrame({"text": [TEXT] * 3, "day": ["2026-11-27", "2026-11-28", "2026-11-28"], "n": [0, 1, 2]})
    ddf = dd.from_pandas(frame, npartitions=2)
    for method in ("exact", "fuzzy"):
        made = deduplicate(ddf, method=method, keep=[Highest("day"), Highest("n")]).compute(scheduler="sync")
        assert made.n.tolist() == [2]


@pytest.mark.parametrize("keep", [[], ["smallest"], [Highest("a"), 7], 7])
def test_what_is_no_rule_is_refused(keep: Any) -> None:
    with pytest.raises(PipelineError, match="is not a rule"):
        ExactDuplicates(keep=keep)


def test_types_may_differ_between_batches() -> None:
    whole = pa.table({"text": [TEXT], "by": pa.array([2**53 + 1]), "n": [0]})
    broken = pa.table({"text": [TEXT], "by": pa.array([2.0**53]), "n": [1]})
    assert kept(ExactDuplicates(keep=Highest("by")), broken, whole) == [0]
    day = pa.table({"text": [TEXT], "by": pa.array([NEXT]), "n": [0]})
    moment = pa.table({"text": [TEXT], "by": pa.array([LATER], pa.timestamp("us", "UTC")), "n": [1]})
    text = pa.table({"text": [TEXT], "by": ["2024-05-06T23:59:59.999999999Z"], "n": [2]})
    assert kept(ExactDuplicates(keep=Highest("by")), text, moment, day) == [0]
    assert kept(ExactDuplicates(keep=Lowest("by")), text, moment, day) == [1]


@pytest.mark.parametrize(("values", "sentence"), [(["x"], "not a date or time in ISO 8601"), ([[1]], "not numbers")])
def test_a_column_without_an_order_is_refused(values: list[Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        Highest("by").ranks(pa.table({"by": values}), "text")


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1]), min_size=1)
)
def test_ranks_order_whole_numbers_as_python_does(numbers: list[int | None]) -> None:
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    for rule, sign in ((Lowest("n"), 1), (Highest("n"), -1)):
        ranks = ranks_in(with_ranks(table, rule, table, "text")).tolist()
        wanted = sorted(range(len(numbers)), key=lambda place: (numbers[place] is None, sign * (numbers[place] or 0)))
        assert sorted(range(len(numbers)), key=lambda place: ranks[place]) == wanted


def test_other_rules_have_the_ranks_that_they_had() -> None:
    table = pa.table({"source": ["web", "books"]})
    assert with_ranks(table, Preferred("source", ["books"]), table, "source").column_names == ["source", "rank"]
