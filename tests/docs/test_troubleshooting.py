"""The page on errors quotes messages that the code can still say."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text(encoding="utf-8").partition("## It runs, but")[0]
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


@cache
def sentences() -> str:
    """All texts of the package, with what is put into them left out; what differs is the sign that the page has."""
    found = []
    for path in sorted((ROOT / "dcurate").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_is_one_of_the_code(message: str) -> None:
    parts = [part.strip() for part in message.split("…") if len(part.strip()) > 5]
    assert parts
    assert [part for part in parts if part not in sentences()] == []


def test_the_page_quotes_messages() -> None:
    assert len(MESSAGES) > 20
