"""What works where no extra is installed, as import hooks show that hide the packages of all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

PROGRAM = Path(__file__).with_name("base_install.py")


@pytest.mark.parametrize("what", ["star", "names", "recipe"])
def test_the_base_install_imports_or_names_the_extra(what: str, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), what]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
