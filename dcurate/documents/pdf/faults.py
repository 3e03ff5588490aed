"""Why a PDF cannot be read."""

from __future__ import annotations


class MediaError(Exception):
    """Raised for a bad file, with a short reason and a detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail
