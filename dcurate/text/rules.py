"""Functions and filters given to a stage: one or several, and a column for each."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.core.kernels import Kernels
from dcurate.core.names import short
from dcurate.core.part import wrapping
from dcurate.core.stage import NodeInfo, ProcessingStage, WorkerMetadata
from dcurate.core.stage.processing import Y
from dcurate.errors import PipelineError, shown
from dcurate.frames.document import DocumentBatch
from dcurate.kernels.cuda import on_gpu, usable
from dcurate.text.column_filter import ColumnFilter
from dcurate.text.filter import DocumentFilter, SignalFilter
from dcurate.text.number_filter import NumberFilter, maker_of
from dcurate.text.signals import Needs, Signals, UsedSignals, text_as_column

Rule: TypeAlias = Callable[[Any], Any] | DocumentFilter


def name_of(rule: Rule, column: str = "") -> str:
    """The name of a filter or function in reports; of a lambda that of its column, if it is given.

    Examples:
        >>> name_of(len), name_of(lambda score: score > 2, "score")
        ('len', 'score')
    """
    if isinstance(rule, DocumentFilter):
        return rule.name
    if column and is_lambda(rule):
        return column
    return str(rule.__name__) if inspect.isroutine(rule) else type(rule).__name__


def is_lambda(rule: Rule) -> bool:
    """Whether a function has no name of its own."""
    return inspect.isfunction(rule) and rule.__name__ == "<lambda>"


def one_or_many(value: Any) -> list[Any]:
    """The list itself, or a list of the one value."""
    return list(value) if isinstance(value, list | tuple) else [value]


def one_each(values: Any, count: int, what: str) -> list[Any]:
    """One value for each of ``count`` rules: as given, or the one value for all of them.

    Raises:
        PipelineError: a list of another length.

    Examples:
        >>> one_each(["text"], 2, "text_field")
        ['text', 'text']
    """
    entries = one_or_many(values)
    if len(entries) == 1:
        return entries * count
    if len(entries) != count:
        raise PipelineError(f"{what} has {len(entries)} entries for {count} functions; give one each, or one for all")
    return entries


def own_each(values: Any, count: int, what: str) -> list[str]:
    """One name for each of ``count`` rules, without duplicates."""
    names = one_or_many(values)
    if len(names) != count or not all(isinstance(name, str) and name for name in names):
        raise PipelineError(
            f"{what}={values!r} must name {count} column{'s' if count > 1 else ''}, one for each function"
        )
    return names


def checked(rules: Any, kinds: str, accepts: Callable[[Any], bool]) -> list[Any]:
    """The rules as a list.

    Raises:
        PipelineError: there is none, or one of them is not acceptable.
    """
    functions = one_or_many(rules)
    if not functions:
        raise PipelineError(f"an empty list of functions; give at least one {kinds}")
    for rule in functions:
        if isinstance(rule, type) or not accepts(rule):
            named = shown(rule) if inspect.isroutine(rule) else repr(rule)
            raise PipelineError(f"{named} is not a {kinds}{_hint(rule, kinds)}")
    return functions


def _hint(rule: Any, kinds: str) -> str:
    """A hint to make a rule acceptable, if known."""
    if isinstance(rule, type):
        return f"; make one of it: {rule.__name__}()"
    if wrapping(rule):
        return wrapping(rule)
    if isinstance(rule, str) and kinds == "filter or function":
        return "; a condition in SQL goes into FilterByExpression, a function of a score is lambda score: score > 0.5"
    if (
        inspect.isfunction(rule)
        and kinds == "filter"
        and not any(parameter.default is parameter.empty for parameter in inspect.signature(rule).parameters.values())
    ):
        return f"; call it if it makes filters: {rule.__name__}()"
    if callable(rule) and kinds == "filter":
        return "; subclass DocumentFilter and call the function in its score_document, or use Score and then Filter"
    example = {"filter": "WordCountFilter(min_words=5)", "modifier or function": "UnicodeReformatter() or str.strip"}
    return f"; give one, such as {example[kinds]}" if kinds in example else ""


def chain_name(rules: list[Any], kind: str, given: str, default: str, columns: Sequence[str] = ()) -> str:
    """The name of a stage: the one given, or the filters' names joined; of a lambda that of its column, if given."""
    if given != default:
        return given
    if len(rules) > 1:
        return short(f"{kind}_chain_of_" + "_".join(map(name_of, rules)))
    if columns and is_lambda(rules[0]):
        return columns[0]
    return rules[0].name if isinstance(rules[0], DocumentFilter) else given


