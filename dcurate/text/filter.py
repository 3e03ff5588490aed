"""Base classes of filters: a score for a document, and which scores to keep."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from dcurate.core.part import Part
from dcurate.errors import PipelineError
from dcurate.text.extract.stop_words import short_code
from dcurate.text.segmentation import check_installed, libraries_of, needs_splitting, splitter
from dcurate.text.signals import Needs, Signals, text_as_column

#: A share from 0 to 1: fields of filters that are annotated so are checked.
Share: TypeAlias = float
Scores = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class DocumentFilter(Part, ABC):
    """A rule that scores documents one by one in Python; subclass it for your own rules.

    The name is the class name in snake case unless you set ``self._name``. A document whose text is null is
    scored as an empty one. Where a rule needs a model, load it in the hooks below, never in the constructor.

    Fields of a dataclass that are annotated as numbers, such as ``least: int = 3``, are checked on creation, those of
    built-in filters that are shares also for being from 0 to 1; call
    ``super().__post_init__()`` first in a ``__post_init__`` of your own.

    Raises:
        PipelineError: a field that is annotated as a number has another value.

    Examples:
        >>> class TooShort(DocumentFilter):
        ...     def score_document(self, text):
        ...         return len(text)
        ...     def keep_document(self, score):
        ...         return score > 3
        >>> TooShort().name, TooShort().keep_document(TooShort().score_document("tiny"))
        ('too_short', True)
    """

    held_by = "ScoreFilter"
    _name: str = ""

    def __post_init__(self) -> None:
        rule: Any = self
        settings = fields(rule) if is_dataclass(rule) else ()
        for setting in settings:
            kind = setting.type.__name__ if isinstance(setting.type, type) else str(setting.type)
            if setting.init and kind.removesuffix(" | None") in ("int", "float", "Share"):
                _check_number(type(self).__name__, setting.name, getattr(rule, setting.name), kind)
        for setting in settings:
            least, most = getattr(rule, setting.name, None), f"max_{setting.name.removeprefix('min_')}"
            limit = getattr(rule, most, None) if setting.name.startswith("min_") else None
            if isinstance(least, Real) and isinstance(limit, Real) and least > limit:
                raise PipelineError(
                    f"{type(self).__name__}: {setting.name}={least} is above {most}={limit}, so it keeps nothing"
                )

    @property
    def name(self) -> str:
        """The name of its stage, and its reason for dropping rows."""
        return (
            self._name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        )

    @property
    def cheap_setup(self) -> bool:
        """Whether it is cheap to hold ready: it loads no model."""
        hooks = ("load_model", "load_tokenizer")
        return all(getattr(type(self), hook) is getattr(DocumentFilter, hook) for hook in hooks)

    @abstractmethod
    def score_document(self, text: str) -> Any:
        """Return the score of a text: a number, or any value that a column can hold."""

    @abstractmethod
    def keep_document(self, score: Any) -> bool:
        """Return whether to keep a document with this score."""

    def score_documents(self, texts: list[str]) -> list[Any]:
        """Return the scores of many texts, in order; override it where a batch is cheaper."""
        return [self.score_document(text) for text in texts]

    def model_check_or_download(self) -> None:
        """Called once per host before any document is scored there."""
        return

    def load_model(self) -> None:
        """Called once per slot before it scores documents."""
        return

    def load_tokenizer(self) -> None:
        """Called once per slot before it scores documents, after `load_model`."""
        return


class SignalFilter(DocumentFilter):
    """A rule over signals that compiled kernels compute for a whole column at once.

    Neighbouring stages of such filters share one pass over the text. `score_document` runs the same kernels
    on one text, so both ways give the same score. A subclass that overrides `score_document` or `keep_document` is
    called for each document instead.

    Examples:
        >>> class FewDigits(SignalFilter):
        ...     def score(self, signals):
        ...         return signals.characters.digits
        ...     def keep(self, scores):
        ...         return scores <= 3
        >>> FewDigits().score_document("in 1969"), FewDigits().keep_document(4)
        (4, False)
    """

    #: Whether a GPU may compute its signals faster than cores do, if the text is on the host and must be copied there.
    pays_on_gpu: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        """The sizes of n-grams that `score` reads; none by default."""
        return Needs()

    @abstractmethod
    def score(self, signals: Signals) -> Scores:
        """Return the scores of all the texts, in order."""

    @abstractmethod
    def keep(self, scores: Scores) -> Mask:
        """Return a mask of the scores to keep."""

    def score_document(self, text: str) -> Any:
        return self.score(Signals(text_as_column(text or ""), self.needs))[0].item()

    def keep_document(self, score: Any) -> bool:
        return bool(self.keep(np.asarray(score)))


def by_signals(rule: Any) -> TypeGuard[SignalFilter]:
    """Whether a rule scores a whole column by signals: not where a subclass scores each document in its own way."""
    return isinstance(rule, SignalFilter) and not rule.overrides("score_document", "score")


class BoundedFilter(SignalFilter):
    """A rule that keeps scores from one field to another, both included.

    ``_low`` names the field with the lowest score to keep, ``_high`` that with the highest; without one there is no
    such bound.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class FewDigits(BoundedFilter):
        ...     max_digits: int = 3
        ...     _high = "max_digits"
        ...     def score(self, signals):
        ...         return signals.characters.digits
        >>> FewDigits().keep_document(4), FewDigits(max_digits=4).keep_document(4)
        (False, True)
    """

    _low = ""
    _high = ""

    def keep(self, scores: Scores) -> Mask:
        if not self._low:
            return scores <= getattr(self, self._high)  # type: ignore[no-any-return]
        kept = scores >= getattr(self, self._low)
        return kept & (scores <= getattr(self, self._high)) if self._high else kept  # type: ignore[no-any-return]


class WordFilter(SignalFilter):
    """A rule over words, which depend on the language: ``language``, an ISO 639-1 code in any case.

    Chinese (``zh``), Japanese (``ja``), Korean (``ko``) and Thai (``th``) are split by libraries of the ``lang``
    extra, whose dictionaries are loaded before the first text; words of any other language are what ``str.split``
    gives. Score `spaced` texts.

    Examples:
        >>> class FewWords(WordFilter):
        ...     language = "en"
        ...     def score(self, signals):
        ...         return self.spaced(signals).words.total
        ...     def keep(self, scores):
        ...         return scores <= 3
        >>> FewWords().score_document("three short words")
        3
    """

    language: str

    def __post_init__(self) -> None:
        super().__post_init__()
        short = short_code(self.language) if isinstance(self.language, str) else None
        if short and (needs_splitting(short) or len(self.language) > len("eng")):
            raise PipelineError(f"{type(self).__name__}: language={self.language!r} is written as {short!r} here")

    def requires(self) -> dict[str, str]:
        return dict.fromkeys(libraries_of(self.language), "lang")

    def model_check_or_download(self) -> None:
        if needs_splitting(self.language):
            check_installed(self.language)
            elsewhere = copy(self)
            vars(elsewhere)["language"] = "en"
            elsewhere.score_document("one two")  # compiles the kernels without loading the dictionary

    def load_model(self) -> None:
        if needs_splitting(self.language):
            splitter(self.language)

    @property
    def cheap_setup(self) -> bool:
        return not needs_splitting(self.language)

    def spaced(self, signals: Signals) -> Signals:
        """Return the texts with spaces between their words."""
        return signals.in_language(self.language)


def _check_number(rule: str, name: str, value: Any, kind: str) -> None:
    missing = value is None and kind.endswith("None")
    not_number = isinstance(value, bool) or not isinstance(value, Real)
    if not missing and (not_number or np.isnan(float(value))):
        raise PipelineError(f"{rule}: {name}={value!r} is {type(value).__name__}, not a number; give one")
    if not missing and kind.startswith("Share") and not 0 <= value <= 1:
        percent = f"; write {value / 100:g} for {value:g} %" if 1 < value <= 100 else ""
        raise PipelineError(f"{rule}: {name}={value!r} must be from 0 to 1{percent}")


def ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64], otherwise: float) -> npt.NDArray[np.float64]:
    """``part / whole``, and ``otherwise`` where the whole is 0.

    Examples:
        >>> ratio(np.array([1, 0]), np.array([2, 0]), 1.0)
        array([0.5, 1. ])
    """
    result = np.full(len(whole), otherwise)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
