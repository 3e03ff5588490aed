"""Stages for the segments of recordings, with NeMo Curator's names and arguments."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field
from typing import Any

from dcurate.audio import segments as parts
from dcurate.audio.splits import joined
from dcurate.audio.utterances import UtteranceRules, utterance, words_of
from dcurate.audio.windows import SpeechWindows, apart
from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.stages import Spec
from dcurate.media.parts import Part

_METRICS = ("pesq_squim", "stoi_squim", "sisdr_squim", "bandwidth")
#: NeMo Curator's names of what keeps segments from beginning a window.
_LOSSES = {
    "bandwidth": "bw",
    "sample_rate": "sr",
    "speakers": "spk",
    "window": "win",
    "no_speaker": "no_spkr",
    "next_bandwidth": "next_seg_bm",
}


@dataclass
class BuilderStats:
    """Which segments begin no window, by reason, and their seconds.

    ``lost_win_full_data`` stays empty: it repeats all segments of each window that is left out.
    """

    total_segments: int = 0
    total_dur: float = 0.0
    swift_path: str = ""
    audio_sample_rate: int = 0
    lost_bw: int = 0
    dur_lost_bw: float = 0.0
    lost_sr: int = 0
    dur_lost_sr: float = 0.0
    lost_spk: int = 0
    dur_lost_spk: float = 0.0
    lost_win: int = 0
    dur_lost_win: float = 0.0
    lost_no_spkr: int = 0
    dur_lost_no_spkr: float = 0.0
    lost_next_seg_bm: int = 0
    dur_lost_next_seg_bm: float = 0.0
    lost_win_full_data: list[Any] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


@dataclass
class ALMDataBuilderStage(AudioStage):
    """Join neighbouring segments to windows of about one length, by `dcurate.audio.SpeechWindows`.

    Args:
        target_window_duration: seconds of a window.
        tolerance: how much it may differ, by that.
        min_bandwidth, min_sample_rate: Hz.
        min_speakers, max_speakers: different speakers of a window.
        truncation: whether a segment that is too long is cut.
        drop_fields: fields of segments that windows do not have, with commas.
        drop_fields_top_level: keys that the row loses.
    """

    name: str = "alm_data_builder"
    target_window_duration: float = 120.0
    tolerance: float = 0.1
    min_bandwidth: int = 8000
    min_sample_rate: int = 16000
    min_speakers: int = 2
    max_speakers: int = 5
    truncation: bool = True
    drop_fields: str = "words"
    drop_fields_top_level: str = "words,segments"

    def __post_init__(self) -> None:
        with as_nemo_raises():
            self._windows = SpeechWindows(
                target_duration_s=self.target_window_duration,
                tolerance_ratio=self.tolerance,
                min_bandwidth=self.min_bandwidth,
                min_speakers=self.min_speakers,
                max_speakers=self.max_speakers,
                truncate=self.truncation,
                drop_fields=_names(self.drop_fields),
            )

    def inputs(self) -> Spec:
        return [], ["audio_filepath", "segments", "audio_sample_rate"]

    def process(self, task: AudioTask) -> AudioTask:
        """Add ``windows``, ``stats`` and ``truncation_events``."""
        row, segments = task.data, task.data.get("segments", [])
        rate = row.get("audio_sample_rate", 0)
        seconds = sum(segment["end"] - segment["start"] for segment in segments)
        stats = BuilderStats(len(segments), seconds, row.get("swift_audio_filepath", ""), rate)
        windows: list[Part] = []
        cuts = 0
        if rate < self.min_sample_rate:
            stats.lost_sr, stats.dur_lost_sr = len(segments), seconds
            kept = {"audio_filepath": row.get("audio_filepath")}
        else:
            windows, losses, cuts = self._windows.windows_of(segments)
            for reason, name in _LOSSES.items():
                setattr(stats, f"lost_{name}", losses[reason])
                setattr(stats, f"dur_lost_{name}", losses[f"{reason}_s"])
            gone = _names(self.drop_fields_top_level)
            kept = {name: value for name, value in row.items() if name not in gone}
        row.clear()
        row.update({**kept, "windows": windows, "stats": stats.to_dict(), "truncation_events": cuts})
        self._log_metrics({"segments_processed": len(segments), "windows_created": len(windows)})
        return task


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass
class ALMDataOverlapStage(AudioStage):
    """Of windows that overlap, keep those nearest to one length, by the rule of `dcurate.audio.SelectWindows`.

    Args:
        overlap_percentage: overlap by the shorter window from which on one of two goes; at 0 all that share any time.
        target_duration: seconds of the best window.

    Raises:
        ValueError: a setting is out of range.
    """

    name: str = "alm_data_overlap"
    overlap_percentage: int = 0
    target_duration: float = 120.0

    def __post_init__(self) -> None:
        if not 0 <= self.overlap_percentage <= 100:
            raise ValueError(f"overlap_percentage must be 0-100, got {self.overlap_percentage}")
        if self.target_duration <= 0:
            raise ValueError("target_duration must be positive")

    def inputs(self) -> Spec:
        return [], ["windows"]

    def process(self, task: AudioTask) -> AudioTask:
        """Add ``filtered_windows`` and their times."""
        row, windows = task.data, task.data.get("windows", [])
        spans = [_span(window) for window in windows if window.get("segments")]
        kept = apart(spans, self.overlap_percentage / 100, self.target_duration)
        rounded = {(round(start, 6), round(end, 6)) for start, end in kept}
        chosen = [
            window
            for window in windows
            if window.get("segments") and tuple(round(time, 6) for time in _span(window)) in rounded
        ]
        held = row.get("stats")
        stats = held if windows and isinstance(held, dict) else {}
        added = {
            "total_dur_window": sum((end - start for start, end in spans), 0.0 if not windows else 0),
            "total_dur_list_window": [end - start for start, end in spans],
            "total_dur_list_window_timestamps": [(end, start) for start, end in spans],
            "filtered": [(end, start) for start, end in kept],
            "filtered_windows": chosen,
            "filtered_dur": sum((end - start for start, end in kept), 0.0 if not windows else 0),
            "filtered_dur_list": [end - start for start, end in kept],
            "manifest_filepath": stats.get("manifest_path"),
            "swift_filepath": stats.get("swift_path"),
        }
        for name, value in added.items():
            row[name] = value if windows else row.get(name, value)
        self._log_metrics(
            {"input_windows": len(windows), "output_windows": len(chosen), "filtered_dur": row["filtered_dur"]}
        )
        return task


def _span(window: Part) -> tuple[float, float]:
    return window["segments"][0]["start"], window["segments"][-1]["end"]


def add_non_speaker_segments(segments: list[Part], audio_duration: float, max_length: float | None = None) -> None:
    """Add segments of ``no-speaker`` where nobody speaks, and sort all by their start.

    Args:
        segments: segments with ``start`` and ``end``, to which others are added.
        audio_duration: seconds of the recording.
        max_length: seconds of a new segment; None for any.
    """
    gaps, last = [], 0.0
    ordered = sorted(segments, key=lambda segment: segment["start"])
    for start, end in [*((segment["start"], segment["end"]) for segment in ordered), (audio_duration, last)]:
        if start > last:
            gaps.append((last, start))
        last = end
    for start, end in gaps:
        first = start
        while first < end:
            stop = end if max_length is None else min(first + max_length, end)
            segments.append({"speaker": "no-speaker", "start": first, "end": stop})
            first = stop
    segments.sort(key=lambda segment: segment["start"])


def _give_words(words: list[Part], segments: list[Part], text_key: str, words_key: str) -> None:
    """Give each segment the words that are spoken in it."""
    ordered = sorted(segments, key=lambda segment: segment["start"])
    for segment, spoken in zip(ordered, parts.with_words(segments, words), strict=True):
        if words:
            segment[text_key], segment[words_key] = spoken["text"], spoken["words"]


@dataclass
class MergeAlignmentDiarizationStage(AudioStage):
    """Give each segment the words that are spoken in it, as `dcurate.audio.WordsToSegments` does.

    Args:
        text_key, words_key: keys of the text and the words in segments.
    """

    text_key: str = "text"
    words_key: str = "words"
    name: str = "MergeAlignmentDiarization"

    def inputs(self) -> Spec:
        return [], ["alignment", "segments"]

    def outputs(self) -> Spec:
        return [], ["alignment", "segments"]

    @staticmethod
    def align_words_to_segments(alignment: list[Part], segments: list[Part], text_key: str, words_key: str) -> None:
        """Give each segment the words that are spoken in it."""
        _give_words(alignment, segments, text_key, words_key)

    def process(self, task: AudioTask) -> AudioTask:
        """Add the words of ``alignment`` to ``segments``."""
        words, segments = task.data.get("alignment", []), task.data.get("segments", [])
        if words and segments:
            _give_words(words, segments, self.text_key, self.words_key)
        self._log_metrics({"segments_merged": len(segments), "words_aligned": len(words)})
        return task


@dataclass
class PrepareModuleSegmentsStage(AudioStage):
    """Make utterances of the words of segments, as `dcurate.audio.WordsToUtterances` does.

    Args:
        module: ``tts`` for utterances of one speaker, or ``asr``.
        min_duration, max_duration: seconds of an utterance.
        max_pause: seconds between two words of an utterance.
        text_key, words_key: keys of the text and the words in segments.
        terminal_punct_marks: characters that end a sentence.
        full_utterance_ratio: share of the time after which only lengths decide, 0 to 1.
        punctuation_split_only: whether words without any end of a sentence are left out.

    Raises:
        ValueError: `module` is another.
    """

    module: str = "tts"
    min_duration: float = 5.0
    max_duration: float = 20.0
    max_pause: float = 2.0
    text_key: str = "text"
    words_key: str = "words"
    terminal_punct_marks: str = ".!?。？！。"
    full_utterance_ratio: float = 1.0
    punctuation_split_only: bool = False
    name: str = "PrepareModuleSegments"

    def __post_init__(self) -> None:
        if self.module not in ("tts", "asr"):
            raise ValueError("Module must be either 'tts' or 'asr'")
        self._rules = UtteranceRules(
            by_speaker=self.module == "tts",
            min_duration_s=self.min_duration,
            max_duration_s=self.max_duration,
            max_pause_s=self.max_pause,
            end_marks=self.terminal_punct_marks,
            sentences_ratio=self.full_utterance_ratio,
            only_sentences=self.punctuation_split_only,
        )

    def inputs(self) -> Spec:
        return [], ["segments", "duration"]

    def process(self, task: AudioTask) -> AudioTask:
        """Put the utterances in the place of ``segments``.

        Raises:
            RuntimeError: a segment or word has no times.
        """
        row = task.data
        path = row.get("audio_filepath", row.get("audio_item_id", ""))
        if "segments" not in row:
            return task
        try:
            segments = row["segments"]
            if "overlap_segments" not in row:
                add_non_speaker_segments(segments, row.get("duration", 0.0))
                _give_words(row.get("alignment", []), segments, self.text_key, self.words_key)
            words = words_of(segments, self.words_key, _METRICS, self.text_key)
            spoken = [utterance(group, _METRICS) for group in self._rules.utterances(words, path)]
        except Exception as error:
            raise RuntimeError(f"[{self.name}] Error processing entry {path}: {error}") from error
        names = {"text": self.text_key, "words": self.words_key}
        row["segments"] = [{names.get(name, name): value for name, value in part.items()} for part in spoken]
        return task


@dataclass
class JoinSplitAudioMetadataStage(AudioStage):
    """Join transcripts of the parts of a recording, as `dcurate.audio.JoinSplits` does.

    Args:
        text_key: the key of the text.
    """

    text_key: str = "text"
    name: str = "JoinSplitAudioMetadata"

    def inputs(self) -> Spec:
        return [], ["split_filepaths", "split_metadata", "split_offsets", "split_timestamps"]

    def outputs(self) -> Spec:
        return [], [self.text_key, "alignment"]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the text and ``alignment`` in place of those of the parts."""
        row = task.data
        if "split_filepaths" not in row:
            return task
        splits = row.get("split_metadata", []) if row["split_filepaths"] is not None else []
        if splits:
            offsets = itertools.chain(row.get("split_offsets", []), itertools.repeat(0))
            row[self.text_key], words = joined(
                [
                    {"start": offset, "text": split.get(self.text_key), "words": _timed(split)}
                    for split, offset in zip(splits, offsets, strict=False)
                ]
            )
            row["alignment"] = words or []
            row.pop("split_metadata")
        del row["split_filepaths"]
        self._log_metrics({"splits_joined": len(splits), "words_aligned": len(row.get("alignment") or [])})
        return task


def _timed(split: Part) -> list[Part]:
    return [{**word, "start": word.get("start", 0), "end": word.get("end", 0)} for word in split.get("alignment", [])]
