"""The rows of packages on the page and in the picture are those that import-linter checks."""

from __future__ import annotations

import re
import tomllib

from dcurate_testing.draw_packages import PICTURE, picture
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def rows() -> list[set[str]]:
    """The packages of each row, from the top, in `pyproject.toml`."""
    return [set(re.findall(r"\w+", layer)) for layer in CONTRACTS[0]["layers"]]


def importers(library: str) -> set[str]:
    """The packages that may import a library."""
    allowed = next(rule["allowed_importers"] for rule in CONTRACTS if library in rule.get("protected_modules", ()))
    return {package.removeprefix("dcurate.") for package in allowed}


def test_the_page_has_the_rows_and_describes_every_package() -> None:
    _, table = PAGE.split("| row | packages |\n", 1)
    lines = re.findall(r"^ *\| [^|]+ \|([^|]+)\|$", table.split("\n\n")[0].replace("|---|---|", ""), re.MULTILINE)
    shown = [set(re.findall(r"`(\w+)`", line)) for line in lines]
    assert shown == rows(), "the table of rows in docs/architecture.md is not that of the contract in pyproject.toml"
    described = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE))))
    assert set().union(*rows()) - described == set(), "say in the table of docs/architecture.md what the package does"


def test_the_page_says_who_imports_the_libraries_of_tables_and_models() -> None:
    tables, models = re.findall(r"^4\. pandas and pyarrow are imported in (.+) only, Torch in (.+) only;", PAGE, re.M)[
        0
    ]
    for library, packages in (("pyarrow", tables), ("torch", models)):
        shown = set(re.findall(r"`(\w+)`", packages))
        assert shown == importers(library), f"rule 4 of docs/architecture.md and the contract of {library} differ"


def test_the_picture_is_that_of_the_rows() -> None:
    assert PICTURE.read_text() == picture(), "draw it with `python -m dcurate_testing.draw_packages`"
