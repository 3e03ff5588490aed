"""Embeddings of an endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import Rejection
from dcurate.core.extras import required_by
from dcurate.core.resources import Resources
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.endpoints.batch_client import BatchClient, Outcome
from dcurate.endpoints.config import Answer, EmbeddingRequest
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.generate import quarantined
from dcurate.endpoints.openai_client import AsyncOpenAIClient, OpenAIClient
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import column_of, rows_at
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import with_vectors

_Texts = tuple[tuple[int, ...], EmbeddingRequest]


@dataclass
class EndpointEmbedding(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Embed texts with an OpenAI-compatible endpoint, ``/v1/embeddings``.

    Several texts share a request, and several requests run concurrently. Vectors are float32 lists of equal length.
    A text that is null, empty or blank, which endpoints refuse, is not sent, and has a vector of zeros: it has no
    direction, and stages that compare embeddings leave it out.

    Args:
        client: client of the endpoint.
        model: name of the model at the endpoint.
        text_field: the column with the texts.
        embedding_field: the column for the vectors.
        texts_per_request: no request has more.
        max_chars: maximum number of characters of a text that are sent; None for all.
        dimensions: numbers in a vector, for a model that lets one choose.
        on_error: rows without a vector go to ``"quarantine"``, or ``"raise"`` ends the run.
        name: name of the stage.

    A request that is refused for its content is sent again text by text, so that one does not cost the others.

    Raises:
        PipelineError: arguments out of range.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> EndpointEmbedding(client, "bge-m3").outputs()[1]
        ['embeddings']
    """

    client: AsyncOpenAIClient | OpenAIClient
    model: str
    text_field: str = "text"
    embedding_field: str = "embeddings"
    texts_per_request: int = 64
    max_chars: int | None = None
    dimensions: int | None = None
    on_error: str = "quarantine"
    name: str = "endpoint_embedding"

    resources = Resources(cpus=0.25)

    def __post_init__(self) -> None:
        if not isinstance(self.client, AsyncOpenAIClient | OpenAIClient):
            raise PipelineError(f"{self.name}: client={self.client!r} must be an AsyncOpenAIClient or OpenAIClient")
        for name in ("texts_per_request", "max_chars", "dimensions"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise PipelineError(f"{self.name}: {name}={number} must be at least 1")
        if self.on_error not in ("quarantine", "raise"):
            raise PipelineError(
                f"{self.name}: on_error={self.on_error!r} is unknown{nearest(self.on_error, ('quarantine', 'raise'))}"
            )

    def requires(self) -> dict[str, str]:
        return required_by([self.client])

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.embedding_field]

    def settings(self) -> dict[str, Any]:
        """All settings except the address and the rate of requests."""
        without = ("client", "texts_per_request", "_batch_client", "_width")
        return {name: value for name, value in super().settings().items() if name not in without}

    def num_workers(self) -> int | None:
        """One slot if the client has limits and no number was set."""
        asked = super().num_workers()
        return 1 if asked is None and self.client.asynchronous().limits else asked

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._batch_client = BatchClient(self.client, slots=self.num_workers() or 1)
        self._width = self.dimensions

    def teardown(self) -> None:
        batch_client: BatchClient | None = vars(self).pop("_batch_client", None)
        if batch_client is not None:
            batch_client.close()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return self.process_batch([task])[0]

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        vectors, failures = self._embedded([text for task in tasks for text in self._texts(task)])
        answers, first = [], 0
        for task in tasks:
            last = first + task.num_items
            table: Any = task.to_arrow()
            if self.embedding_field in table.column_names:
                table = table.drop_columns([self.embedding_field])
            table = with_vectors(table, self.embedding_field, vectors[first:last])
            mine = {row - first: failure for row, failure in failures.items() if first <= row < last}
            answers.append(self._settled(task, table, mine))
            first = last
        return answers

    def _texts(self, task: DocumentBatch) -> list[str]:
        column = column_of(task.to_arrow(), self.text_field, text=True)
        return [(text or "")[: self.max_chars] for text in column.to_pylist()]

    def _embedded(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], dict[int, RequestError]]:
        """A vector for each text, and errors by the text's number."""
        full = [number for number, text in enumerate(texts) if text.strip()]
        asked = [self._request(texts, rows) for rows in _cut(full, self.texts_per_request)]
        vectors: dict[int, bytes] = {}
        failures: dict[int, RequestError] = {}
        while asked:
            outcomes = self._ask([request for _, request in asked])
            alone: list[_Texts] = []
            for (rows, _), outcome in zip(asked, outcomes, strict=True):
                if isinstance(outcome, Answer):
                    vectors.update(zip(rows, outcome.vectors, strict=True))
                elif isinstance(outcome, RequestError) and len(rows) > 1 and not outcome.again:
                    alone += [self._request(texts, (row,)) for row in rows]
                elif isinstance(outcome, RequestError):
                    failures.update(dict.fromkeys(rows, outcome))
            asked = alone
        width = self._width or _usual_width(vectors)
        if not width and len(failures) < len(texts):  # texts that are blank: their zeros need the width of others
            learnt = self._learnt_width()
            if isinstance(learnt, RequestError):
                return np.zeros((len(texts), 1), np.float32), dict.fromkeys(range(len(texts)), learnt) | failures
            width = learnt
        self._width = width or None
        matrix = np.zeros((len(texts), max(1, width)), np.float32)  # without a width, no row stays
        for row, vector in vectors.items():
            numbers = np.frombuffer(vector, np.float32)
            if len(numbers) == width:
                matrix[row] = numbers
            else:
                sentence = f"model {self.model!r} gave {len(numbers)} numbers, and {width} for other texts"
                failures[row] = RequestError(sentence, "unreadable answer")
        return matrix, failures

    def _ask(self, requests: Sequence[EmbeddingRequest]) -> list[Outcome]:
        try:
            return self._batch_client.ask(requests, stop_at_failure=False)
        finally:
            self._log_metrics(self._batch_client.take_counts())

    def _request(self, texts: Sequence[str], rows: tuple[int, ...]) -> _Texts:
        return rows, EmbeddingRequest(tuple(texts[row] for row in rows), self.model, self.dimensions)

    def _learnt_width(self) -> int | RequestError:
        """The length of the model's vectors, if no text has one yet."""
        outcome = self._ask([EmbeddingRequest(("text",), self.model, self.dimensions)])[0]
        if isinstance(outcome, Answer):
            return len(outcome.vectors[0]) // 4
        return outcome or RequestError("no vector was returned", "empty answer")

    def _settled(self, task: DocumentBatch, table: Any, failures: dict[int, RequestError]) -> DocumentBatch:
        """The batch with other columns; rows without a vector are handled by ``on_error``."""
        if failures and self.on_error == "raise":
            raise next(iter(failures.values()))
        rejections = list[Rejection]()
        if failures:
            rejections = list(quarantined(self.name, task.to_arrow(), failures))
            kept = [row for row in range(task.num_items) if row not in failures]
            table = rows_at(table, np.array(kept, np.int64))
        return replace(task, data=table, rejections=tuple(rejections), found={})


def _usual_width(vectors: Mapping[int, bytes]) -> int:
    """The length that most vectors have; 0 if there are none."""
    widths = Counter(len(vector) // 4 for vector in vectors.values())
    return max(sorted(widths), key=lambda width: widths[width], default=0)


def _cut(rows: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]
