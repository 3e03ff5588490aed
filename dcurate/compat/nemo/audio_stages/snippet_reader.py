"""The reader of manifests of long recordings, with NeMo Curator's name and arguments."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from typing import Any

from dcurate.compat.nemo.audio_stages.rows import AudioTask
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import EmptyTask
from dcurate.io.json_parse import DEEPEST
from dcurate.kernels.nesting import line_ends_interpreted

_log = logging.getLogger("dcurate.compat.nemo")

AUDIO_PATH_RESOLUTION_BASENAME = "basename"
AUDIO_PATH_RESOLUTION_RELATIVE = "relative"
AUDIO_PATH_RESOLUTION_AS_IS = "as_is"
_RESOLUTIONS = (AUDIO_PATH_RESOLUTION_BASENAME, AUDIO_PATH_RESOLUTION_RELATIVE, AUDIO_PATH_RESOLUTION_AS_IS)
#: Times reach that far from 0, which is 31 years.
_MAX_TIME_S = 1e9


@dataclass
class ReadLongFormManifestStage(ProcessingStage[EmptyTask, AudioTask]):
    """Make a task of each line of a manifest of long recordings.

    A line is left out, with a warning, and counted in the metric ``skipped_lines``, if it is not JSON or nested too
    deeply, has no ``id``, one that came before, or no path, or if its segments have times that are not numbers, or
    texts that are not text.

    Args:
        input_manifest: path of the manifest, in JSON Lines.
        audio_dir: folder of the recordings.
        audio_filepath_key: the key of the path.
        audio_path_resolution: ``basename`` takes the name of the file, in `audio_dir`; ``relative`` the whole path
            there; ``as_is`` the path alone.
        dataset_name: name of the data set.
    """

    input_manifest: str
    audio_dir: str
    audio_filepath_key: str = "audio_filepath"
    audio_path_resolution: str = AUDIO_PATH_RESOLUTION_BASENAME
    dataset_name: str = "long_form_audio"
    name: str = "ReadLongFormManifest"
    batch_size: int = 1

    def outputs(self) -> Spec:
        return [], [self.audio_filepath_key, "id", "segments"]

    def num_workers(self) -> int | None:
        return 1

    def process(self, task: EmptyTask) -> list[AudioTask]:
        """Return the rows.

        Raises:
            ValueError: `audio_path_resolution` is another, or two rows have the same name of a file.
            FileNotFoundError: the manifest is missing.
        """
        if self.audio_path_resolution not in _RESOLUTIONS:
            raise ValueError(
                f"unknown audio_path_resolution {self.audio_path_resolution!r}; expected one of {_RESOLUTIONS}"
            )
        if not os.path.isfile(self.input_manifest):
            raise FileNotFoundError(f"Manifest not found: {self.input_manifest}")
        rows: dict[str, dict[str, Any]] = {}
        names: dict[str, str] = {}
        skipped = 0
        with open(self.input_manifest, encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                row = self._row(line, number, rows)
                if row is None:
                    skipped += 1
                    continue
                path, base = row[self.audio_filepath_key], os.path.basename(row[self.audio_filepath_key])
                if self.audio_path_resolution == AUDIO_PATH_RESOLUTION_BASENAME and base in names:
                    raise ValueError(
                        f"line {number}: duplicate audio basename {base!r} of ids {names[base]!r} and {row['id']!r}; "
                        "set audio_path_resolution='relative' or 'as_is'"
                    )
                names[base] = row["id"]
                row[self.audio_filepath_key] = {
                    AUDIO_PATH_RESOLUTION_BASENAME: os.path.join(self.audio_dir, base),
                    AUDIO_PATH_RESOLUTION_RELATIVE: os.path.join(self.audio_dir, path),
                    AUDIO_PATH_RESOLUTION_AS_IS: path,
                }[self.audio_path_resolution]
                rows[row["id"]] = row
        self._log_metrics({"manifest_rows": len(rows), "skipped_lines": skipped})
        return [
            AudioTask(dataset_name=self.dataset_name, data=row, filepath_key=self.audio_filepath_key)
            for row in rows.values()
        ]

    def _row(self, line: str, number: int, before: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """The row of a line, its ``id`` as text; None for one that is left out."""
        row: Any = None
        try:
            if line_ends_interpreted(line.encode(), DEEPEST) < 0:
                fault = f"values within values to a depth of more than {DEEPEST}"
            else:
                row = json.loads(line)
                json.dumps(row, ensure_ascii=False).encode()
                fault = "" if isinstance(row, dict) else f"a {type(row).__name__}, not an object"
        except UnicodeEncodeError as error:
            fault = f"text that is not Unicode ({error})"
        except ValueError as error:
            fault = f"invalid JSON ({error})"
        if not fault:
            name = "" if row.get("id") is None else str(row["id"])
            row["id"] = name
            fault = "missing or empty 'id'" if not name.strip() else ""
            fault = f"duplicate id {name!r}" if not fault and name in before else fault
            path = row.get(self.audio_filepath_key)
            fault = f"missing {self.audio_filepath_key!r}" if not fault and not path else fault
            if not fault and not isinstance(path, str):
                fault = f"{self.audio_filepath_key!r} is a {type(path).__name__}, not a path"
            fault = fault or _fault_of(row.get("segments"))
        if fault:
            _log.warning("[%s] line %d: %s; skipping", self.name, number, fault)
            return None
        return dict(row)


def _fault_of(segments: Any) -> str:
    """What is wrong with the segments of a row; empty if nothing is."""
    if not isinstance(segments, list | None):
        return f"'segments' is a {type(segments).__name__}, not a list"
    for number, segment in enumerate(segments or ()):
        if not isinstance(segment, dict):
            return f"segment {number} is a {type(segment).__name__}, not an object"
        words = segment.get("words")
        if not isinstance(words, list | None) or not all(isinstance(word, dict) for word in words or ()):
            return f"'words' of segment {number} is not a list of objects"
        if not isinstance(segment.get("text"), str | None):
            return f"'text' of segment {number} is a {type(segment['text']).__name__}, not text"
        times = [segment.get("start"), segment.get("end")]
        times += [word[name] for word in words or () for name in ("start", "end") if name in word]
        if not all(map(_is_time, times)):
            return f"segment {number} has a start or end that is not a number of seconds"
    return ""


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MAX_TIME_S
