"""What `benchmarks.nemo_suite` adds to pytest: the alias, stand-ins for fixtures that start Ray, a log of results.

Nothing else is replaced. Each line of the file that ``NEMO_SUITE_LOG`` names is one item's outcome as JSON.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nemo_suite import Suite

LOG = Path(os.environ["NEMO_SUITE_LOG"])

try:
    from dcurate.compat import nemo
except ImportError as error:
    print(f"no alias: {error}")
else:
    nemo.install()


def _log(**record: Any) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _cause(text: str) -> str:
    """The last line of an error: pytest marks the lines of the exception with an E."""
    lines = [line[2:].strip() for line in text.splitlines() if line.startswith("E ") and line[2:].strip()]
    rest = [line.strip() for line in text.splitlines() if line.strip()]
    return next(iter([*reversed(rest[-1:]), "?"])) if not lines else _headline(lines)


def _headline(lines: list[str]) -> str:
    """The first line that names an exception, else the last one."""
    return next(
        (line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "Warning"))), lines[0]
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what has to pass, and what is said to differ."""
    suite, chosen = Suite.read(), []
    for item in items:
        rule = suite.rule(item.nodeid.removeprefix("tests/"))
        run = rule is None or rule.kind == "differs"
        _log(id=item.nodeid, outcome="collected" if run else "not run")
        if run:
            chosen.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _log(file=report.nodeid, outcome="error", error=_cause(str(report.longrepr)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or not report.passed:
        outcome = report.outcome if report.when == "call" or report.skipped else "error"
        error = "" if report.passed else _cause(str(report.longrepr))
        _log(id=report.nodeid, outcome=outcome, error=error[:500])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine, as pytest-asyncio would."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def shared_ray_cluster() -> Iterator[str]:
    """A cluster of dcurate's that every pipeline of the session uses."""
    from nemo_curator.core.client import RayClient  # noqa: PLC0415

    with RayClient(num_cpus=2, num_gpus=0):
        yield "local"


@pytest.fixture
def shared_ray_client(shared_ray_cluster: str) -> None:
    """Replaces a connection to Ray."""


@pytest.fixture
def ray_gpu_resources() -> dict[str, Any]:
    return {"gpu_count": 0, "has_gpu": False, "total_resources": {}}


@pytest.fixture
def ray_client_with_id_generator(shared_ray_client: None) -> Iterator[None]:
    from nemo_curator.stages.deduplication.id_generator import (  # noqa: PLC0415
        create_id_generator_actor,
        kill_id_generator_actor,
    )

    create_id_generator_actor()
    yield
    kill_id_generator_actor()
