"""Outputs of the stages that cut snippets: shards of workers, and the files that are made of them."""

from __future__ import annotations

import glob
import io
import json
import logging
import os
import tarfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask
from dcurate.core.extras import needed
from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors

_log = logging.getLogger("dcurate.compat.nemo")

#: Texts of snippets that are kept as examples.
MAX_EXAMPLES = 1000
#: Where a task has the counts of its recording.
COUNTS = "pretrain_long_form"
#: The key of texts of dropped snippets among these; only the first task of a recording has it.
EXAMPLES = "filtered_repetition_texts"
#: Reasons by which segments and snippets are dropped.
_REASONS = ("empty", "overlap", "too_long", "too_short", "no_text", "repetition", "unreadable", "no_sound")
_BIN_S = 30
_SUBTYPES = {"wav": "PCM_16", "flac": "PCM_16", "ogg": "VORBIS"}


@cache
def _shard(process: int, path: str, ending: str) -> str:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return f"{path}.shard-{process}-{uuid.uuid4().hex[:8]}.{ending}"


def shard_path(path: str, ending: str) -> str:
    """Return the path to which this process writes its part of an output."""
    return _shard(os.getpid(), path, ending)


def append_line(path: str, row: Mapping[str, Any]) -> None:
    """Append a row to a file of JSON Lines.

    Raises:
        DataError: it cannot be written; the disk is full.
    """
    _append(path, (json.dumps(row, ensure_ascii=False) + "\n").encode())


def append_member(path: str, name: str, data: bytes) -> None:
    """Append a member to an archive that has no end yet, in time that does not depend on its length.

    Raises:
        DataError: it cannot be written; the disk is full.
    """
    member = tarfile.TarInfo(name)
    member.size = len(data)
    _append(path, member.tobuf() + data + bytes(-len(data) % tarfile.BLOCKSIZE))


def _append(path: str, data: bytes) -> None:
    """Append bytes to a file, all or none: once the disk has room again, more may follow."""
    with storage_errors("write", path), open(path, "ab", buffering=0) as file:
        end, rest = file.seek(0, os.SEEK_END), memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(end)
            raise


@contextmanager
def _replacing(path: str) -> Iterator[BinaryIO]:
    """Write a file that replaces the one at a path only when it is whole.

    Raises:
        DataError: it cannot be written; the disk is full.
    """
    with storage_errors("write", path), atomic_write(path, durable=False) as file:
        yield file


def encoded(samples: Any, rate: int, kind: str) -> bytes:
    """Return samples as the content of a file."""
    file = io.BytesIO()
    soundfile = needed("soundfile", "cutting snippets", "audio")
    with soundfile.SoundFile(file, "w", rate, 1, _SUBTYPES[kind], format=kind.upper()) as sound:
        for start in range(0, len(samples), rate):  # libsndfile's Vorbis encoder dies of more at once
            sound.write(samples[start : start + rate])
    return file.getvalue()


