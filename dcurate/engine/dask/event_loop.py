"""Keep an event loop responsive: run functions in threads, pause long loops, and collect garbage rarely."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

Result = TypeVar("Result")

#: Seconds for which a loop may go on before others have a turn.
SLICE_S = 0.01
#: A full garbage collection that takes longer than this, in seconds of CPU, is the last one for a while.
LONG_COLLECTION_S = 0.025
#: New objects after which Python visits them, and such visits after which it visits their survivors again; its own 700
#: and 10 take 0.2 ms of CPU a call in a scheduler with a thousand workers.
YOUNG_OBJECTS, YOUNG_COLLECTIONS = 10_000, 2
#: Seconds between two visits of new objects, however few there are. Python subtracts objects that end from their
#: number, and so may wait until a hundred thousand are new.
VISIT_S = 0.4
#: Growth of the process, as a share and in bytes, after which frozen objects are visited again: the larger one counts.
GROWTH, GROWTH_BYTES = 0.5, 128 << 20
#: The largest share of the time for which frozen objects are visited, and the least seconds between two such visits.
FULL_SHARE, FULL_S = 0.002, 60.0


async def in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Run a function in a thread of its own and return its result; the thread does not keep the process alive.

    Examples:
        >>> asyncio.run(in_thread(sum, [1, 2]))
        3
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: Result | None = None
        failure: BaseException | None = None
        try:
            result = function(*arguments)
        except StopIteration as error:  # a future refuses it
            failure = RuntimeError(f"StopIteration: {error}")
        except Exception as error:
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="dcurate-decide", daemon=True).start()
    return await future


class Pauses:
    """Lets the event loop do other work when a long loop has run for `SLICE_S`."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S

    async def maybe(self) -> None:
        """Pause if it is time."""
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_S


class CollectionLimit:
    """Limits garbage collections of the process, while something uses it.

    The state of a scheduler with a thousand workers is a million objects. Python visits them all whenever a quarter as
    many are new, which stops the event loop for a second, and finds next to nothing: Dask drops what it is done with.
    So once that takes long, or `freeze` is called, what exists is frozen; what is new is visited about twice a second,
    and frozen if it survives. Frozen objects are visited when the process has grown by half, and otherwise so rarely
    that it takes `FULL_SHARE` of the time: what was in use at a visit, such as the frames of Dask's messages on their
    way, would be kept else. Where the process has frozen objects itself, nothing is frozen.

    Args:
        memory: returns the bytes of memory that the process uses.
    """

    def __init__(self, memory: Callable[[], int] = lambda: int(psutil.Process().memory_info().rss)) -> None:
        self._memory = memory
        self._users = 0
        self._before = gc.get_threshold()
        self._may_freeze = self._freezes = self._long = False
        self._began = self._grown = self._visited_at = self._full_at = 0.0

    def start(self) -> None:
        """Begin, for one more user."""
        self._users += 1
        if self._users > 1:
            return
        self._before, self._may_freeze = gc.get_threshold(), not gc.get_freeze_count()
        self._long = False
        gc.callbacks.append(self._on_collection)
        if 0 < self._before[0] < YOUNG_OBJECTS:  # else the process collects more rarely, or not at all
            gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, self._before[2])

    def stop(self) -> None:
        """End for one user; after the last one, Python collects as before."""
        self._users -= 1
        if self._users:
            return
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._before)
        if self._freezes:
            self._freezes = False
            gc.unfreeze()

    def freeze(self) -> None:
        """Freeze what exists, and from now on what survives a visit."""
        if self._may_freeze and not self._freezes:
            self._freezes = True
            gc.freeze()
            self._collect()

    def check(self) -> None:
        """Visit new objects, or all if the process has grown much; to be called about twice a second."""
        if self._long:
            self.freeze()
        if not self._freezes or time.monotonic() < self._visited_at + VISIT_S:
            return
        if self._memory() > self._grown or time.monotonic() >= self._full_at:
            gc.unfreeze()
            self._collect()
        else:
            gc.collect(1)
        self._visited_at = time.monotonic()

    def _collect(self) -> None:
        begin = time.thread_time()
        gc.collect()
        self._full_at = time.monotonic() + max(FULL_S, (time.thread_time() - begin) / FULL_SHARE)
        used = self._memory()
        self._grown = used + max(GROWTH * used, GROWTH_BYTES)

    def _on_collection(self, phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        elif self._freezes:
            if about["generation"]:
                gc.freeze()
        elif about["generation"] == 2:
            self._long = self._long or time.thread_time() - self._began >= LONG_COLLECTION_S


#: Of this process, as there is one garbage collector.
collection_limit = CollectionLimit()
