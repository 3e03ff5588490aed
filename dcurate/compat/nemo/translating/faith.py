"""Evaluate translations with a model, by five criteria (FAITH)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dcurate.compat.nemo.llm_client import AsksModel, answered
from dcurate.compat.nemo.rows import records, stripped, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.fields import merge_faith_scores_into_metadata
from dcurate.compat.nemo.translating.prompts import language, load_prompt_template
from dcurate.compat.nemo.translating.reassembly import average
from dcurate.endpoints.config import GenerationConfig, Messages
from dcurate.endpoints.structured import first_object
from dcurate.llm.faith import AVERAGE, MARKS, PARSE_FAILED, SEGMENT_SCORES

FAITH_KEYS = list(MARKS)
_SCORE_COLUMNS = [*MARKS.values(), AVERAGE]


@dataclass(kw_only=True)
class FaithEvalFilter(AsksModel, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Score translations, and drop those with a low average; rows whose answer cannot be parsed stay.

    Args:
        source_lang: ISO 639 code.
        target_lang: ISO 639 code.
        model_name: name of the model at the endpoint.
        client: client that asks the model.
        source_text_field: the column with the text.
        translated_text_field: the column with its translation.
        threshold: the lowest average that stays.
        filter_enabled: False to drop none.
        generation_config: how to answer.
        prompt_path: a YAML file with another question; see `load_prompt_template`.
        max_concurrent_requests: maximum number of concurrent requests of each slot; the client's own limit holds, too.

    Raises:
        ValueError: an argument is missing.
    """

    name: str = "FaithEvalFilter"
    source_lang: str
    target_lang: str
    model_name: str
    client: Any = None
    source_text_field: str = "text"
    translated_text_field: str = "translated_text"
    threshold: float = 2.5
    filter_enabled: bool = True
    generation_config: GenerationConfig | None = None
    prompt_path: str | None = None
    max_concurrent_requests: int = 64

    _system_prompt: str = field(init=False, repr=False, default="")
    _user_template: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        self.model_name = self.model_name.strip()
        stripped(self, "source_lang", "target_lang")
        self._check_model()

    def inputs(self) -> Spec:
        return ["data"], [self.source_text_field, self.translated_text_field]

    def outputs(self) -> Spec:
        return ["data"], [*_SCORE_COLUMNS, PARSE_FAILED]

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the prompt."""
        self._system_prompt, self._user_template = load_prompt_template(self.prompt_path or "faith_eval.yaml")
        if self.generation_config is None:
            self.generation_config = GenerationConfig(temperature=0.0, max_tokens=256)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Score each row, and drop those below the threshold."""
        frame = task.to_pandas()
        pairs = [
            ("" if pd.isna(source) else str(source), "" if pd.isna(text) else str(text))
            for source, text in zip(frame[self.source_text_field], frame[self.translated_text_field], strict=True)
        ]
        asked = [place for place, pair in enumerate(pairs) if any(map(str.strip, pair))]
        config = GenerationConfig.of(self.generation_config)
        messages = [self._build_messages(*pairs[place]) for place in asked]
        outcomes = self._ask(messages, [config] * len(asked)) if asked else []
        scored = [(dict.fromkeys(FAITH_KEYS, 0.0), False)] * len(pairs)
        for place, outcome in zip(asked, outcomes, strict=True):
            scored[place] = self._extract_scores_from_json(answered(outcome)[0])
        columns: dict[str, Any] = {
            column: pd.array([scores[mark] for scores, _ in scored], "float64") for mark, column in MARKS.items()
        }
        columns[AVERAGE] = pd.array([average(list(scores.values())) for scores, _ in scored], "float64")
        columns[PARSE_FAILED] = pd.array([failed for _, failed in scored], "bool")
        frame = frame.assign(**columns)
        return with_rows(task, _above(frame, self.threshold) if self.filter_enabled else frame)

    def _build_messages(self, source_text: str, translated_text: str) -> Messages:
        names = {"source_language": language(self.source_lang), "target_language": language(self.target_lang)}
        question = self._user_template.format(**names, source_text=source_text, translated_text=translated_text)
        system = self._system_prompt.format(**names)
        return [{"role": "system", "content": system}, {"role": "user", "content": question}]

    @staticmethod
    def _extract_scores_from_json(text: str) -> tuple[dict[str, float], bool]:
        """The scores in an answer, and whether it has none that can be parsed."""
        parsed = first_object(text)
        scores = parsed or {}
        return {mark: _number(scores.get(mark)) for mark in FAITH_KEYS}, parsed is None


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def _above(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    kept = (frame[AVERAGE] >= threshold) | frame[PARSE_FAILED]
    if SEGMENT_SCORES in frame:
        kept |= frame[SEGMENT_SCORES] == "[]"
    return frame[kept].reset_index(drop=True)


@dataclass
class FaithThresholdFilterStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drop rows with a low average; those without a score stay."""

    name: str = "FaithThresholdFilterStage"
    threshold: float = 2.5

    def inputs(self) -> Spec:
        return ["data"], [AVERAGE, PARSE_FAILED]

    def outputs(self) -> Spec:
        return ["data"], [AVERAGE, PARSE_FAILED]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Drop rows below the threshold."""
        frame = task.to_pandas()
        return task if frame.empty else with_rows(task, _above(frame, self.threshold))


#: Names of the scores within ``translation_metadata``.
_NAMES = {**{column: mark for mark, column in MARKS.items()}, AVERAGE: "average"}


@dataclass
class MergeFaithScoresStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Put the scores into the column ``translation_metadata``."""

    name: str = "MergeFaithScoresStage"

    def inputs(self) -> Spec:
        return ["data"], ["translation_metadata", AVERAGE]

    def outputs(self) -> Spec:
        return ["data"], ["translation_metadata"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Merge the scores of each row."""
        frame = task.to_pandas()
        score_columns = [column for column in _SCORE_COLUMNS if column in frame]
        if frame.empty or not score_columns or "translation_metadata" not in frame:
            return task
        merged = [
            merge_faith_scores_into_metadata(
                str(row["translation_metadata"]),
                {_NAMES[column]: float(row[column]) for column in score_columns if pd.notna(row[column])},
            )
            for row in records(frame)
        ]
        return with_rows(task, frame.assign(translation_metadata=merged))
