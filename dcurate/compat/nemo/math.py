"""Stages for web pages with mathematics."""

from dcurate.compat.nemo.math_stages.chunks import ChunkMergeStage, TokenSplitterStage
from dcurate.compat.nemo.math_stages.cleanup import LLMCleanupStage
from dcurate.compat.nemo.math_stages.content import (
    HTML_MAGIC_TYPES,
    HTML_MIME_TYPES,
    TEXT_MAGIC_TYPES,
    TEXT_MIME_TYPES,
    LynxExtractor,
    MathContentExtractor,
    MathExtractStage,
)
from dcurate.compat.nemo.math_stages.finemath import CenterCropTextStage, FineMathClassifier, FineMathModelStage
from dcurate.compat.nemo.math_stages.prompts import (
    CODE_QUALITY_PROMPT,
    CODE_QUALITY_PROMPT_SIMPLIFIED,
    HTML_TO_TEXT_PROMPT,
    HTML_TO_TEXT_PROMPT_CODE,
    MATH_TOPIC_CLASSIFICATION_PROMPT,
    mind_debate,
    mind_interview,
    mind_layman_knowall,
    mind_problem_solving,
    mind_teacher_student,
    mind_two_profs,
    mind_two_students,
)

__all__ = [
    "CODE_QUALITY_PROMPT",
    "CODE_QUALITY_PROMPT_SIMPLIFIED",
    "HTML_MAGIC_TYPES",
    "HTML_MIME_TYPES",
    "HTML_TO_TEXT_PROMPT",
    "HTML_TO_TEXT_PROMPT_CODE",
    "MATH_TOPIC_CLASSIFICATION_PROMPT",
    "TEXT_MAGIC_TYPES",
    "TEXT_MIME_TYPES",
    "CenterCropTextStage",
    "ChunkMergeStage",
    "FineMathClassifier",
    "FineMathModelStage",
    "LLMCleanupStage",
    "LynxExtractor",
    "MathContentExtractor",
    "MathExtractStage",
    "TokenSplitterStage",
    "mind_debate",
    "mind_interview",
    "mind_layman_knowall",
    "mind_problem_solving",
    "mind_teacher_student",
    "mind_two_profs",
    "mind_two_students",
]
