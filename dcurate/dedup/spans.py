"""Lines, paragraphs and sentences that a dataset holds more than once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from dcurate.dedup.span_shuffle import SpanFinder, SpanShuffle, at_least, one_of
from dcurate.errors import PipelineError, nearest
from dcurate.frames.text import TextColumn
from dcurate.kernels import cuda_dedup_spans
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.folding import folding
from dcurate.kernels.stretches import LINES
from dcurate.kernels.units import LINE, PARAGRAPH, SENTENCE, SpanLimits, SpanRule, Spans, marks_of, unit_spans
from dcurate.text.splitters import SENTENCE_ENDS

#: What texts are cut into to be compared.
Unit = Literal["line", "paragraph", "sentence"]

#: What may be left out of account when units are compared.
NORMAL_FORMS = ("case", "whitespace", "digits", "punctuation", "unicode")

_KINDS = {"line": LINE, "paragraph": PARAGRAPH, "sentence": SENTENCE}
#: Marks that end a sentence where no space follows, as Chinese and Japanese are written.
_ALONE = "。！．？｡"


@dataclass
class SpanDuplicates(SpanShuffle):
    """Cuts lines, paragraphs or sentences out of documents that occur elsewhere in the dataset too.

    The first copy in the order of the source stays, so nothing is lost that was said once; the result is the same for
    any number of workers and any cut of the files. A text of which nothing goes stays as it is, to the byte.

    Args:
        text_field: the column to look at. Nulls stay null.
        unit: what is compared. A ``"line"`` ends where ``str.splitlines`` ends it; a ``"paragraph"`` is all lines up
            to a blank one; a ``"sentence"`` ends with its line, or after one of Unicode's marks that end sentences,
            with quotes and brackets closed, before whitespace (Chinese and Japanese need none). Whitespace around a
            unit does not count; what says nothing goes with the unit before it.
        span: units in a row that are compared as one: 3 with ``"sentence"`` is C4's rule. Each goes that is in a
            span that goes.
        normalize: what does not matter: ``"case"``, ``"whitespace"`` (how much there is, and of what kind),
            ``"digits"`` (each counts as 0), ``"punctuation"`` (marks, symbols and controls are left out),
            ``"unicode"`` (the normal form: NFKD). Texts themselves stay as they are.
        min_chars, min_words: shorter spans never go.
        max_copies: copies that may stay.
        keep: ``"first"``: the first ``max_copies`` in the order of the source stay; ``"none"``: all copies go of a span
            that occurs there more often.
        min_document_words, min_document_chars: documents that a removal leaves shorter are dropped as
            ``too short``; documents left with only whitespace are always dropped, as ``nothing left``.
        report_path: a folder for Parquet files of the 1,000 spans of which most copies go: ``text``, ``copies``,
            ``removed``, and ``document``, the number of the first document that holds it.
        name: name of the stage.

    Spans are compared by 96-bit hashes, which are shuffled in ranges, so that memory does not grow with the dataset.
    With ``with_(resources=Resources(gpus=0.25))`` they are first found on GPUs, bit for bit the same (untested on one).

    Raises:
        PipelineError: a setting that there is not, or out of range.

    Examples:
        >>> SpanDuplicates(unit="sentence", span=3).inputs()
        ([], ['text'])
    """

    unit: Unit = "paragraph"
    span: int = 1
    normalize: Sequence[str] = ("case", "whitespace")
    min_chars: int = 0
    min_words: int = 0
    name: str = field(default="span_duplicates", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.name, "unit", self.unit, get_args(Unit))
        at_least(self.name, "span", self.span, 1)
        at_least(self.name, "min_chars", self.min_chars, 0)
        at_least(self.name, "min_words", self.min_words, 0)
        if isinstance(self.normalize, str):
            raise PipelineError(f"{self.name}: normalize={self.normalize!r} must be a list, such as ['case']")
        self.normalize = tuple(self.normalize)
        for form in self.normalize:
            if form not in NORMAL_FORMS:
                raise PipelineError(f"{self.name}: no normalize {form!r}{nearest(str(form), NORMAL_FORMS)}")

    def finder(self) -> SpanFinder:
        limits = SpanLimits(self.span, self.min_chars, self.min_words)
        return UnitFinder(self.unit, limits, tuple(sorted(set(self.normalize))))


@dataclass(frozen=True)
class UnitFinder(SpanFinder):
    """Finds lines, paragraphs or sentences, or some in a row.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> spans = UnitFinder("line", SpanLimits(1, 0, 0), ("case",)).spans(column_of([b"one", b"ONE"]))
        >>> bool(spans.keys[0] == spans.keys[1])
        True
    """

    unit: Unit
    limits: SpanLimits
    normalize: tuple[str, ...]

    @property
    def fit(self) -> int:
        return LINES

    def spans(self, column: TextColumn | CudaColumn) -> Spans:
        marks = marks_of("".join(sorted(SENTENCE_ENDS)), _ALONE)
        rule = SpanRule(_KINDS[self.unit], folding(frozenset(self.normalize)), marks)
        if isinstance(column, CudaColumn):
            return cuda_dedup_spans.unit_spans(column, rule, self.limits)
        return unit_spans(*column, rule, self.limits)
