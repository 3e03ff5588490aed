"""A tutorial works as it is written: its files are made, its commands run in order, and they print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.forked import finished

pytestmark = pytest.mark.program

TUTORIALS = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), ROOT / "docs" / "howto" / "lineage.md"]
FENCE = re.compile(
    r'(?P<before>^[^\n]*\n)^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str | None
    body: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks that count, in order.

    >>> [block.body for block in blocks("Text.\\n```sh\\nls\\n```\\n<!-- not run: why -->\\n```sh\\nrm\\n```")]
    ['ls\\n']
    """
    for found in FENCE.finditer(page):
        if not found["before"].startswith("<!-- not run: "):
            yield Block(found["language"], found["title"], found["body"])


def squeezed(text: str) -> str:
    """A text whose runs of white space are one space each."""
    return " ".join(text.split())


def commands(body: str) -> list[list[str]]:
    """The programs that run a block: ``dcurate``, which can be forked, for each line if that is all, else a shell.

    >>> commands("dcurate plan a.yaml\\ndcurate run 'a b.yaml'")[1][1:]
    ['-m', 'dcurate.cli', 'run', 'a b.yaml']
    >>> commands("dcurate plan a.yaml | head")
    [['bash', '-e', '-c', 'dcurate plan a.yaml | head']]
    """
    lines = body.splitlines()
    if set(body) & set("|&;<>$`\\#*?") or not all(line.startswith("dcurate ") for line in lines):
        return [["bash", "-e", "-c", body]]
    return [[sys.executable, "-m", "dcurate.cli", *shlex.split(line)[1:]] for line in lines]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_works_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    here = {**os.environ, "PATH": path, "COLUMNS": "160"}  # cells of tables are not broken
    printed = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.title:
            (tmp_path / block.title).write_text(block.body, encoding="utf-8")
        elif block.language == "sh":
            printed = ""
            for command in commands(block.body):
                if command[0] == "bash":
                    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
                else:
                    done = finished(command, cwd=tmp_path, env=here, timeout_s=580)
                assert done.returncode == 0, f"{block.body}\n{done.stdout}\n{done.stderr}"
                printed += squeezed(done.stdout) + " "
        elif block.language == "text":
            missing = [line for line in block.body.splitlines() if squeezed(line) not in printed]
            assert not missing, printed
