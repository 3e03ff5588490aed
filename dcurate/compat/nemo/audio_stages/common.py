"""Manifests and basic stages for recordings, with NeMo Curator's names and arguments."""

from __future__ import annotations

import json
import logging
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pandas as pd
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from dcurate.compat.nemo.audio_stages.rows import AudioStage, AudioTask
from dcurate.compat.nemo.audio_stages.snippet_outputs import append_line
from dcurate.compat.nemo.partitioning import FilePartitioningStage
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask
from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.fs.errors import storage_errors

_log = logging.getLogger("dcurate.compat.nemo")

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "eq", "ne", "ge", "gt")
}
#: Sound in memory, which rows of documents do not have.
_SOUND = frozenset({"waveform", "audio", "audio_data", "audio_array", "segments"})


def get_audio_duration(audio_filepath: str) -> float:
    """Return the seconds of a recording; -1 if it cannot be read."""
    try:
        info = needed("soundfile", "reading recordings", "audio").info(audio_filepath)
        return float(info.frames / info.samplerate)
    except Exception as error:
        _log.warning("Failed to get duration for audio file %s: %s", audio_filepath, error)
        return -1.0


@dataclass
class GetAudioDurationStage(AudioStage):
    """Add the seconds of each recording; -1 if it cannot be read.

    Args:
        audio_filepath_key: the key of the path.
        duration_key: the new key.
    """

    name: str = "GetAudioDurationStage"
    audio_filepath_key: str = "audio_filepath"
    duration_key: str = "duration"

    def inputs(self) -> Spec:
        return [], [self.audio_filepath_key]

    def outputs(self) -> Spec:
        return [], [self.duration_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Add the seconds."""
        duration = task.data[self.duration_key] = get_audio_duration(task.data[self.audio_filepath_key])
        self._log_metrics({"duration": max(duration, 0.0)})
        return task


class PreserveByValueStage(AudioStage):
    """Keep the rows in which a value compares to another.

    Args:
        input_value_key: the key of the value.
        target_value: what it is compared with.
        operator: ``lt``, ``le``, ``eq``, ``ne``, ``ge`` or ``gt``.

    Raises:
        ValueError: the operator is not known.
    """

    name = "PreserveByValueStage"

    def __init__(self, input_value_key: str, target_value: Any, operator: str = "eq") -> None:
        if operator not in _OPERATORS:
            raise ValueError(f"Operator must be one of: {', '.join(_OPERATORS)}")
        self.input_value_key, self.target_value = input_value_key, target_value
        self.operator = _OPERATORS[operator]

    def inputs(self) -> Spec:
        return [], [self.input_value_key]

    def outputs(self) -> Spec:
        return [], [self.input_value_key]

    def process(self, task: AudioTask) -> AudioTask:
        """Raise: only ``process_batch`` leaves rows out.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("PreserveByValueStage only supports process_batch")

    def process_batch(self, tasks: list[AudioTask]) -> list[AudioTask]:
        """Return the rows that stay.

        Raises:
            ValueError: a row lacks the value.
        """
        for task in tasks:
            if not self.validate_input(task):
                raise ValueError(f"Task {task!s} failed validation for stage {self}")
        kept = [task for task in tasks if self.operator(task.data[self.input_value_key], self.target_value)]
        counts = {"input_count": len(tasks), "output_count": len(kept), "filtered_count": len(tasks) - len(kept)}
        self._log_metrics(counts)
        return kept


@dataclass
class ManifestReaderStage(ProcessingStage[FileGroupTask, AudioTask]):
    """Make a task of each line of manifests in JSON Lines."""

    name: str = "manifest_reader_stage"

    def process(self, task: FileGroupTask) -> list[AudioTask]:
        """Return the rows of the files.

        Raises:
            DataError: a line is not a JSON object.
        """
        rows = []
        for path in task.data:
            filesystem, resolved = url_to_fs(path)
            with filesystem.open(resolved, "r", encoding="utf-8") as file:
                rows += [_row(line, path, number) for number, line in enumerate(file, 1) if line.strip()]
        self._log_metrics({"manifests_read": len(task.data), "entries_read": len(rows)})
        return [
            AudioTask(
                dataset_name=task.dataset_name,
                data=row,
                _metadata=dict(task._metadata),
                _stage_perf=list(task._stage_perf),
            )
            for row in rows
        ]

    def num_workers(self) -> int | None:
        return 1


def _row(line: str, path: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number} is not JSON: {error}; mend or leave out the line") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number} is a {type(row).__name__}, not a JSON object; mend or leave it out")
    return row


@dataclass
class ManifestReader(CompositeStage[EmptyTask, AudioTask]):
    """Read manifests in JSON Lines: find the files, and make a task of each line.

    Args:
        manifest_path: path of a file or folder, or a list of them.
        files_per_partition: files that are read together.
        blocksize: bytes that are read together; used if `files_per_partition` is None.
        file_extensions: endings of the files.
        storage_options: settings of the storage.

    Raises:
        ValueError: `manifest_path` is empty.
    """

    manifest_path: str | list[str]
    name: str = "manifest_reader"
    files_per_partition: int | None = 1
    blocksize: int | str | None = None
    file_extensions: list[str] = field(default_factory=lambda: [".jsonl", ".json"])
    storage_options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.manifest_path:
            raise ValueError("manifest_path is required for ManifestReader")

    def decompose(self) -> list[Any]:
        files = FilePartitioningStage(
            file_paths=self.manifest_path,
            files_per_partition=self.files_per_partition,
            blocksize=self.blocksize,
            file_extensions=self.file_extensions,
            storage_options=self.storage_options,
        )
        return [files, ManifestReaderStage()]

    def get_description(self) -> str:
        group = f", with target blocksize {self.blocksize}" if self.blocksize else ""
        group = f", with {self.files_per_partition} files per partition" if self.files_per_partition else group
        return f"Read JSONL manifests from {self.manifest_path}{group}"


