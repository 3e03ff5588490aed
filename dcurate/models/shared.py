"""One copy of what slots of a process have in common, such as weights: loaded once, counted, freed with the last."""

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
    """What is held in common, by key; can be used from several threads.

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
        """The thing of this key, loaded by the first who asks while the others wait; give it back with `release`.

        Raises:
            Exception: what ``load`` raises; it is then not held, and the next who asks tries again.
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
        """Give it back; whether that was the last one, with which it is gone."""
        with self._lock:
            copy = self._copies[key]
            copy.holders -= 1
            last = copy.holders == 0
            if last:
                del self._copies[key]
        return last

    def holders(self, key: Hashable) -> int:
        """How many hold the thing of this key."""
        with self._lock:
            return self._copies[key].holders if key in self._copies else 0


#: What the slots of this process have in common.
SHARED = Shared()
