"""Stages around translation: skip rows that have one, and shape the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dcurate.compat.nemo.rows import records, stripped, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.fields import (
    as_json,
    build_translation_metadata,
    parse_structured_value,
    reconstruct_messages_with_translation,
)
from dcurate.compat.nemo.translating.reassembly import NO_SCORES, SEGMENTS_MAP, TRANSLATION_MAP

_SKIPPED_ROWS_METADATA_KEY = "_skipped_rows_state"
_ORDER = "_skip_original_idx"

#: What rows hold that were not translated now, in columns that they do not have.
_DEFAULTS = {**NO_SCORES, "translation_time": 0.0, "translation_metadata": "{}"}


@dataclass
class SkipExistingTranslationsStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Take rows that have a translation out of a batch, for `RestoreSkippedRowsStage`.

    Args:
        translation_column: with the translation.
        original_order_col: a column for the number of the row.
    """

    name: str = "SkipExistingTranslationsStage"
    translation_column: str = "translated_text"
    original_order_col: str = _ORDER

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Keep the rows without a translation."""
        frame = task.to_pandas()
        metadata = {name: value for name, value in task._metadata.items() if name != _SKIPPED_ROWS_METADATA_KEY}
        if self.translation_column not in frame:
            return with_rows(task, frame, metadata)
        frame = frame.assign(**{self.original_order_col: range(len(frame))})
        translated = np.array(
            [pd.notna(value) and bool(str(value).strip()) for value in frame[self.translation_column]], bool
        )
        skipped = records(frame[translated])
        if skipped:
            names = {"order_col": self.original_order_col, "translation_column": self.translation_column}
            metadata[_SKIPPED_ROWS_METADATA_KEY] = {"rows": skipped, **names}
        return with_rows(task, frame[~translated].reset_index(drop=True), metadata)


@dataclass
class RestoreSkippedRowsStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Put rows back that `SkipExistingTranslationsStage` took out."""

    name: str = "RestoreSkippedRowsStage"

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Put the rows back, in the order of before."""
        frame = task.to_pandas()
        metadata = dict(task._metadata)
        state = metadata.pop(_SKIPPED_ROWS_METADATA_KEY, None) or {"rows": [], "order_col": _ORDER}
        skipped = pd.DataFrame(state["rows"])
        order = state["order_col"]
        if len(skipped):
            new = [str(name) for name in frame if name not in skipped]
            skipped = skipped.assign(**{name: _DEFAULTS.get(name, "") for name in new})
            frame = pd.concat([frame, skipped], ignore_index=True) if len(frame) else skipped
        if order in frame:
            frame = frame.sort_values(order).drop(columns=order).reset_index(drop=True)
        return with_rows(task, frame, metadata)


@dataclass(kw_only=True)
class FormatTranslationOutputStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Shape the columns of a translation.

    Args:
        target_lang: ISO 639 code.
        output_mode: ``"replaced"``; ``"raw"`` for ``translation_metadata`` instead of `output_field`; ``"both"``.
        output_field: the column with the translation.
        reconstruct_messages: add ``translated_messages``: `messages_field` with its translation.
        messages_field: the column with messages.
        messages_content_field: the path of the text within a message.

    Raises:
        ValueError: no language is given.
    """

    name: str = "FormatTranslationOutputStage"
    target_lang: str
    output_mode: str = "replaced"
    output_field: str = "translated_text"
    reconstruct_messages: bool = False
    messages_field: str = "messages"
    messages_content_field: str = "content"

    def __post_init__(self) -> None:
        stripped(self, "target_lang")

    def inputs(self) -> Spec:
        return ["data"], [self.output_field]

    def outputs(self) -> Spec:
        metadata = ["translation_metadata"] if self.output_mode in ("raw", "both") else []
        text = [self.output_field] if self.output_mode in ("replaced", "both") else []
        messages = ["translated_messages"] if self.reconstruct_messages else []
        return ["data"], [*metadata, *text, *messages]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Shape each row."""
        frame = task.to_pandas()
        if frame.empty:
            return task
        rows = records(frame)
        if self.output_mode in ("raw", "both"):
            frame = frame.assign(translation_metadata=[self._metadata(row) for row in rows])
        if self.reconstruct_messages and self.messages_field in frame:
            frame = frame.assign(translated_messages=[self._messages(row) for row in rows])
        unused = [TRANSLATION_MAP, SEGMENTS_MAP, *([self.output_field] if self.output_mode == "raw" else [])]
        return with_rows(task, frame.drop(columns=[name for name in unused if name in frame]))

    def _metadata(self, row: dict[str, Any]) -> str:
        maps = [parse_structured_value(row.get(name)) for name in (TRANSLATION_MAP, SEGMENTS_MAP)]
        translation, segments = (parsed if isinstance(parsed, dict) else None for parsed in maps)
        return build_translation_metadata(self.target_lang, row.get(self.output_field, ""), translation, segments)

    def _messages(self, row: dict[str, Any]) -> str:
        messages = parse_structured_value(row[self.messages_field])
        text = row.get(self.output_field, "")
        if not isinstance(messages, list):
            return "[]"
        return as_json(reconstruct_messages_with_translation(messages, text, self.messages_content_field))
