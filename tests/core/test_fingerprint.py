"""What the fingerprint of a pipeline sees, and what it does not."""

from __future__ import annotations

import functools
import gc
import importlib
import json
import linecache
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from dcurate import BatchKey, DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, SourceStage
from dcurate.core.fingerprint import fingerprint
from dcurate.core.stage import Spec

pytestmark = pytest.mark.program


@dataclass
class Step(ProcessingStage[DocumentBatch, DocumentBatch]):
    adds: str = "score"

    def outputs(self) -> Spec:
        return [], [self.adds]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def of(value: object) -> str:
    """The fingerprint of a stage that holds a value."""
    stage = Step()
    stage.held = value  # type: ignore[attr-defined]
    return fingerprint([stage])["step"]


class Limit:
    """Keeps its setting in a private attribute, as filters written for the original do."""

    def __init__(self, most: int) -> None:
        self._most = most


def test_the_fingerprint_sees_settings_however_they_are_kept() -> None:
    assert of(Limit(1)) == of(Limit(1)) != of(Limit(2))
    assert of(object()) == of(object())


def test_the_fingerprint_distinguishes_settings_but_not_names_or_resources() -> None:
    first, second = fingerprint([Step()]), fingerprint([Step(adds="other")])
    assert first["step"] != second["step"]
    assert fingerprint([Step().with_(batch_size=5)]) == first
    assert fingerprint([Step().with_(name="renamed")])["renamed"] == first["step"]


def version(module: str, *fields: tuple[str, object]) -> Callable[..., Step]:
    """A version of a stage of a package, with these fields and their defaults."""
    declared = [(name, object, field(default_factory=lambda: default)) for name, default in fields]  # noqa: B023
    kind = make_dataclass("Ours", declared, bases=(Step,))
    kind.__module__ = module
    return kind


@pytest.mark.parametrize("default", [None, 0, False, 1.5, "", "text", [], ["a"], {}, {"a": 1}, (1, 2)])
def test_a_new_setting_of_dcurate_lets_earlier_runs_resume_until_it_is_set(default: object) -> None:
    before, after = version("dcurate.steps", ("old", 1)), version("dcurate.steps", ("old", 1), ("new", default))
    assert fingerprint([after()]) == fingerprint([before()])
    for other in (None, 0, False, True, 1, 1.5, "", "text", [], ["a"], {}, {"a": 1}, {"a": 2}, (1, 2)):
        same = (type(other), other) == (type(default), default)
        assert (fingerprint([after(new=other)]) == fingerprint([before()])) == same


def test_a_class_of_dcurate_may_move_to_another_module_and_one_of_a_user_may_not() -> None:
    def moved(old: str, new: str) -> bool:
        return fingerprint([version(old, ("most", 1))()]) != fingerprint([version(new, ("most", 1))()])

    assert not moved("dcurate.steps", "dcurate.text.steps")
    assert moved("dcurate.steps", "dcurate.compat.nemo.steps")  # it has names of dcurate, for other stages
    assert moved("mine.steps", "mine.text.steps")


def test_a_list_is_as_good_as_the_tuple_that_is_the_default() -> None:
    kind = version("dcurate.steps", ("names", ("a", "b")))
    assert fingerprint([kind(names=["a", "b"])]) == fingerprint([kind()])


def test_a_changed_default_of_a_users_stage_is_seen() -> None:
    before, after = version("mine.steps", ("most", 1)), version("mine.steps", ("most", 2))
    assert fingerprint([before()]) != fingerprint([after()])


def longer_than(most: int) -> Callable[[str], bool]:
    return lambda text: len(text) > most


def halved(text: str, times: int = 1) -> str:
    return text[: len(text) >> times]


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True, slots=True)
class Slotted:
    most: int


class Node:
    """Is part of itself."""

    def __init__(self, name: str) -> None:
        self.name, self.own = name, self

    def called(self, text: str) -> str:
        return text + self.name


