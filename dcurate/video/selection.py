"""Choose the frames of a clip while a film is decoded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from dcurate.video.policy import FramePolicy


class Timed(Protocol):
    """A frame, as far as choosing needs it."""

    time_s: float
    is_key: bool


T = TypeVar("T", bound=Timed)


class FrameSelector(Generic[T]):
    """The frames of a clip that its policy wants, from all frames of the film in the order of time.

    Args:
        policy: which frames.
        start_s: start of the clip, in seconds.
        stop_s: end of the clip, in seconds; None for the end of the film.
        duration_s: duration of the film, in seconds.

    Examples:
        >>> from typing import NamedTuple
        >>> class Frame(NamedTuple):
        ...     time_s: float
        ...     is_key: bool = False
        >>> selector = FrameSelector[Frame](FramePolicy("per_second", 1), 1.0, 3.0, 10.0)
        >>> frames = [frame.time_s for n in range(10) for frame in selector.offer(Frame(n * 0.5))]
        >>> frames, [frame.time_s for frame in selector.rest()]
        ([1.0, 2.0], [])
    """

    def __init__(self, policy: FramePolicy, start_s: float, stop_s: float | None, duration_s: float) -> None:
        self._kind, self._value = policy.kind, policy.value or 1
        self.start_s, self.stop_s = start_s, math.inf if stop_s is None else stop_s
        self._end_s = min(self.stop_s, max(duration_s, start_s))
        self._seen, self._steps = 0, 0
        self._held: T | None = None
        self._is_due = True  # whether the held frame has not been chosen yet
        self._is_simple = self._kind in ("all", "key", "every", "first")
        self._step = int(self._value) if self._kind == "every" else 1
        #: Whether no frame is wanted any more.
        self.is_done = False
        self._next_s = self._first_time()
        #: The time, in seconds, from whose frame on frames are still needed; infinite if none are.
        self.needed_s = max(self.start_s, math.nextafter(self._end_s, 0)) if self._kind == "last" else self._next_s

    @property
    def only_keys(self) -> bool:
        """Whether only key frames are wanted."""
        return self._kind == "key"

    @property
    def needs_all_to_come(self) -> bool:
        """Whether all frames are needed from the first that is on, up to the last."""
        return self._kind in ("all", "every")

    def offer(self, frame: T) -> Iterable[T]:
        """Return the frames that are chosen once this one is known."""
        if self.is_done or frame.time_s < self.start_s:
            return ()
        if frame.time_s >= self.stop_s:
            return self.rest()
        self._seen += 1
        if self._is_simple:
            return self._at_once(frame)
        chosen = []
        if self._held is not None and self._next_s < frame.time_s:
            chosen = self._chosen()
            self._go_on(frame.time_s)
        self._held, self._is_due = frame, True
        return chosen

    def rest(self) -> Iterable[T]:
        """Return the frames that are chosen once there are no more."""
        if self.is_done:
            return ()
        self._end()
        if self._kind == "per_second" and self._held is not None and self._next_s > self._held.time_s:
            return self._chosen() if self._next_s < self._end_s else ()
        return self._chosen()

    def _chosen(self) -> list[T]:
        if self._held is None or not self._is_due:
            return []
        self._is_due = False
        return [self._held]

    def _end(self) -> None:
        self.is_done, self.needed_s = True, math.inf

    def _at_once(self, frame: T) -> Iterable[T]:
        if self._kind == "key":
            return (frame,) if frame.is_key else ()
        if self._kind == "first":
            self._end()
        return (frame,) if (self._seen - 1) % self._step == 0 else ()

    def _first_time(self) -> float:
        if self._kind == "last":
            return math.inf
        return (self.start_s + self._end_s) / 2 if self._kind == "middle" else self.start_s

    def _go_on(self, time_s: float) -> None:
        """Go to the first time that is not before a time; times that jump take one step."""
        if self._kind != "per_second":
            self._next_s = math.inf
            self._end()
            return
        self._steps = max(self._steps + 1, math.floor((time_s - self.start_s) * self._value) - 1)
        while (next_s := self.start_s + self._steps / self._value) < time_s:
            self._steps += 1
        self._next_s = self.needed_s = next_s
