"""`Source`: what a `Mixture` is asked to take of one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dcurate.core.batch import FileGroup
from dcurate.core.stage import SourceStage
from dcurate.errors import PipelineError, listed, nearest
from dcurate.frames.document import DocumentBatch
from dcurate.io.document_reader import DocumentReader
from dcurate.tokens.shares import Ask, tokens_of


@dataclass(frozen=True)
class Source:
    """A source of a `Mixture`. One of ``share``, ``tokens`` and ``weight`` says how much of it comes.

    Args:
        input: a reader, or the files, directories and globs for a `DocumentReader`.
        share: share of the budget, from 0 to 1.
        tokens: number of tokens, such as ``"200M"``.
        weight: relative share of what the other sources leave of the budget, in proportion to the weights.
        max_epochs: how often each of its documents may come at most; a source that runs out gives less, and those with
            ``share`` or ``weight`` more, in proportion.
        min_tokens: at least that many, such as ``"10M"``, if it has them.
        log_weights_field: a column with the logarithm of a weight of each document: those with larger weights are drawn
            with higher probability, without replacement. `ImportanceWeights` makes one. All are equal if None.

    Examples:
        >>> Source("books", share=0.2, max_epochs=2).ask.max_epochs
        2
    """

    input: Any
    share: float | None = None
    tokens: int | str | None = None
    weight: float | None = None
    max_epochs: float = 4
    min_tokens: int | str = 0
    log_weights_field: str | None = None

    def __post_init__(self) -> None:
        names = [name for name in ("share", "tokens", "weight") if getattr(self, name) is not None]
        if len(names) != 1:
            named = " and ".join(names) or "none of them"
            raise PipelineError(f"a source of a mixture takes one of share=, tokens= and weight=; {named} was given")
        if self.share is not None and not 0 <= self.share <= 1:
            raise PipelineError(f"share={self.share!r} of a source must lie between 0 and 1")
        if self.weight is not None and not 0 <= self.weight < float("inf"):
            raise PipelineError(f"weight={self.weight!r} of a source must be a number of zero or more")
        if not 0 < self.max_epochs < float("inf"):
            raise PipelineError(f"max_epochs={self.max_epochs!r} of a source must be a number above zero")
        _ = self.ask

    @property
    def ask(self) -> Ask:
        """What is asked, in numbers."""
        fixed = None if self.tokens is None else tokens_of(self.tokens, "tokens")
        least = tokens_of(self.min_tokens, "min_tokens")
        return Ask(self.share, fixed, self.weight, self.max_epochs, least)

    @property
    def reader(self) -> SourceStage[FileGroup, DocumentBatch]:
        """The reader."""
        return self.input if isinstance(self.input, SourceStage) else DocumentReader(self.input)


def source_of(asks: str, name: str, given: Any) -> Source:
    """Return a source that is given as such or by its arguments.

    Args:
        asks: the stage that uses it, for errors.
        name: name of the source.

    Raises:
        PipelineError: it is neither.

    Examples:
        >>> source_of("mixture", "books", {"input": "books", "share": 0.2}).share
        0.2
    """
    if isinstance(given, Source):
        return given
    if not isinstance(given, Mapping):
        raise PipelineError(f"{asks}: source {name!r} is {given!r}; give a Source or its arguments")
    known = list(Source.__dataclass_fields__)
    unknown = [key for key in given if key not in known]
    if unknown:
        raise PipelineError(
            f"{asks}: source {name!r} takes no {unknown[0]!r}{nearest(unknown[0], known)}; it takes {listed(known)}"
        )
    if "input" not in given:
        raise PipelineError(f"{asks}: source {name!r} has no input; name its files")
    return Source(**given)
