"""Libraries of frames that are slow to import, and that a process which only starts a run does not need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcurate.core.lazy import lazy

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")

__all__ = ["pd"]
