"""Annotate once, filter many times: store the verdicts of rules, and filter by them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np

from dcurate.core.stage import Spec
from dcurate.errors import PipelineError
from dcurate.frames.columns import with_constant, with_texts_each
from dcurate.frames.document import DocumentBatch
from dcurate.text.filter import DocumentFilter
from dcurate.text.filter_run import FilterRun
from dcurate.text.number_filter import column_of_rule
from dcurate.text.rules import RuleStage, checked, is_filter, needs_of, unique
from dcurate.text.score import Filter


@dataclass
class Annotate(RuleStage[DocumentBatch]):
    """Store the verdict of every rule on every document, and drop none.

    Each rule's score goes into a column named after the rule. Another column lists the rules that a document fails, in
    order: it is empty if the document would be kept, and its first rule is the one for which `ScoreFilter` would drop
    it. A third column stores the rules with their thresholds.

    `refilter` drops documents by these columns, with the same or other thresholds, without the text.

    Args:
        rules: filters, such as `dcurate.text.presets.gopher` gives.
        text_field: the column that is scored.
        prefix: comes before the name of every new column.
        failed_field: the column for the names of failed rules.
        rules_field: the column for the rules, or None; it is the same in each row, which takes space in JSONL.

    Raises:
        PipelineError: two rules share a name.

    Examples:
        >>> import pandas as pd
        >>> from dcurate.text.filters.words import MeanWordLengthFilter, WordCountFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["two words", "a"]}))
        >>> found = Annotate([WordCountFilter(min_words=2), MeanWordLengthFilter()]).process(batch)
        >>> found.to_arrow().select(["word_count", "mean_word_length", "failed"]).to_pylist()[0]
        {'word_count': 2, 'mean_word_length': 4.0, 'failed': []}
        >>> found.to_arrow()["failed"].to_pylist()[1]
        ['word_count', 'mean_word_length']
        >>> refilter([WordCountFilter(min_words=1)]).process(found).num_items
        2
    """

    rules: Sequence[DocumentFilter]
    text_field: str = "text"
    prefix: str = ""
    failed_field: str = "failed"
    rules_field: str | None = "rules"
    name: str = "annotate"

    def __post_init__(self) -> None:
        columns = self._columns()
        shared = [column for column in dict.fromkeys(columns) if columns.count(column) > 1]
        if shared:
            raise PipelineError(
                f"{self.name}: two columns would be called {shared[0]!r}; annotate in two stages with different prefix="
            )

    @property
    def _rules(self) -> list[DocumentFilter]:
        return checked(self.rules, "filter", is_filter)

    def _columns(self) -> list[str]:
        named = [rule.name for rule in self._rules] + [self.failed_field]
        return [self.prefix + name for name in (*named, *([self.rules_field] if self.rules_field else []))]

    def inputs(self) -> Spec:
        return ["data"], unique(column_of_rule(rule, self.text_field) for rule in self._rules)

    def outputs(self) -> Spec:
        return ["data"], self._columns()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rules = self._rules
        run = FilterRun(task, needs_of(rules), gpu=self.resources.requires_gpu)
        failed: list[list[str]] = [[] for _ in range(task.num_items)]
        for rule in rules:
            scores = run.scores(rule, self.text_field)
            if self.prefix + rule.name != column_of_rule(rule, ""):  # a number that is there keeps its type and nulls
                run.put(self.prefix + rule.name, scores)
            for row in np.flatnonzero(~run.kept(rule, scores)):
                failed[row].append(rule.name)
        table = with_texts_each(run.result().to_arrow(), self.prefix + self.failed_field, failed)
        if self.rules_field:
            table = with_constant(table, self.prefix + self.rules_field, described(rules))
        return task.with_data(table)


def described(rules: Sequence[DocumentFilter]) -> str:
    """The rules and their thresholds as JSON: for each by name its class and arguments.

    Examples:
        >>> from dcurate.text.filters.words import MeanWordLengthFilter
        >>> described([MeanWordLengthFilter(max_mean_word_length=12)])[:60]
        '{"mean_word_length": {"MeanWordLengthFilter": {"min_mean_wor'
    """
    return json.dumps({rule.name: {type(rule).__name__: _arguments(rule)} for rule in rules}, default=str)


def _arguments(rule: Any) -> dict[str, Any]:
    if is_dataclass(rule) and not isinstance(rule, type):
        return asdict(rule)
    return {key: value for key, value in vars(rule).items() if not key.startswith("_")}


def refilter(rules: Sequence[DocumentFilter], prefix: str = "", name: str = "refilter") -> Filter:
    """Make a stage that drops documents by the scores stored by `Annotate`, for the same reasons as `ScoreFilter`.

    It reads no text: read only the columns that it needs (``ParquetReader(..., fields=["id", "word_count"])``).
    Thresholds may differ from those at annotation; other settings of a rule may not.

    Args:
        rules: the filters to apply, in order; fewer than were annotated will do.
        prefix: prefix of the column names.
        name: name of the stage.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch
        >>> from dcurate.text import WordCountFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["one", "two words"]}))
        >>> scored = Annotate([WordCountFilter(min_words=1)]).process(batch)
        >>> refilter([WordCountFilter(min_words=2)]).process(scored).to_pandas().text.tolist()
        ['two words']
    """
    filters = checked(rules, "filter", is_filter)
    return Filter(list(filters), [prefix + rule.name for rule in filters], name=name)
