"""Stages that cut long recordings into snippets for training, with NeMo Curator's names and arguments."""

from __future__ import annotations

import copy
import logging
import math
import os
import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from dcurate.audio.segments import overlapping, text_of
from dcurate.audio.snippets import DropRepetitiveSnippets, PlanSnippets
from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask
from dcurate.compat.nemo.audio_stages.snippet_outputs import (
    COUNTS,
    EXAMPLES,
    MAX_EXAMPLES,
    PretrainMetricsAggregatorStage,
    SnippetManifestWriterStage,
    append_member,
    encoded,
    shard_path,
)
from dcurate.compat.nemo.audio_stages.snippet_reader import AUDIO_PATH_RESOLUTION_BASENAME, ReadLongFormManifestStage
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.pipeline import Pipeline
from dcurate.compat.nemo.stages import Spec
from dcurate.core.extras import needed
from dcurate.hub.weights import Weights
from dcurate.media.parts import Part

_log = logging.getLogger("dcurate.compat.nemo")

#: Where a task has its plan.
_PLAN = "_snippet_plan"
#: Keys of a recording that its snippets do not have, and those that change only where the recording has them.
_OF_RECORDING = ("alignment", _PLAN, "audio_size", "resampled_audio_filepath")
#: What names of members must not have, and the end of those that have a digest.
_NOT_IN_NAMES, _DIGEST_AT_END = re.compile(r"[./\\\0]"), re.compile(r"-[0-9a-f]{16}\Z")


@dataclass
class OverlapFilterStage(AudioStage):
    """Drop segments without words and those that overlap, by the rule of `dcurate.audio.DropOverlappingSegments`.

    Args:
        min_overlap_sec: seconds from which on two segments overlap.
    """

    min_overlap_sec: float = 0.5
    name: str = "OverlapFilter"
    batch_size: int = 1

    def inputs(self) -> Spec:
        return [], ["segments"]

    def outputs(self) -> Spec:
        return [], ["segments"]

    def process(self, task: AudioTask) -> AudioTask:
        """Drop the segments."""
        segments: list[Part] = list(task.data.get("segments") or [])
        spoken = [segment for segment in segments if text_of(segment) or segment.get("words")]
        spoken.sort(key=lambda segment: (segment["start"], segment["end"]))
        gone = overlapping([(segment["start"], segment["end"]) for segment in spoken], self.min_overlap_sec)
        kept = task.data["segments"] = [segment for number, segment in enumerate(spoken) if number not in gone]
        first = min((segment["start"] for segment in segments), default=0.0)
        seconds = float(max((segment["end"] for segment in segments), default=0.0) - first)
        counts = {"dropped_empty": len(segments) - len(spoken), "dropped_overlap": len(gone)}
        task._metadata.setdefault(COUNTS, {}).update(
            counts,
            original_seg_count=len(segments),
            original_seg_duration=seconds,
            kept_after_filter_count=len(kept),
        )
        self._log_metrics({"input_segments": len(segments), **counts, "output_segments": len(kept)})
        return task


