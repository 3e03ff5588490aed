"""A disk of one megabyte for frames that wait."""

from __future__ import annotations

from tests.io.conftest import small_disk

__all__ = ["small_disk"]
