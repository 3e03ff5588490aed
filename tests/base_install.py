"""A program: hide the packages of every extra, and import what is public."""

import re
import sys
import tomllib
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def distributions(requirements: Any) -> set[str]:
    return {re.split(r"[\[<>=;!~ ]", one)[0].lower().replace("_", "-") for one in requirements}


def hidden() -> set[str]:
    base = distributions(PROJECT["dependencies"])
    extras = {name for wanted in PROJECT["optional-dependencies"].values() for name in distributions(wanted)} - base
    return {
        module
        for module, names in packages_distributions().items()
        if distributions(names) & extras and not distributions(names) & base
    }


class Hidden(MetaPathFinder):
    def __init__(self) -> None:
        self.modules = hidden()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in self.modules:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def refusal_of(program: str) -> Exception | None:
    try:
        exec(program)
    except Exception as error:
        return error
    return None


def main(what: str) -> None:
    sys.meta_path.insert(0, Hidden())
    errors = import_module("dcurate.errors")
    if what == "star":
        names: dict[str, Any] = {}
        exec("from dcurate import *", names)
        assert {"Pipeline", "JsonlReader", "MediaReader"} <= set(names)
        exec("from dcurate.images import *", names)
        assert "ImageSignals" not in names
        return
    if what == "names":
        homes = import_module("dcurate.core.public").homes()
        refused = {name: refusal_of(f"from {home} import {name}") for name, home in homes.items()}
        refused = {name: error for name, error in refused.items() if error is not None}
    else:
        Path("r.yaml").write_text(
            "name: r\nstages:\n  - JsonlReader: {file_paths: in}\n  - OfficeExtract: {}\n  - JsonlWriter: {path: out}\n"
        )
        refused = {what: refusal_of("from dcurate.recipe import load_recipe\nload_recipe('r.yaml')")}
    assert refused
    for name, error in refused.items():
        assert isinstance(error, ImportError if what == "names" else errors.DcurateError), (name, error)
        assert isinstance(error, errors.DcurateError), (name, error)
        assert re.search(r"No module named '.*'; this needs the '\w+' extra: pip install", str(error)), (name, error)
        assert "\n" not in str(error), name


if __name__ == "__main__":
    main(sys.argv[1])