@dataclass
class SnippetCutPlannerStage(AudioStage):
    """Plan snippets of neighbouring segments, by `dcurate.audio.PlanSnippets`; nothing is cut.

    Args:
        max_duration_sec, min_duration_sec: seconds of a snippet.
        max_segment_gap_in_snippet: seconds between two segments of a snippet.

    Raises:
        ValueError: a setting is out of range.
    """

    max_duration_sec: float = 600.0
    min_duration_sec: float = 0.5
    max_segment_gap_in_snippet: float = 30.0
    name: str = "SnippetCutPlanner"
    batch_size: int = 1

    def __post_init__(self) -> None:
        with as_nemo_raises():
            self._plan = PlanSnippets(
                max_duration_s=self.max_duration_sec,
                min_duration_s=self.min_duration_sec,
                max_gap_s=self.max_segment_gap_in_snippet,
            )

    def inputs(self) -> Spec:
        return [], ["segments"]

    def outputs(self) -> Spec:
        return [], [_PLAN]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the plan."""
        snippets, losses = self._plan.planned(list(task.data.get("segments") or []))
        task.data[_PLAN] = snippets
        counts = {"planned_snippets": len(snippets), **{f"dropped_{name}": losses[name] for name in losses}}
        task._metadata.setdefault(COUNTS, {}).update(counts)
        self._log_metrics(counts)
        return task


@dataclass
class SnippetRepetitionFilterStage(AudioStage):
    """Drop planned snippets in whose text a sequence of tokens repeats, by `dcurate.audio.DropRepetitiveSnippets`.

    Args:
        tokenizer_path: a folder with ``tokenizer.json``, or a repository of Hugging Face.
        ngram_n: tokens of a sequence.
        ngram_max_count: how often one may come.
        cache_dir: folder of downloads.
        hf_token: for repositories that ask for one.

    Raises:
        ValueError: a number is below 1.
    """

    tokenizer_path: str
    ngram_n: int = 10
    ngram_max_count: int = 3
    cache_dir: str | None = None
    hf_token: str | None = None
    name: str = "SnippetRepetitionFilter"
    batch_size: int = 1

    def __post_init__(self) -> None:
        self._rule: DropRepetitiveSnippets | None = None
        with as_nemo_raises():
            self._rule_in(self.tokenizer_path)

    def _rule_in(self, folder: str) -> DropRepetitiveSnippets:
        path = os.path.join(folder, "tokenizer.json")
        return DropRepetitiveSnippets(path, ngram_size=self.ngram_n, max_repeats=self.ngram_max_count)

    def inputs(self) -> Spec:
        return [], [_PLAN]

    def outputs(self) -> Spec:
        return [], [_PLAN]

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the tokenizer, unless it is a folder."""
        with as_nemo_raises():
            self._weights().fetch("tokenizer")

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the tokenizer."""
        with as_nemo_raises():
            self._rule = self._rule_in(self._weights().folder("tokenizer"))
            self._rule.setup()

    def _weights(self) -> Weights:
        return Weights(self.tokenizer_path, cache_dir=self.cache_dir, hf_token=self.hf_token)

    def process(self, task: AudioTask) -> AudioTask:
        """Drop the snippets from the plan."""
        if self._rule is None:
            self.setup()
        assert self._rule is not None
        plan: list[Part] = list(task.data.get(_PLAN) or [])
        repetitive = [self._rule.is_repetitive(snippet) for snippet in plan]
        kept = task.data[_PLAN] = [snippet for snippet, gone in zip(plan, repetitive, strict=True) if not gone]
        texts = [_text(snippet["segments"]) for snippet, gone in zip(plan, repetitive, strict=True) if gone]
        task._metadata.setdefault(COUNTS, {}).update(
            dropped_repetition=len(texts),
            kept_after_repetition_filter=len(kept),
            planned_snippets=len(kept),
        )
        task._metadata[COUNTS][EXAMPLES] = texts[:MAX_EXAMPLES]
        self._log_metrics({"snippets_scanned": len(plan), "snippets_filtered_repetition": len(texts)})
        return task


def _text(segments: list[Part]) -> str:
    return " ".join(map(text_of, segments)).strip()


def make_snippet_id(original_id: str, start_sec: float, end_sec: float) -> str:
    """Return the name of a snippet, without dots and slashes.

    An id that has some gets a digest, so that the snippets of two ids never have the same name.

    Examples:
        >>> make_snippet_id("talk", 0.5, 12.25), make_snippet_id("talks/a.wav", 0.5, 12.25)
        ('talk-0_500-12_250', 'talks_a_wav-526418364e0983a6-0_500-12_250')
    """
    times = f"{start_sec:.3f}-{end_sec:.3f}".replace(".", "_")
    clean = _NOT_IN_NAMES.sub("_", original_id)
    if clean != original_id or _DIGEST_AT_END.search(original_id):
        clean += f"-{blake2b(original_id.encode(), digest_size=8).hexdigest()}"
    return f"{clean}-{times}"


def relativize_segments(segments: list[Part], snippet_start: float, snippet_end: float) -> list[Part]:
    """Return segments, and their words, with times that count from the start of a snippet and lie within it.

    Examples:
        >>> relativize_segments([{"start": 4.0, "end": 6.5, "words": [{"word": "a", "start": 3.9}]}], 4.0, 6.0)
        [{'start': 0.0, 'end': 2.0, 'words': [{'word': 'a', 'start': 0.0}]}]
    """
    lasts = max(0.0, snippet_end - snippet_start)

    def moved(part: Part) -> Part:
        moved_part = dict(part)
        for name in ("start", "end"):
            if name in part:
                moved_part[name] = min(lasts, max(0.0, part[name] - snippet_start))
        return moved_part

    return [
        moved(segment) | ({"words": [moved(word) for word in segment["words"]]} if segment.get("words") else {})
        for segment in segments
    ]


@dataclass
class SnippetExtractionStage(AudioStage):
    """Cut the planned snippets of each recording, in mono, and append them to archives; a task for each.

    A recording without snippets makes one task without ``snippet_id``, by which its losses are counted. Snippets of a
    recording that is missing or damaged are counted in the metadata as ``dropped_unreadable``, those that start after
    its end as ``dropped_no_sound``.

    Args:
        output_dir: folder of outputs; it is made.
        output_audio_tar_path: path of the archive, which `finalize_audio_pretrain_outputs` makes of those of workers.
        target_sample_rate: samples a second of snippets.
        output_format: ``flac``, ``wav`` or ``ogg``.
        audio_filepath_key: the key of the path.
        dry_run: whether only tasks are made, and no sound is read or written.

    Raises:
        ValueError: a setting is out of range.
    """

    output_dir: str
    output_audio_tar_path: str
    target_sample_rate: int = 16000
    output_format: str = "flac"
    audio_filepath_key: str = "audio_filepath"
    dry_run: bool = False
    name: str = "SnippetExtraction"
    batch_size: int = 1

    def __post_init__(self) -> None:
        if self.output_format not in ("flac", "ogg", "wav"):
            raise ValueError(f"output_format must be one of ['flac', 'ogg', 'wav'], got {self.output_format!r}")
        if self.target_sample_rate <= 0:
            raise ValueError("target_sample_rate must be > 0")

    def inputs(self) -> Spec:
        return [], [self.audio_filepath_key, _PLAN]

    def outputs(self) -> Spec:
        return [], [self.audio_filepath_key, "snippet_id", "duration", "segments"]

    def setup(self, worker_metadata: Any = None) -> None:
        """Make the folders."""
        os.makedirs(self.output_dir, exist_ok=True)

    def process(self, task: AudioTask) -> list[AudioTask]:
        """Return the snippets."""
        rows: list[dict[str, Any]] = []
        losses: Counter[str] = Counter(dropped_unreadable=0, dropped_no_sound=0)
        for planned in task.data.get(_PLAN) or []:
            snippet = {**planned, "start": max(0.0, float(planned["start"])), "end": float(planned["end"])}
            start, end = snippet["start"], snippet["end"]
            name = make_snippet_id(str(task.data.get("id") or task.task_id), start, end)
            member, seconds = f"{name}.{self.output_format}", max(0.0, end - start)
            if not self.dry_run:
                samples = self._cut(task.data.get(self.audio_filepath_key), start, end)
                if isinstance(samples, str):
                    losses[f"dropped_{samples}"] += 1
                    continue
                seconds = len(samples) / self.target_sample_rate
                data = encoded(samples, self.target_sample_rate, self.output_format)
                append_member(shard_path(self.output_audio_tar_path, "tar"), member, data)
            rows.append(self._row(task, snippet, name, member, seconds))
        total = sum(row["duration"] for row in rows)
        self._log_metrics({"snippets_written": len(rows), "snippets_total_duration": total, **losses})
        nothing: dict[str, Any] = {"snippet_id": None, self.audio_filepath_key: None, "duration": 0.0, "segments": []}
        rows = rows or [{"id": task.data.get("id"), **nothing}]
        counts = {**task._metadata.get(COUNTS, {}), **losses}
        first = {**task._metadata, COUNTS: counts}
        further = {**first, COUNTS: {name: value for name, value in counts.items() if name != EXAMPLES}}
        return [self._task(task, row, further if number else first) for number, row in enumerate(rows)]

    def _cut(self, path: Any, start: float, end: float) -> Any:
        """The samples of a snippet; the reason, which is logged, if there are none."""
        soundfile = needed("soundfile", "cutting snippets", "audio")
        try:
            with soundfile.SoundFile(path) as file:
                first, last = max(0, math.floor(start * file.samplerate)), math.ceil(end * file.samplerate)
                file.seek(min(first, file.frames))
                samples = file.read(max(0, last - first), dtype="float32", always_2d=True).mean(axis=1)
                rate = file.samplerate
        except (OSError, RuntimeError, TypeError) as error:
            _log.error("[%s] failed to read %s from %.2f to %.2f s: %s", self.name, path, start, end, error)
            return "unreadable"
        if not len(samples):
            _log.warning("[%s] %s has no sound from %.2f to %.2f s; skipping snippet", self.name, path, start, end)
            return "no_sound"
        count = -(-len(samples) * self.target_sample_rate // rate)
        if rate != self.target_sample_rate:
            samples = needed("soxr", "cutting snippets", "audio").resample(samples, rate, self.target_sample_rate)
        return np.pad(samples[:count], (0, max(0, count - len(samples))))

    def _row(self, task: AudioTask, snippet: Part, name: str, member: str, seconds: float) -> dict[str, Any]:
        row = {key: value for key, value in task.data.items() if key not in _OF_RECORDING}
        changed = {
            "actual_duration": seconds,
            "proposed_duration": seconds,
            "audio_sample_rate": self.target_sample_rate,
            "audio_num_channels": 1,
            "swift_audio_filepath": "",
        }
        row |= {key: value for key, value in changed.items() if key in row}
        row |= {"snippet_id": name, self.audio_filepath_key: member, "duration": seconds}
        row["segments"] = relativize_segments(snippet["segments"], snippet["start"], snippet["end"])
        return row | ({"text": _text(snippet["segments"])} if "text" in row else {})

    def _task(self, task: AudioTask, row: dict[str, Any], metadata: dict[str, Any]) -> AudioTask:
        return AudioTask(
            dataset_name=task.dataset_name,
            data=row,
            _metadata=copy.deepcopy(metadata),
            _stage_perf=list(task._stage_perf),
        )


def build_audio_pretrain_pipeline(  # noqa: PLR0913 - NeMo Curator's signature
    *,
    input_manifest: str,
    audio_dir: str,
    output_dir: str,
    output_manifest_path: str,
    output_audio_tar_path: str,
    metrics_path: str,
    max_duration_sec: float,
    tokenizer_path: str,
    min_duration_sec: float = 0.5,
    min_overlap_sec: float = 0.5,
    max_segment_gap_in_snippet: float = 30.0,
    ngram_n: int = 10,
    ngram_max_count: int = 3,
    tokenizer_cache_dir: str | None = None,
    hf_token: str | None = None,
    target_sample_rate: int = 16000,
    output_format: str = "flac",
    audio_filepath_key: str = "audio_filepath",
    audio_path_resolution: str = AUDIO_PATH_RESOLUTION_BASENAME,
    dataset_name: str = "long_form_audio",
    dry_run: bool = False,
) -> Pipeline:
    """Return the pipeline that cuts long recordings into snippets; the arguments are those of its stages."""
    stages: list[Any] = [
        ReadLongFormManifestStage(input_manifest, audio_dir, audio_filepath_key, audio_path_resolution, dataset_name),
        OverlapFilterStage(min_overlap_sec),
        SnippetCutPlannerStage(max_duration_sec, min_duration_sec, max_segment_gap_in_snippet),
        SnippetRepetitionFilterStage(tokenizer_path, ngram_n, ngram_max_count, tokenizer_cache_dir, hf_token),
        SnippetExtractionStage(
            output_dir, output_audio_tar_path, target_sample_rate, output_format, audio_filepath_key, dry_run
        ),
        SnippetManifestWriterStage(output_manifest_path),
        PretrainMetricsAggregatorStage(metrics_path),
    ]
    about = "Long-form diarized audio -> bounded mono resampled snippets for audio LLM pretraining"
    return Pipeline(name="audio_pretrain_long_form_cut", description=about, stages=stages)
