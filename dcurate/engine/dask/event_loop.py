"""Keep an event loop responsive: run functions in threads, pause long loops, and collect garbage rarely."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Seconds for which a loop may go on before others have a turn.
SLICE_S = 0.01
#: A full garbage collection that takes longer than this, in seconds of CPU, is followed by a rest.
LONG_COLLECTION_S = 0.025
#: The rest takes this many times as long as the collection did, but not longer than this, in seconds.
COLLECTION_REST, MAX_COLLECTION_REST_S = 400.0, 600.0
#: New objects after which Python visits them, and such visits after which it visits their survivors again; its own
#: 700 and 10 take 0.2 ms of CPU a call in a scheduler with a thousand workers.
YOUNG_OBJECTS, YOUNG_COLLECTIONS = 10_000, 2
#: A number of collections after which Python never comes to a full one.
_NEVER = 1 << 30


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
    """Limits the share of its time that a process spends on garbage collections, while something uses it.

    The state of a scheduler with a thousand workers is a million objects. Python visits them all whenever a quarter as
    many are new, which stops the event loop for a second, and finds next to nothing: Dask drops what it is done with.
    So the objects that survive a long collection are not visited again until the last user ends, unless the process
    has frozen objects itself. New objects are visited more rarely, as most of them end by themselves.
    """

    def __init__(self) -> None:
        self._users = 0
        self._before = gc.get_threshold()
        self._thresholds = self._before
        self._began = 0.0
        self._rest_until: float | None = None
        self._freezes = self._due = False

    def start(self) -> None:
        """Begin, for one more user."""
        self._users += 1
        if self._users == 1:
            self._before = gc.get_threshold()
            if 0 < self._before[0] < YOUNG_OBJECTS:
                self._thresholds = YOUNG_OBJECTS, YOUNG_COLLECTIONS, self._before[2]
            else:  # the process collects more rarely, or not at all
                self._thresholds = self._before
            gc.set_threshold(*self._thresholds)
            self._freezes, self._due = not gc.get_freeze_count(), False
            gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """End for one user; after the last one, Python collects as before."""
        self._users -= 1
        if not self._users:
            gc.callbacks.remove(self._on_collection)
            self._rest_until = None
            gc.set_threshold(*self._before)
            if self._freezes:
                gc.unfreeze()

    def check(self) -> None:
        """Freeze what survived a long collection, and allow the next one if it is time; to be called now and then."""
        if self._due:
            self._due = False
            gc.freeze()
        if self._rest_until is not None and time.monotonic() >= self._rest_until:
            self._end_rest()

    def _end_rest(self) -> None:
        if self._rest_until is not None:
            self._rest_until = None
            gc.set_threshold(*self._thresholds)

    def _on_collection(self, phase: str, about: dict[str, int]) -> None:
        if about["generation"] < 2:
            return
        now = time.thread_time()
        if phase == "start":
            self._began = now
        elif now - self._began >= LONG_COLLECTION_S:
            self._due = self._freezes
            self._rest_until = time.monotonic() + min(COLLECTION_REST * (now - self._began), MAX_COLLECTION_REST_S)
            gc.set_threshold(*self._thresholds[:2], _NEVER)


#: Of this process, as there is one garbage collector.
collection_limit = CollectionLimit()
