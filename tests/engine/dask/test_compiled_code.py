"""On an attached cluster one worker of each kind compiles; others, and those that join later, take it over."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from distributed import Client
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from dcurate import AttachedCluster, DaskExecutor, DocumentBatch, InlineExecutor, Pipeline, ProcessingStage
from dcurate.core.kernels import Kernels
from dcurate.engine.dask.compiled_code import _take
from dcurate.kernels.kept import code_kind
from dcurate.kernels.nesting import KERNELS, _line_ends, line_ends
from tests.conftest import forked, wait_for, wait_for_workers, wait_until

pytestmark = pytest.mark.cluster


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    info = folder / "scheduler.json"
    command = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with forked(*command, "--scheduler-file", str(info), log=folder / "scheduler.log"):
        wait_for(info)
        yield json.loads(info.read_text())["address"]


def worker(stack: ExitStack, address: str, folder: Path, name: str) -> None:
    """Start a worker with a folder of compiled kernels of its own, as on a host of its own."""
    command = [sys.executable, "-m", "dask", "worker", address, "--name", name, "--nthreads", "1", "--no-dashboard"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / f"kernels-{name}")}
    with open(folder / f"{name}.log", "ab") as log:
        command += ["--local-directory", str(folder / name)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    stack.callback(process.wait, 60)
    stack.callback(process.terminate)


def compiled_here() -> tuple[str, list[str]]:
    """The folder of compiled kernels of this process, and the names of those that it has compiled itself."""
    functions: list[Any] = [item for item in gc.get_objects() if issubclass(type(item), Dispatcher)]
    kept = [item for item in functions if isinstance(item._cache, FunctionCache)]
    return os.environ["NUMBA_CACHE_DIR"], [item.__name__ for item in kept if item.stats.cache_misses]


class Ends(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Finds the ends of lines with one compiled function, which takes a second to compile and not a minute."""

    name = "ends"

    def kernels(self) -> Sequence[Kernels]:
        return [KERNELS]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rows = task.to_pandas()
        return task.with_data(rows.assign(ends=[str(line_ends(text.encode(), 1)) for text in rows.text]))


def batches() -> list[DocumentBatch]:
    return [DocumentBatch(data=pd.DataFrame({"text": [f'{{"a": {number}}}\n{{}}\n'] * 2})) for number in range(12)]


def rows_of(outputs: Sequence[Any]) -> list[str]:
    return sorted(str(row) for output in outputs for row in output.to_pandas().to_dict("records"))


def test_one_worker_of_a_kind_compiles_and_one_that_joins_later_compiles_nothing(tmp_path: Path) -> None:
    with scheduler(tmp_path) as address, ExitStack() as stack:
        for name in ("first", "second"):
            worker(stack, address, tmp_path, name)
        wait_for_workers(address, 2)
        executor = DaskExecutor(cluster=AttachedCluster(address, timeout_s=60.0))
        pipeline = Pipeline("warm", stages=[Ends()])
        with Client(address, timeout=120, set_as_default=False) as client:
            outputs = pipeline.run(executor, batches(), observers=[])
            compiled = [name for _, names in client.run(compiled_here).values() for name in names]
            assert compiled == ["_line_ends"]
            assert code_in(tmp_path, "first") == code_in(tmp_path, "second") != set()
            stream = pipeline.stream(executor, batches(), observers=[])
            again = [next(stream)]
            worker(stack, address, tmp_path, "third")
            wait_until(lambda: code_in(tmp_path, "third") == code_in(tmp_path, "first"), "the code of the third worker")
            again += stream
            assert [name for _, names in client.run(compiled_here).values() for name in names] == compiled
            assert not [name for names in client.run(plugins).values() for name in names if "compiled" in name]
    assert rows_of(outputs) == rows_of(again) == rows_of(pipeline.run(InlineExecutor(), batches(), observers=[]))


def plugins(dask_worker: Any) -> list[str]:
    return list(dask_worker.plugins)


def code_in(folder: Path, name: str) -> set[str]:
    return {path.name for path in (folder / f"kernels-{name}").rglob("*.nbc")}


def test_a_broken_cache_gives_the_same_rows(tmp_path: Path) -> None:
    pipeline = Pipeline("warm", stages=[Ends()])
    made = []
    for _ in range(2):
        with scheduler(tmp_path) as address, ExitStack() as stack:
            worker(stack, address, tmp_path, "first")
            wait_for_workers(address, 1)
            executor = DaskExecutor(cluster=AttachedCluster(address, timeout_s=60.0))
            made.append(rows_of(pipeline.run(executor, batches(), observers=[])))
        indexes = list((tmp_path / "kernels-first").rglob("*.nbi"))
        assert indexes
        for path in indexes:
            path.write_bytes(b"\x80\x05broken")
        (tmp_path / "scheduler.json").unlink()
    assert made[0] == made[1]


def test_code_of_another_kind_or_damaged_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KERNELS.load()
    code = KERNELS.missing.code()  # type: ignore[attr-defined]
    assert code
    cache = _line_ends._cache._cache_file
    monkeypatch.setattr(cache, "_cache_path", str(tmp_path))
    monkeypatch.setattr(cache, "_index_path", str(tmp_path / cache._index_name))
    assert KERNELS.missing() == 1
    _take([KERNELS], {"another CPU": {KERNELS.name: code}})
    assert KERNELS.missing() == 1
    _take([KERNELS], {code_kind(): {KERNELS.name: {"x": [("nothing", "of this")]}}})
    assert KERNELS.missing() == 1
    _take([KERNELS], {code_kind(): {KERNELS.name: code}})
    assert KERNELS.missing() == 0
    assert KERNELS.missing.code().keys() == code.keys()  # type: ignore[attr-defined]
    (tmp_path / cache._index_name).write_bytes(b"broken")
    assert KERNELS.missing() == 1
    assert KERNELS.missing.code() == {}  # type: ignore[attr-defined]
