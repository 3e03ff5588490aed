"""A share of the splits of an input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from dcurate.errors import PipelineError


@dataclass(frozen=True)
class Shard:
    """A share of the splits of an input: of each ``of`` splits in a row, the one at place ``number``.

    Args:
        number: number of the shard, from 1 to ``of``.
        of: number of shards.

    Examples:
        >>> Shard.parse("3/64")
        Shard(number=3, of=64)
        >>> list(Shard(2, 3).share("abcdefg"))
        ['b', 'e']
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a shard that is written as ``3/64``.

        Raises:
            PipelineError: the text is not a shard.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text) if isinstance(text, str) else None
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise PipelineError(
                f"shard={text!r} is not a shard; give its number from 1 on and how many there are, as in '3/64'"
            )
        return cls(int(match[1]), int(match[2]))

    def share(self, splits: Iterable[Any]) -> Iterator[Any]:
        """Yield the splits of the shard."""
        return islice(splits, self.number - 1, None, self.of)

    @property
    def folder(self) -> str:
        """The name of the folder of its records."""
        return f"shard-{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"
