"""A tutorial works as it is written: its files are made, its commands run in order, and they print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
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
            done = subprocess.run(
                ["bash", "-e", "-c", block.body], cwd=tmp_path, env=here, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{block.body}\n{done.stdout}\n{done.stderr}"
            printed = squeezed(done.stdout)
        elif block.language == "text":
            missing = [line for line in block.body.splitlines() if squeezed(line) not in printed]
            assert not missing, printed
