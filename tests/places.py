"""The files of a run: its data and its records."""

from __future__ import annotations

from pathlib import Path

from dcurate.fs.stores import BESIDE, Directory


def records(output: Path | str) -> Path:
    """The folder of the records of an output directory."""
    return Path(Directory(str(output)).records)


def is_data(path: Path) -> bool:
    """Whether a file is not in the records of an output directory."""
    return not any(part.endswith(BESIDE) for part in path.parts)
