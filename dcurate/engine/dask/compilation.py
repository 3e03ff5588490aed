"""Compile kernels on the workers of this machine, in parallel, before there are batches."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from distributed import Client, as_completed

from dcurate.core.kernels import Kernels
from dcurate.engine.accounting import RunAccounting
from dcurate.engine.compile_time import CompileTime, slowdown
from dcurate.events import Compiled, Compiling

#: How long to wait, in seconds. What is not compiled then is at its first use.
LONGEST_S = 300.0


def compile_ahead(client: Client, kernels: Sequence[Kernels], accounting: RunAccounting) -> None:
    """Compile the kernels that are not kept on this machine, each in one process, those that take longest first.

    Two workers compile the kernels of a group in one process, which is less work; more workers compile them at once. A
    kernel that fails to compile is left to its first use, whose error says which stage it is of.
    """
    counts = {kernel: kernel.missing() for kernel in {kernel.name: kernel for kernel in kernels}.values()}
    pending = [kernel for kernel, count in counts.items() if count]
    if not pending:
        return
    workers = max(1, len(client.nthreads()))
    groups: dict[str, list[Kernels]] = {}
    for kernel in pending:
        groups.setdefault(kernel.group if kernel.group and workers <= 2 else kernel.name, []).append(kernel)
    tasks = sorted(groups.values(), key=_seconds, reverse=True)
    started = time.monotonic()
    estimate = CompileTime([*map(_seconds, tasks)], workers, slowdown(workers))

    def announce() -> None:
        seconds = estimate.left(time.monotonic() - started)
        accounting.emit(Compiling(time.time(), sum(counts[kernel] for kernel in pending), seconds))

    announce()
    waiting = dict(enumerate(tasks))
    futures = {
        client.submit(load_kernels, group, pure=False, priority=len(tasks) - place): place
        for place, group in enumerate(tasks)
    }
    with suppress(TimeoutError):
        for future in as_completed(futures, loop=client.loop, timeout=LONGEST_S):
            estimate.done(futures[future], time.monotonic() - started)
            waiting.pop(futures[future])
            pending = list(chain(*waiting.values()))
            if pending:
                announce()
    number = sum(counts.values()) - sum(counts[kernel] for kernel in pending)
    accounting.emit(Compiled(time.time(), number, time.monotonic() - started))


def _seconds(kernels: Sequence[Kernels]) -> float:
    return sum(kernel.seconds for kernel in kernels)


def load_kernels(kernels: Sequence[Kernels]) -> None:
    """Load kernels without looking for garbage, which takes a tenth of the time: numba makes many objects that stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        for kernel in kernels:
            with suppress(Exception):
                kernel.load()
    finally:
        if collects:
            gc.enable()
