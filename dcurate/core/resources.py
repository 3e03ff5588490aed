"""The resources of one slot of a stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from dcurate.errors import ResourceError


@dataclass(frozen=True)
class Resources:
    """The resources that one slot of a stage needs; not the number of slots, nor the resources of this machine.

    Args:
        cpus: CPU cores, may be a fraction.
        gpus: GPUs: a fraction of one (``0.25``), or a whole number.
        gpu_memory_gb: memory on one GPU, in GB (10**9 bytes), instead of ``gpus``.
            It is compared with the GPU that a worker reports, when the pipeline runs.

    Raises:
        ResourceError: a negative or non-finite amount, ``gpus`` and ``gpu_memory_gb`` together,
            or a number of GPUs above one that is not whole.

    Examples:
        >>> Resources(cpus=2).requires_gpu
        False
        >>> Resources(gpus=0.25)
        Resources(cpus=1.0, gpus=0.25, gpu_memory_gb=0.0)
    """

    cpus: float = 1.0
    gpus: float = 0.0
    gpu_memory_gb: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            amount = getattr(self, field.name)
            if isinstance(amount, bool) or not isinstance(amount, int | float):
                raise ResourceError(f"{field.name}={amount!r} is not a number")
            if not math.isfinite(amount) or amount < 0:
                raise ResourceError(f"{field.name}={amount!r} must be zero or more")
            object.__setattr__(self, field.name, float(amount))
        if self.gpus and self.gpu_memory_gb:
            raise ResourceError(
                f"gpus={self.gpus:g} and gpu_memory_gb={self.gpu_memory_gb:g} say the same thing twice; "
                "give one of them"
            )
        if self.gpus > 1 and not self.gpus.is_integer():
            raise ResourceError(f"gpus={self.gpus:g} must be a fraction of one GPU or a whole number of GPUs")

    @property
    def requires_gpu(self) -> bool:
        """Whether a slot needs a GPU."""
        return self.gpus > 0 or self.gpu_memory_gb > 0

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPU"]
        if self.gpus:
            parts.append(f"{self.gpus:g} GPU")
        if self.gpu_memory_gb:
            parts.append(f"{self.gpu_memory_gb:g} GB of GPU memory")
        return ", ".join(parts)
