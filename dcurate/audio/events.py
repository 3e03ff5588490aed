"""`SoundEvents`: what is heard when, from the probabilities of a classifier of sounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.audioset import AUDIOSET
from dcurate.audio.transcripts import durations_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, shown
from dcurate.frames.columns import column_of
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.stage import with_columns

Floats = npt.NDArray[np.float32]

_EVENT = pa.struct(
    [
        ("start", pa.float64()),
        ("end", pa.float64()),
        ("label", pa.string()),
        ("group", pa.string()),
        ("mean_confidence", pa.float64()),
        ("max_confidence", pa.float64()),
    ]
)
#: Frames whose windows are sorted at a time.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class EventRules:
    """What counts as an event.

    Args:
        threshold: the probability from which on a class is heard; not used with `low` and `high`.
        low: the probability below which an event ends that began at `high`; None for `threshold` alone.
        high: the probability from which on an event begins; None for `threshold` alone.
        min_duration_s: seconds of the shortest event.
        max_gap_s: seconds of silence that two events of a class may have between them to count as one; 0 for none.
        smoothing_s: seconds of the median filter over the probabilities; 0 for none.

    Raises:
        PipelineError: only one of `low` and `high` is set, `low` exceeds `high`, or a time is negative.

    Examples:
        >>> EventRules(low=0.3, high=0.7).min_duration_s
        0.3
    """

    threshold: float = 0.5
    low: float | None = None
    high: float | None = None
    min_duration_s: float = 0.3
    max_gap_s: float = 0.0
    smoothing_s: float = 0.0

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise PipelineError(f"low={self.low} and high={self.high} must be given together, or neither")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise PipelineError(f"low={self.low} must not exceed high={self.high}")
        for name in ("min_duration_s", "max_gap_s", "smoothing_s"):
            if not getattr(self, name) >= 0:
                raise PipelineError(f"{name}={getattr(self, name)} must not be negative")


@dataclass
class SoundEvents(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add what is heard when, from the probabilities of classes of sound frame by frame.

    The formulas and defaults are those of NeMo Curator's ``SEDPostprocessingStage``. The column of probabilities has a
    list of frames for each recording, each with the probabilities of all classes, such as the 527 of AudioSet by PANNs.

    The new column has a list of events for each recording, by their start: ``start`` and ``end`` in seconds, ``label``
    (the class, or with ``by="group"`` its group), ``group`` (``speech``, ``music``, ``animal``, ...), and the mean and
    the largest probability. It is null where the probabilities are null. A row whose frames are not all of one length,
    or have too few classes, goes to quarantine as ``bad probabilities``.

    Args:
        probabilities_field: the column of probabilities.
        rules: what counts as an event.
        frame_rate: frames per second.
        frame_rate_field: the column of frames per second, where rows differ; a null counts as `frame_rate`.
        by: ``"class"``, or ``"group"`` for one series of events for the classes of a group together.
        group_by: how the probabilities of a group come from its classes: ``"noisy_or"`` (that of any of them, if they
            are independent), ``"max"`` or ``"mean"``.
        events_field: the new column.
        name: name of the stage.

    Raises:
        PipelineError: a setting is unknown, or `frame_rate` is not above 0.
        DataError: the column of probabilities does not hold lists of lists of numbers.

    Examples:
        >>> speech = [[p] + [0.0] * 526 for p in [0.1] * 50 + [0.9] * 25]
        >>> heard = SoundEvents().process(DocumentBatch(data=pa.table({"sed_framewise": [speech]})))
        >>> [(event["label"], event["start"], event["end"]) for event in heard.to_arrow()["events"][0].as_py()]
        [('speech', 1.0, 1.5)]
    """

    probabilities_field: str = "sed_framewise"
    rules: EventRules = field(default_factory=EventRules)
    frame_rate: float = 50.0
    frame_rate_field: str | None = None
    by: Literal["class", "group"] = "class"
    group_by: Literal["noisy_or", "max", "mean"] = "noisy_or"
    events_field: str = "events"
    name: str = "sound_events"

    def __post_init__(self) -> None:
        if not isinstance(self.rules, EventRules):
            raise PipelineError(f"stage {self.name!r}: rules={shown(self.rules)} must be EventRules(...)")
        if not self.frame_rate > 0:
            raise PipelineError(f"stage {self.name!r}: frame_rate={self.frame_rate} must be above 0")
        for setting, known in (("by", ("class", "group")), ("group_by", ("noisy_or", "max", "mean"))):
            if getattr(self, setting) not in known:
                value = shown(getattr(self, setting))
                raise PipelineError(f"stage {self.name!r}: {setting}={value} must be {' or '.join(map(repr, known))}")

    def inputs(self) -> Spec:
        fields = (self.probabilities_field, self.frame_rate_field)
        return ["data"], [name for name in fields if name is not None]

    def outputs(self) -> Spec:
        return ["data"], [self.events_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        rates: list[float | None] = [None] * table.num_rows
        if self.frame_rate_field is not None:
            rates = durations_of(table, self.frame_rate_field)
        answers: list[Any] = []
        for frames, rate in zip(_frames(table, self.probabilities_field), rates, strict=True):
            answers.append(frames if not isinstance(frames, np.ndarray) else self.events_of(frames, rate))
        kept = quarantined(task, answers, self.name)
        good = [answer for answer in answers if not isinstance(answer, MediaFault)]
        added = pa.table({self.events_field: pa.array(good, pa.list_(_EVENT))})
        return replace(kept.with_data(with_columns(kept.to_arrow(), added)), rejections=kept.rejections)

    def events_of(self, frames: Floats, rate: float | None) -> list[dict[str, Any]] | MediaFault:
        """The events of a recording, from its probabilities, frames x classes."""
        rate = self.frame_rate if rate is None else rate
        if not rate > 0:
            return MediaFault("bad probabilities", f"{rate} frames a second")
        last = max(number for classes in AUDIOSET.values() for number in classes)
        if len(frames) and frames.shape[1] <= last:
            return MediaFault("bad probabilities", f"{frames.shape[1]} classes; those of AudioSet go up to {last}")
        events: list[dict[str, Any]] = []
        for group, classes in AUDIOSET.items() if len(frames) else ():
            if self.by == "group":
                curves = {group: _together(frames[:, list(classes)], self.group_by)}
            else:
                curves = {label: frames[:, number] for number, label in classes.items()}
            for label, curve in curves.items():
                events += [{**event, "label": label, "group": group} for event in events_in(curve, rate, self.rules)]
        return sorted(events, key=lambda event: event["start"])


def events_in(curve: Floats, rate: float, rules: EventRules) -> list[dict[str, Any]]:
    """The events of a class.

    Args:
        curve: its probability in each frame.
        rate: frames per second.
        rules: what counts as an event.

    Examples:
        >>> [(e["start"], e["end"]) for e in events_in(np.array([0, 1, 1, 0], np.float32), 1.0, EventRules())]
        [(1.0, 3.0)]
    """
    if int(rules.smoothing_s * rate) > 0:
        curve = median(curve, int(rules.smoothing_s * rate))
    edges = np.diff(_heard(curve, rules).astype(np.int8), prepend=0, append=0)
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    if rules.max_gap_s > 0 and len(starts):
        apart = starts[1:] - stops[:-1] > int(rules.max_gap_s * rate)
        starts, stops = starts[np.r_[True, apart]], stops[np.r_[apart, True]]
    return [
        {
            "start": round(start / rate, 4),
            "end": round(stop / rate, 4),
            "mean_confidence": float(np.mean(curve[start:stop])),
            "max_confidence": float(np.max(curve[start:stop])),
        }
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        if not stop / rate - start / rate < rules.min_duration_s
    ]


def median(curve: Floats, size: int) -> Floats:
    """The median of the `size` frames around each; beyond the ends the curve is mirrored. SciPy's ``median_filter``.

    Examples:
        >>> median(np.array([0, 0, 1, 0, 0, 1, 1], np.float32), 3).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    """
    if not len(curve):
        return curve
    places = np.arange(-(size // 2), len(curve) + size - 1 - size // 2) % (2 * len(curve))
    mirrored = curve[np.minimum(places, 2 * len(curve) - 1 - places)]
    windows = np.lib.stride_tricks.sliding_window_view(mirrored, size)
    smooth = np.empty_like(curve)
    block = max(1, _BLOCK // size)
    for start in range(0, len(curve), block):
        part = np.partition(windows[start : start + block], size // 2, axis=1)
        smooth[start : start + block] = part[:, size // 2]
    return smooth


def _heard(curve: Floats, rules: EventRules) -> npt.NDArray[np.bool_]:
    """Whether the class is heard, frame by frame."""
    if rules.low is None or rules.high is None:
        return curve >= rules.threshold
    begins = curve >= rules.high
    decided = np.where(begins | (curve < rules.low), np.arange(len(curve)), -1)
    last = np.maximum.accumulate(decided)  # the frame that last began or ended an event
    heard: npt.NDArray[np.bool_] = (last >= 0) & begins[last]
    return heard


def _together(curves: Floats, by: str) -> Floats:
    if by == "max":
        return np.asarray(curves.max(axis=1))
    if by == "mean":
        return np.asarray(curves.mean(axis=1))
    return np.asarray(1.0 - np.prod(1.0 - curves, axis=1))


def _frames(table: pa.Table, name: str) -> list[Floats | MediaFault | None]:
    """The frames x classes of each row."""
    column = column_of(table, name)
    kind = column.type
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if pa.types.is_null(kind):
        return [None] * len(column)
    if not any(is_list(kind) for is_list in lists) or not any(is_list(kind.value_type) for is_list in lists):
        raise DataError(f"column {name!r} holds {kind}; probabilities are lists of frames, which are lists of numbers")
    if not (pa.types.is_floating(kind.value_type.value_type) or pa.types.is_integer(kind.value_type.value_type)):
        raise DataError(f"column {name!r} holds {kind}; probabilities are lists of frames, which are lists of numbers")
    return [_matrix(row) for row in column]


def _matrix(row: Any) -> Floats | MediaFault | None:
    if not row.is_valid:
        return None
    frames = row.values
    sizes = set(frames.value_lengths().to_pylist())
    if len(sizes) > 1 or None in sizes:
        return MediaFault("bad probabilities", "frames differ in length")
    numbers = frames.flatten().cast(pa.float32())
    if numbers.null_count:
        return MediaFault("bad probabilities", "a probability is null")
    return np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(len(frames), -1 if len(frames) else 0)
