"""Translation of texts from end to end."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.core.stage import CompositeStage, ProcessingStage, Spec
from dcurate.endpoints.client import AsyncLLMClient
from dcurate.endpoints.config import GenerationConfig
from dcurate.errors import PipelineError
from dcurate.frames.columns import values, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.llm.faith import AVERAGE, MARKS, FilterByFaith
from dcurate.llm.translate import METADATA, PAIRS, TranslateSegments


@dataclass(kw_only=True)
class Translate(CompositeStage[DocumentBatch, DocumentBatch]):
    """Translate texts with a model, and optionally evaluate the translations.

    Texts are cut into lines or sentences; code, tags, numbers and JSON stay as they are; the pieces are put together
    again as they were. A row in which a piece has no translation goes where ``on_error`` says, and is never half done.

    Args:
        source_language: ISO 639 code or name of the language that the texts are in.
        target_language: code or name of the language that they are translated into.
        text_field: the column, or columns, or paths within them such as ``"messages.*.content"``.
        output_field: the column for the translation by itself.
        segmentation_mode: ``"coarse"`` for lines, ``"fine"`` for sentences.
        min_segment_chars: texts of fewer characters are one piece.
        client: client of the language model.
        model: name of the model at the endpoint.
        generation_config: how to answer.
        translation_prompt: another question, with ``{source_language}``, ``{target_language}`` and ``{text}``.
        max_concurrent_requests: maximum number for each slot, overriding the client's.
        health_check: whether the endpoint is asked before the first row whether it is there and has the model.
        backend_type: ``"llm"``; other services are reached through an endpoint that speaks OpenAI's interface.
        enable_faith_eval: have the translations judged, see `FilterByFaith`.
        faith_threshold: the lowest average mark that stays.
        faith_model: name of the model that judges; by default the one that translates.
        filter_enabled: whether translations of lower marks are dropped.
        faith_generation_config: how the judge answers.
        output_mode: ``"replaced"``: the translation replaces the text, and is in ``output_field``; ``"raw"``:
            it is in ``translation_metadata`` alone, as JSON with the pairs of pieces; ``"both"``.
        merge_scores: put the marks into ``translation_metadata``, too.
        skip_translated: leave alone rows that have a text in ``translation_field``.
        translation_field: see above.
        on_error: see `Generate`; with ``"null"`` the column ``translation_errors`` has the error.

    Raises:
        PipelineError: arguments that do not fit together.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = Translate(source_language="en", target_language="de", client=client, model="llama")
        >>> [inner.name for inner in stage.decompose()]
        ['TranslateSegments']
    """

    several: ClassVar[tuple[str, ...]] = ("text_field",)

    source_language: str
    target_language: str
    text_field: str | Sequence[str] = "text"
    output_field: str = "translated_text"
    segmentation_mode: str = "coarse"
    min_segment_chars: int = 0
    client: AsyncLLMClient | None = None
    model: str = ""
    generation_config: GenerationConfig | Mapping[str, Any] | None = None
    translation_prompt: str | None = None
    max_concurrent_requests: int = 64
    health_check: bool = True
    backend_type: str = "llm"
    enable_faith_eval: bool = False
    faith_threshold: float = 2.5
    faith_model: str = ""
    filter_enabled: bool = True
    faith_generation_config: GenerationConfig | Mapping[str, Any] | None = None
    output_mode: str = "replaced"
    merge_scores: bool = False
    skip_translated: bool = False
    translation_field: str = "translated_text"
    on_error: str = "quarantine"
    name: str = "Translate"

    def __post_init__(self) -> None:
        if self.backend_type != "llm":
            raise PipelineError(
                f"{self.name}: backend_type={self.backend_type!r} is not supported, only 'llm'; use other services "
                "through an OpenAI-compatible endpoint"
            )
        if self.merge_scores and (self.output_mode == "replaced" or not self.enable_faith_eval):
            raise PipelineError(
                f"{self.name}: merge_scores=True needs enable_faith_eval=True and output_mode='raw' or 'both'"
            )
        self.decompose()  # so that wrong arguments are refused here

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        client = copy.copy(self.client)
        if client is not None:
            client.max_concurrent_requests = self.max_concurrent_requests
        stages: list[ProcessingStage[Any, Any]] = [
            TranslateSegments(
                client=client,
                model=self.model,
                generation_config=self.generation_config,
                prompt=self.translation_prompt,
                output_field=self.output_field,
                source_language=self.source_language,
                target_language=self.target_language,
                text_field=self.text_field,
                segmentation_mode=self.segmentation_mode,
                min_segment_chars=self.min_segment_chars,
                output_mode=self.output_mode,
                translation_field=self.translation_field if self.skip_translated else None,
                pairs=self.enable_faith_eval,
                on_error=self.on_error,
                startup_s=0.0 if self.health_check else None,
                name="TranslateSegments",
            )
        ]
        if self.enable_faith_eval:
            stages.append(
                FilterByFaith(
                    client=client,
                    model=self.faith_model or self.model,
                    generation_config=self.faith_generation_config,
                    source_language=self.source_language,
                    target_language=self.target_language,
                    threshold=self.faith_threshold,
                    filter_enabled=self.filter_enabled,
                    pairs_field=PAIRS,
                )
            )
        return [*stages, MergeFaithScores()] if self.merge_scores else stages


@dataclass
class MergeFaithScores(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Put the scores of `FilterByFaith` into the column ``translation_metadata``."""

    name: str = "MergeFaithScores"

    def inputs(self) -> Spec:
        return ["data"], [METADATA, *MARKS.values(), AVERAGE]

    def outputs(self) -> Spec:
        return ["data"], [METADATA]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        names = [*MARKS.values(), AVERAGE]
        marks = zip(*(values(table, name) for name in names), strict=True)
        texts = []
        for text, row_marks in zip(values(table, METADATA), marks, strict=True):
            scores = {"faith_scores": dict(zip(names, row_marks, strict=True))}
            texts.append(None if text is None else json.dumps({**json.loads(text), **scores}, ensure_ascii=False))
        return task.with_data(with_text(table, METADATA, texts))
