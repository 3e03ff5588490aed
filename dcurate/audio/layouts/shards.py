"""Names of sharded files as NeMo writes them: ``audio__OP_0..7_CL_.tar``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dcurate.core.foreign import whole_number
from dcurate.errors import PipelineError
from dcurate.fs.paths import is_address

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{},]+(?:,[^{},]+)+))\}")
_NUMBER = re.compile(r"(\d+)\D*$")
#: Names that a pattern may stand for.
_MOST = 1_000_000


def expanded(pattern: str) -> list[str]:
    """The names that a pattern with braces stands for; ``_OP_`` and ``_CL_`` are braces.

    Args:
        pattern: a name with ``{0..7}``, ``{00..15}`` or ``{a,b}`` in it, or without.

    Raises:
        PipelineError: they are too many.

    Examples:
        >>> expanded("audio__OP_0..2_CL_.tar")
        ['audio_0.tar', 'audio_1.tar', 'audio_2.tar']
        >>> expanded("{a,b}/{08..09}.tar"), expanded("a.tar")
        (['a/08.tar', 'a/09.tar', 'b/08.tar', 'b/09.tar'], ['a.tar'])
    """
    names = list(_expanded(pattern.replace("_OP_", "{").replace("_CL_", "}")))
    if len(names) > _MOST:
        raise PipelineError(f"{pattern!r} stands for more than {_MOST:,} names; give several patterns")
    return names


def _expanded(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    if match[3] is not None:
        values: Sequence[str] = match[3].split(",")
    else:
        first, last = int(match[1]), int(match[2])
        if abs(last - first) >= _MOST:
            raise PipelineError(f"{pattern!r} stands for more than {_MOST:,} names; give several patterns")
        step = 1 if last >= first else -1
        values = [str(number).zfill(len(match[1])) for number in range(first, last + step, step)]
    for value in values:
        yield from _expanded(pattern[: match.start()] + value + pattern[match.end() :])


def number_in(path: str) -> int | None:
    """The last number in the name of a file, without its endings.

    Examples:
        >>> number_in("/data/audio_07.tar"), number_in("manifest.json"), number_in("speech-1.jsonl.gz")
        (7, None, 1)
    """
    name = path.rpartition("/")[2].split(".")[0]
    match = _NUMBER.search(name)
    return None if match is None else whole_number(match[1])


@dataclass(frozen=True)
class Shards:
    """The archives of a tarred manifest.

    Args:
        paths: in the order of the patterns.

    Examples:
        >>> shards = Shards.of(["/data/audio__OP_1..2_CL_.tar"])
        >>> shards.find(2, "manifest.json"), shards.find(None, "manifest_1.json"), shards.find(3, "manifest.json")
        ('/data/audio_2.tar', '/data/audio_1.tar', None)
    """

    paths: tuple[str, ...]

    @classmethod
    def of(cls, patterns: str | Sequence[str]) -> Shards:
        """The archives that patterns stand for; relative paths are completed."""
        names = [
            name for pattern in ([patterns] if isinstance(patterns, str) else patterns) for name in expanded(pattern)
        ]
        return cls(tuple(name if is_address(name) else os.path.abspath(name) for name in names))

    @cached_property
    def _by_number(self) -> dict[int, str]:
        """The archives by the number in their names, or by their place where not every name has one of its own."""
        numbers = [number_in(path) for path in self.paths]
        if None in numbers or len(set(numbers)) < len(numbers):
            return dict(enumerate(self.paths))
        return {number: path for number, path in zip(numbers, self.paths, strict=True) if number is not None}

    def find(self, shard_id: Any, manifest: str) -> str | None:
        """The archive of a row.

        Args:
            shard_id: the number that the row has; None where it has none.
            manifest: path of its manifest, whose number counts if the row has none.
        """
        if isinstance(shard_id, float) and shard_id.is_integer():
            shard_id = int(shard_id)
        number = number_in(manifest) if shard_id is None else whole_number(str(shard_id))
        if shard_id is None and len(self.paths) == 1:
            return self.paths[0]
        return None if number is None else self._by_number.get(number)
