"""Whether cuDF spills."""

from __future__ import annotations

import cudf


def get_global_manager() -> object | None:
    """Return a manager if cuDF spills."""
    return object() if cudf.get_option("spill") else None
