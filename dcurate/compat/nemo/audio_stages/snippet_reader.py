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

_log = logging.getLogger("dcurate.compat.nemo")

AUDIO_PATH_RESOLUTION_BASENAME = "basename"
AUDIO_PATH_RESOLUTION_RELATIVE = "relative"
AUDIO_PATH_RESOLUTION_AS_IS = "as_is"
_RESOLUTIONS = (AUDIO_PATH_RESOLUTION_BASENAME, AUDIO_PATH_RESOLUTION_RELATIVE, AUDIO_PATH_RESOLUTION_AS_IS)


@dataclass
class ReadLongFormManifestStage(ProcessingStage[EmptyTask, AudioTask]):
    """Make a task of each line of a manifest of long recordings.

    A line that is not JSON, or has no ``id``, one that came before, or no path, is left out, with a warning.

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
            FileNotFoundError: there is no manifest.
        """
        if self.audio_path_resolution not in _RESOLUTIONS:
            raise ValueError(
                f"unknown audio_path_resolution {self.audio_path_resolution!r}; expected one of {_RESOLUTIONS}"
            )
        if not os.path.isfile(self.input_manifest):
            raise FileNotFoundError(f"Manifest not found: {self.input_manifest}")
        rows: dict[str, dict[str, Any]] = {}
        names: dict[str, str] = {}
        with open(self.input_manifest, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                row = self._row(line, number, rows) if line.strip() else None
                if row is None:
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
        self._log_metrics({"manifest_rows": len(rows)})
        return [
            AudioTask(dataset_name=self.dataset_name, data=row, filepath_key=self.audio_filepath_key)
            for row in rows.values()
        ]

    def _row(self, line: str, number: int, before: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """The row of a line, its ``id`` as text; None for one that is left out."""
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            row, fault = None, f"invalid JSON ({error})"
        else:
            fault = "" if isinstance(row, dict) else f"a {type(row).__name__}, not an object"
        if not fault:
            name = "" if row.get("id") is None else str(row["id"])
            row["id"] = name
            fault = "missing or empty 'id'" if not name.strip() else ""
            fault = f"duplicate id {name!r}" if not fault and name in before else fault
            path = row.get(self.audio_filepath_key)
            fault = f"missing {self.audio_filepath_key!r}" if not fault and not path else fault
        if fault:
            _log.warning("[%s] line %d: %s; skipping", self.name, number, fault)
            return None
        return dict(row)