def histogram_30s(durations: list[float]) -> dict[str, int]:
    """Return how many durations there are in each half minute, up to the longest.

    Examples:
        >>> histogram_30s([1.0, 70.0])
        {'0-30': 1, '30-60': 0, '60-90': 1}
    """
    counts = Counter(int(duration // _BIN_S) for duration in durations)
    return {f"{place * _BIN_S}-{(place + 1) * _BIN_S}": counts[place] for place in range(max(counts, default=-1) + 1)}


@dataclass
class SnippetManifestWriterStage(AudioStage):
    """Write the row of each snippet, for `finalize_audio_pretrain_outputs` to join.

    Args:
        output_path: path of the manifest.
    """

    output_path: str
    name: str = "SnippetManifestWriter"
    batch_size: int = 1

    def process(self, task: AudioTask) -> AudioTask:
        """Write the row, unless it is of a recording without snippets."""
        if task.data.get("snippet_id") is not None:
            append_line(shard_path(self.output_path, "jsonl"), task.data)
        return task


@dataclass
class PretrainMetricsAggregatorStage(AudioStage):
    """Write what was kept and dropped for each snippet, for `finalize_audio_pretrain_outputs` to sum up.

    Args:
        output_path: path of the summary.
    """

    output_path: str
    name: str = "PretrainMetricsAggregator"
    batch_size: int = 1

    def process(self, task: AudioTask) -> AudioTask:
        """Write the figures of the task."""
        row, counts = task.data, task._metadata.get(COUNTS, {})
        if row.get("id"):
            snippet = row.get("snippet_id")
            record = {
                "id": str(row["id"]),
                "in_segments": counts.get("original_seg_count", 0),
                "in_duration_sec": counts.get("original_seg_duration", 0.0),
                "dropped": {name: counts.get(f"dropped_{name}", 0) for name in _REASONS},
                "is_stub": snippet is None,
                "snippet_id": snippet,
                "out_segments": len(row.get("segments") or []),
                "out_duration_sec": float(row.get("duration", 0.0)),
                "filtered_texts": counts.get(EXAMPLES, []),
            }
            append_line(shard_path(self.output_path, "jsonl"), record)
        return task


def prepare_audio_pretrain_outputs(output_manifest_path: str, metrics_path: str, output_audio_tar_path: str) -> None:
    """Remove shards of earlier runs; call it before the pipeline runs.

    Args:
        output_manifest_path: path of the manifest.
        metrics_path: path of the summary.
        output_audio_tar_path: path of the archive.
    """
    _remove(_shards(output_manifest_path, "jsonl") + _shards(metrics_path, "jsonl"))
    _remove(_shards(output_audio_tar_path, "tar"))
    _shard.cache_clear()


def finalize_audio_pretrain_outputs(
    output_manifest_path: str,
    metrics_path: str,
    output_audio_tar_path: str,
    audio_filepath_key: str = "audio_filepath",
) -> None:
    """Make the archive, the manifest and the summary of all shards; call it after the pipeline ran.

    Members and rows are sorted by name, and each is there once, even where a task ran again. A row whose sound is not
    in the archive, or cannot be read, is dropped, and counted in the summary as ``missing_audio`` or
    ``corrupted_audio``. Files of which there are no shards stay as they are.

    Args:
        output_manifest_path: path of the manifest.
        metrics_path: path of the summary.
        output_audio_tar_path: path of the archive.
        audio_filepath_key: the key of the path in rows.
    """
    manifests, figures = _shards(output_manifest_path, "jsonl"), _shards(metrics_path, "jsonl")
    archives = _shards(output_audio_tar_path, "tar")
    readable = _joined_archive(archives, output_audio_tar_path) if archives else None
    rows = {(row["snippet_id"], str(row.get("id"))): row for row in _rows(manifests)}
    dropped: Counter[str] = Counter()
    for key in sorted(rows) if readable is not None else ():
        held = (readable or {}).get(str(rows[key].get(audio_filepath_key)))
        if not held:
            dropped["missing_audio" if held is None else "corrupted_audio"] += 1
            del rows[key]
    if manifests:
        with _replacing(output_manifest_path) as file:
            file.writelines((json.dumps(rows[key], ensure_ascii=False) + "\n").encode() for key in sorted(rows))
    if figures:
        records = {(row["id"], row["snippet_id"] or ""): row for row in _rows(figures)}
        kept = [records[key] for key in sorted(records) if not dropped or key[::-1] in rows]
        summary = _summary(kept, records, dropped)
        with _replacing(metrics_path) as file:
            file.write(json.dumps(summary, indent=2, ensure_ascii=False).encode())
    _remove(manifests + figures + archives)


def _shards(path: str, ending: str) -> list[str]:
    return sorted(glob.glob(f"{glob.escape(path)}.shard-*.{ending}"))


def _remove(paths: list[str]) -> None:
    for path in paths:
        os.remove(path)


def _rows(paths: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of shards; a line that a process did not end is left out, as its task ran again."""
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    _log.warning("skipping malformed line in %s: %s", path, error)


def _joined_archive(paths: list[str], target: str) -> dict[str, bool]:
    """Write the members of all archives into one, by name; return which are recordings that can be read."""
    soundfile = needed("soundfile", "cutting snippets", "audio")
    members: dict[str, tuple[str, tarfile.TarInfo]] = {}
    for path in paths:
        try:
            with tarfile.open(path, "r:") as archive:
                while (member := archive.next()) is not None:
                    if member.offset_data + member.size <= os.path.getsize(path):
                        members[member.name] = path, member
        except tarfile.TarError as error:
            _log.warning("%s ends within a member: %s", path, error)
    readable = {}
    with _replacing(target) as archived, tarfile.open(fileobj=archived, mode="w") as joined:
        for name, (path, member) in sorted(members.items()):
            with open(path, "rb") as file:
                file.seek(member.offset_data)
                data = file.read(member.size)
            joined.addfile(member, io.BytesIO(data))
            try:
                about = soundfile.info(io.BytesIO(data))
                readable[name] = about.frames > 0 and about.samplerate > 0
            except (OSError, RuntimeError) as error:
                _log.warning("%s in %s cannot be read: %s", name, target, error)
                readable[name] = False
    return readable


def _summary(
    records: list[dict[str, Any]], every: Mapping[Any, dict[str, Any]], dropped: Mapping[str, int]
) -> dict[str, Any]:
    """The summary of records of snippets that stay; recordings are those of all records."""
    recordings: dict[str, dict[str, Any]] = {}
    examples: list[str] = []
    for record in sorted(every.values(), key=lambda record: record["id"]):
        if record["id"] not in recordings:
            about = {name: record[name] for name in ("id", "in_segments", "in_duration_sec", "dropped")}
            recordings[record["id"]] = {**about, "out_snippets": 0, "out_segments": 0, "out_duration_sec": 0.0}
        examples += record["filtered_texts"]
    snippets = [record for record in records if not record["is_stub"]]
    for record in snippets:
        recording = recordings[record["id"]]
        recording["out_snippets"] += 1
        for name in ("out_segments", "out_duration_sec"):
            recording[name] += record[name]
    losses = sum((Counter(recording["dropped"]) for recording in recordings.values()), Counter(dropped))
    reasons = dict.fromkeys(name for recording in recordings.values() for name in recording["dropped"])
    return {
        "num_input_audios": len(recordings),
        "num_output_snippets": len(snippets),
        "input_total_segments": sum(recording["in_segments"] for recording in recordings.values()),
        "input_total_duration_sec": round(sum(recording["in_duration_sec"] for recording in recordings.values()), 3),
        "output_total_segments": sum(record["out_segments"] for record in snippets),
        "output_total_duration_sec": round(sum(record["out_duration_sec"] for record in snippets), 3),
        "dropped": {name: losses[name] for name in [*reasons, *dropped]},
        "snippet_duration_histogram_30s": histogram_30s([record["out_duration_sec"] for record in snippets]),
        "dropped_repetition_examples": examples[:MAX_EXAMPLES],
        "per_original": list(recordings.values()),
    }
