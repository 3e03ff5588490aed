"""A filter by the perplexity of an n-gram model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dcurate.errors import DataError, PipelineError
from dcurate.hub.tokenizer_files import load_sentencepiece
from dcurate.text.filter import BoundedFilter, Scores
from dcurate.text.ngram_models import NgramModel, compile_kernels, split_pieces
from dcurate.text.signals import Signals


@dataclass(frozen=True)
class PerplexityFilter(BoundedFilter):
    """Keep texts whose perplexity under an n-gram model of KenLM is in a range (as CCNet does, Wenzek et al., 2020).

    The score is ``10 ** (-log10 probability / words)``, where the end of a sentence counts as a word, as in KenLM's
    ``Model.perplexity``; log probabilities equal KenLM's to the bit. Words are what ASCII whitespace separates, after
    the tokenizer. An empty text is scored as an empty sentence.

    Args:
        model: an ARPA file, or a binary file with probing tables (``build_binary probing``), which is mapped into
            memory and loads at once; it must be there on every host.
        max_perplexity: the highest perplexity to keep.
        min_perplexity: the lowest, against text that repeats itself.
        by_line: whether each line that is not blank is a sentence, as in CCNet; else a text is one sentence.
        tokenizer: a SentencePiece model whose pieces are the words of the model, as in CCNet.

    Raises:
        PipelineError: no ``model``, or bounds that no perplexity is between.
        DataError: the file is missing, damaged or of another kind.

    Examples:
        >>> rule = PerplexityFilter("en.binary", max_perplexity=800.0)
        >>> rule.keep_document(350.0), rule.keep_document(1200.0)
        (True, False)
    """

    paths = ("model", "tokenizer")
    model: str | os.PathLike[str] | None = None
    max_perplexity: float = 1000.0
    min_perplexity: float = 0.0
    by_line: bool = False
    tokenizer: str | os.PathLike[str] | None = None
    _name = "perplexity"
    _low, _high = "min_perplexity", "max_perplexity"
    _pieces: ClassVar[Any] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise PipelineError(f"{self.name}: no model; give the path of an ARPA file or a binary file of KenLM")
        if self.min_perplexity > self.max_perplexity:
            raise PipelineError(
                f"{self.name}: min_perplexity={self.min_perplexity} is above max_perplexity={self.max_perplexity}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pieces"}

    def requires(self) -> dict[str, str]:
        return {"sentencepiece": "tokens"} if self.tokenizer else {}

    def model_check_or_download(self) -> None:
        if not os.path.isfile(self.model or ""):
            raise DataError(
                f"{self.name}: no n-gram model at {os.fspath(self.model or '')!r}; put it there on every host, "
                "or give the path where it is"
            )
        compile_kernels()

    def load_model(self) -> None:
        self.model_check_or_download()
        self._loaded()
        if self.tokenizer:
            vars(self)["_pieces"] = load_sentencepiece(os.fspath(self.tokenizer), self.name)

    def score(self, signals: Signals) -> Scores:
        column, rows = signals.column, signals.rows
        if self.tokenizer:
            if self._pieces is None:
                self.load_model()
            column = split_pieces(self._pieces, signals.encoded())
            rows = np.arange(len(column))
        sums = self._loaded().scores(*column, rows, self.by_line)
        with np.errstate(over="ignore"):
            return 10.0 ** (-sums.log10 / sums.words)

    def _loaded(self) -> NgramModel:
        path = os.fspath(self.model or "")
        try:
            state = os.stat(path)
        except OSError as error:
            raise DataError(f"{self.name}: {path!r} cannot be read: {error}") from error
        return _held(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _held(path: str, changed: int, size: int) -> NgramModel:
    """The model of a file, which the slots of a process share."""
    return NgramModel.load(path)
