"""Rights of a class: what it declares, or its package."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError
from dcurate.core import packages
from dcurate.text import WordCountFilter

LINE = b'{"id": 1.50, "text": "one two"}\n'
#: A stage of someone else's package, which notes the columns that it was given.
LOOKS = """
from dcurate import ProcessingStage

class Looks(ProcessingStage):
    seen = []

    def process(self, batch):
        self.seen.append(batch.data.column_names)
        return batch
"""
DECLARED = LOOKS.replace("    seen", "    declares_columns = True\n    seen", 1)
ADDS = """
from dcurate import ProcessingStage

class Adds(ProcessingStage):
    def __init__(self, name_field="text"):
        self.name_field = name_field

    def outputs(self):
        return [], [self.name_field]

    def process(self, batch):
        return batch
"""
REGISTERS = "from dcurate.core.packages import register_package\n\nregister_package(__name__)\n"

Package = Callable[..., Any]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Writes a package that is not dcurate's, and imports its module of stages."""
    monkeypatch.setattr(packages, "_REGISTERED", dict(packages._REGISTERED))
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(stages: str, init: str = "") -> Any:
        names.append(f"curated_maps_{len(names)}")
        folder = tmp_path / names[-1]
        folder.mkdir()
        (folder / "__init__.py").write_text(init)
        (folder / "stages.py").write_text(stages)
        return importlib.import_module(f"{names[-1]}.stages")

    yield write
    for name in names:
        del sys.modules[name], sys.modules[f"{name}.stages"]


def hidden_columns(stage: Any, folder: Path) -> int:
    """Run a stage that notes its columns between a reader and a writer, which must copy the line."""
    (folder / "in.jsonl").write_bytes(LINE)
    stages = [JsonlReader(str(folder / "in.jsonl")), stage, JsonlWriter(str(folder / "out"), mode="overwrite")]
    Pipeline("looks", stages=stages).run(InlineExecutor(), observers=[])
    assert b"".join(path.read_bytes() for path in (folder / "out").glob("*.jsonl")) == LINE
    return len({*stage.seen[-1]} - {"id", "text"})


def test_a_stage_of_another_package_sees_lines_if_its_class_says_so(package: Package, tmp_path: Path) -> None:
    assert hidden_columns(package(LOOKS).Looks(), tmp_path) == 0
    assert hidden_columns(package(DECLARED).Looks(), tmp_path) == 1


def test_a_class_that_extends_one_which_sees_lines_does_not_see_them(package: Package, tmp_path: Path) -> None:
    stages = package(DECLARED + "\nclass Extended(Looks):\n    pass\n")
    assert stages.Looks.declares_columns
    assert hidden_columns(stages.Extended(), tmp_path) == 0


def test_stages_of_a_registered_package_see_lines(package: Package, tmp_path: Path) -> None:
    assert hidden_columns(package(LOOKS, REGISTERS).Looks(), tmp_path) == 1


def test_arguments_and_columns_are_checked_in_registered_packages_alone(package: Package) -> None:
    assert package(ADDS).Adds(name_field=3).new_columns() == []
    registered = package(ADDS, REGISTERS).Adds
    assert registered().new_columns() == ["text"]
    with pytest.raises(PipelineError, match="is not the name of a column"):
        registered(name_field=3)


def test_rights_are_those_of_the_nearest_package() -> None:
    assert packages.is_registered("dcurate.compat.nemo")
    assert not packages.is_registered("dcurate_of_mine.stages")
    assert packages.checks_arguments(WordCountFilter)
