"""Events of sound are those of NeMo Curator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import median_filter

from dcurate import DataError, DocumentBatch, PipelineError
from dcurate.audio import EventRules, SoundEvents
from dcurate.audio.audioset import AUDIOSET
from dcurate.audio.events import events_in, median
from dcurate.testing import check_stage

_FILE = Path(__file__).parent / "nemo" / "events.jsonl"
#: Curves, drawn at random, and the events that `SEDPostprocessingStage` of NeMo Curator 1.4.0 finds in them.
CASES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]


def batch(rows: list[Any], **columns: Any) -> DocumentBatch:
    kind = pa.list_(pa.list_(pa.float32()))
    return DocumentBatch(data=pa.table({"sed_framewise": pa.array(rows, kind), **columns}))


def frames(**curves: list[float]) -> list[list[float]]:
    """The probabilities of all classes where only some are heard."""
    numbers = {label: number for classes in AUDIOSET.values() for number, label in classes.items()}
    matrix = np.zeros((len(next(iter(curves.values()))), 527), np.float32)
    for label, curve in curves.items():
        matrix[:, numbers[label]] = curve
    return matrix.tolist()


@pytest.mark.parametrize("case", CASES)
def test_events_are_those_of_nemo(case: dict[str, Any]) -> None:
    found = events_in(np.array(case["curve"], np.float32), case["rate"], EventRules(**case["rules"]))
    assert [list(event.values()) for event in found] == case["events"]


@given(arrays(np.float32, st.integers(1, 60), elements=st.floats(0, 1, width=32)), st.integers(1, 60))
def test_the_median_is_that_of_scipy(curve: Any, size: int) -> None:
    size = min(size, len(curve))
    assert median(curve, size).tolist() == median_filter(curve, size=size).tolist()


def test_long_curves_are_smoothed_in_blocks() -> None:
    curve = np.random.default_rng(0).random(300_000, np.float32)
    assert median(curve, 25).tobytes() == median_filter(curve, size=25).tobytes()


def test_classes_are_heard_by_themselves_or_as_a_group() -> None:
    row = frames(guitar=[0.4] * 20, banjo=[0.4] * 20, rain=[0.0] * 4 + [0.9] * 16)
    rules = EventRules(threshold=0.5)
    (by_class,) = SoundEvents(rules=rules).process(batch([row])).to_arrow()["events"].to_pylist()
    assert [(event["label"], event["group"], event["start"]) for event in by_class] == [("rain", "natural_noise", 0.08)]
    (by_group,) = SoundEvents(rules=rules, by="group").process(batch([row])).to_arrow()["events"].to_pylist()
    assert [(event["label"], event["start"]) for event in by_group] == [("music", 0.0), ("natural_noise", 0.08)]
    assert by_group[0]["max_confidence"] == pytest.approx(1 - 0.6**2)
    mean = SoundEvents(rules=rules, by="group", group_by="max").process(batch([row])).to_arrow()["events"][0].as_py()
    assert [event["label"] for event in mean] == ["natural_noise"]


def test_each_row_may_have_its_rate() -> None:
    row = frames(dog=[1.0] * 20)
    stage = SoundEvents(frame_rate_field="fps", frame_rate=10.0)
    found = stage.process(batch([row, row], fps=[20.0, None])).to_arrow()["events"].to_pylist()
    assert [events[0]["end"] for events in found] == [1.0, 2.0]


def test_rows_with_faults_go_to_quarantine_and_the_others_stay() -> None:
    rows = [None, [], frames(dog=[1.0] * 20), [[0.5] * 3], [[0.5] * 527, [0.5]], [[None] * 527], [None]]
    found = SoundEvents().process(batch(rows, id=list(range(7))))
    assert found.to_arrow()["id"].to_pylist() == [0, 1, 2]
    assert [events and len(events) for events in found.to_arrow()["events"].to_pylist()] == [None, [], 1]
    assert [(rejection.reason, rejection.rows) for rejection in found.rejections] == [("bad probabilities", 4)]
    slow = SoundEvents(frame_rate_field="fps").process(batch([rows[2]], fps=[0.0]))
    assert slow.rejections[0].reason == "bad probabilities"


@pytest.mark.parametrize("column", [["a"], [[1.0]], [[["a"]]]])
def test_other_columns_are_refused(column: list[Any]) -> None:
    with pytest.raises(DataError, match="lists of frames"):
        SoundEvents().process(DocumentBatch(data=pa.table({"sed_framewise": column})))


def test_all_nulls_have_no_events() -> None:
    rows = DocumentBatch(data=pa.table({"sed_framewise": pa.nulls(2)}))
    assert SoundEvents().process(rows).to_arrow()["events"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EventRules(low=0.3), "given together"),
        (lambda: EventRules(low=0.7, high=0.3), "must not exceed"),
        (lambda: EventRules(max_gap_s=-1), "must not be negative"),
        (lambda: SoundEvents(frame_rate=0), "above 0"),
        (lambda: SoundEvents(by="sound"), "must be 'class' or 'group'"),  # type: ignore[arg-type]
        (lambda: SoundEvents(group_by="sum"), "group_by=str 'sum'"),  # type: ignore[arg-type]
        (lambda: SoundEvents(rules=0.5), "must be EventRules"),  # type: ignore[arg-type]
    ],
)
def test_wrong_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()


def test_the_stage_keeps_the_laws() -> None:
    check_stage(SoundEvents(), batch([None, [], frames(dog=[1.0] * 20, cat=[0.6] * 20)]))
