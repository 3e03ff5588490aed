"""The page on opt-outs runs: its Python, then its commands, in order."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import ROOT, commands, examples
from tests.forked import FORKS, finished

pytestmark = pytest.mark.program

_PAGE = ROOT / "docs" / "howto" / "opt-outs.md"


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    def program(*command: str) -> str:
        done = finished([sys.executable, "-m", *command], cwd=tmp_path, env={**os.environ, **FORKS})
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    text = _PAGE.read_text(encoding="utf-8")
    (tmp_path / "program").write_text(examples(text), encoding="utf-8")
    sample, shown, removed, again, near, traced, report = commands(text)
    program("dcurate.cli", *sample)
    program("tests.docs.page", str(tmp_path / "program"), "opt-outs.md")
    assert "5 documents would be removed" in program("dcurate.cli", *shown)
    assert "5 documents removed" in program("dcurate.cli", *removed)
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert receipt["ignored_columns"] == ["asked"]
    assert "nothing to remove" in program("dcurate.cli", *again)
    assert "documents removed" in program("dcurate.cli", *near)
    assert "removed by request" in program("dcurate.cli", *traced)
    assert "mails 17 and 18" in program("dcurate.cli", *report)
