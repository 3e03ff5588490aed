"""Operators are loaded beside set-ups that import packages."""

from __future__ import annotations

import importlib
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.engine.worker.slots import Slot
from tests.stages import Append

#: A package that puts another in its place as its import ends, and a stage's module that imports from it.
PACKAGE = """
import sys, time, types
sys.importing.set()
time.sleep(1)
late = types.ModuleType(__name__)
late.__dict__.update({"__spec__": __spec__, "__path__": [], "name": "there"})
sys.modules[__name__] = late
"""
STAGE = """
from dataclasses import dataclass
from replaces_itself import name
from tests.stages import Append

@dataclass
class Imports(Append):
    name: str = name
"""


def test_an_operator_is_loaded_while_a_package_that_replaces_itself_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "replaces_itself.py").write_text(textwrap.dedent(PACKAGE))
    (tmp_path / "stage_that_imports.py").write_text(STAGE)
    monkeypatch.syspath_prepend(tmp_path)
    importing = threading.Event()
    monkeypatch.setattr(sys, "importing", importing, raising=False)
    stage: Append = importlib.import_module("stage_that_imports").Imports()
    payload = pickled(OperatorSpec("test", (stage,)))
    for module in ("stage_that_imports", "replaces_itself"):
        del sys.modules[module]
    importing.clear()
    other = threading.Thread(target=importlib.import_module, args=["replaces_itself"])
    other.start()
    assert importing.wait(30)
    slot = Slot("loading", payload, "worker")
    slot.open()
    slot.close()
    other.join(30)


def test_an_operator_whose_module_is_missing_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stage_that_goes.py").write_text("from tests.stages import Append\n\nclass Goes(Append):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    payload = pickled(OperatorSpec("test", (importlib.import_module("stage_that_goes").Goes(),)))
    (tmp_path / "stage_that_goes.py").unlink()
    del sys.modules["stage_that_goes"]
    importlib.invalidate_caches()
    with pytest.raises(ImportError, match="stage_that_goes"):
        Slot("loading", payload, "worker")
