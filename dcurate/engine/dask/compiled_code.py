"""Compile kernels once for each kind of CPU of a cluster, and send the code to the other workers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client, Worker, as_completed
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol.pickle import dumps

from dcurate.cluster import compat
from dcurate.core.kernels import Kernels
from dcurate.engine.accounting import RunAccounting
from dcurate.engine.dask.compilation import LONGEST_S, load_kernels
from dcurate.engine.dask.scheduler_calls import install_worker_plugin, remove_worker_plugin
from dcurate.events import Compiled, Compiling

_log = logging.getLogger(__name__)

#: Compiled code by kind of CPU and by kernel.
_Code = dict[str, dict[str, Any]]


class CompiledCode(WorkerPlugin):
    """Sends compiled code to each worker of the same kind before its first task, also to workers that join later.

    The code comes from workers of the same scheduler, as the tasks do. It is written to numba's folder of the user,
    each file whole or not at all; code that is damaged or of another kind is ignored, and compiled as usual.

    Args:
        kernels: kernels of a run.
        code: compiled code of these kernels.
    """

    def __init__(self, kernels: Sequence[Kernels], code: Mapping[str, Mapping[str, Any]]) -> None:
        self._kernels, self._code = tuple(kernels), {kind: dict(of_kind) for kind, of_kind in code.items()}

    async def setup(self, worker: Worker) -> None:
        """Store the code of this worker's kind, in a thread, so that the worker answers its scheduler meanwhile."""
        await asyncio.to_thread(_take, self._kernels, self._code)


@contextmanager
def compiled_once(client: Client, kernels: Sequence[Kernels], accounting: RunAccounting) -> Iterator[None]:
    """Have one worker of each kind compile missing kernels, and send them to the others during the ``with`` statement.

    It only saves time: a kernel that fails here is compiled at its first use.
    """
    unique = list({kernel.name: kernel for kernel in kernels}.values())
    name = f"dcurate-compiled-{accounting.job.run_key}"
    try:
        code = _compile(client, unique, accounting) if unique else {}
        if code:
            client.run_on_scheduler(install_worker_plugin, plugin=dumps(CompiledCode(unique, code)), name=name)
    except (OSError, RuntimeError, ValueError, TimeoutError) as error:
        _log.warning("each worker compiles its kernels, as compiled code could not be shared: %s", error)
        code = {}
    try:
        yield
    finally:
        if code:
            with suppress(OSError, RuntimeError, ValueError, TimeoutError):  # the scheduler may be gone
                client.run_on_scheduler(remove_worker_plugin, name=name)


def _compile(client: Client, kernels: Sequence[Kernels], accounting: RunAccounting) -> _Code:
    """Compile the kernels that no worker of a kind has, and return the code of each kind."""
    states = _answers(client, _state, kernels)
    busy = {address: len(tasks) for address, tasks in client.processing().items()}
    kinds: dict[str, list[str]] = {}
    for address, (kind, _) in sorted(states.items(), key=lambda item: (busy.get(item[0], 0), item[0])):
        kinds.setdefault(kind, []).append(address)
    tasks = {}
    for addresses in kinds.values():
        nowhere = [kernel for kernel in kernels if all(kernel.name in states[address][1] for address in addresses)]
        for place, kernel in enumerate(sorted(nowhere, key=lambda kernel: -kernel.seconds)):
            address = addresses[place % len(addresses)]
            tasks[address, kernel.name] = client.submit(
                load_kernels, [kernel], pure=False, workers=[address], priority=1, allow_other_workers=False
            )
    if tasks:
        started, count = time.monotonic(), len(tasks)
        seconds = sum(kernel.seconds for kernel in kernels for _, name in tasks if name == kernel.name)
        accounting.emit(Compiling(time.time(), count, seconds / max(1, len(states))))
        with suppress(TimeoutError):
            for _ in as_completed(list(tasks.values()), loop=client.loop, timeout=LONGEST_S):
                count -= 1
        accounting.emit(Compiled(time.time(), len(tasks) - count, time.monotonic() - started))
    code: _Code = {}
    for kind, addresses in kinds.items():
        places: dict[str, str] = {}
        for address in addresses:
            has = {kernel.name for kernel in kernels if kernel.name not in states[address][1]}
            for name in has | {name for place, name in tasks if place == address}:
                places.setdefault(name, address)
        code[kind] = _fetched(client, kernels, places)
    return {kind: of_kind for kind, of_kind in code.items() if of_kind}


def _fetched(client: Client, kernels: Sequence[Kernels], places: Mapping[str, str]) -> dict[str, Any]:
    """Return the code of each kernel, from a worker that has it."""
    code: dict[str, Any] = {}
    for address in sorted(set(places.values())):
        wanted = [kernel for kernel in kernels if places.get(kernel.name) == address]
        for of_worker in _answers(client, _code, wanted, workers=[address]).values():
            code |= of_worker
    return code


def _answers(client: Client, function: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """Answers of workers by address; without those that raise."""
    answers = compat.ask_workers(client, function, *arguments, **options)
    return {address: answer for address, answer in answers.items() if not isinstance(answer, BaseException)}


def _state(kernels: Sequence[Kernels]) -> tuple[str, list[str]]:
    """Return the kind of code of this process, and the names of the kernels that it lacks (runs on a worker)."""
    from dcurate.kernels.kept import code_kind  # noqa: PLC0415 - numba takes a while to load

    return code_kind(), [kernel.name for kernel in kernels if kernel.missing()]


def _code(kernels: Sequence[Kernels]) -> dict[str, Any]:
    """Return the code of kernels that this process has compiled (runs on a worker)."""
    from dcurate.kernels.kept import Kept  # noqa: PLC0415 - numba takes a while to load

    by_name = {kernel.name: kernel.missing.code() for kernel in kernels if isinstance(kernel.missing, Kept)}
    return {name: code for name, code in by_name.items() if code}


def _take(kernels: Sequence[Kernels], code: Mapping[str, Mapping[str, Any]]) -> None:
    """Store the code of this process's kind (runs on a worker)."""
    from dcurate.kernels.kept import Kept, code_kind  # noqa: PLC0415 - numba takes a while to load

    mine = code.get(code_kind(), {})
    for kernel in kernels:
        if isinstance(kernel.missing, Kept) and kernel.name in mine:
            with suppress(OSError, ValueError, TypeError):  # it is compiled at its first use
                kernel.missing.take(mine[kernel.name])
