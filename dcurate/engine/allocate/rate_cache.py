"""Cache measured rates in a file of the user's, so that the next run of the same operators starts with them.

It only saves time: a file that is missing, broken or cannot be written is ignored, and never ends a run.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from dcurate.fs.atomic import atomic_write

#: Operators in the cache at most; those not used for longest are dropped first.
MOST = 2000
#: Raised when the format of the file changes; older files count as empty.
VERSION = 1


@dataclass(frozen=True)
class CachedRate:
    """Measurements of an operator.

    Args:
        seconds: per item and slot.
        cv: coefficient of variation.
        setup_s: seconds to set a slot up.
        ratio: outputs per item.
    """

    seconds: float
    cv: float = 0.5
    setup_s: float = 0.0
    ratio: float = 1.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self | None:
        """Build the rate from values; None if they are invalid."""
        try:
            rate = cls(**{field.name: float(values[field.name]) for field in fields(cls)})
        except (KeyError, TypeError, ValueError):
            return None
        sound = all(math.isfinite(value) and value >= 0 for value in asdict(rate).values())
        return rate if sound and rate.seconds > 0 else None


def key_of(stages: Iterable[str], hardware: str) -> str:
    """The key of an operator in the cache.

    Args:
        stages: configuration of its stages, in order.
        hardware: the kind of machine and GPU of its slots.

    Examples:
        >>> key_of(["Lower()"], "cpu") == key_of(["Lower()"], "cpu")
        True
        >>> key_of(["Lower()"], "cpu") == key_of(["Lower()"], "H200")
        False
    """
    return sha256(json.dumps([hardware, *stages]).encode()).hexdigest()[:32]


def cache_file() -> Path:
    """The cache file: below ``DCURATE_CACHE``, else ``XDG_CACHE_HOME/dcurate``, else ``~/.cache/dcurate``."""
    folder = os.environ.get("DCURATE_CACHE")
    if not folder:
        above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(above, "dcurate")
    return Path(folder) / "rates.json"


class RateCache:
    """Rates of earlier runs, in a JSON file.

    Runs that end at the same time may each miss what the other adds; none can break the file.

    Args:
        path: path of the file; by default `cache_file`.

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
        self._rates: dict[str, CachedRate] | None = None

    def load(self) -> dict[str, CachedRate]:
        """Return all cached rates by key, the latest used last; empty if the file cannot be read."""
        try:
            kept = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            kept = None
        if not isinstance(kept, dict) or kept.get("version") != VERSION or not isinstance(kept.get("rates"), dict):
            kept = {"rates": {}}
        read = {key: CachedRate.of(values) for key, values in kept["rates"].items() if isinstance(values, dict)}
        self._rates = {key: rate for key, rate in read.items() if rate is not None}
        return dict(self._rates)

    def lookup(self, key: str) -> CachedRate | None:
        """Return the cached rate of an operator; None if there is none. Reads the file the first time."""
        if self._rates is None:
            self.load()
        assert self._rates is not None
        return self._rates.get(key)

    def store(self, rates: Mapping[str, CachedRate]) -> bool:
        """Add rates to the file atomically; return whether that succeeded."""
        sound = {key: rate for key, rate in rates.items() if CachedRate.of(asdict(rate)) is not None}
        kept = {key: rate for key, rate in self.load().items() if key not in sound} | sound
        self._rates = dict(list(kept.items())[-MOST:])
        values = {key: asdict(rate) for key, rate in self._rates.items()}
        return _replace(self.path, json.dumps({"version": VERSION, "rates": values}))


def _replace(path: Path, text: str) -> bool:
    """Write a file atomically; False if that is not possible."""
    try:
        with atomic_write(path, durable=False, mode=0o600) as file:
            file.write(text.encode())
    except OSError:
        return False
    return True
