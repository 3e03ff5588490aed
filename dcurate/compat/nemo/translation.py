"""Translation in the parts that NeMo Curator makes of it: segment, translate, evaluate, join, format."""

from dcurate.compat.nemo.translating.backends import (
    ExecutorTranslationBackend,
    TranslationBackend,
    get_backend,
    register_backend,
    retry_with_backoff,
    run_async_safe,
)
from dcurate.compat.nemo.translating.composite import TranslationStage
from dcurate.compat.nemo.translating.faith import (
    _SCORE_COLUMNS,
    FAITH_KEYS,
    FaithEvalFilter,
    FaithThresholdFilterStage,
    MergeFaithScoresStage,
)
from dcurate.compat.nemo.translating.fields import (
    build_translation_metadata,
    extract_nested_fields,
    is_wildcard_path,
    merge_faith_scores_into_metadata,
    normalize_text_field,
    parse_structured_value,
    reconstruct_messages_with_translation,
    set_nested_fields,
)
from dcurate.compat.nemo.translating.output import (
    _SKIPPED_ROWS_METADATA_KEY,
    FormatTranslationOutputStage,
    RestoreSkippedRowsStage,
    SkipExistingTranslationsStage,
)
from dcurate.compat.nemo.translating.prompts import load_prompt_template
from dcurate.compat.nemo.translating.quality import TextQualityMetricStage, compute_text_quality_metric
from dcurate.compat.nemo.translating.reassembly import _INTERNAL_COLUMNS, ReassemblyStage
from dcurate.compat.nemo.translating.segmentation import (
    SegmentationStage,
    is_line_translatable_content,
    split_into_sentences_with_structure,
)
from dcurate.compat.nemo.translating.translate import SegmentTranslationStage

__all__ = [
    "FAITH_KEYS",
    "_INTERNAL_COLUMNS",
    "_SCORE_COLUMNS",
    "_SKIPPED_ROWS_METADATA_KEY",
    "ExecutorTranslationBackend",
    "FaithEvalFilter",
    "FaithThresholdFilterStage",
    "FormatTranslationOutputStage",
    "MergeFaithScoresStage",
    "ReassemblyStage",
    "RestoreSkippedRowsStage",
    "SegmentTranslationStage",
    "SegmentationStage",
    "SkipExistingTranslationsStage",
    "TextQualityMetricStage",
    "TranslationBackend",
    "TranslationStage",
    "build_translation_metadata",
    "compute_text_quality_metric",
    "extract_nested_fields",
    "get_backend",
    "is_line_translatable_content",
    "is_wildcard_path",
    "load_prompt_template",
    "merge_faith_scores_into_metadata",
    "normalize_text_field",
    "parse_structured_value",
    "reconstruct_messages_with_translation",
    "register_backend",
    "retry_with_backoff",
    "run_async_safe",
    "set_nested_fields",
    "split_into_sentences_with_structure",
]
