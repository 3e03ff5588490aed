"""The page names functions in the order in which a batch comes to them, as a trace of a run shows."""

import importlib
import re
from pathlib import Path

import pytest

from dcurate_testing.trace_batch import trace

pytestmark = pytest.mark.cluster

PAGE = (Path(__file__).parents[2] / "docs" / "life-of-a-batch.md").read_text("utf-8")
#: A function as the page names it.
NAME = r"`(dcurate[\w.]*:[\w.]+)`"
#: What is called again and again, from before the first batch on.
LOOP = {
    "dcurate.engine.driver:DriverLoop.run",
    "dcurate.engine.flow:Flow.advance",
    "dcurate.engine.dask.backend:DaskBackend.wait",
    "dcurate.engine.dask.scheduler_plugin:SlotManager.transition",
}


def stops() -> dict[str, list[str]]:
    """The functions of the numbered stops, in their order, by where they run."""
    functions: dict[str, list[str]] = {}
    for number, (place, text) in enumerate(
        re.findall(r"^\d+\. (\w+): ((?:.+\n)+?)(?=\d+\. |\n)", PAGE, re.MULTILINE), 1
    ):
        names = re.findall(NAME, text)
        assert names, f"stop {number} names no function"
        functions.setdefault(place, []).extend(names)
    return functions


def test_every_function_that_it_names_exists() -> None:
    for mention in re.findall(NAME, PAGE):
        module, _, name = mention.partition(":")
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)


def test_the_stops_are_numbered_and_say_where_they_are() -> None:
    numbers = re.findall(r"^(\d+)\. (?:Driver|Scheduler|Worker): ", PAGE, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(re.findall(r"^\d+\. ", PAGE, re.MULTILINE)) + 1)]


def test_a_batch_comes_to_every_function_in_this_order(tmp_path: Path) -> None:
    called = trace(tmp_path)
    for place, names in stops().items():
        assert set(names) <= set(called[place]), place
        once = [name for name in names if name not in LOOP]
        assert once == sorted(once, key=called[place].index), place
