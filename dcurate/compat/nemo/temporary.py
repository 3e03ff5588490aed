"""Temporary files and folders, as `nemo_curator.utils.operation_utils` has functions for them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def get_tmp_dir() -> Path:
    """The folder of temporary files."""
    return Path(tempfile.gettempdir())


@contextmanager
def make_temporary_dir(
    *, prefix: str | None = None, target_dir: Path | None = None, delete: bool = True
) -> Iterator[Path]:
    """Make a folder, which is deleted afterwards unless `delete` is False."""
    folder = get_tmp_dir() if target_dir is None else target_dir
    if not delete:
        yield Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
        return
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as path:
        yield Path(path)


@contextmanager
def make_named_temporary_file(
    *, prefix: str | None = None, suffix: str | None = None, delete: bool = True, target_dir: Path | None = None
) -> Iterator[Path]:
    """Make a file, which is deleted afterwards unless `delete` is False."""
    folder = get_tmp_dir() if target_dir is None else target_dir
    with tempfile.NamedTemporaryFile(prefix=prefix, suffix=suffix, delete=delete, dir=folder) as file:
        yield Path(file.name)


def _pipeline_folder(sub_dir: str | None) -> Path:
    folder = get_tmp_dir() / "ray_pipeline" / (sub_dir or "")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def make_pipeline_temporary_dir(sub_dir: str | None = None) -> Iterator[Path]:
    """Make a folder in that of pipelines, or in a folder of it, and delete it afterwards."""
    with make_temporary_dir(target_dir=_pipeline_folder(sub_dir)) as folder:
        yield folder


@contextmanager
def make_pipeline_named_temporary_file(sub_dir: str | None = None, suffix: str | None = None) -> Iterator[Path]:
    """Make a file in the folder of pipelines, or in a folder of it, and delete it afterwards."""
    with make_named_temporary_file(target_dir=_pipeline_folder(sub_dir), suffix=suffix) as file:
        yield file
