"""Stages that score documents, and keep or drop them by their scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.text.filter import DocumentFilter, SignalFilter
from dcurate.text.passes import Pass
from dcurate.text.signals import Needs, warm

ScoreFunction: TypeAlias = Callable[[Any], Any] | DocumentFilter
AnyStage: TypeAlias = ProcessingStage[Any, Any]


def name_of(rule: ScoreFunction) -> str:
    """What a filter or a plain function is called in reports.

    >>> name_of(len)
    'len'
    """
    if isinstance(rule, DocumentFilter):
        return rule.name
    return str(rule.__name__) if inspect.isroutine(rule) else type(rule).__name__


def one_or_many(value: Any) -> list[Any]:
    """The list itself, or a list of the one value."""
    return list(value) if isinstance(value, list | tuple) else [value]


def one_each(values: Any, count: int, what: str) -> list[Any]:
    """One value for each of ``count`` rules: as given, or the one value for all of them.

    Raises:
        PipelineError: a list of another length.

    >>> one_each(["text"], 2, "text_field")
    ['text', 'text']
    """
    given = one_or_many(values)
    if len(given) == 1:
        return given * count
    if len(given) != count:
        raise PipelineError(f"{what} has {len(given)} entries for {count} functions; give one each, or one for all")
    return given


def _own_each(values: Any, count: int, what: str) -> list[str]:
    """One name for each of ``count`` rules, none of them shared."""
    given = one_or_many(values)
    if len(given) != count or not all(isinstance(name, str) and name for name in given):
        raise PipelineError(f"{what}={values!r} must name {count} column{'s' if count > 1 else ''}, one for each function")
    return given


def _checked(rules: Any, kinds: str, accepts: Callable[[Any], bool]) -> list[Any]:
    given = one_or_many(rules)
    if not given:
        raise PipelineError(f"an empty list of functions; give at least one {kinds}")
    for rule in given:
        if isinstance(rule, type) or not accepts(rule):
            hint = f"; make one of it: {rule.__name__}()" if isinstance(rule, type) else ""
            raise PipelineError(f"{rule!r} is not a {kinds}{hint}")
    return given


def _chain_name(rules: list[Any], kind: str, given: str, default: str) -> str:
    """The name of a stage: the one given, or the filter's, or what it chains."""
    if given != default:
        return given
    if len(rules) > 1:
        return f"{kind}_chain_of_" + "_".join(map(name_of, rules))
    return rules[0].name if isinstance(rules[0], DocumentFilter) else given


def _set_up_on_node(rules: Iterable[ScoreFunction]) -> None:
    needs = Needs()
    for rule in rules:
        if isinstance(rule, SignalFilter):
            needs |= rule.needs
        elif isinstance(rule, DocumentFilter):
            rule.model_check_or_download()
    warm(needs)


def _set_up(rules: Iterable[ScoreFunction]) -> None:
    for rule in rules:
        if isinstance(rule, DocumentFilter):
            rule.load_model()
            rule.load_tokenizer()


@dataclass
class Score(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds the score of each document in a column; keeps them all.

    Args:
        score_fn: a filter whose ``score_document`` is used, a function of one value, or a list of these.
            Built-in filters are computed for a whole batch at once; functions are called for each document.
        score_field: the column for the score; for a list of functions a list of as many.
        text_field: the column that is scored; one for all, or a list.
        name: of the stage; by default that of the filter.

    A null text counts as empty for filters; functions are given what the column holds.

    >>> import pandas as pd
    >>> from dcurate.text.filters.words import WordCountFilter
    >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["two words", "one"]}))
    >>> Score(WordCountFilter(), "words").process(batch).to_pandas()["words"].tolist()
    [2, 1]
    """

    score_fn: ScoreFunction | list[ScoreFunction]
    score_field: str | list[str]
    text_field: str | list[str] = "text"
    name: str = "score_fn"

    def __post_init__(self) -> None:
        rules = self._rules
        self.name = _chain_name(rules, "score", self.name, "score_fn")
        _own_each(self.score_field, len(rules), "score_field")
        one_each(self.text_field, len(rules), "text_field")

    @property
    def _rules(self) -> list[ScoreFunction]:
        return _checked(self.score_fn, "filter or function", callable_or_filter)

    @property
    def _text_fields(self) -> list[str]:
        return one_each(self.text_field, len(self._rules), "text_field")

    def inputs(self) -> Spec:
        return ["data"], unique(self._text_fields)

    def outputs(self) -> Spec:
        return ["data"], unique(one_or_many(self.score_field))

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        _set_up_on_node(self._rules)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        _set_up(self._rules)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rules = self._rules
        run = Pass(task, needs_of(rules))
        for rule, text_field, score_field in zip(rules, self._text_fields, one_or_many(self.score_field), strict=True):
            run.put(score_field, run.scores(rule, text_field))
        return run.result()


@dataclass
class Filter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps the documents whose score, read from a column, is good.

    Args:
        filter_fn: a filter whose ``keep_document`` is used, a function of one value that answers true or false,
            or a list of these, applied in turn.
        filter_field: the column with the score; for a list of functions a list of as many.
        invert: keep what would be dropped, and the other way round; one for all, or a list.
        name: of the stage; by default that of the filter.

    >>> import pandas as pd
    >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["a", "b"], "score": [1, 5]}))
    >>> Filter(lambda score: score > 2, "score").process(batch).to_pandas()["text"].tolist()
    ['b']
    """

    filter_fn: ScoreFunction | list[ScoreFunction]
    filter_field: str | list[str]
    invert: bool | list[bool] = False
    name: str = "filter_fn"

    def __post_init__(self) -> None:
        rules = self._rules
        self.name = _chain_name(rules, "filter", self.name, "filter_fn")
        _own_each(self.filter_field, len(rules), "filter_field")
        one_each(self.invert, len(rules), "invert")

    @property
    def _rules(self) -> list[ScoreFunction]:
        return _checked(self.filter_fn, "filter or function", callable_or_filter)

    def inputs(self) -> Spec:
        return ["data"], unique(one_or_many(self.filter_field))

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rules = self._rules
        run = Pass(task, Needs())
        inverts = one_each(self.invert, len(rules), "invert")
        for rule, field, invert in zip(rules, one_or_many(self.filter_field), inverts, strict=True):
            run.drop(run.kept(rule, run.column(field, rule)) ^ invert, self.name, name_of(rule))
        return run.result()
