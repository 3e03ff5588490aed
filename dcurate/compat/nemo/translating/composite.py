"""Translation and evaluation in one stage."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from dcurate.compat.nemo.rows import stripped
from dcurate.compat.nemo.stages import CompositeStage
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.faith import FaithEvalFilter, FaithThresholdFilterStage, MergeFaithScoresStage
from dcurate.compat.nemo.translating.output import (
    FormatTranslationOutputStage,
    RestoreSkippedRowsStage,
    SkipExistingTranslationsStage,
)
from dcurate.compat.nemo.translating.reassembly import TRANSLATED, ReassemblyStage
from dcurate.compat.nemo.translating.segmentation import SEGMENTS, SegmentationStage
from dcurate.compat.nemo.translating.translate import SegmentTranslationStage
from dcurate.endpoints.config import GenerationConfig

_MODES = ("both", "raw", "replaced")

_log = logging.getLogger("dcurate.compat.nemo")


@dataclass(kw_only=True)
class TranslationStage(CompositeStage[DocumentBatch, DocumentBatch]):
    """Segment, translate and join texts, and evaluate the translations if asked.

    Args are those of the inner stages: `SegmentationStage`, `SegmentTranslationStage` (its prompt is
    `translation_prompt_path`), `FaithEvalFilter` (``faith_...``), `ReassemblyStage`, `FormatTranslationOutputStage`.

    Args:
        enable_faith_eval: have the translations evaluated.
        filter_enabled: drop those below `faith_threshold`.
        merge_scores: put the scores into ``translation_metadata``, too.
        skip_translated: leave alone rows that have a text in `translation_column`.

    Raises:
        ValueError: arguments are missing, or do not fit together.

    Examples:
        >>> import dcurate
        >>> client = dcurate.llm.AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = TranslationStage(source_lang="en", target_lang="de", client=client, model_name="llama")
        >>> [inner.name for inner in stage.decompose()]
        ['SegmentationStage', 'SegmentTranslationStage', 'ReassemblyStage']
    """

    name: str = "TranslationStage"
    source_lang: str
    target_lang: str
    text_field: str | list[str] = "text"
    output_field: str = "translated_text"
    segmentation_mode: str = "coarse"
    min_segment_chars: int = 0
    client: Any = None
    model_name: str = ""
    generation_config: GenerationConfig | None = None
    translation_prompt_path: str | None = None
    max_concurrent_requests: int = 64
    health_check: bool = True
    dry_run: bool = False
    dry_run_log_count: int = 5
    backend_type: str = "llm"
    backend_config: dict[str, Any] = field(default_factory=dict)
    enable_faith_eval: bool = False
    faith_threshold: float = 2.5
    faith_model_name: str = ""
    filter_enabled: bool = True
    faith_generation_config: GenerationConfig | None = None
    faith_prompt_path: str | None = None
    faith_max_concurrent_requests: int = 64
    output_mode: str = "replaced"
    merge_scores: bool = False
    reconstruct_messages: bool = False
    messages_field: str = "messages"
    messages_content_field: str = "content"
    skip_translated: bool = False
    translation_column: str = "translated_text"

    def __post_init__(self) -> None:
        self.model_name, self.faith_model_name = self.model_name.strip(), self.faith_model_name.strip()
        stripped(self, "source_lang", "target_lang")
        if self.output_mode not in _MODES:
            raise ValueError(f"Invalid output_mode '{self.output_mode}'. Must be one of: {list(_MODES)}")
        if self.merge_scores and self.output_mode == "replaced":
            raise ValueError("merge_scores=True requires output_mode in {'raw','both'}. Got output_mode='replaced'.")
        if self.merge_scores and not self.enable_faith_eval:
            _log.warning("merge_scores=True has no effect without enable_faith_eval=True")
        if self.enable_faith_eval and self.backend_type != "llm":
            self._check_evaluation()
        self.stages = self._build_stages()

    def _check_evaluation(self) -> None:
        asked = f"TranslationStage with enable_faith_eval=True and backend_type={self.backend_type!r} requires"
        if self.client is None:
            raise ValueError(f"{asked} a separate AsyncLLMClient for FAITH scoring")
        if not self.faith_model_name and not self.model_name:
            raise ValueError(f"{asked} 'faith_model_name' or 'model_name' to be set for FAITH scoring")

    def _build_stages(self) -> list[Any]:
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        stages: list[Any] = [
            SegmentationStage(
                text_field=self.text_field,
                source_lang=self.source_lang,
                mode=self.segmentation_mode,
                min_segment_chars=self.min_segment_chars,
            ),
            SegmentTranslationStage(
                **languages,
                client=self.client,
                model_name=self.model_name,
                backend_type=self.backend_type,
                backend_config=self.backend_config,
                generation_config=self.generation_config,
                prompt_path=self.translation_prompt_path,
                max_concurrent_requests=self.max_concurrent_requests,
                health_check=self.health_check,
                dry_run=self.dry_run,
                dry_run_log_count=self.dry_run_log_count,
            ),
        ]
        if self.enable_faith_eval:
            stages.append(
                FaithEvalFilter(
                    **languages,
                    client=self.client,
                    model_name=self.faith_model_name or self.model_name,
                    source_text_field=SEGMENTS,
                    translated_text_field=TRANSLATED,
                    threshold=self.faith_threshold,
                    filter_enabled=False,  # whole documents are dropped, below
                    generation_config=self.faith_generation_config,
                    prompt_path=self.faith_prompt_path,
                    max_concurrent_requests=self.faith_max_concurrent_requests,
                )
            )
        stages.append(
            ReassemblyStage(
                text_field=self.text_field,
                output_field=self.output_field,
                replace_source_fields=self.output_mode != "raw",
                emit_metadata_helpers=self.output_mode != "replaced",
                aggregate_faith_scores=self.enable_faith_eval,
            )
        )
        if self.enable_faith_eval and self.filter_enabled:
            stages.append(FaithThresholdFilterStage(threshold=self.faith_threshold))
        if self.skip_translated:
            stages = [
                SkipExistingTranslationsStage(translation_column=self.translation_column),
                *stages,
                RestoreSkippedRowsStage(),
            ]
        return stages + self._output_stages()

    def _output_stages(self) -> list[Any]:
        stages: list[Any] = []
        if self.output_mode != "replaced" or self.reconstruct_messages:
            stages.append(
                FormatTranslationOutputStage(
                    output_mode=self.output_mode,
                    target_lang=self.target_lang,
                    output_field=self.output_field,
                    reconstruct_messages=self.reconstruct_messages,
                    messages_field=self.messages_field,
                    messages_content_field=self.messages_content_field,
                )
            )
        return [*stages, MergeFaithScoresStage()] if self.enable_faith_eval and self.merge_scores else stages

    def decompose(self) -> list[Any]:
        """The inner stages."""
        return self.stages
