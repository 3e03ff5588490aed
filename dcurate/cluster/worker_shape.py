"""The resources of a kind of workers, as a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcurate.errors import ResourceError


@dataclass(frozen=True)
class Shape:
    """The resources of one worker of a kind, and how many of them there may be.

    Where an entry is a job or pod of several worker processes, this is the shape of the whole job or pod.

    Args:
        cpus: CPU cores.
        gpus: GPUs.
        gpu_memory: memory of each GPU in bytes; 0 if unknown.
        max_slots: slots that it can run at once: its threads, for each of its GPUs if it has some.
        maximum: the largest number of workers.
        minimum: the smallest number of workers.
        host: the machine of all workers of the kinds that name it; if empty, each worker has its own.

    Raises:
        ResourceError: an amount or a number that cannot be.

    Examples:
        >>> Shape(cpus=8, max_slots=8, maximum=16).minimum
        0
    """

    cpus: float = 1.0
    gpus: int = 0
    gpu_memory: float = 0.0
    max_slots: int = 1
    maximum: int = 1
    minimum: int = 0
    host: str = ""

    def __post_init__(self) -> None:
        if min(self.cpus, self.gpus, self.gpu_memory) < 0 or self.max_slots < 1:
            raise ResourceError(f"{self} cannot be: amounts must be zero or more, and max_slots at least 1")
        if not 0 <= self.minimum <= self.maximum or self.maximum < 1:
            raise ResourceError(
                f"minimum={self.minimum} and maximum={self.maximum} cannot be: "
                "0 <= minimum <= maximum must hold, and maximum must be at least 1"
            )

    def clamped(self, number: int) -> int:
        """Return the nearest number of workers within the limits.

        Examples:
            >>> [Shape(minimum=1, maximum=4).clamped(number) for number in (0, 3, 9)]
            [1, 3, 4]
        """
        return max(self.minimum, min(self.maximum, number))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that Dask can send."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Shape:
        """Build the shape from the values of `to_dict`."""
        return cls(**values)
