"""Progress messages of stages made with ``verbose=True``."""

from __future__ import annotations

import logging
import sys
from typing import Any

_log = logging.getLogger("dcurate.compat.nemo")


def log_progress(message: str, *values: Any) -> None:
    """Log a message of level INFO; where no log takes that level, write it to stderr, as NeMo Curator's log does.

    Args:
        message: with a placeholder such as ``%s`` for each value.
        values: values of the placeholders.
    """
    if _log.isEnabledFor(logging.INFO):
        _log.info(message, *values)
    else:
        sys.stderr.write(f"{message % values}\n")
