"""Texts that are written by a model out of nothing but a prompt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dcurate.core.batch import BatchKey
from dcurate.core.stage import CompositeStage, ProcessingStage, SourceStage, Spec
from dcurate.errors import PipelineError
from dcurate.frames.columns import table_of
from dcurate.frames.document import DocumentBatch
from dcurate.models.llm.client import AsyncLLMClient, LLMClient
from dcurate.models.llm.config import GenerationConfig
from dcurate.models.llm.generate import GenerateStage

#: Samples of one split.
_SPLIT = 100


@dataclass
class QAMultilingualSyntheticStage(CompositeStage[DocumentBatch, DocumentBatch]):
    """Begins a pipeline with texts that a model writes, each in a language that is drawn from some.

    Rows have a ``sample`` number, its ``language`` and the ``text``, without asterisks, which some models set around
    headings. The draw follows from the seed of the configuration; each sample is asked for with a seed of its own, so
    that equal prompts have different answers, and a run gives the same twice where the endpoint does.

    Args:
        prompt: what to write, with ``{language}`` for the language.
        languages: to draw from.
        client: that asks the model.
        model_name: as the endpoint calls it.
        num_samples: how many texts.
        generation_config: how to answer.
        name: of the stage.

    Raises:
        PipelineError: no languages, or no samples.

    Examples:
        >>> from dcurate.models.llm.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> prompt = "Write a question in {language}, and its answer."
        >>> stage = QAMultilingualSyntheticStage(prompt, ["Hindi", "Dutch"], client, "llama", num_samples=250)
        >>> source, written = stage.decompose()
        >>> [split.num_items for split in source.splits()], written.outputs()[1]
        ([100, 100, 50], ['text'])
    """

    prompt: str
    languages: Sequence[str]
    client: AsyncLLMClient | LLMClient
    model_name: str
    num_samples: int
    generation_config: GenerationConfig | Mapping[str, Any] | None = None
    name: str = "QAMultilingualSyntheticStage"

    def __post_init__(self) -> None:
        if not self.languages or isinstance(self.languages, str):
            raise PipelineError(
                f"{self.name}: languages={self.languages!r} must be a list, such as ['English', 'Hindi']"
            )
        if self.num_samples < 1:
            raise PipelineError(f"{self.name}: num_samples={self.num_samples} must be at least 1")

    def outputs(self) -> Spec:
        return ["data"], ["text"]

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        config = GenerationConfig.of(self.generation_config)
        return [
            LanguageSamples(tuple(self.languages), self.num_samples, config.seed or 0),
            _Written(
                prompt=self.prompt,
                output_field="text",
                client=self.client,
                model_name=self.model_name,
                generation_config=config,
                name=self.name,
            ),
        ]


@dataclass
class LanguageSamples(SourceStage[DocumentBatch, DocumentBatch]):
    """Numbered rows with a language each, drawn from some.

    Examples:
        >>> source = LanguageSamples(("Hindi", "Dutch"), 3)
        >>> [batch] = [source.process(split) for split in source.splits()]
        >>> batch.to_arrow().column_names, batch.to_arrow()["sample"].to_pylist()
        (['sample', 'language'], [0, 1, 2])
    """

    languages: tuple[str, ...]
    samples: int
    seed: int = 0
    name: str = "language_samples"

    def splits(self) -> Iterator[DocumentBatch]:
        for start in range(0, self.samples, _SPLIT):
            numbers = np.arange(start, min(start + _SPLIT, self.samples))
            yield DocumentBatch(key=BatchKey(f"samples-{start:08}"), data=table_of({"sample": numbers}))

    def columns(self) -> list[str]:
        return ["sample", "language"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        numbers = task.to_arrow()["sample"].to_pylist()
        drawn = [random.Random(f"{self.seed} {number}").choice(self.languages) for number in numbers]
        return task.with_data(table_of({"sample": np.array(numbers, np.int64), "language": drawn}))


@dataclass
class _Written(GenerateStage):
    """Asks for each sample with a seed of its own."""

    @property
    def _read(self) -> list[str]:
        return list(dict.fromkeys(["sample", *super()._read]))

    def _config_of(self, row: Mapping[str, Any], config: GenerationConfig) -> GenerationConfig:
        return config if config.seed is None else replace(config, seed=config.seed + int(row["sample"]))

    def _process_llm_response(self, response: list[str]) -> str:
        return response[0].replace("*", "")
