"""The event loop of a slot: one for all of its calls, on its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

A = TypeVar("A")


class Loop:
    """An event loop on a thread, for synchronous code; works where another loop runs, as in a notebook.

    Examples:
        >>> async def add(a, b):
        ...     return a + b
        >>> loop = Loop()
        >>> loop.run(add(1, 2))
        3
        >>> loop.close()
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dcurate-llm", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, A]) -> A:
        """Wait for a coroutine; it is cancelled if the wait is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel running tasks, and end the thread; may be called twice."""
        if self._loop.is_closed():
            return
        self.run(_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _ended() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
