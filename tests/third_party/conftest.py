"""The package of someone else, installed for the modules here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dcurate.core.public import announced_modules
from tests.third_party.installed import install

#: The package is imported where it is installed, not here.
collect_ignore = ["acme"]


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of installed packages, in which this process and those that it starts look, too."""
    folder = install(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])))
        announced_modules.cache_clear()
        yield folder
    announced_modules.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_shouting"]:
        del sys.modules[name]


@pytest.fixture
def acme(installed: Path) -> Any:
    """The public module of the package."""
    return import_module("acme_shouting")
