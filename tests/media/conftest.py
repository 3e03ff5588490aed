"""A disk of one megabyte for writers of media."""

from __future__ import annotations

from tests.io.conftest import small_disk

__all__ = ["small_disk"]
