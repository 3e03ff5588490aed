"""What is wrong with a file of media. It loads the standard library only, as child processes load it."""

from __future__ import annotations

from typing import NamedTuple

from dcurate.errors import DcurateError


class MediaFault(NamedTuple):
    """Why a file of media could not be processed.

    Args:
        reason: short and stable, so that it can be counted: ``"truncated"``, ``"timed out"``, ``"crashed: SIGSEGV"``.
        detail: what else is known, for a person; may differ from file to file.

    Examples:
        >>> MediaFault("truncated", "the file ends after 12 bytes").reason
        'truncated'
    """

    reason: str
    detail: str = ""


class MediaError(DcurateError):
    """Raised for a file that is bad by a function that runs in a `dcurate.isolate.sandbox.Sandbox`.

    Examples:
        >>> MediaError("encrypted", "it needs a password").fault
        MediaFault(reason='encrypted', detail='it needs a password')
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.fault = MediaFault(reason, detail)
