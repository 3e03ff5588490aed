"""Stretches of text, wherever they begin and end, that a dataset holds more than once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from dcurate.dedup.span_shuffle import SpanFinder, SpanShuffle, at_least, one_of
from dcurate.errors import PipelineError
from dcurate.frames.text import TextColumn
from dcurate.kernels import cuda_dedup_spans
from dcurate.kernels.anchors import anchored_spans
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.stretches import CHARACTERS, WORDS
from dcurate.kernels.units import Spans

#: What is never cut in two.
Whole = Literal["words", "characters"]

_LEAST_GRAM = 16


@dataclass
class SubstringDuplicates(SpanShuffle):
    """Cuts stretches of text out of documents that occur elsewhere in the dataset too, byte for byte.

    It is the removal of exact substrings of Lee et al. (ACL 2022), who build a suffix array of the whole dataset,
    as an approximation that needs no such array and runs on any number of machines. What it promises:

    * All that is cut occurs earlier in the source, in pieces of at least ``min_bytes - 2 * window + 2`` bytes.
    * Of any text that occurs twice in the source and has ``min_bytes`` or more, all is found but for less than
      ``window`` bytes at each end; nothing is missed at the ends of documents and of long lines. (More may be missed in
      a text that repeats itself within ``window`` bytes, such as a row of dashes.)
    * The result is the same for any number of workers and any cut of the files.

    Args:
        text_field: the column to look at. Nulls stay null.
        min_bytes: least length of a stretch in bytes of UTF-8: 200, about the 50 tokens of Lee et al. and RefinedWeb.
        window: one in about half as many bytes is an anchor, and each anchor costs some 16 bytes on disk for a while:
            a quarter of ``min_bytes`` by default.
        whole: ``"words"``: words at the ends of a stretch that are not wholly in it stay; ``"characters"``: characters.
        max_copies, keep, min_document_words, min_document_chars, report_path, name: the same settings as in
            `SpanDuplicates`.

    It uses GPUs as `SpanDuplicates` does.

    Raises:
        PipelineError: a setting that there is not, or out of range.

    Examples:
        >>> SubstringDuplicates(min_bytes=400).finder()
        AnchorFinder(gram=201, window=100, whole='words')
    """

    min_bytes: int = 200
    window: int | None = None
    whole: Whole = "words"
    name: str = field(default="substring_duplicates", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.name, "min_bytes", self.min_bytes, 2 * _LEAST_GRAM)
        one_of(self.name, "whole", self.whole, get_args(Whole))
        if self.window is not None:
            at_least(self.name, "window", self.window, 2)
        if self._gram < _LEAST_GRAM:
            most = (self.min_bytes + 1 - _LEAST_GRAM) // 2
            raise PipelineError(
                f"{self.name}: window={self.window} is too wide for min_bytes={self.min_bytes}; at most {most} will do"
            )

    @property
    def _window(self) -> int:
        return self.min_bytes // 4 if self.window is None else self.window

    @property
    def _gram(self) -> int:
        return self.min_bytes - 2 * self._window + 1

    def finder(self) -> SpanFinder:
        return AnchorFinder(self._gram, self._window, self.whole)


@dataclass(frozen=True)
class AnchorFinder(SpanFinder):
    """Finds the stretches between anchors.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> len(AnchorFinder(16, 8, "words").spans(column_of([b"a text of more than sixteen bytes"])).keys) > 1
        True
    """

    gram: int
    window: int
    whole: Whole

    @property
    def fit(self) -> int:
        return WORDS if self.whole == "words" else CHARACTERS

    def spans(self, column: TextColumn | CudaColumn) -> Spans:
        if isinstance(column, CudaColumn):
            return cuda_dedup_spans.anchored_spans(column, self.gram, self.window)
        return anchored_spans(*column, self.gram, self.window)
