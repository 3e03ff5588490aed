"""A stage that notes which slots and processes share a model, and a run of it in two slots of a GPU."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcurate import DaskExecutor, InlineExecutor, JsonlReader, LocalCluster, Pipeline, Resources
from dcurate.models import Tokenize
from tests.models.stages import Classify
from tests.models.tiny import tiny_classifier

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


def two_slots(cluster: LocalCluster) -> dict[str, Any]:
    """A small model in two slots of one process of a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_classifier(Path(folder, "model"), ["yes", "no"])
        Path(folder, "in").mkdir()
        for file in range(8):
            rows = [{"id": 10 * file + row, "text": "the fox " * (row + 1)} for row in range(10)]
            Path(folder, "in", f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        half = Resources(cpus=1, gpus=0.5)
        labels: list[dict[int, str]] = []
        for stage, executor in (
            (
                ClassifyTogether(str(model), device="cpu", folder=folder).with_(resources=half),
                DaskExecutor(cluster=cluster),
            ),
            (Classify(str(model), device="cpu"), InlineExecutor()),
        ):
            stages: list[Any] = [JsonlReader(f"{folder}/in", files_per_partition=1), Tokenize(str(model)), stage]
            found = Pipeline("slots", stages=stages).run(executor).to_pandas()
            labels.append(dict(zip(found["id"].tolist(), found["label"].tolist(), strict=True)))
        notes = [path.name.split("-")[1:] for path in Path(folder).glob("note-*")]
    processes, slots, models = zip(*notes, strict=True)
    counts = {"processes": len({*processes}), "slots": len({*slots}), "models": len({*models})}
    return {**counts, "rows": len(labels[0]), "equal": labels[0] == labels[1]}
