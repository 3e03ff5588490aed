"""Whether code that comes with models may run: ``dcurate nemo --trust-remote-code``."""

from __future__ import annotations

import os

#: Set by the command, for the process that runs the script; stages keep it for their workers.
_VARIABLE = "DCURATE_NEMO_TRUST_REMOTE_CODE"


def give() -> None:
    """Let code that comes with models run."""
    os.environ[_VARIABLE] = "1"


def is_given() -> bool:
    """Whether it may run."""
    return os.environ.get(_VARIABLE) == "1"