ALIKE: dict[str, Callable[[int], Any]] = {
    "variables of the function around": longer_than,
    "arguments given beforehand": lambda number: functools.partial(halved, times=number),
    "methods of objects": lambda number: Limit(number).__init__,  # type: ignore[misc]
    "methods of built-in types": lambda number: [str.strip, str.lower, str.upper][number],
    "methods of built-in values": lambda number: ["a", "b", "c"][number].join,
    "long patterns": lambda number: re.compile("x" * 400 + str(number)),
    "arrays": lambda number: np.arange(5000) * (np.arange(5000) != 2500 + number),
    "arrays of Arrow": lambda number: pa.array([*range(5000), number, *range(5000)]),
    "bytes": lambda number: bytes(1000) + bytes([number]),
    "enumerations": lambda number: [*Level][number],
    "objects with slots": Slotted,
    "what is part of itself": lambda number: Node(str(number)),
    "methods of what is part of itself": lambda number: Node(str(number)).called,
    "loggers": lambda number: logging.getLogger(f"somebody.{number}"),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_the_fingerprint_distinguishes_what_gives_other_rows(kind: str) -> None:
    make = ALIKE[kind]
    assert of(make(0)) == of(make(0)) != of(make(1))


def test_a_function_that_calls_itself_has_a_fingerprint() -> None:
    def down(number: int) -> int:
        return down(number - 1) if number else 0

    assert of(down) == of(down)


@pytest.mark.parametrize("kind", ALIKE)
def test_the_fingerprint_is_the_same_after_pickling(kind: str) -> None:
    value = ALIKE[kind](1)
    assert of(cloudpickle.loads(cloudpickle.dumps(value))) == of(value)


def test_the_fingerprint_is_the_same_in_a_process_that_was_sent_a_function_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import subprocess, sys, cloudpickle\n"
        "from tests.core.test_fingerprint import of\n"
        "double = lambda number: number * 2\n"
        "there = 'import sys, cloudpickle; from tests.core.test_fingerprint import of;' \\\n"
        "    'print(of(cloudpickle.load(sys.stdin.buffer)))'\n"
        "sent = subprocess.run([sys.executable, '-c', there], input=cloudpickle.dumps(double), capture_output=True)\n"
        "other = lambda number: number * 3\n"
        "print(of(double), sent.stdout.decode().strip(), of(other))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True, env=environment)
    here, there, other = run.stdout.split()
    assert here == there != other


CLASS = """
from dataclasses import dataclass

@dataclass
class Mine:
    many: int = {many}

    @property
    def twice(self): return 2 * self.many

    def process(self, task):
        return task * {times}
"""


def in_cell(name: str, **values: int) -> type[Any]:
    """A class as a cell of a notebook makes it: its source is known by the name of the cell only."""
    source = CLASS.format(**{"many": 1, "times": 2, **values})
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    cell = {"__name__": "cell_without_file"}
    exec(compile(source, name, "exec", dont_inherit=True), cell)
    kind: type[Any] = cell["Mine"]  # type: ignore[assignment]
    return kind


def test_the_fingerprint_sees_the_source_of_a_class_of_a_notebook() -> None:
    first = of(in_cell("/cell/0.py")())
    assert of(in_cell("/cell/1.py")()) == first
    assert of(in_cell("/cell/2.py", times=3)()) != first


def test_the_fingerprint_of_a_class_of_unknown_source_is_that_of_its_settings() -> None:
    kinds = [in_cell("/cell/3.py"), in_cell("/cell/4.py", times=3)]
    for name in ("/cell/3.py", "/cell/4.py"):
        del linecache.cache[name]
    assert of(kinds[0]()) == of(kinds[1]())


class Fills(SourceStage[DocumentBatch, DocumentBatch]):
    """Notes what it lists in containers of its own."""

    name = "fills"

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.times: dict[str, int] = {}

    def splits(self) -> Iterator[DocumentBatch]:
        self.listed.append("split")
        self.times["split"] = self.times.get("split", 0) + 1
        yield DocumentBatch(key=BatchKey("split"), data=pa.table({"text": ["a"]}))

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_a_run_leaves_the_stages_of_its_pipeline_as_they_were() -> None:
    pipeline = Pipeline("test", stages=[Fills()])
    before = fingerprint(pipeline.stages)
    for _ in range(2):
        assert pipeline.run(InlineExecutor(), observers=[])[0].num_items == 1
        assert fingerprint(pipeline.stages) == before


def test_the_fingerprint_of_values_is_the_same_in_any_process() -> None:
    program = (
        "import json; from tests.core.test_fingerprint import ALIKE, of;"
        "print(json.dumps({name: of(make(0)) for name, make in ALIKE.items()}))"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert json.loads(found) == {name: of(make(0)) for name, make in ALIKE.items()}


def test_fingerprints_are_taken_in_several_threads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections that run Python, as Dask's do, let another thread parse in the midst of it."""
    functions = "".join(f"def f{number}(a):\n    return [a * {number} for _ in range(a)]\n\n" for number in range(1500))
    stage = "from dcurate import ProcessingStage\n\nclass Late(ProcessingStage):\n    process = print\n"
    (tmp_path / "long_module.py").write_text(functions + stage)
    monkeypatch.syspath_prepend(str(tmp_path))
    late = importlib.import_module("long_module").Late()
    expected, wait = fingerprint([late]), threading.Barrier(4)

    def taken(_: int) -> list[dict[str, str]]:
        wait.wait(60)
        return [fingerprint([late]) for _ in range(8)]

    def count(_phase: str, _about: dict[str, int]) -> None:
        sum(range(300))

    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(count)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            taken_by = list(threads.map(taken, range(4)))
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
    assert taken_by == [[expected] * 8] * 4
