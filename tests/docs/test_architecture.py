"""The rows of packages on the page and in the picture are those that import-linter checks."""

from __future__ import annotations

import re
import tomllib

from dcurate_testing.draw_packages import PICTURE, picture
from tests.conftest import ROOT


def rows() -> list[set[str]]:
    """The packages of each row, from the top, in `pyproject.toml`."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [set(re.findall(r"\w+", layer)) for layer in contracts[0]["layers"]]


def test_the_page_has_the_rows_and_describes_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    _, table = page.split("| row | packages |\n", 1)
    lines = re.findall(r"^ *\| [^|]+ \|([^|]+)\|$", table.split("\n\n")[0].replace("|---|---|", ""), re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", line)) for line in lines] == rows()
    described = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE))))
    assert set().union(*rows()) - described == set()


def test_the_picture_is_that_of_the_rows() -> None:
    assert PICTURE.read_text() == picture(), "draw it with `python -m dcurate_testing.draw_packages`"
