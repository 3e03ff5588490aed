"""The stage that calls a language model for each row; the other stages of this package are built on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.extras import required_by
from dcurate.core.resources import Resources
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.endpoints.batch_client import BatchClient, Outcome
from dcurate.endpoints.client import AsyncLLMClient, LLMClient
from dcurate.endpoints.config import Answer, GenerationConfig, Messages, Question, Request
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.images import Picture, content, pictures_of
from dcurate.endpoints.prompt import Prompt
from dcurate.endpoints.structured import AnswerSchema
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import rows_at, values, with_text, with_texts_each
from dcurate.frames.document import DocumentBatch

#: The column with the error of rows in quarantine.
ERROR = "_dcurate_error"

ON_ERROR = ("quarantine", "null", "raise")
SAMPLES = ("list", "rows")

#: What a row comes to: its texts, or its values by column, one for each sample; or how it failed; or nothing.
Result: TypeAlias = list[Any] | RequestError | None


@dataclass
class Generate(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Call a language model for each row, and store its answer in a column.

    Many rows are asked about at once, those of a batch together (``.with_(batch_size=8)``: those of eight), and answers
    come in the order of the rows. Equal questions with a seed are asked once in a call.

    Args:
        system_prompt: the system message, or None.
        prompt: the user message. ``{column}`` is replaced by the row's value, ``{{`` by a brace.
        input_field: the column for ``{document}``.
        images_field: a column of pictures that go before the prompt: ``media_ref``, bytes of PNG, JPEG, GIF or WebP
            files, or addresses, or lists of these. They are sent as data URLs. A row without any is not asked about.
        output_field: the column for the answer; not with a ``schema``.
        client: an `AsyncOpenAIClient`, or another.
        model: name of the model at the endpoint.
        generation_config: how to answer; a `GenerationConfig` or a mapping of its fields.
        schema: the answer is a JSON object with these properties: a JSON Schema, see `AnswerSchema`. Each becomes a
            column.
        send_schema: whether to send the schema to the endpoint, which most support; if not, describe it in the prompt.
        samples: with ``n`` above 1 in the configuration: ``"list"`` for a list of answers in each row, ``"rows"`` for a
            row for each answer.
        on_error: rows that have no usable answer go to ``"quarantine"``, or stay with a ``"null"``, or ``"raise"`` ends
            the run at the first.
        error_field: with ``"null"``: a column for the error, null if there was none.
        startup_s: seconds to wait for an endpoint that is still starting; None to ask it nothing before the first row.
        name: name of the stage.

    Rows in which all columns of the prompt are null are not asked about, and have a null answer. A key that is refused
    or a model that is not there ends the run, as do `GIVE_UP_AFTER` failures in a row.

    Raises:
        PipelineError: arguments that do not fit together.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> stage = Generate(
        ...     prompt="Rate how much one learns from this, from 1 to 5: {text}",
        ...     schema={"score": {"type": "integer", "minimum": 1, "maximum": 5}},
        ...     client=AsyncOpenAIClient(base_url="http://localhost:8000/v1"),
        ...     model="llama",
        ... )
        >>> stage.inputs()[1], stage.outputs()[1]
        (['text'], ['score'])
    """

    system_prompt: str | None = None
    prompt: str | None = None
    input_field: str | None = None
    output_field: str | None = None
    client: AsyncLLMClient | LLMClient | None = None
    model: str | None = None
    generation_config: GenerationConfig | Mapping[str, Any] | None = None
    name: str = "generate"
    schema: Mapping[str, Any] | None = None
    send_schema: bool = True
    samples: str = "list"
    on_error: str = "quarantine"
    error_field: str | None = None
    startup_s: float | None = None
    images_field: str | None = None

    resources = Resources(cpus=0.25)

    def __post_init__(self) -> None:
        self._check_client()
        if not self.prompt:
            raise PipelineError(
                f"{self.name}: prompt= is empty; write a prompt, with {{column}} for the value of a column"
            )
        for argument, allowed in (("on_error", ON_ERROR), ("samples", SAMPLES)):
            value = getattr(self, argument)
            if value not in allowed:
                raise PipelineError(f"{self.name}: {argument}={value!r} is unknown{nearest(str(value), allowed)}")
        if (self.output_field is None) == (self.schema is None):
            raise PipelineError(f"{self.name}: give output_field= for the answer as text, or schema= for its parts")
        if self.error_field is not None and self.on_error != "null":
            raise PipelineError(f"{self.name}: error_field={self.error_field!r} is filled with on_error='null' only")
        config = GenerationConfig.of(self.generation_config)
        if self.schema is not None and config.samples > 1 and self.samples == "list":
            raise PipelineError(f"{self.name}: with schema= several answers are rows; give samples='rows'")
        for name in self._added:
            if self._added.count(name) > 1:
                raise PipelineError(f"{self.name}: two new columns would be called {name!r}")
        _ = self._prompts  # so that a wrong one is refused here

    def _check_client(self) -> None:
        if not isinstance(self.client, AsyncLLMClient | LLMClient):
            raise PipelineError(
                f"{self.name}: client={self.client!r} is not a client; pass an AsyncOpenAIClient(base_url=...)"
            )
        if not self.model:
            raise PipelineError(f"{self.name}: model= must name the model")

    # What it reads and adds

    @property
    def _prompts(self) -> tuple[Prompt | None, Prompt]:
        system = _prompt(self.system_prompt, self.input_field) if self.system_prompt else None
        return system, _prompt(self.prompt or "", self.input_field)

    @property
    def _answers(self) -> AnswerSchema | None:
        return AnswerSchema(self.schema) if self.schema is not None else None

    @property
    def _added(self) -> list[str]:
        parsed = self._answers
        columns = parsed.columns if parsed is not None else [str(self.output_field)]
        return [*columns, *([self.error_field] if self.error_field is not None else [])]

    @property
    def _read(self) -> list[str]:
        columns = itertools.chain.from_iterable(prompt.columns for prompt in self._prompts if prompt is not None)
        return list(dict.fromkeys(columns))

    def requires(self) -> dict[str, str]:
        return required_by([self.client])

    def inputs(self) -> Spec:
        return ["data"], [*self._read, *([self.images_field] if self.images_field is not None else [])]

    def columns_read(self) -> None:
        """None: a row may become several, which have the values of its other columns."""

    def outputs(self) -> Spec:
        return ["data"], self._added

    def settings(self) -> dict[str, Any]:
        """All settings except the address and the rate of requests, which do not affect the rows."""
        without = ("client", "startup_s", "_batch_client", *(["images_field"] if self.images_field is None else []))
        return {name: value for name, value in super().settings().items() if name not in without}

    def num_workers(self) -> int | None:
        """One slot if the client has limits and no number was set, because the limits are those of the run."""
        limited = bool(self.client and self.client.asynchronous().limits)
        if limited and self.spec.num_workers_per_node is not None:
            raise PipelineError(
                f"stage {self.name!r}: limits per minute need a known number of slots; give num_workers= instead of "
                "num_workers_per_node="
            )
        asked = super().num_workers()
        return 1 if limited and asked is None else asked

    # What it does

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        client = self.client
        assert client is not None, "a stage without a client is refused when it is made"
        self._batch_client = BatchClient(client, slots=self.num_workers() or 1)
        if self.startup_s is not None:
            models = self._batch_client.wait_for_endpoint(self.startup_s)
            known = {name for model in models or () for name in (model, model.partition(":")[0])}  # Ollama's tags
            if known and self.model not in known:
                raise PipelineError(
                    f"stage {self.name!r}: the endpoint has no model {self.model!r}"
                    f"{nearest(str(self.model), models or ())}"
                )

    def teardown(self) -> None:
        batch_client: BatchClient | None = vars(self).pop("_batch_client", None)
        if batch_client is not None:
            batch_client.close()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return self.process_batch([task])[0]

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        questions = [list(self._questions(task)) for task in tasks]
        outcomes = iter(self._outcomes(list(itertools.chain.from_iterable(questions))))
        return [
            self._answered(task, list(itertools.islice(outcomes, len(asked))))
            for task, asked in zip(tasks, questions, strict=True)
        ]

    def _outcomes(self, questions: Sequence[Question | RequestError | None]) -> list[Outcome]:
        """The outcome of each request; of one that could not be made, why."""
        answers = self._ask([None if isinstance(asked, RequestError) else asked for asked in questions])
        return [
            asked if isinstance(asked, RequestError) else answer
            for asked, answer in zip(questions, answers, strict=True)
        ]

    def _ask(self, questions: Sequence[Question | None]) -> list[Outcome]:
        try:
            return self._batch_client.ask(questions, stop_at_failure=self.on_error == "raise")
        finally:
            self._log_metrics(self._batch_client.take_counts())

    def _questions(self, task: DocumentBatch) -> Iterator[Question | RequestError | None]:
        config = self._config()
        table = task.to_arrow()
        columns = {name: values(table, name) for name in self._read}
        shown = None if self.images_field is None else pictures_of(table, self.images_field)
        for number in range(table.num_rows):
            row = {name: column[number] for name, column in columns.items()}
            pictures = shown[number] if shown is not None else None
            if (columns and all(value is None for value in row.values())) or pictures == []:
                yield None
                continue
            if isinstance(pictures, RequestError):
                yield pictures
                continue
            try:
                messages = self._messages(row) if pictures is None else self._with_pictures(row, pictures)
            except RequestError as error:
                yield error
            else:
                yield Request(messages, str(self.model), self._config_of(row, config))

    def _with_pictures(self, row: Mapping[str, Any], pictures: Sequence[Picture]) -> Messages:
        *before, asked = self._messages(row)
        return (*before, {**asked, "content": content(str(asked["content"]), pictures)})

    def _config(self) -> GenerationConfig:
        """The generation parameters, and the response format."""
        config, parsed = GenerationConfig.of(self.generation_config), self._answers
        if parsed is None or not self.send_schema:
            return config
        return replace(
            config, extra_kwargs={"response_format": parsed.response_format(), **(config.extra_kwargs or {})}
        )

    def _config_of(self, row: Mapping[str, Any], config: GenerationConfig) -> GenerationConfig:
        """The generation parameters for one row."""
        return config

    def _messages(self, row: Mapping[str, Any]) -> Messages:
        """The messages for a row."""
        system = self._prompts[0]
        messages = [{"role": "system", "content": system.filled(row)}] if system is not None else []
        return (*messages, {"role": "user", "content": self._process_llm_prompt(row)})

    def _process_llm_prompt(self, sample: Mapping[str, Any]) -> str:
        """The prompt for a row; override it for prompts beyond templates."""
        return self._prompts[1].filled(sample)

    def _process_llm_response(self, response: list[str]) -> str:
        """Extract the result from an answer, passed as a list of one; override it to parse the text.

        Raises:
            RequestError: the answer cannot be used.
        """
        return response[0]

    def _result(self, outcome: Outcome, parsed: AnswerSchema | None) -> Result:
        if not isinstance(outcome, Answer):
            return outcome
        try:
            texts = [self._process_llm_response([text]) for text in outcome.texts]
            return texts if parsed is None else [parsed.parsed(text) for text in texts]
        except RequestError as error:
            return error

    def _answered(self, task: DocumentBatch, outcomes: Sequence[Outcome]) -> DocumentBatch:
        parsed = self._answers
        return self._placed(task, [self._result(outcome, parsed) for outcome in outcomes])

    def _placed(self, task: DocumentBatch, results: list[Result]) -> DocumentBatch:
        """The batch with results in its rows; rows without one are handled by ``on_error``."""
        failures = {row: result for row, result in enumerate(results) if isinstance(result, RequestError)}
        if failures and self.on_error == "raise":
            raise next(iter(failures.values()))
        table, rejections = task.to_arrow(), list[Rejection]()
        if failures and self.on_error == "quarantine":
            rejections = list(quarantined(self.name, table, failures))
            kept = [row for row in range(len(results)) if row not in failures]
            table, results = rows_at(table, np.array(kept, np.int64)), [results[row] for row in kept]
        return replace(task, data=self._with_results(table, results), rejections=tuple(rejections), found={})

    def _with_results(self, table: Any, results: list[Result]) -> Any:
        """The table with the new columns, and with a row for each answer if requested."""
        errors = [str(result) if isinstance(result, RequestError) else None for result in results]
        answers: list[Any] = [result if isinstance(result, list) else None for result in results]
        several = GenerationConfig.of(self.generation_config).samples > 1
        if several and self.samples == "rows":
            counts = [1 if row_answers is None else len(row_answers) for row_answers in answers]
            rows = np.repeat(np.arange(len(answers)), counts)
            table, errors = rows_at(table, rows), [errors[row] for row in rows]
            flat = [answer for row_answers in answers for answer in (row_answers or [None])]
        else:
            flat = [None if row_answers is None else row_answers[0] for row_answers in answers]
        parsed = self._answers
        if parsed is not None:
            table = parsed.with_columns(table, flat)
        elif several and self.samples == "list":
            table = with_texts_each(table, str(self.output_field), answers)
        else:
            table = with_text(table, str(self.output_field), flat)
        return table if self.error_field is None else with_text(table, self.error_field, errors)


@lru_cache(maxsize=64)
def _prompt(template: str, document: str | None) -> Prompt:
    return Prompt(template, {"document": document} if document is not None else None)


def quarantined(stage: str, table: Any, failures: Mapping[int, RequestError]) -> Iterator[Rejection]:
    """Rows without an answer, with their errors, by reason."""
    for reason in dict.fromkeys(failure.reason for failure in failures.values()):
        numbers = [row for row, failure in failures.items() if failure.reason == reason]
        rows = with_text(rows_at(table, np.array(numbers, np.int64)), ERROR, [str(failures[row]) for row in numbers])
        yield Rejection(stage, reason, rows.num_rows, rows.nbytes, rows, fault=True)
