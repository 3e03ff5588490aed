"""A cache of objects shared by the slots of a process, such as weights: loaded once, reference-counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Copy:
    holders: int = 0
    thing: Any = None
    loaded: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Shared:
    """Shared objects, by key; thread-safe.

    Examples:
        >>> shared = Shared()
        >>> first = shared.hold("weights", lambda: [1, 2])
        >>> shared.hold("weights", lambda: [3, 4]) is first, shared.holders("weights")
        (True, 2)
        >>> shared.release("weights"), shared.release("weights"), shared.holders("weights")
        (False, True, 0)
    """

    def __init__(self) -> None:
        self._copies: dict[Hashable, _Copy] = {}
        self._lock = threading.Lock()

    def hold(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """The object for a key, loaded by the first caller while the others wait; return it with `release`.

        Raises:
            Exception: any error of ``load``; nothing is cached, and the next caller tries again.
        """
        with self._lock:
            copy = self._copies.setdefault(key, _Copy())
            copy.holders += 1
        try:
            with copy.lock:
                if not copy.loaded:
                    copy.thing, copy.loaded = load(), True
                return copy.thing
        except BaseException:
            self.release(key)
            raise

    def release(self, key: Hashable) -> bool:
        """Release it; returns whether that was the last reference, with which it is freed."""
        with self._lock:
            copy = self._copies[key]
            copy.holders -= 1
            last = copy.holders == 0
            if last:
                del self._copies[key]
        return last

    def holders(self, key: Hashable) -> int:
        """Number of references to the object of this key."""
        with self._lock:
            return self._copies[key].holders if key in self._copies else 0


#: What the slots of this process have in common.
SHARED = Shared()
