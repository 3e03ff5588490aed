"""The folder in which the processes of a run on one host tell each other what they have done."""

from __future__ import annotations

import getpass
import tempfile
from pathlib import Path


def host_folder(run: str) -> Path:
    """Where it is: on a local disk, apart for every user and run. It need not exist."""
    return Path(tempfile.gettempdir()) / f"dcurate-{getpass.getuser()}" / run
