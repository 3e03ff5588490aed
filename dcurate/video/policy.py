"""Which frames of a clip are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from dcurate.errors import PipelineError, nearest

Kind = Literal["all", "every", "per_second", "first", "middle", "last", "key"]
#: The largest value.
_MOST: Final = 1_000_000
_WITH_VALUE: Final = ("every", "per_second")


@dataclass(frozen=True)
class FramePolicy:
    """Which frames of a film or clip a stage looks at.

    A clip has the frames whose time is at or after its start and before its stop. The frame *at* a time is the last of
    them that does not come after it, or else the first.

    Args:
        kind: ``"all"`` frames; ``"every"`` n-th from the first on; so many ``"per_second"``, that is the frames at
            start, start + 1/n, start + 2/n and so on, each once; the ``"first"``; the frame at the ``"middle"`` of
            the clip; the ``"last"``; or ``"key"`` frames alone, which are the cheapest.
        value: n of ``"every"``, a whole number, and of ``"per_second"``.

    Raises:
        PipelineError: an unknown kind, or a value that is missing, not above zero or without effect.

    Examples:
        >>> FramePolicy("per_second", 2)
        FramePolicy(kind='per_second', value=2)
        >>> FramePolicy("key", 3)
        Traceback (most recent call last):
        dcurate.errors.PipelineError: FramePolicy('key') takes no value, but has 3
    """

    kind: Kind = "all"
    value: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise PipelineError(f"FramePolicy: no kind {self.kind!r}{nearest(str(self.kind), get_args(Kind))}")
        if self.kind not in _WITH_VALUE:
            if self.value is not None:
                raise PipelineError(f"FramePolicy({self.kind!r}) takes no value, but has {self.value!r}")
        elif isinstance(self.value, bool) or not isinstance(self.value, int | float) or not 0 < self.value <= _MOST:
            raise PipelineError(
                f"FramePolicy({self.kind!r}): value={self.value!r} must be above zero, and up to {_MOST:,}"
            )
        elif self.kind == "every" and self.value != int(self.value):
            raise PipelineError(f"FramePolicy('every'): value={self.value!r} must be a whole number")

    @property
    def request(self) -> list[Any]:
        """The policy as JSON holds it."""
        return [self.kind, self.value]
