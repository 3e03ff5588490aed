"""Tests and benchmarks share code in one direction: both import `dcurate_testing`, which imports neither."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

#: What the files of a folder must not import.
FORBIDDEN = {
    "dcurate": ("dcurate_testing", "tests", "benchmarks"),
    "dcurate_testing": ("tests", "benchmarks"),
    "benchmarks": ("tests",),
    "tests": ("benchmarks",),
}
#: Modules and attributes of Dask that are private or undocumented, and the modules of dcurate that may use such.
DASK_MODULES = (
    "distributed.dashboard",
    "distributed.diagnostics.nvml",
    "distributed.worker_state_machine",
    "bokeh.server",
)
DASK_ATTRIBUTES = frozenset(
    (
        *("_send_to_scheduler", "_correct_state", "_broker", "stream_handlers", "stream_comms", "batched_send"),
        *("worker_send", "http_application", "http_server", "thread_condition", "client_releases_keys", "transitions"),
        *("allowed_failures", "handle_stimulus", "memory_manager", "available_resources", "total_resources"),
        *("retire_workers", "restart_workers"),
    )
)
MAY_USE_THEM = ("cluster/compat.py", "cluster/probe.py", "engine/dask/resource_queue.py")
#: The tests of the benchmarks.
ALLOWED = ROOT / "tests" / "benchmarks"


def imports(source: str) -> Iterator[str]:
    """The top-level packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def violations(folder: Path, forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{file.relative_to(folder.parent)} imports {name}"
        for file in sorted(folder.rglob("*.py"))
        if not file.is_relative_to(ALLOWED)
        for name in imports(file.read_text("utf-8"))
        if name in forbidden
    ]


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_what_tests_and_benchmarks_share_is_imported_in_one_direction(folder: str) -> None:
    assert violations(ROOT / folder, FORBIDDEN[folder]) == []


def test_an_import_in_the_wrong_direction_is_found_anywhere_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import os\n\ndef f():\n    from tests.stages import Sleep\n    import benchmarks.rows\n"
    )
    found = violations(tmp_path, ("tests", "benchmarks"))
    assert found == [f"{tmp_path.name}/a.py imports {name}" for name in ("tests", "benchmarks")]


def test_the_wheel_has_the_package_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["dcurate"]}


def dask_internals(source: str) -> Iterator[str]:
    """Private or undocumented parts of Dask that a module uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in DASK_ATTRIBUTES:
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (name for alias in node.names for name in _internal(f"{node.module}.{alias.name}"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _internal(node.value)


def _internal(module: str) -> Iterator[str]:
    if any(module == name or module.startswith(f"{name}.") for name in DASK_MODULES):
        yield module


def test_dask_internals_are_used_in_one_module() -> None:
    package = ROOT / "dcurate"
    found = [
        f"{file.relative_to(package)}: {name}"
        for file in sorted(package.rglob("*.py"))
        if file.relative_to(package).as_posix() not in MAY_USE_THEM
        for name in dask_internals(file.read_text("utf-8"))
    ]
    assert found == []


def test_dask_internals_are_found_as_attributes_and_as_imports() -> None:
    source = "from distributed.diagnostics import nvml\nf('bokeh.server.util')\nscheduler.stream_handlers['a'] = b\n"
    assert sorted(dask_internals(source)) == ["bokeh.server.util", "distributed.diagnostics.nvml", "stream_handlers"]
