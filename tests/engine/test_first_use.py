"""Kernels that a stage compiles at its first call are announced, once in a run, in each mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

PROGRAM = """
import sys
import pandas as pd
from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, LocalCluster, Pipeline, processing_stage
from dcurate.events import CompilingLate
from dcurate.runs.state import RunState

@processing_stage(name="lines")
def lines(batch: DocumentBatch) -> DocumentBatch:
    from dcurate.kernels.nesting import line_ends
    line_ends(b"{}" + bytes([10]), 9)
    return batch

class Listener:
    def __init__(self):
        self.events, self.state = 0, RunState()

    def on_event(self, event):
        self.events += isinstance(event, CompilingLate)
        self.state.apply(event)

if __name__ == "__main__":
    listener = Listener()
    cluster = sys.argv[1] == "dask"
    executor = DaskExecutor(cluster=LocalCluster(n_workers=1)) if cluster else InlineExecutor()
    batches = [DocumentBatch(data=pd.DataFrame({"text": [str(n)]})) for n in range(4)]
    Pipeline("x", stages=[lines]).run(executor, batches, observers=[listener])
    notes = [note.text for note in listener.state.latest if "for the first time" in note.text]
    print(listener.events, len(notes), *notes)
"""


@pytest.mark.parametrize("mode", ["inline", "dask"])
def test_a_note_says_once_that_a_stage_compiles_kernels_and_not_where_they_are_kept(mode: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, program, mode], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        outputs.append(done.stdout.split(maxsplit=2))
    assert outputs[0][:2] == ["1", "1"]
    assert outputs[0][2].startswith("compiling kernels that stages call for the first time, about")
    assert outputs[1][:2] == ["0", "0"]
