"""What earlier runs measured, kept in a file of the user's, so that the next run of the same operators starts knowing.

It only ever saves time: a file that is missing, broken or cannot be written is as good as none, and never ends a run.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

#: Operators that are remembered at most; those not used for longest are dropped first.
MOST = 2000
#: Changes of what the file holds change this, and older files count as empty.
VERSION = 1


@dataclass(frozen=True)
class CachedRate:
    """What runs measured of an operator.

    Args:
        seconds: that a slot spends on an item.
        cv: its standard deviation over the mean.
        setup_s: seconds to set a slot up.
        ratio: items made of an item.
    """

    seconds: float
    cv: float = 0.5
    setup_s: float = 0.0
    ratio: float = 1.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self | None:
        """The memory with these values; None if they make no sense."""
        try:
            memory = cls(**{field.name: float(values[field.name]) for field in fields(cls)})
        except (KeyError, TypeError, ValueError):
            return None
        sound = all(math.isfinite(value) and value >= 0 for value in asdict(memory).values())
        return memory if sound and memory.seconds > 0 else None


def key_of(stages: Iterable[str], hardware: str) -> str:
    """The name under which an operator is remembered.

    Args:
        stages: how its stages are configured, in order.
        hardware: the kind of machine and card that its slots stand on.

    Examples:
        >>> key_of(["Lower()"], "cpu") == key_of(["Lower()"], "cpu")
        True
        >>> key_of(["Lower()"], "cpu") == key_of(["Lower()"], "H200")
        False
    """
    return sha256(json.dumps([hardware, *stages]).encode()).hexdigest()[:32]


def cache_file() -> Path:
    """Where rates are kept: below ``DCURATE_CACHE``, else ``XDG_CACHE_HOME/dcurate``, else ``~/.cache/dcurate``."""
    folder = os.environ.get("DCURATE_CACHE")
    if not folder:
        above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(above, "dcurate")
    return Path(folder) / "rates.json"


class RateCache:
    """The rates of earlier runs, in a JSON file.

    Runs that end at the same time may each leave out what the other adds; none can break the file.

    Args:
        path: of the file; by default `cache_file`.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "rates.json"
        ...     RateCache(path).store({"embed on H200": CachedRate(0.2, setup_s=30.0)})
        ...     RateCache(path).lookup("embed on H200")
        True
        CachedRate(seconds=0.2, cv=0.5, setup_s=30.0, ratio=1.0)
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else cache_file()
        self._memories: dict[str, CachedRate] | None = None

    def load(self) -> dict[str, CachedRate]:
        """All that is remembered, by key, the latest used last; empty if the file cannot be read."""
        try:
            kept = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            kept = None
        if not isinstance(kept, dict) or kept.get("version") != VERSION or not isinstance(kept.get("rates"), dict):
            kept = {"rates": {}}
        read = {key: CachedRate.of(values) for key, values in kept["rates"].items() if isinstance(values, dict)}
        self._memories = {key: memory for key, memory in read.items() if memory is not None}
        return dict(self._memories)

    def lookup(self, key: str) -> CachedRate | None:
        """What is remembered of an operator; None if nothing. Reads the file the first time."""
        if self._memories is None:
            self.load()
        assert self._memories is not None
        return self._memories.get(key)

    def store(self, memories: Mapping[str, CachedRate]) -> bool:
        """Keep these beside what the file holds now, in one step; whether that could be done."""
        sound = {key: memory for key, memory in memories.items() if CachedRate.of(asdict(memory)) is not None}
        kept = {key: memory for key, memory in self.load().items() if key not in sound} | sound
        self._memories = dict(list(kept.items())[-MOST:])
        rates = {key: asdict(memory) for key, memory in self._memories.items()}
        return _replace(self.path, json.dumps({"version": VERSION, "rates": rates}))


def _replace(path: Path, text: str) -> bool:
    """Write a file whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        return False
    return True
