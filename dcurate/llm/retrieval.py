"""Filters of generated questions for retrieval: kept if their texts answer them, and not too easily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import Spec
from dcurate.endpoints.generate import Generate, Result
from dcurate.errors import PipelineError
from dcurate.frames.columns import numbers, values, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.llm.embedding import EndpointEmbedding

JUDGE = (
    "You judge questions for a search test. A question is good if the text answers it. Answer with one JSON object and "
    "nothing else."
)
TO_JUDGE = (
    "Text:\n{text}\n\nQuestion: {question}\n\n"
    'Say "Y" or "N" for each: criterion_1, the question can be answered from the text alone; criterion_2, it makes '
    'sense without the text before one\'s eyes, and does not speak of "the text" or "the author".'
)
YES = "Y"


@dataclass
class FilterByAnswerability(Generate):
    """Keep questions that meet all criteria, as judged by a model.

    Args:
        system_prompt: system message of the judge; ``prompt`` is the user message, with the columns in braces.
        num_criteria: how many it is to give, ``criterion_1`` and so on, each ``"Y"`` or ``"N"``; they become columns.
        keep_all: also keep those that fail, for inspection.

    Other arguments are those of `Generate`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = FilterByAnswerability(client=client, model="llama")
        >>> stage.inputs()[1], stage.outputs()[1]
        (['text', 'question'], ['criterion_1', 'criterion_2'])
    """

    system_prompt: str | None = JUDGE
    prompt: str | None = TO_JUDGE
    num_criteria: int = 2
    keep_all: bool = False
    name: str = "answerability"

    def __post_init__(self) -> None:
        if self.num_criteria < 1:
            raise PipelineError(f"{self.name}: num_criteria={self.num_criteria} must be at least 1")
        self.schema = {f"criterion_{n + 1}": {"enum": [YES, "N"]} for n in range(self.num_criteria)}
        super().__post_init__()

    def _placed(self, task: DocumentBatch, results: list[Result]) -> DocumentBatch:
        judged = super()._placed(task, results)
        if self.keep_all:
            return judged
        table = judged.to_arrow()
        answers = [values(table, name) for name in self._added if name.startswith("criterion_")]
        kept = judged.keep(
            np.array([set(row) == {YES} for row in zip(*answers, strict=True)], np.bool_), self.name, self.name
        )
        return replace(kept, rejections=judged.rejections + kept.rejections)


@dataclass
class FilterByEasiness(EndpointEmbedding):
    """Drop questions that are too similar to the text that answers them, because any search finds it.

    Args:
        text_fields: the columns with the text and with the question.
        max_similarity: cosine of their embeddings above which a question is dropped; None to keep all and look at the
            ``similarity_field`` first. (The percentile of NeMo Curator's old filter depended on how rows fell into
            batches.)
        similarity_field: the column for the cosine.

    Other arguments are those of `EndpointEmbedding`.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> FilterByEasiness(client, "bge-m3", max_similarity=0.8).outputs()[1]
        ['easiness']
    """

    text_fields: Sequence[str] = ("text", "question")
    max_similarity: float | None = None
    similarity_field: str = "easiness"
    name: str = "easiness"

    def inputs(self) -> Spec:
        return ["data"], list(self.text_fields)

    def outputs(self) -> Spec:
        return ["data"], [self.similarity_field]

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        return [self._compared(task) for task in tasks]

    def _compared(self, task: DocumentBatch) -> DocumentBatch:
        table: Any = task.to_arrow()
        rows = table.num_rows
        both = [text or "" for name in self.text_fields for text in values(table, name)]
        vectors, failures = self._embedded(both)
        cosines = _cosines(vectors[:rows], vectors[rows:])
        with_scores = with_column(table, self.similarity_field, cosines)
        scored = self._settled(task, with_scores, {number % rows: failure for number, failure in failures.items()})
        if self.max_similarity is None:
            return scored
        kept = scored.keep(
            numbers(scored.to_arrow(), self.similarity_field) <= self.max_similarity, self.name, self.name
        )
        return replace(kept, rejections=scored.rejections + kept.rejections)


def _cosines(some: npt.NDArray[np.float32], counterparts: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Cosine similarities of the rows of two matrices; 0 for zero vectors."""
    first, second = some.astype(np.float64), counterparts.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: npt.NDArray[np.float64] = (first * second).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    return cosines
