"""Evaluate translations with a model."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from dcurate.core.stage import Spec
from dcurate.endpoints.batch_client import Outcome
from dcurate.endpoints.config import Answer, GenerationConfig, Question, Request
from dcurate.endpoints.generate import Generate
from dcurate.endpoints.structured import first_object
from dcurate.errors import PipelineError
from dcurate.frames.columns import values, with_column, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.text.extract.stop_words import language_name

#: The marks that FAITH gives, from 1 to 5, and the columns for them.
MARKS: Mapping[str, str] = {
    "Fluency": "faith_fluency",
    "Accuracy": "faith_accuracy",
    "Idiomaticity": "faith_idiomaticity",
    "Terminology": "faith_terminology",
    "Handling_of_Format": "faith_handling_of_format",
}
AVERAGE, PARSE_FAILED, SEGMENT_SCORES = "faith_avg", "faith_parse_failed", "faith_segment_scores"

JUDGE = (
    "You teach {target_language} and judge translations from {source_language} into it. Give five marks, each from 1 "
    "(poor) to 5 (excellent), or 0 where one does not apply: Fluency, whether it reads as if written in "
    "{target_language}; "
    "Accuracy, whether it says what the source says; Idiomaticity, whether its phrases are those that a native speaker "
    "would use; Terminology, whether terms of a field are rendered rightly; Handling_of_Format, whether punctuation, "
    "capitals, numbers, tags and code came through. Answer with one JSON object and nothing else: "
    '{{"Fluency": n, "Accuracy": n, "Idiomaticity": n, "Terminology": n, "Handling_of_Format": n}}'
)
TO_JUDGE = "Source ({source_language}):\n{source}\n\nTranslation ({target_language}):\n{translation}"

_Pair: TypeAlias = Mapping[str, str]
_Scores: TypeAlias = dict[str, float]


@dataclass
class FilterByFaith(Generate):
    """Score translations with a model by five criteria (FAITH), and drop those with a low average.

    Columns are ``faith_fluency``, ``faith_accuracy``, ``faith_idiomaticity``, ``faith_terminology`` and
    ``faith_handling_of_format``, their average ``faith_avg``, ``faith_parse_failed`` where an answer could not be read,
    and ``faith_segment_scores``, the marks of each piece as JSON. A mark of 0 does not apply, and counts in no average.
    Rows that could not be judged stay.

    Args:
        source_language: language of the texts, as in `Translate`.
        target_language: language of the translations, as in `Translate`.
        source_text_field: the column with the text.
        translated_text_field: the column with its translation.
        threshold: the lowest average that stays.
        filter_enabled: False to drop none.
        pairs_field: a column with segments and their translations, to be scored one by one instead; it is dropped.

    Other arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = FilterByFaith(client=client, model="llama", source_language="en", target_language="de")
        >>> stage.outputs()[1][5:]
        ['faith_avg', 'faith_parse_failed', 'faith_segment_scores']
    """

    source_language: str = ""
    target_language: str = ""
    source_text_field: str = "text"
    translated_text_field: str = "translated_text"
    threshold: float = 2.5
    filter_enabled: bool = True
    pairs_field: str | None = None
    name: str = "FilterByFaith"

    def __post_init__(self) -> None:
        for argument in ("source_language", "target_language"):
            if not getattr(self, argument).strip():
                raise PipelineError(f"{self.name}: {argument}= must name a language, such as 'en'")
        self.system_prompt = JUDGE if self.system_prompt is None else self.system_prompt
        self.prompt = TO_JUDGE if self.prompt is None else self.prompt
        self.output_field = AVERAGE
        if self.generation_config is None:
            self.generation_config = GenerationConfig(temperature=0.0, max_tokens=256)
        super().__post_init__()

    @property
    def _read(self) -> list[str]:
        return [self.source_text_field, self.translated_text_field] if self.pairs_field is None else [self.pairs_field]

    @property
    def _added(self) -> list[str]:
        return [*MARKS.values(), AVERAGE, PARSE_FAILED, SEGMENT_SCORES]

    def outputs(self) -> Spec:
        return ["data"], self._added

    def dropped_columns(self) -> Sequence[str]:
        return [] if self.pairs_field is None else [self.pairs_field]

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        pairs = [self._pairs(task) for task in tasks]
        rows = list(itertools.chain.from_iterable(pairs))
        outcomes = iter(self._ask(list(itertools.chain.from_iterable(map(self._requests, rows)))))
        judged = iter([[_scores(outcome) for outcome in itertools.islice(outcomes, len(row))] for row in rows])
        return [self._judged(task, list(itertools.islice(judged, task.num_items))) for task in tasks]

    def _pairs(self, task: DocumentBatch) -> list[list[_Pair]]:
        table = task.to_arrow()
        if self.pairs_field is not None:
            return [json.loads(pairs) if pairs else [] for pairs in values(table, self.pairs_field)]
        both = zip(values(table, self.source_text_field), values(table, self.translated_text_field), strict=True)
        return [[{"src": src or "", "tgt": tgt or ""}] if (src or tgt) else [] for src, tgt in both]

    def _requests(self, row: Sequence[_Pair]) -> Iterator[Question]:
        names = {"source_language": self.source_language, "target_language": self.target_language}
        languages = {name: language_name(code) or code for name, code in names.items()}
        config = self._config()
        for pair in row:
            values = {**languages, "source": pair["src"], "translation": pair["tgt"]}
            yield Request(self._messages(values), str(self.model), config)

    def _judged(self, task: DocumentBatch, rows: list[list[_Scores | None]]) -> DocumentBatch:
        table: Any = task.to_arrow()
        means = [_means([scores for scores in row if scores is not None]) for row in rows]
        for mark, column in MARKS.items():
            table = with_column(table, column, np.array([mean[mark] for mean in means], np.float64))
        averages = np.array([_mean(mean.values()) for mean in means], np.float64)
        failed = np.array([any(scores is None for scores in row) for row in rows], np.bool_)
        table = with_column(table, AVERAGE, averages)
        table = with_column(table, PARSE_FAILED, failed)
        table = with_text(table, SEGMENT_SCORES, [json.dumps([scores or {} for scores in row]) for row in rows])
        if self.pairs_field is not None:
            table = table.drop_columns([self.pairs_field])
        judged = replace(task, data=table, rejections=(), found={})
        if not self.filter_enabled:
            return judged
        unjudged = np.array([not row for row in rows], np.bool_)
        return judged.keep((averages >= self.threshold) | failed | unjudged, self.name, AVERAGE)


def _scores(outcome: Outcome) -> _Scores | None:
    """The scores in an answer; None if it cannot be parsed."""
    parsed = first_object(outcome.texts[0]) if isinstance(outcome, Answer) else None
    if parsed is None:
        return None
    marks = {mark: parsed.get(mark) for mark in MARKS}
    return {
        mark: float(value) if isinstance(value, int | float) and 0 < value <= 5 else 0.0
        for mark, value in marks.items()
    }


def _means(pieces: Sequence[_Scores]) -> _Scores:
    return {mark: round(_mean(scores[mark] for scores in pieces), 2) for mark in MARKS}


def _mean(marks: Iterator[float] | Any) -> float:
    """The mean of the scores that apply.

    Examples:
        >>> _mean([4.0, 0.0, 5.0]), _mean([])
        (4.5, 0.0)
    """
    applicable = [mark for mark in marks if mark > 0]
    return sum(applicable) / len(applicable) if applicable else 0.0
