"""Install the package beside this module, as an installer does, without network and without building it."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

SOURCE = Path(__file__).parent / "acme"


def install(folder: Path) -> Path:
    """Copy the package into a folder, with the metadata that `importlib.metadata` reads; returns the folder."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text("utf-8"))["project"]
    shutil.copytree(SOURCE / "acme_shouting", folder / "acme_shouting", ignore=shutil.ignore_patterns("__pycache__"))
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(groups) + "\n")
    return folder
