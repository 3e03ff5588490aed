"""RMM that notes what it is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

ASKED: list[tuple[str, dict[str, Any]]] = []


def reinitialize(**options: Any) -> None:
    """Begin with a pool."""
    ASKED.append(("pool", options))


def _async(**options: Any) -> str:
    ASKED.append(("async", options))
    return "async"


mr = SimpleNamespace(
    CudaAsyncMemoryResource=_async,
    set_current_device_resource=lambda resource: ASKED.append(("current", {"resource": resource})),
)
