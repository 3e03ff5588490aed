"""The commands of the page for teams are run, in order, on a scheduler and workers with certificates."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.forked import finished
from tests.jobs import test_tls

pytestmark = pytest.mark.cluster

cluster = test_tls.cluster


PAGE = (ROOT / "docs" / "howto" / "team.md").read_text()
LINES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def test_every_command_of_the_page_for_teams_works(cluster: test_tls.Encrypted, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(json.dumps({"text": "one"}) + "\n")
    (tmp_path / "recipe.yaml").write_text(
        "params: {input: null, output: null}\n"
        "stages:\n- JsonlReader: {file_paths: '${input}'}\n- JsonlWriter: {path: '${output}'}\n"
    )
    for name in ("ca.pem", "me.pem", "me.key"):
        (tmp_path / name).symlink_to(cluster.certificate)
    environment = dict(os.environ)
    ran = []
    for line in LINES:
        words = shlex.split(line.replace("tls://scheduler-host:8786", cluster.address))
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            environment[name] = value
            continue
        assert words[0] == "dcurate"
        done = finished([sys.executable, "-m", "dcurate.cli", *words[1:]], cwd=tmp_path, env=environment)
        assert done.returncode == 0, (line, done.stderr)
        ran.append(words[1])
    assert {"submit", "wait", "jobs", "logs", "describe", "run", "report", "monitor"} <= set(ran)
    assert len(list(tmp_path.glob("out/*.jsonl"))) == len(list(tmp_path.glob("nightly/*.jsonl"))) == 1