@dataclass
class ManifestWriterStage(AudioStage):
    """Write rows to one file in JSON Lines, a line each, as they come.

    The file is emptied once, where the pipeline is run or `setup` is called by hand.

    Args:
        output_path: path of the file.

    Raises:
        ValueError: it is empty.
    """

    output_path: str
    name: str = "manifest_writer"

    #: Whether the process that runs the pipeline has emptied the file, so that a worker that starts again does not.
    _emptied: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.output_path:
            raise ValueError("output_path is required for ManifestWriterStage")

    def engine_form(self, before: list[Any], is_last: bool) -> None:
        """Empty the file before workers start; the stage itself writes."""
        self._empty()
        self.__dict__["_emptied"] = True

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        self._place()

    def setup(self, worker_metadata: Any = None) -> None:
        """Empty the file, unless the run has done so."""
        if not self._emptied:
            self._empty()

    def process(self, task: AudioTask) -> AudioTask:
        """Write the row.

        Raises:
            DataError: it cannot be written; the disk is full.
        """
        filesystem, path = self._place()
        if isinstance(filesystem, LocalFileSystem):
            append_line(path, task.data)
        else:
            with storage_errors("write", self.output_path), filesystem.open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(task.data, ensure_ascii=False) + "\n")
        return AudioTask(
            dataset_name=task.dataset_name,
            data=task.data,
            _metadata=task._metadata,
            _stage_perf=list(task._stage_perf),
        )

    def num_workers(self) -> int | None:
        return 1

    def _empty(self) -> None:
        filesystem, path = self._place()
        with filesystem.open(path, "w", encoding="utf-8"):
            pass

    def _place(self) -> tuple[Any, str]:
        """The file system of the file, whose folder exists, and its path there."""
        filesystem, path = url_to_fs(self.output_path)
        folder = path.rpartition("/")[0]
        if folder:
            filesystem.makedirs(folder, exist_ok=True)
        return filesystem, path


class AudioToDocumentStage(ProcessingStage[AudioTask, DocumentBatch]):
    """Make batches of documents of rows, without sound in memory and ``segments``."""

    name = "AudioToDocumentStage"
    batch_size = 64

    def process(self, task: AudioTask) -> DocumentBatch:
        """Raise: only ``process_batch`` makes batches.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("AudioToDocumentStage only supports process_batch")

    def process_batch(self, tasks: list[AudioTask]) -> list[DocumentBatch]:
        """Return one batch of the rows; none if there are none."""
        if not tasks:
            return []
        rows = [
            {name: value for name, value in task.data.items() if name not in _SOUND and not _is_tensor(value)}
            for task in tasks
        ]
        name = ",".join(dict.fromkeys(task.dataset_name for task in tasks))
        figures = [figure for task in tasks for figure in task._stage_perf]
        return [DocumentBatch(dataset_name=name, data=pd.DataFrame(rows), _stage_perf=figures)]


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def load_audio_file(audio_path: str, mono: bool = True) -> tuple[Any, int]:
    """Return the sound of a file as a tensor, channels x samples, and its samples a second."""
    data, rate = needed("soundfile", "reading recordings", "audio").read(audio_path, dtype="float32", always_2d=True)
    waveform = needed("torch", "sound in memory", "models").from_numpy(data).T
    return (ensure_mono(waveform) if mono else waveform), rate


def ensure_waveform_2d(waveform: Any) -> Any:
    """Return sound as a tensor, channels x samples."""
    torch = needed("torch", "sound in memory", "models")
    tensor = waveform if torch.is_tensor(waveform) else torch.as_tensor(waveform, dtype=torch.float32)
    return tensor.unsqueeze(0) if tensor.dim() == 1 else tensor


def ensure_mono(waveform: Any) -> Any:
    """Return the mean of the channels of sound."""
    return waveform.mean(dim=0, keepdim=True) if waveform.shape[0] > 1 else waveform


def resolve_waveform_from_item(item: dict[str, Any], task_id: str, mono: bool = True) -> tuple[Any, int] | None:
    """Return the sound of a row and its samples a second, from memory or its file; None if it has neither."""
    waveform, rate, path = item.get("waveform"), item.get("sample_rate"), item.get("audio_filepath")
    if waveform is None or rate is None:
        if not path or not os.path.exists(path):
            _log.warning("[%s] No waveform or valid audio_filepath found", task_id)
            return None
        try:
            if waveform is None:
                waveform, rate = item["waveform"], item["sample_rate"] = load_audio_file(path, mono)
            else:
                rate = item["sample_rate"] = needed("soundfile", "reading recordings", "audio").info(path).samplerate
        except (OSError, RuntimeError) as error:
            _log.error("[%s] Failed to load audio file: %s", task_id, error)
            return None
    waveform = ensure_waveform_2d(waveform)
    return (ensure_mono(waveform) if mono else waveform), int(rate)