def is_rule(value: Any) -> bool:
    """Whether a value is a filter or callable."""
    return isinstance(value, DocumentFilter) or callable(value)


def is_filter(value: Any) -> bool:
    """Whether a value is a filter."""
    return isinstance(value, DocumentFilter)


def unique(names: Iterable[str | None]) -> list[str]:
    """The existing names, in order, without duplicates.

    Examples:
        >>> unique(["text", None, "text"])
        ['text']
    """
    return list(dict.fromkeys(name for name in names if name is not None))


def needs_of(rules: Iterable[Rule]) -> Needs:
    """All the signals that the built-in filters among the rules need."""
    needs = Needs()
    for rule in rules:
        if isinstance(rule, SignalFilter):
            needs |= replace(rule.needs, pays_on_gpu=rule.pays_on_gpu)
    return needs


def is_called_by_score(rule: Rule) -> bool:
    """Return whether a filter or function is asked of each score, not of all scores of a batch at once."""
    if isinstance(rule, SignalFilter) and not rule.overrides("keep_document", "keep"):
        return False
    if isinstance(rule, ColumnFilter) and not rule.overrides("keep_document", "keep_column"):
        return False
    return not isinstance(rule, NumberFilter)


def kept_by(rule: Rule, scores: Any) -> npt.NDArray[np.bool_]:
    """Return a mask of the scores, an array or a list, that a filter or function keeps."""
    if not is_called_by_score(rule):
        if isinstance(rule, ColumnFilter):
            return rule.kept(scores)
        assert isinstance(rule, SignalFilter | NumberFilter)
        return np.asarray(rule.keep(np.asarray(scores)), np.bool_)
    keep: Callable[[Any], Any] = rule.keep_document if isinstance(rule, DocumentFilter) else rule
    plain_scores = scores.tolist() if isinstance(scores, np.ndarray) else scores
    return np.array([_truth(keep(score)) for score in plain_scores], np.bool_)


def _truth(answer: Any) -> bool:
    """Whether an answer of a filter or function is true. Texts and tuples with anything in them always are in Python.

    Raises:
        TypeError: it is one of these, or neither true nor false, such as ``pandas.NA``.
    """
    if answer is True or answer is False:
        return answer
    if not isinstance(answer, str | bytes | tuple):
        with suppress(TypeError, ValueError):  # of pandas.NA and arrays
            return bool(answer)
    raise TypeError(f"it must give True or False, and gave {type(answer).__name__}; have it return a comparison")


#: What kernels are run on once, to be ready.
_TEXT = text_as_column("one two\n\none two\nA line that rules on lines keep, and that has an end.")


class RuleStage(ProcessingStage[DocumentBatch, Y]):
    """A stage with rules, whose kernels and models are ready before its first batch."""

    @property
    @abstractmethod
    def _rules(self) -> Sequence[Rule]:
        """The rules, in order."""

    def made_by(self, column: str) -> str:
        return maker_of(self._rules, column)

    def kernels(self) -> Sequence[Kernels]:
        used = UsedSignals(_TEXT, needs_of(self._rules))
        for rule in self._rules:
            # A rule of a user may raise on them; its kernels are compiled at their first use then.
            with np.errstate(all="ignore"), suppress(Exception):
                if isinstance(rule, SignalFilter) and rule.cheap_setup:
                    rule.score(used)
        return list(used.kernels())

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._compile(Signals(_TEXT, needs_of(self._rules)))
        self._compile_for_gpu()
        for rule in self._rules:
            if isinstance(rule, DocumentFilter):
                rule.model_check_or_download()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._compile_for_gpu()
        for rule in self._rules:
            if isinstance(rule, DocumentFilter):
                rule.load_model()
                rule.load_tokenizer()

    def plan_notes(self) -> list[str]:
        if not self.resources.requires_gpu or needs_of(self._rules).pays_on_gpu:
            return []
        return ["measures text that is on the host on CPUs, as a GPU could not win; with frames='cudf' on the GPU"]

    def _compile(self, signals: Signals) -> None:
        """Compile the kernels, or load them from numba's cache on disk."""
        for rule in self._rules:
            if isinstance(rule, SignalFilter) and rule.cheap_setup:
                rule.score(signals)

    def _compile_for_gpu(self) -> None:
        """The same for kernels of a GPU, before the time of a batch is measured and limited."""
        if self.resources.requires_gpu and usable():
            self._compile(Signals(_TEXT, needs_of(self._rules), None, on_gpu(*_TEXT)))

    @property
    def cheap_setup(self) -> bool:
        return all(rule.cheap_setup for rule in self._rules if isinstance(rule, DocumentFilter))
