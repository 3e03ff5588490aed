"""A stage that notes which slots and processes share a model."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.models.stages import Classify

#: Two slots of this process meet here.
_meeting = threading.Barrier(2)


@dataclass
class ClassifyTogether(Classify):
    """Classifies when two slots of its process have a batch, and notes the process, the slot and the model."""

    folder: str = ""

    def process(self, task: Any) -> Any:
        if not Path(self.folder, f"met-{os.getpid()}").exists():
            _meeting.wait(60)
            Path(self.folder, f"met-{os.getpid()}").touch()
        note = f"note-{os.getpid()}-{id(self)}-{id(self._ready().model)}"
        Path(self.folder, note).touch()
        return super().process(task)
