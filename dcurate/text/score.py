"""Stages that score documents, and keep or drop them by their scores."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

from dcurate.core.extras import required_by
from dcurate.core.names import short
from dcurate.core.stage import ProcessingStage, RowNeeds, Spec
from dcurate.frames.document import DocumentBatch
from dcurate.text.filter import DocumentFilter, SignalFilter, by_signals
from dcurate.text.filter_run import FilterRun, Verdict
from dcurate.text.number_filter import NumberFilter, column_of_rule, maker_of
from dcurate.text.rules import (
    Rule,
    RuleStage,
    chain_name,
    checked,
    is_filter,
    is_rule,
    name_of,
    needs_of,
    one_each,
    one_or_many,
    own_each,
    unique,
)
from dcurate.text.signals import Needs

#: Counts values for which a function of `Filter` answered None, in batches where it answered nothing else.
UNANSWERED = "answers that were None"

AnyStage: TypeAlias = ProcessingStage[Any, Any]


@dataclass
class Score(RuleStage[DocumentBatch]):
    """Add the score of each document as a column; keep all documents.

    Args:
        score_fn: a filter whose ``score_document`` is used, a function of one value, or a list of these.
            Built-in filters are computed for a whole batch at once; functions are called for each document.
        score_field: the column for the score; for a list of functions a list of as many.
        text_field: the column that is scored; one for all, or a list.
        name: name of the stage; by default that of the filter.

    A null text counts as empty for filters; functions receive the value of the column.

    Examples:
        >>> import pandas as pd
        >>> from dcurate.text.filters.words import WordCountFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["two words", "one"]}))
        >>> Score(WordCountFilter(), "words").process(batch).to_pandas()["words"].tolist()
        [2, 1]
    """

    score_fn: Rule | list[Rule]
    score_field: str | list[str]
    text_field: str | list[str] = "text"
    name: str = "score_fn"

    several: ClassVar[tuple[str, ...]] = ("text_field", "score_field")

    def __post_init__(self) -> None:
        rules = self._rules
        self.name = chain_name(rules, "score", self.name, "score_fn")
        own_each(self.score_field, len(rules), "score_field")
        one_each(self.text_field, len(rules), "text_field")

    @property
    def _rules(self) -> list[Rule]:
        return checked(self.score_fn, "filter or function", is_rule)

    @property
    def _text_fields(self) -> list[str]:
        fields = one_each(self.text_field, len(self._rules), "text_field")
        return [column_of_rule(*pair) for pair in zip(self._rules, fields, strict=True)]

    def requires(self) -> dict[str, str]:
        return required_by(self._rules)

    def inputs(self) -> Spec:
        return ["data"], unique(self._text_fields)

    def outputs(self) -> Spec:
        return ["data"], unique(one_or_many(self.score_field))

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rules = self._rules
        run = FilterRun(task, needs_of(rules), gpu=self.resources.requires_gpu)
        for rule, text_field, score_field in zip(rules, self._text_fields, one_or_many(self.score_field), strict=True):
            scores = run.scores(rule, text_field)
            run.put(score_field, scores)
            run.record_scores(self.name, score_field, scores)
        return run.result()


@dataclass
class Filter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep the documents with a good score, read from a column.

    Args:
        filter_fn: a filter whose ``keep_document`` is used, a function of one value that answers true or false,
            or a list of these, applied in turn. An answer is taken as Python takes it, None and 0 as false; a text, a
            tuple, or what is neither true nor false (``pandas.NA``, an array) fails the row.
        filter_field: the column with the score; for a list of functions a list of as many.
        invert: swap kept and dropped documents; one for all, or a list.
        name: name of the stage; by default that of the filter, for a lambda that of the column.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["a", "b"], "score": [1, 5]}))
        >>> Filter(lambda score: score > 2, "score").process(batch).to_pandas()["text"].tolist()
        ['b']
    """

    filter_fn: Rule | list[Rule]
    filter_field: str | list[str]
    invert: bool | list[bool] = False
    name: str = "filter_fn"

    several: ClassVar[tuple[str, ...]] = ("filter_field",)

    def __post_init__(self) -> None:
        rules = self._rules
        self.name = chain_name(rules, "filter", self.name, "filter_fn", one_or_many(self.filter_field))
        own_each(self.filter_field, len(rules), "filter_field")
        one_each(self.invert, len(rules), "invert")

    @property
    def _rules(self) -> list[Rule]:
        return checked(self.filter_fn, "filter or function", is_rule)

    def inputs(self) -> Spec:
        return ["data"], unique(one_or_many(self.filter_field))

    def made_by(self, column: str) -> str:
        return maker_of(self._rules, column)

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rules = self._rules
        run, counts = FilterRun(task, Needs()), Counter[str]()
        inverts = one_each(self.invert, len(rules), "invert")
        for rule, column, invert in zip(rules, one_or_many(self.filter_field), inverts, strict=True):
            scores = run.numbers(column) if isinstance(rule, SignalFilter | NumberFilter) else run.column(column)
            kept = run.kept(rule, scores) ^ invert
            if not isinstance(rule, DocumentFilter) and len(scores) and not kept.any() and not invert:
                unanswered = sum(score is not None and rule(score) is None for score in scores)
                counts.update({UNANSWERED: unanswered} if unanswered == len(scores) else {})
            name = name_of(rule, column)
            run.record_scores(self.name, name, scores, kept)
            run.drop(Verdict(scores, kept, ""), self.name, name)
        return replace(run.result(), found=counts)

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return a sentence about batches for which a function gave None each time: it may lack a ``return``."""
        more = super().remarks(found)
        if not found.get(UNANSWERED):
            return more
        return [
            *more,
            f"the function of stage {self.name!r} gave None for all {found[UNANSWERED]:,} values of some batches, "
            "whose rows were dropped; if that is not meant, have it return True or False",
        ]


@dataclass
class ScoreFilter(RuleStage[DocumentBatch]):
    """Score each document and drop it if the score is bad.

    Args:
        filter_obj: the filter, or a list of filters applied in turn, each to the documents the previous one kept.
        text_field: the column that is scored; one for all, or a list.
        score_field: a column to keep the score in, or None; for several filters a list of as many.
        invert: swap kept and dropped documents; one for all, or a list.
        name: name of the stage; by default that of the filter.

    Dropped rows leave the batch as rejected by this stage, with the name of the filter as the reason. Stages with
    built-in filters that follow one another on the same column are merged into one that passes over the text once.

    Examples:
        >>> import pandas as pd
        >>> from dcurate.text.filters.words import WordCountFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["two words", "one"]}))
        >>> kept = ScoreFilter(WordCountFilter(min_words=2), score_field="words").process(batch)
        >>> kept.to_pandas().to_dict("records"), kept.rejections[0].reason
        ([{'text': 'two words', 'words': 2}], 'word_count')
    """

    filter_obj: DocumentFilter | list[DocumentFilter]
    text_field: str | list[str] = "text"
    score_field: str | list[str] | list[str | None] | None = None
    invert: bool | list[bool] = False
    name: str = "score_filter"
    #: The columns that later stages look at, if that is known.
    _read_later: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    several: ClassVar[tuple[str, ...]] = ("text_field", "score_field")

    def __post_init__(self) -> None:
        rules = self.filters
        self.name = chain_name(rules, "score_filter", self.name, "score_filter")
        one_each(self.text_field, len(rules), "text_field")
        one_each(self.invert, len(rules), "invert")
        if one_or_many(self.score_field) != [None] and len(one_or_many(self.score_field)) == 1:
            own_each(self.score_field, len(rules), "score_field")

    @property
    def filters(self) -> list[DocumentFilter]:
        """The filters, in order."""
        return checked(self.filter_obj, "filter", is_filter)

    @property
    def _rules(self) -> list[DocumentFilter]:
        return self.filters

    @property
    def _text_fields(self) -> list[str]:
        fields = one_each(self.text_field, len(self.filters), "text_field")
        return [column_of_rule(*pair) for pair in zip(self.filters, fields, strict=True)]

    @property
    def _score_fields(self) -> list[str | None]:
        return one_each(self.score_field, len(self.filters), "score_field")

    def requires(self) -> dict[str, str]:
        return required_by(self.filters)

    def inputs(self) -> Spec:
        return ["data"], unique(self._text_fields)

    def outputs(self) -> Spec:
        return ["data"], unique(self._score_fields)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        run = FilterRun(task, needs_of(self.filters), gpu=self.resources.requires_gpu)
        self.apply(run)
        return run.result(self._read_later)

    def adapted(self, needs: RowNeeds) -> Self:
        """Return the filter that leaves texts in the lines of rows where no later stage looks at their columns."""
        stage = copy.copy(self)
        stage._read_later = needs.columns
        return stage

    def apply(self, run: FilterRun) -> None:
        """Score and drop in a pass that other stages may share."""
        rules = self.filters
        inverts = one_each(self.invert, len(rules), "invert")
        for rule, text_field, score_field, invert in zip(
            rules, self._text_fields, self._score_fields, inverts, strict=True
        ):
            scores = run.scores(rule, text_field)
            if score_field is not None:
                run.put(score_field, scores)
            kept = run.kept(rule, scores) ^ invert
            run.record_scores(self.name, rule.name, scores, kept)
            run.drop(Verdict(scores, kept, text_field), self.name, rule.name)

    def fuse_with(self, following: AnyStage) -> MergedScoreFilter | None:
        return MergedScoreFilter((self,)).fuse_with(following) if self.shared_field() is not None else None

    def shared_field(self) -> str | None:
        """The column that all filters read, if they are built in and do not change it; otherwise None.

        A class of a user is not merged: its `process` may do more than the one that it extends.
        """
        fields = set(self._text_fields)
        if not self.declares_columns or len(fields) > 1 or fields & set(self._score_fields):
            return None
        return fields.pop() if all(map(by_signals, self.filters)) else None


@dataclass
class MergedScoreFilter(RuleStage[DocumentBatch]):
    """Run several `ScoreFilter` stages in turn, in one pass over the text.

    Rows, score columns and rejections are those of the stages in turn: a row is dropped by the first filter, in the
    order written, that it fails, and that filter's stage is named. Signals are computed when the first filter needs
    them, for the rows that are left by then, and n-grams of all sizes together.
    """

    stages: tuple[ScoreFilter, ...]
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or short("+".join(stage.name for stage in self.stages))
        self.resources = self.stages[0].resources
        self.batch_size = self.stages[0].batch_size
        self.spec = self.stages[0].spec

    @property
    def parts(self) -> tuple[AnyStage, ...]:
        return self.stages

    @property
    def _rules(self) -> list[DocumentFilter]:
        return [rule for stage in self.stages for rule in stage.filters]

    def inputs(self) -> Spec:
        return ["data"], self.stages[0].inputs()[1]

    def outputs(self) -> Spec:
        return ["data"], unique(name for stage in self.stages for name in stage.outputs()[1])

    def num_workers(self) -> int | None:
        return self.stages[0].num_workers()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        run = FilterRun(task, needs_of(self._rules), gpu=self.resources.requires_gpu)
        for stage in self.stages:
            stage.apply(run)
        return run.result(self.stages[-1]._read_later)

    def fuse_with(self, following: AnyStage) -> MergedScoreFilter | None:
        if not isinstance(following, ScoreFilter) or following.shared_field() != self.stages[0].shared_field():
            return None
        alike = all(
            (stage.resources, stage.batch_size, stage.num_workers(), stage.spec)
            == (following.resources, following.batch_size, following.num_workers(), following.spec)
            for stage in self.stages
        )
        return MergedScoreFilter((*self.stages, following)) if alike else None
