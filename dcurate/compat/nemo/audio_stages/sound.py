"""Stages that hear recordings, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcurate.audio.events import EventRules, SoundEvents
from dcurate.audio.signals import AudioSignals
from dcurate.audio.speech import RATE, FindSpeech, SpeechListener
from dcurate.audio.stage import Mono
from dcurate.compat.nemo.audio_stages.common import load_audio_file, resolve_waveform_from_item
from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask, heard
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.stages import Resources, Spec
from dcurate.errors import PipelineError

_log = logging.getLogger("dcurate.compat.nemo")

#: What a segment of speech does not have of its recording.
_OF_RECORDING = ("start_ms", "end_ms", "segment_num", "duration", "num_samples")
_SOUND = frozenset({"waveform", "audio", "audio_data", "audio_array", "segments"})
_PASSED = (
    *("speaker_id", "num_speakers", "speaking_duration", "sample_rate", "utmos_mos", "sigmos_noise", "sigmos_ovrl"),
    *("sigmos_sig", "sigmos_col", "sigmos_disc", "sigmos_loud", "sigmos_reverb", "band_prediction"),
)


@dataclass
class BandwidthEstimationStage(AudioStage):
    """Add the bandwidth of each segment, or of the recording, by `dcurate.audio.AudioSignals`.

    Args:
        n_fft, stride_seconds, top_db, frequency_threshold: default values; others are refused.
        audio_filepath_key: the key of the path.
        segments_key: the key of the segments.

    Raises:
        PipelineError: a figure of the formula is another.
    """

    n_fft: int = 512
    stride_seconds: float = 0.01
    top_db: float = 100.0
    frequency_threshold: float = -50.0
    audio_filepath_key: str = "audio_filepath"
    segments_key: str = "segments"
    name: str = "BandwidthEstimation"

    def __post_init__(self) -> None:
        formula = (self.n_fft, self.stride_seconds, self.top_db, self.frequency_threshold)
        if formula != (512, 0.01, 100.0, -50.0):
            with as_nemo_raises():
                raise PipelineError(
                    f"BandwidthEstimationStage: n_fft, stride_seconds, top_db and frequency_threshold are {formula}; "
                    "leave them at 512, 0.01, 100.0 and -50.0"
                )

    def inputs(self) -> Spec:
        return [], [self.audio_filepath_key]

    def outputs(self) -> Spec:
        return [], [self.audio_filepath_key, "metrics"]

    def validate_input(self, task: AudioTask) -> bool:
        """Whether the row has a path, and segments or a duration."""
        keys = task.data.keys()
        return self.audio_filepath_key in keys and bool({self.segments_key, "duration"} & keys)

    def process(self, task: AudioTask) -> AudioTask:
        """Add ``bandwidth`` to ``metrics`` of each segment with speech.

        Raises:
            ValueError: the row names no recording.
            RuntimeError: the recording cannot be heard.
        """
        row, path = task.data, task.data.get(self.audio_filepath_key)
        if not path:
            raise ValueError(f"[{self.name}] Missing '{self.audio_filepath_key}' for entry")
        parts = [part for part in row.get(self.segments_key, [row]) if _has_speech(part)]
        spans = [(part.get("start", 0.0), part.get("end", part.get("duration"))) for part in parts]
        known = [place for place, (start, end) in enumerate(spans) if end is not None and start < end]
        signals = heard(AudioSignals(), path, [spans[place] for place in known])
        if known and not os.path.exists(path) and not any(signals):
            raise RuntimeError(f"[{self.name}] Failed to load audio: {path}")
        found = dict(zip(known, signals, strict=True))
        for place, part in enumerate(parts):
            metrics, signal = part.setdefault("metrics", {}), found.get(place)
            if signal is None:
                metrics["metric_skip_reason"] = f"no sound from {spans[place][0]} to {spans[place][1]} s"
            else:
                metrics["bandwidth"] = int(signal["audio_bandwidth_hz"])
        return task


def _has_speech(part: dict[str, Any]) -> bool:
    text = part.get("text")
    return part.get("speaker") != "no-speaker" and (text is None or bool(text.strip()))


@dataclass
class MonoConversionStage(AudioStage):
    """Load the sound of each row, as the mean of its channels; rows of another sample rate are left out.

    Args:
        output_sample_rate: samples a second that recordings have.
        audio_filepath_key: the key of the path.
        strict_sample_rate: whether recordings of another rate are left out.
    """

    output_sample_rate: int = 48000
    audio_filepath_key: str = "audio_filepath"
    strict_sample_rate: bool = True
    name: str = "MonoConversion"
    batch_size: int = 1
    resources: Resources = field(default_factory=Resources)

    def outputs(self) -> Spec:
        return [], ["waveform", "sample_rate", "is_mono", "duration", "num_samples"]

    def process(self, task: AudioTask) -> AudioTask | list[AudioTask]:
        """Add the sound; no task if it cannot be loaded, which is logged."""
        row, path = task.data, task.data.get(self.audio_filepath_key)
        if not path or not os.path.exists(path):
            _log.error("Audio file not found: %s", path)
            return []
        try:
            waveform, rate = load_audio_file(path)
        except (OSError, RuntimeError) as error:
            _log.error("Error processing %s: %s", path, error)
            return []
        if rate <= 0 or (self.strict_sample_rate and rate != self.output_sample_rate):
            _log.warning("Sample rate %dHz != expected %dHz: %s", rate, self.output_sample_rate, path)
            return []
        samples = waveform.shape[1]
        row.update(waveform=waveform, sample_rate=rate, is_mono=True, duration=samples / rate, num_samples=samples)
        return task


@dataclass
class VADSegmentationStage(AudioStage):
    """Make a task of each segment of speech, as `dcurate.audio.FindSpeech` finds them with Silero VAD.

    Recordings of any rate are resampled to 16 kHz; NeMo Curator drops samples of those at 32, 48, 64 and 96 kHz.

    Args:
        min_interval_ms: milliseconds of the shortest pause that ends a segment.
        min_duration_sec, max_duration_sec: seconds of a segment.
        threshold: probability of speech.
        speech_pad_ms: milliseconds before and after a segment.
        waveform_key, sample_rate_key: keys of the sound in memory.
        nested: whether segments are put into the row as ``segments`` instead.
    """

    min_interval_ms: int = 500
    min_duration_sec: float = 2.0
    max_duration_sec: float = 60.0
    threshold: float = 0.5
    speech_pad_ms: int = 300
    waveform_key: str = "waveform"
    sample_rate_key: str = "sample_rate"
    nested: bool = False
    name: str = "VADSegmentation"
    batch_size: int = 1
    resources: Resources = field(default_factory=Resources)

    def outputs(self) -> Spec:
        return [], ["waveform", "sample_rate", "start_ms", "end_ms", "segment_num", "duration"]

    def is_fanout_stage(self) -> bool:
        return not self.nested

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the model."""
        self._find = FindSpeech(
            self.min_duration_sec,
            self.max_duration_sec,
            self.min_interval_ms / 1000,
            self.threshold,
            self.speech_pad_ms / 1000,
        )
        self._find.setup()

    def process(self, task: AudioTask) -> AudioTask | list[AudioTask]:
        """Return the segments; none if there is no sound, which is logged."""
        row = task.data
        names = {"waveform": self.waveform_key, "sample_rate": self.sample_rate_key}
        held = {name: row.get(key) for name, key in names.items()} | {"audio_filepath": row.get("audio_filepath")}
        sound = resolve_waveform_from_item(held, task.task_id)
        if sound is None:
            return []
        waveform, rate = sound
        listener = SpeechListener(self._find.loaded(), self._find.rules, Mono(rate, RATE))
        listener.hear(np.ascontiguousarray(waveform.numpy().T, np.float32))
        [spans] = listener.values(False)
        whole = {name: value for name, value in row.items() if name not in (*names.values(), *_OF_RECORDING)}
        whole.setdefault("original_file", row.get("audio_filepath", "unknown"))
        segments = [
            {**whole, **_cut(waveform, rate, span["start"], span["end"]), "segment_num": number}
            for number, span in enumerate(spans)
        ]
        if self.nested:
            row["segments"] = segments
            row.pop(self.waveform_key, None)
            return task
        return [
            AudioTask(data=segment, dataset_name=task.dataset_name, _metadata=dict(task._metadata))
            for segment in segments
        ]


