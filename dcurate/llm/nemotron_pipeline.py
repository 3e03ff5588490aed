"""Nemotron-CC's data generation from end to end: split documents to a model's size, rewrite, clean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dcurate.core.stage import CompositeStage, ProcessingStage
from dcurate.endpoints.client import AsyncLLMClient, LLMClient
from dcurate.endpoints.config import GenerationConfig
from dcurate.endpoints.generate import Generate
from dcurate.errors import PipelineError, nearest
from dcurate.frames.document import DocumentBatch
from dcurate.llm.nemotron_cc import CleanDiverseQA, CleanKnowledgeList, Rephrase
from dcurate.llm.nemotron_prompts import DISTILL_PREFIX, PASSAGE_LINES, WIKIPEDIA_PREFIX
from dcurate.text.documents import DocumentJoiner, DocumentSplitter
from dcurate.text.filter import DocumentFilter
from dcurate.text.filters.phrases import SubstringFilter
from dcurate.text.filters.tokens import TokenCountFilter, Tokenizer
from dcurate.text.modifiers import LineRemover, MarkdownRemover, QuotationRemover, Slicer
from dcurate.text.modify import Modify
from dcurate.text.score import Filter, ScoreFilter

AnyStage = ProcessingStage[Any, Any]

#: Tokens by which prompt and text may exceed what was counted: the chat template's own.
_MARGIN = 2


class TaskSettings(NamedTuple):
    """Settings of Nemotron-CC's tutorial for one kind of text, in tokens.

    ``most_kept`` and ``least_kept`` apply to the generated text; longer and shorter texts are dropped.
    """

    least_document: int
    least_segment: int
    most_input: int
    most_output: int
    most_kept: int
    least_kept: int


TASKS: Mapping[str, TaskSettings] = {
    "wikipedia_paraphrasing": TaskSettings(5, 5, 512, 512, 510, 50),
    "diverse_qa": TaskSettings(30, 30, 1000, 600, 598, 100),
    "distill": TaskSettings(30, 10, 2000, 1600, 1598, 50),
    "extract_knowledge": TaskSettings(30, 30, 1400, 1400, 1398, 50),
    "knowledge_list": TaskSettings(30, 30, 1000, 600, 598, 50),
}


@dataclass
class NemotronCC(CompositeStage[DocumentBatch, DocumentBatch]):
    """Generate training data from documents, with one of five tasks of Nemotron-CC, from end to end.

    Documents that are too short are dropped, the others are cut at newlines; lines too long for the model are dropped,
    and neighbouring ones joined up to what it takes. The model is asked about each piece. What it answers is dropped if
    it is too long, too short or not of the form asked for, and is freed of Markdown, prefixes and quotation marks. The
    numbers are those of NeMo Curator's tutorial (`TASKS`).

    Args:
        task: ``"diverse_qa"``, ``"distill"``, ``"extract_knowledge"``, ``"knowledge_list"`` for good documents, or
            ``"wikipedia_paraphrasing"`` for others.
        client: client of the language model.
        model: name of the model at the endpoint.
        tokenizer: the model's, loaded, or its name on the Hugging Face hub, its folder or its ``tokenizer.json``.
        text_field: the column with the documents; they must have ids of their own in ``id_field`` (`AddId`).
        id_field: see above.
        output_field: the column for the generated text; by default the task's own, such as ``diverse_qa``.
        generation_config: how to answer; by default as in the tutorial: temperature 0.5, top_p 0.9.

    Raises:
        PipelineError: a task that there is not.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> class Words:
        ...     def encode(self, text):
        ...         return text.split()
        >>> stage = NemotronCC("knowledge_list", client, "llama", Words())
        >>> [inner.name for inner in stage.decompose()][3:6]
        ['document_joiner', 'segment_length', 'KnowledgeList']
    """

    task: str
    client: AsyncLLMClient | LLMClient
    model: str
    tokenizer: Tokenizer | str = field(repr=False)
    text_field: str = "text"
    id_field: str = "id"
    output_field: str | None = None
    generation_config: GenerationConfig | Mapping[str, Any] | None = None
    name: str = "nemotron_cc"

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise PipelineError(f"{self.name}: task={self.task!r} is unknown{nearest(self.task, TASKS)}")

    def decompose(self) -> list[AnyStage]:
        task = TASKS[self.task]
        config = self.generation_config or GenerationConfig(max_tokens=task.most_output, temperature=0.5, top_p=0.9)
        generate = Rephrase(
            task=self.task,
            client=self.client,
            model=self.model,
            generation_config=config,
            input_field=self.text_field,
            output_field=self.output_field,
        )
        return [*self._cut(task, generate), generate, *self._tidied(task, str(generate.output_field))]

    def _counted(self, column: str, score: str, least: int = 0, most: float = math.inf) -> ScoreFilter:
        return ScoreFilter(self._count(least, most), text_field=column, score_field=score).with_(name=f"{score}_count")

    def _count(self, least: int = 0, most: float = math.inf) -> TokenCountFilter:
        if isinstance(self.tokenizer, str):
            return TokenCountFilter(tokenizer=self.tokenizer, min_tokens=least, max_tokens=most)
        return TokenCountFilter(self.tokenizer, min_tokens=least, max_tokens=most)

    def _cut(self, task: TaskSettings, generate: Generate) -> list[AnyStage]:
        """Split documents into pieces that fit the model."""
        count = self._count()
        count.model_check_or_download()
        asked = f"{generate.system_prompt}\n{(generate.prompt or '').replace('{document}', '')}"
        most = task.most_input - count.score_document(asked) - _MARGIN
        if most < task.least_segment:
            raise PipelineError(
                f"{self.name}: the prompt of {self.task!r} leaves {most} tokens of {task.most_input} for the text; "
                "give the tokenizer of the model that is asked"
            )
        return [
            self._counted(self.text_field, "document_token_count", least=task.least_document),
            DocumentSplitter("\n", self.text_field),
            self._counted(self.text_field, "segment_token_count", most=most),
            DocumentJoiner(
                "\n",
                self.text_field,
                document_id_field=self.id_field,
                drop_segment_id_field=False,
                max_length=most,
                length_field="segment_token_count",
            ),
            Filter(MinimumTokens(task.least_segment), "segment_token_count").with_(name="segment_length"),
        ]

    def _tidied(self, task: TaskSettings, column: str) -> list[AnyStage]:
        """The generated text, in its final form."""
        return [
            self._counted(column, "rephrased_segment_token_count", most=task.most_kept),
            Modify(MarkdownRemover(), column).with_(name="markdown_remover"),
            *self._of_task(column),
            self._counted(column, "rephrased_document_token_count", least=task.least_kept),
        ]

    def _of_task(self, column: str) -> list[AnyStage]:
        if self.task == "diverse_qa":
            tokenizer = None if isinstance(self.tokenizer, str) else self.tokenizer
            return [CleanDiverseQA(self.text_field, column, tokenizer)]
        if self.task == "knowledge_list":
            return [CleanKnowledgeList(column)]
        if self.task == "extract_knowledge":
            return [Modify(LineRemover(list(PASSAGE_LINES)), column).with_(name="passage_line_remover")]
        prefix = DISTILL_PREFIX if self.task == "distill" else WIKIPEDIA_PREFIX
        stages: list[AnyStage] = [
            ScoreFilter(SubstringFilter(prefix, "prefix"), text_field=column, score_field="substring"),
            Modify(Slicer(left=prefix, include_left=False), column).with_(name="prefix_remover"),
            Modify(QuotationRemover(), column).with_(name="quotation_remover"),
        ]
        if self.task == "wikipedia_paraphrasing":
            stages.append(DocumentJoiner("\n", column, document_id_field=self.id_field, drop_segment_id_field=False))
        return stages


@dataclass(frozen=True)
class MinimumTokens(DocumentFilter):
    """Keep numbers of at least a minimum.

    Examples:
        >>> MinimumTokens(3).keep_document(2)
        False
    """

    least: float
    _name = "at_least"

    def score_document(self, text: str) -> float:
        return float(text)

    def keep_document(self, score: float) -> bool:
        return score >= self.least
