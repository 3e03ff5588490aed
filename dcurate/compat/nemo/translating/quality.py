"""Metrics of translation that need no model."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from dcurate.compat.nemo.rows import with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch

#: Metrics of sacrebleu, and whether a higher score is better.
_METRICS = {"sacrebleu": ("sentence_bleu", True), "chrf": ("sentence_chrf", True), "ter": ("sentence_ter", False)}


def compute_text_quality_metric(
    hypothesis: str, reference: str, metric_type: str, threshold: float
) -> tuple[float, bool]:
    """The score of a text against another one, and whether it passes.

    Args:
        metric_type: ``"sacrebleu"``, ``"chrf"`` or ``"ter"``.
        threshold: the lowest score that passes; for ``"ter"`` the highest.

    Raises:
        ValueError: the metric is not known.
        ImportError: sacrebleu is not installed.
    """
    if metric_type not in _METRICS:
        raise ValueError(f"Unsupported round-trip quality metric: {metric_type}")
    name, higher_is_better = _METRICS[metric_type]
    score = float(getattr(importlib.import_module("sacrebleu"), name)(hypothesis, [reference]).score)
    return score, score >= threshold if higher_is_better else score <= threshold


@dataclass
class TextQualityMetricStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Score a column against another one, such as a text and its translation back.

    Args:
        reference_text_field: the column with the text.
        hypothesis_text_field: the column that is scored.
        metrics: each a ``type`` and a ``threshold``; see `compute_text_quality_metric`.
        filter_enabled: drop rows that do not pass.
        pass_column: whether all metrics pass.
    """

    name: str = "TextQualityMetricStage"
    reference_text_field: str = "text"
    hypothesis_text_field: str = "backtranslated_text"
    metrics: list[dict[str, Any]] = field(default_factory=list)
    filter_enabled: bool = False
    pass_column: str = "is_quality_metric_passed"

    def inputs(self) -> Spec:
        return ["data"], [self.reference_text_field, self.hypothesis_text_field]

    def outputs(self) -> Spec:
        scores = [f"score_{metric['type']}{end}" for metric in self.metrics for end in ("", "_passed")]
        return ["data"], [self.pass_column, *scores]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Score each row."""
        frame = task.to_pandas().copy()
        passes = [True] * len(frame)
        texts = list(zip(frame[self.hypothesis_text_field], frame[self.reference_text_field], strict=True))
        for metric in self.metrics:
            kind, threshold = str(metric["type"]), float(metric["threshold"])
            outcomes = [
                compute_text_quality_metric(str(hypothesis), str(reference), kind, threshold)
                for hypothesis, reference in texts
            ]
            frame[f"score_{kind}"] = [score for score, _ in outcomes]
            frame[f"score_{kind}_passed"] = [passed for _, passed in outcomes]
            passes = [before and passed for before, (_, passed) in zip(passes, outcomes, strict=True)]
        frame[self.pass_column] = passes
        return with_rows(task, frame[frame[self.pass_column]].reset_index(drop=True) if self.filter_enabled else frame)
