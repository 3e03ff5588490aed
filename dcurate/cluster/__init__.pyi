"""Public names of `dcurate.cluster` and the modules that define them; `__init__.py` reads this file."""

from .cuda import GpuMemorySettings as GpuMemorySettings
from .elastic import adapt_kinds as adapt_kinds
from .worker_pools import Kind as Kind
from .worker_shape import Shape as Shape

__all__: list[str]
