"""The package on the page "Write a package of your own" can be built, installed, tested, and named in recipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.test_tutorials import FENCE

pytestmark = pytest.mark.program

PAGE = ROOT / "docs" / "howto" / "own-package.md"
ROWS = ["a dog and a cat", "incomprehensible verbosity"]


def ran(*command: str, folder: Path, installed: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*([str(installed)] if installed else []), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(600)
def test_the_package_is_built_installed_tested_and_named_in_recipes(tmp_path: Path) -> None:
    source, installed, work = (tmp_path / name for name in ("source", "installed", "work"))
    for block in FENCE.finditer(PAGE.read_text(encoding="utf-8")):
        if block["title"]:
            (source / block["title"]).parent.mkdir(parents=True, exist_ok=True)
            (source / block["title"]).write_text(block["body"], encoding="utf-8")
    work.mkdir()
    (work / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ROWS))
    recipe = ("dcurate.cli", "run", "acme_terse:terse", "--mode", "inline", "--input", "rows.jsonl", "--output", "out")
    own = source / "acme_terse" / "recipes" / "terse.yaml"

    before = ran("dcurate.cli", "run", str(own), "--input", "rows.jsonl", folder=work, installed=source)
    assert before.returncode == 2, "on the path, but not installed: no package announces it"
    assert "may run any code; give --trust" in before.stderr

    options = ("--no-build-isolation", "--no-index", "--no-deps", "--quiet", "--target", str(installed))
    built = ran("pip", "install", *options, str(source), folder=work)
    assert built.returncode == 0, built.stderr
    done = ran(*recipe, folder=work, installed=installed)
    assert done.returncode == 0, done.stderr
    [file] = (work / "out").glob("*.jsonl")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"text": ROWS[0], "letters": 11}]
    assert "acme_terse:terse" in ran("dcurate.cli", "recipes", folder=work, installed=installed).stdout

    test = ("pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "test_terse.py")
    (work / "test_terse.py").write_text((source / "test_terse.py").read_text())
    tested = ran(*test, folder=work, installed=installed)
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
