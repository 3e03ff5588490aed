"""C4's rules on lines and texts (Raffel et al., 2020), as in the reference code and in datatrove."""

from __future__ import annotations

from typing import Any, Literal, get_args

from dcurate.core.stage import ProcessingStage
from dcurate.errors import PipelineError, nearest
from dcurate.kernels.cleaning import LineRules
from dcurate.text.c4 import C4Lines
from dcurate.text.filter import DocumentFilter, SignalFilter
from dcurate.text.filters.c4 import (
    C4CurlyBracketFilter,
    C4LengthFilter,
    C4LoremIpsumFilter,
    C4ParagraphsFilter,
    C4SentencesFilter,
)
from dcurate.text.score import ScoreFilter

Variant = Literal["paper", "datatrove"]
Stages = tuple[ProcessingStage[Any, Any], ...]


def c4(variant: Variant = "paper", end_marks: bool = True, text_field: str = "text") -> Stages:
    r"""C4's rules as stages: drop texts, then remove lines from the rest.

    Args:
        variant: ``paper``, as in the code that the paper's data were made with (TensorFlow Datasets): lines of 5 words,
            3 sentences, at most 190,000 characters; ``datatrove`` (0.10): lines of 3 words, 5 sentences, any length.
        end_marks: whether lines must end with a mark that ends a sentence; FineWeb waives it.
        text_field: the column that is looked at and changed.

    The reference also drops texts with bad words of a list and those that `langdetect` finds not to be English, and
    removes lines that occur anywhere else; these are steps of their own.

    Raises:
        PipelineError: another variant.

    Examples:
        >>> import pyarrow as pa
        >>> from dcurate.frames.document import DocumentBatch
        >>> text = "Menu\nHere is a line of words. Here is another one. And this is the last."
        >>> batch = DocumentBatch(data=pa.table({"text": [text]}))
        >>> for stage in c4():
        ...     batch = stage.process(batch)
        >>> batch.to_arrow()["text"].to_pylist()
        ['Here is a line of words. Here is another one. And this is the last.']
    """
    rules = _rules(variant, end_marks)
    filters: list[DocumentFilter] = list(c4_filters(variant, end_marks))
    return ScoreFilter(filters, text_field=text_field, name="c4"), C4Lines(rules, text_field)


def c4_filters(variant: Variant = "paper", end_marks: bool = True) -> tuple[SignalFilter, ...]:
    """The rules of `c4` that drop texts."""
    rules = _rules(variant, end_marks)
    pages = C4LoremIpsumFilter(rules), C4CurlyBracketFilter(rules)
    if variant == "datatrove":
        return (*pages, C4SentencesFilter(5, rules))
    return (C4LengthFilter(), *pages, C4SentencesFilter(3, rules))


def c4_paragraphs() -> tuple[SignalFilter, ...]:
    """The rule that multilingual C4 adds: three lines of 200 characters (Xue et al., 2021)."""
    return (C4ParagraphsFilter(),)


def _rules(variant: str, end_marks: bool) -> LineRules:
    if variant not in get_args(Variant):
        raise PipelineError(f"unknown variant {variant!r} of C4{nearest(variant, get_args(Variant))}")
    if variant == "paper":
        return LineRules(end_marks='.?!"' if end_marks else "")
    return LineRules(min_words=3, words_before=True, end_marks=".?!\"'" if end_marks else "")
