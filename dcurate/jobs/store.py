"""Files in which a scheduler keeps its jobs, so that one that is started again knows them."""

from __future__ import annotations

import base64
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_log = logging.getLogger("dcurate.jobs")


class JobFiles:
    """A file for each job in a folder that only its owner may read: params of jobs may hold secrets.

    Args:
        folder: the folder; None to keep nothing.
    """

    def __init__(self, folder: str | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._failed = False
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def load(self) -> list[dict[str, Any]]:
        """Return the jobs, the oldest first; a file that is damaged is left out with a warning."""
        jobs = []
        for path in sorted(self.folder.glob("*.json")) if self.folder is not None else ():
            try:
                values = json.loads(path.read_text("utf-8"))
                values["spec"]["payload"] = base64.b64decode(values["spec"].get("payload", ""))
                jobs.append(values)
            except (OSError, ValueError, KeyError, TypeError) as error:
                _log.warning("the job in %s is left out: %s", path, error)
        return sorted(jobs, key=lambda values: values["record"]["submitted"])

    def save(self, job: str, values: dict[str, Any]) -> None:
        """Write a job; a full disk costs no job, and is logged once."""
        if self.folder is None:
            return
        spec = dict(values["spec"])
        spec["payload"] = base64.b64encode(spec.get("payload", b"")).decode()
        path, half = self.folder / f"{job}.json", self.folder / f"{job}.half"
        try:
            with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump({**values, "spec": spec}, file)
            half.replace(path)
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.warning("jobs cannot be kept in %s: %s; they go on", self.folder, error)
            self._failed = True

    def remove(self, job: str) -> None:
        """Delete a job."""
        if self.folder is not None:
            with suppress(OSError):
                (self.folder / f"{job}.json").unlink(missing_ok=True)