def _cut(waveform: Any, rate: int, start: float, end: float) -> dict[str, Any]:
    start_ms, end_ms = int(start * 1000), int(end * 1000)
    sound = waveform[:, int(start * rate) : int(end * rate)].clone()
    times = {"start_ms": start_ms, "end_ms": end_ms, "duration": (end_ms - start_ms) / 1000.0}
    return {"waveform": sound, "sample_rate": rate, **times}


@dataclass
class TimestampMapperStage(AudioStage):
    """Leave of each row its file, its time there and some values.

    Args:
        passthrough_keys: keys of values that stay besides; None for those of NeMo Curator's stages. Sound never does.
    """

    passthrough_keys: list[str] | None = None
    name: str = "TimestampMapper"
    batch_size: int = 1
    resources: Resources = field(default_factory=Resources)

    def __post_init__(self) -> None:
        if self.passthrough_keys is None:
            self.passthrough_keys = list(_PASSED)

    def outputs(self) -> Spec:
        return [], ["original_file", "original_start_ms", "original_end_ms", "duration_ms", "duration"]

    def process(self, task: AudioTask) -> AudioTask:
        """Change the row."""
        row = task.data
        made = {"original_file": row.get("original_file", row.get("audio_filepath", "unknown")), **_times(row)}
        for key in self.passthrough_keys or ():
            if key not in _SOUND and row.get(key) is not None:
                made.setdefault(key, row[key])
        row.clear()
        row.update(made)
        return task


