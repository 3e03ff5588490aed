"""Shingles: the features by which texts are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from dcurate.errors import PipelineError
from dcurate.kernels.shingles import Rule

#: What a shingle is a stretch of.
Unit: TypeAlias = Literal["words", "characters"]

_UNITS = ("words", "characters")
_LONGEST = 1024


@dataclass(frozen=True)
class Shingles:
    r"""Every stretch of consecutive words, or characters, of a text; two texts are as similar as they share them.

    Words are what ``re.findall(r"\w+", text.lower())`` finds, so case, punctuation and space make no difference. Where
    words are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is a word, and all
    forms of the Greek sigma are one letter. Characters are code points, taken as they are.

    A text that has fewer words, or characters, than a shingle is one shingle; one that has none has no shingle.

    Args:
        size: words, or characters, to a shingle: more distinguish texts better, fewer find more distant copies. Five
            words are usual; of characters, 20 to 25.
        unit: what to take stretches of.
        seed: another seed makes other hashes of the same shingles.

    Raises:
        PipelineError: an invalid size, unit or seed.

    Examples:
        >>> Shingles()
        Shingles(size=5, unit='words', seed=42)
    """

    size: int = 5
    unit: Unit = "words"
    seed: int = 42

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise PipelineError(f"shingles are of 'words' or 'characters', not {self.unit!r}")
        if type(self.size) is not int or not 1 <= self.size <= _LONGEST:
            raise PipelineError(f"size={self.size!r}: a shingle has 1 to {_LONGEST} {self.unit}")
        if type(self.seed) is not int or not 0 <= self.seed < 2**64:
            raise PipelineError(f"seed={self.seed!r} is not a whole number from 0 to 2**64 - 1")

    @property
    def rule(self) -> Rule:
        """The same for kernels."""
        return Rule(self.size, self.unit == "words", np.uint64(self.seed))
