"""Why a PDF cannot be read."""

from __future__ import annotations

from dcurate.isolate import errors


class PdfError(errors.MediaError):
    """Raised for a PDF that cannot be read.

    Examples:
        >>> PdfError("encrypted", "it needs a password").reason
        'encrypted'
    """

    @property
    def reason(self) -> str:
        """Short and stable, so that it can be counted."""
        return self.fault.reason

    @property
    def detail(self) -> str:
        """What else is known."""
        return self.fault.detail
