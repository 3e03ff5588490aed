"""Stages that generate text, with dcurate's own prompts under NeMo Curator's names."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

import dcurate
import dcurate.llm
from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.llm_client import AsksModel, GivenClient
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask
from dcurate.endpoints.batch_client import BatchClient
from dcurate.endpoints.config import Answer, GenerationConfig, Question, Request
from dcurate.frames.columns import values
from dcurate.llm.nemotron_prompts import ASSISTANT, CAREFUL_ASSISTANT, QA_PREFIX
from dcurate.llm.nemotron_prompts import DISTILL as DISTILL_PROMPT_TEMPLATE
from dcurate.llm.nemotron_prompts import DIVERSE_QA as DIVERSE_QA_PROMPT_TEMPLATE
from dcurate.llm.nemotron_prompts import EXTRACT_KNOWLEDGE as EXTRACT_KNOWLEDGE_PROMPT_TEMPLATE
from dcurate.llm.nemotron_prompts import KNOWLEDGE_LIST as KNOWLEDGE_LIST_PROMPT_TEMPLATE
from dcurate.llm.nemotron_prompts import WIKIPEDIA_PARAPHRASE as WIKIPEDIA_REPHRASING_PROMPT_TEMPLATE

__all__ = [
    "DISTILL_PROMPT_TEMPLATE",
    "DIVERSE_QA_PROMPT_TEMPLATE",
    "EXTRACT_KNOWLEDGE_PROMPT_TEMPLATE",
    "KNOWLEDGE_LIST_PROMPT_TEMPLATE",
    "NEMOTRON_CC_DISTILL_SYSTEM_PROMPT",
    "NEMOTRON_CC_SYSTEM_PROMPT",
    "WIKIPEDIA_REPHRASING_PROMPT_TEMPLATE",
    "BaseSyntheticStage",
    "DistillStage",
    "DiverseQAStage",
    "ExtractKnowledgeStage",
    "KnowledgeListStage",
    "QAMultilingualSyntheticStage",
    "WikipediaParaphrasingStage",
]

NEMOTRON_CC_SYSTEM_PROMPT = ASSISTANT
NEMOTRON_CC_DISTILL_SYSTEM_PROMPT = CAREFUL_ASSISTANT

_GenerateStage: type[Any] = builtin.GenerateStage


@dataclass
class BaseSyntheticStage(_GenerateStage):  # type: ignore[misc]
    """Add a column of answers to a prompt; the base of stages of a person's own.

    A subclass may write ``_process_llm_prompt(sample)``, with the row as a dict, and
    ``_process_llm_response(response)``. It is dcurate's `GenerateStage`: rows without an answer go to quarantine.

    Args:
        system_prompt: the system message, or None.
        prompt: the user message, with ``{document}`` for the text.
        input_field: the column with the text.
        output_field: the column for the answer.
        client: client that asks the model.
        model_name: name of the model at the endpoint.
        generation_config: how to answer.
        name: name of the stage.
    """

    name: str = "NemotronCCBaseStage"
    model_name: str | None = None

    def __post_init__(self) -> None:
        model = vars(self).get("model") or self.model_name
        self.model = self.model_name = model
        self.is_async_client = isinstance(self.client, dcurate.llm.AsyncLLMClient)
        if self.prompt and self.output_field and self.client is not None and self.model:
            super().__post_init__()

    def inputs(self) -> Spec:
        return ["data"], [self.input_field] if self.input_field else []

    def outputs(self) -> Spec:
        if self.output_field is None:
            raise ValueError("output_field must be set before calling outputs().")
        return ["data"], [self.output_field]

    def setup(self, worker_metadata: Any = None) -> None:
        """Open the client.

        Raises:
            PipelineError: there is none, or no model.
        """
        self._check_client()
        if "_batch_client" not in vars(self):
            self._batch_client = BatchClient(GivenClient(self.client), slots=self.num_workers() or 1)  # type: ignore[arg-type]

    def process_batch(self, tasks: list[Any]) -> list[Any]:
        """Ask about each row."""
        if "_batch_client" not in vars(self):
            self.setup()
        done: list[Any] = super().process_batch(tasks)
        by_hand = isinstance(tasks[0], DocumentBatch)
        return [task.with_data(made.data) for task, made in zip(tasks, done, strict=True)] if by_hand else done

    def _questions(self, task: Any) -> Iterator[Question | None]:
        table = task.to_arrow()
        config = GenerationConfig.of(self.generation_config)
        columns = {name: values(table, name) for name in table.column_names}
        for row in range(table.num_rows):
            messages = self._messages({name: column[row] for name, column in columns.items()})
            yield Request(messages, str(self.model), config)

    @property
    def _prompts(self) -> tuple[Any, Any]:
        return None, None  # templates of `str.format`, see below

    def _messages(self, row: Mapping[str, Any]) -> Any:
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        return [*system, {"role": "user", "content": self._process_llm_prompt(row)}]

    def _process_llm_prompt(self, sample: Mapping[str, Any]) -> str:
        """The prompt for a row."""
        if self.input_field not in sample:
            raise KeyError(f"Expected input field '{self.input_field}' in sample.")
        return str(self.prompt).format(document=sample[self.input_field])

    def _process_llm_response(self, response: list[str]) -> str:
        """The text for the answers of the model."""
        return response[0] if response else ""


@dataclass
class WikipediaParaphrasingStage(BaseSyntheticStage):
    """Rewrite texts in the style of an encyclopedia."""

    system_prompt: str | None = ASSISTANT
    prompt: str | None = WIKIPEDIA_REPHRASING_PROMPT_TEMPLATE
    input_field: str | None = "text"
    output_field: str | None = "rephrased"
    name: str = "WikipediaParaphrasing"


@dataclass
class DiverseQAStage(BaseSyntheticStage):
    """Generate questions of several kinds about a text, with their answers.

    ``tokenizer``, ``prefix`` and ``max_num_pairs`` have no effect; the stage that cleans the answers has its own.
    """

    system_prompt: str | None = ASSISTANT
    prompt: str | None = DIVERSE_QA_PROMPT_TEMPLATE
    input_field: str | None = "text"
    output_field: str | None = "diverse_qa"
    tokenizer: Any = field(default=None, repr=False)
    prefix: str = QA_PREFIX
    max_num_pairs: int = 10
    name: str = "DiverseQA"


@dataclass
class DistillStage(BaseSyntheticStage):
    """Generate a condensed version of a text."""

    system_prompt: str | None = CAREFUL_ASSISTANT
    prompt: str | None = DISTILL_PROMPT_TEMPLATE
    input_field: str | None = "text"
    output_field: str | None = "distill"
    name: str = "Distill"


@dataclass
class ExtractKnowledgeStage(BaseSyntheticStage):
    """Extract the knowledge in a text, rewritten as a passage."""

    system_prompt: str | None = ASSISTANT
    prompt: str | None = EXTRACT_KNOWLEDGE_PROMPT_TEMPLATE
    input_field: str | None = "text"
    output_field: str | None = "extract_knowledge"
    name: str = "ExtractKnowledge"


@dataclass
class KnowledgeListStage(BaseSyntheticStage):
    """Extract the facts in a text, as a list."""

    system_prompt: str | None = ASSISTANT
    prompt: str | None = KNOWLEDGE_LIST_PROMPT_TEMPLATE
    input_field: str | None = "text"
    output_field: str | None = "knowledge_list"
    name: str = "KnowledgeList"


@dataclass
class QAMultilingualSyntheticStage(AsksModel, ProcessingStage[EmptyTask, DocumentBatch]):
    """Begin a pipeline with texts generated by a model, each in a language drawn from a list.

    All samples are one task; `dcurate.llm.SyntheticQA` makes tasks of 100, which can be resumed.

    Args:
        prompt: with ``{language}`` for the language.
        languages: to draw from.
        client: client that asks the model.
        model_name: name of the model at the endpoint.
        num_samples: how many texts.
        generation_config: how to answer; each sample has a seed of its own.
        name: name of the stage.
    """

    prompt: str
    languages: list[str]
    client: Any
    model_name: str
    num_samples: int
    generation_config: GenerationConfig | Mapping[str, Any] | None = None
    name: str = "QAMultilingualSyntheticStage"

    def __post_init__(self) -> None:
        self.is_async_client = isinstance(self.client, dcurate.llm.AsyncLLMClient)

    def inputs(self) -> Spec:
        return [], []

    def outputs(self) -> Spec:
        return ["data"], ["text"]

    def setup(self, worker_metadata: Any = None) -> None:
        """Open the client."""
        self._open()

    def process(self, task: EmptyTask) -> DocumentBatch:
        """Generate the texts.

        Raises:
            RequestError: there is no answer to one of them.
        """
        config = GenerationConfig.of(self.generation_config)
        seeds = [None if config.seed is None else config.seed + number for number in range(self.num_samples)]
        prompts = [self.prompt.format(language=random.choice(self.languages)) for _ in seeds]
        messages = [[{"role": "user", "content": prompt}] for prompt in prompts]
        texts = []
        for outcome in self._ask(messages, [replace(config, seed=seed) for seed in seeds]):
            if not isinstance(outcome, Answer):
                raise outcome
            texts.append(self._process_llm_response(list(outcome.texts)))
        return DocumentBatch(dataset_name="simple_synthetic_data", data=pd.DataFrame({"text": texts}))

    def _process_llm_response(self, response: list[str]) -> str:
        """The text for the answers of the model, without asterisks."""
        return response[0].replace("*", "") if response else ""
