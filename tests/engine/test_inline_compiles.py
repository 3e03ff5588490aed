"""Kernels that a stage names are compiled before the first batch also where there are no workers, and it is said."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from dcurate import ExactDuplicates, InlineExecutor, Pipeline, ProcessingStage
from dcurate.core.kernels import Kernels
from dcurate.events import Compiled, Compiling, Event, TaskDone


def compile_into(path: str) -> None:
    Path(path).write_text(str(os.getpid()))


def fail() -> None:
    raise RuntimeError("no such instruction")


def absent(path: str) -> int:
    return int(not Path(path).exists())


class Compiles(ProcessingStage[Any, Any]):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def kernels(self) -> list[Kernels]:
        paths = {name: f"{self.folder}/{name}" for name in ("a", "b")}
        made = [Kernels(name, partial(compile_into, path), partial(absent, path), 1.0) for name, path in paths.items()]
        return [*made, *made, Kernels("broken", fail, partial(absent, f"{self.folder}/never"), 0.1)]

    def process(self, task: Any) -> Any:
        return task


def events_of(folder: Path) -> list[Event]:
    """What is said of compiling, and of tasks, by a run of two rounds at least."""
    seen: list[Event] = []

    class Seen:
        def on_event(self, event: Event) -> None:
            if isinstance(event, Compiling | Compiled | TaskDone):
                seen.append(event)

    pipeline = Pipeline("compiles", stages=[Compiles(str(folder)), ExactDuplicates()])
    pipeline.run(InlineExecutor(), pd.DataFrame({"text": ["one", "two"]}), observers=[Seen()])
    return seen


def test_what_is_missing_is_compiled_once_before_the_first_batch_and_a_failure_is_left_to_the_stage(
    tmp_path: Path,
) -> None:
    first, second = events_of(tmp_path), events_of(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    said = [event for event in first if not isinstance(event, TaskDone)]
    assert first[: len(said)] == said
    ours = [event.kernels for event in said if isinstance(event, Compiling)]
    assert ours[0] - ours[-1] >= 2
    assert isinstance(said[-1], Compiled)
    again = [event for event in second if isinstance(event, Compiling)]
    assert [event.kernels for event in again] == [1]
    assert isinstance(second[1], Compiled)