def _times(row: dict[str, Any]) -> dict[str, Any]:
    """The time of a row in its recording: of a segment, of a speaker's turns, or all of it."""
    start, end, more = row.get("start_ms"), row.get("end_ms"), {}
    turns = sorted(row.get("diar_segments") or [], key=lambda turn: turn[0])
    duration = 0.0
    if start is not None and end is not None and end > start:
        duration = (end - start) / 1000.0
        start, end = int(start), int(end)
        length = end - start
    elif turns:
        duration = turns[-1][1] - turns[0][0]
        start, end, length = int(turns[0][0] * 1000), int(turns[-1][1] * 1000), int(duration * 1000)
        spoken = round(sum(stop - first for first, stop in turns), 3)
        more = {
            "speaking_duration": spoken,
            "diar_segments": [[round(first, 3), round(stop, 3)] for first, stop in turns],
        }
    else:
        duration = max(float(row.get("duration") or 0), 0.0)
        start, end = 0, int(duration * 1000)
        length = end
    return {
        "original_start_ms": start,
        "original_end_ms": end,
        "duration_ms": length,
        "duration": duration,
        **more,
    }


@dataclass
class SEDPostprocessingStage(AudioStage):
    """Add what is heard when, from probabilities of classes of sound, by `dcurate.audio.SoundEvents`.

    Args:
        agg_mode: how the probabilities of a group come from its classes.
        threshold, hysteresis_low, hysteresis_high: what counts as heard, 0 to 1.
        min_duration_sec, smoothing_window_sec, merge_gap_sec: seconds.
        emit_superclasses: whether there is one series of events for each group, not for each class.
        framewise_key, npz_filepath_key: keys of the probabilities, or of a file with them.
        events_key: the new key.
    """

    agg_mode: str = "noisy_or"
    threshold: float = 0.5
    min_duration_sec: float = 0.3
    smoothing_window_sec: float = 0.0
    hysteresis_low: float | None = None
    hysteresis_high: float | None = None
    merge_gap_sec: float = 0.0
    emit_superclasses: bool = False
    framewise_key: str = "_sed_framewise"
    npz_filepath_key: str = "npz_filepath"
    events_key: str = "sed_events"
    name: str = "SEDPostprocessing"
    batch_size: int = 1
    resources: Resources = field(default_factory=Resources)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], [self.events_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the events; the probabilities leave the row."""
        row = task.data
        row[self.events_key] = self._events(row)
        row.pop(self.framewise_key, None)
        return task

    def _events(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        frames, about = row.get(self.framewise_key), row
        rate_key, frames_key = "sed_fps", "sed_valid_frames"
        if frames is None:
            path = str(row.get(self.npz_filepath_key, ""))
            if not path or not os.path.exists(path):
                _log.warning("No in-memory framewise data or NPZ file found; skipping.")
                return []
            with np.load(path) as file:
                about = dict(file)
            frames, rate_key, frames_key = about["framewise"], "fps", "valid_frames"
        rules = EventRules(
            self.threshold,
            self.hysteresis_low,
            self.hysteresis_high,
            self.min_duration_sec,
            self.merge_gap_sec,
            self.smoothing_window_sec,
        )
        by: Any = "group" if self.emit_superclasses else "class"
        mode: Any = self.agg_mode
        matrix = np.asarray(frames, np.float32)[: int(about.get(frames_key, len(frames)))]
        events = SoundEvents(rules=rules, by=by, group_by=mode).events_of(matrix, float(about.get(rate_key, 50.0)))
        if not isinstance(events, list):
            with as_nemo_raises():
                raise PipelineError(f"{self.name}: {events.reason}: {events.detail}")
        return [self._named(event) for event in events]

    def _named(self, event: dict[str, Any]) -> dict[str, Any]:
        group = {} if self.emit_superclasses else {"superclass": event["group"]}
        times = {"start_time": event["start"], "end_time": event["end"]}
        return {**times, **{name: event[name] for name in ("mean_confidence", "max_confidence", "label")}, **group}
