"""Compile kernels on the workers of this machine, in parallel, before there are batches."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from contextlib import suppress

from distributed import Client, as_completed

from dcurate.core.events import Compiled, Compiling
from dcurate.core.kernels import Kernels
from dcurate.engine.accounting import RunAccounting

#: How long to wait, in seconds. What is not compiled then is at its first use.
LONGEST_S = 300.0


def compile_ahead(client: Client, kernels: Sequence[Kernels], accounting: RunAccounting) -> None:
    """Compile the kernels that are not kept on this machine, each in one process, those that take longest first.

    A kernel that fails to compile is left to its first use, whose error says which stage it is of.
    """
    counts = {one: one.missing() for one in {one.name: one for one in kernels}.values()}
    left = sorted((one for one, count in counts.items() if count), key=lambda one: one.seconds, reverse=True)
    if not left:
        return
    started, total = time.monotonic(), sum(one.seconds for one in left)
    workers = max(1, len(client.nthreads()))

    def announce() -> None:
        rest, passed = sum(one.seconds for one in left), time.monotonic() - started
        half_done = sum(one.seconds for one in left[:workers]) / 2  # on average
        pace = passed / (total - rest + half_done) if rest < total else 1 / workers
        seconds = max(rest * pace, left[0].seconds * pace * workers)
        accounting.emit(Compiling(time.time(), sum(counts[one] for one in left), seconds))

    announce()
    futures = {client.submit(_load, one, pure=False, priority=len(left) - place): one for place, one in enumerate(left)}
    with suppress(TimeoutError):
        for future in as_completed(futures, loop=client.loop, timeout=LONGEST_S):
            left.remove(futures[future])
            if left:
                announce()
    number = sum(counts.values()) - sum(counts[one] for one in left)
    accounting.emit(Compiled(time.time(), number, time.monotonic() - started))


def _load(kernels: Kernels) -> None:
    """Load kernels without looking for garbage, which takes a tenth of the time: numba makes many objects that stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        kernels.load()
    finally:
        if collects:
            gc.enable()
