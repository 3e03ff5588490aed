"""Keep an event loop responsive: run functions in threads, and pause long loops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Seconds for which a loop may go on before others have a turn.
SLICE_S = 0.01


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
