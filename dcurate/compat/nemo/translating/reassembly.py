"""The stage that joins translated segments."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pandas as pd

from dcurate.compat.nemo.rows import records, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.fields import (
    as_json,
    is_wildcard_path,
    normalize_text_field,
    parse_structured_value,
    set_nested_fields,
)
from dcurate.compat.nemo.translating.segmentation import COLUMNS, DOCUMENT, METADATA
from dcurate.llm.faith import AVERAGE, MARKS, PARSE_FAILED, SEGMENT_SCORES

TRANSLATED, TIME, ERROR = "_translated", "_translation_time", "_translation_error"
TRANSLATION_MAP, SEGMENTS_MAP = "_translation_map", "_segmented_translation_map"

_INTERNAL_COLUMNS = {*COLUMNS, TRANSLATED, TIME, ERROR}

#: Columns of scores, and what they hold where nothing was scored.
NO_SCORES: Mapping[str, Any] = {
    **dict.fromkeys(MARKS.values(), 0.0),
    AVERAGE: 0.0,
    PARSE_FAILED: False,
    SEGMENT_SCORES: "[]",
}
_SCORED: Mapping[str, str] = {**dict.fromkeys([*MARKS.values(), AVERAGE, "translation_time"], "float64")}

_log = logging.getLogger("dcurate.compat.nemo")


@dataclass
class ReassemblyStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make one row of the segments of a document.

    Args:
        text_field: column of the text, as in `SegmentationStage`.
        output_field: the column for the translation.
        replace_source_fields: put it in the place of the text, too.
        emit_metadata_helpers: add the columns that `FormatTranslationOutputStage` reads.
        aggregate_faith_scores: average the scores of the segments.
    """

    name: str = "ReassemblyStage"
    text_field: str | list[str] = "text"
    output_field: str = "translated_text"
    replace_source_fields: bool = False
    emit_metadata_helpers: bool = False
    aggregate_faith_scores: bool = False

    def inputs(self) -> Spec:
        return ["data"], [TRANSLATED, METADATA, DOCUMENT]

    def outputs(self) -> Spec:
        helpers = [TRANSLATION_MAP, SEGMENTS_MAP] if self.emit_metadata_helpers else []
        scores = list(NO_SCORES) if self.aggregate_faith_scores else []
        return ["data"], [self.output_field, "translation_time", "translation_errors", *helpers, *scores]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Join the segments of each document."""
        frame = task.to_pandas()
        if frame.empty:
            kept = frame[[name for name in frame if name not in _INTERNAL_COLUMNS]]
            kinds = {PARSE_FAILED: "bool", **_SCORED}
            new = {name: kinds.get(name, "object") for name in self.outputs()[1] if name not in kept}
            return with_rows(task, kept.assign(**{name: pd.Series(dtype=kind) for name, kind in new.items()}))
        groups = frame.groupby(DOCUMENT, sort=True)
        return with_rows(task, pd.DataFrame([self._row(group.sort_index()) for _, group in groups]))

    def _row(self, group: pd.DataFrame) -> dict[str, Any]:
        first = records(group.head(1))[0]
        row = {name: value for name, value in first.items() if name not in _INTERNAL_COLUMNS}
        row["translation_time"] = float(group[TIME].sum()) if TIME in group else 0.0
        errors = map(str, group[ERROR]) if ERROR in group else ()
        row["translation_errors"] = "; ".join(error for error in errors if error.strip())
        metadata = orjson.loads(first[METADATA])
        maps: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        if metadata.get("mode") == "skip":
            row[self.output_field] = ""
        else:
            maps = self._joined(row, metadata.get("field_metadatas", [metadata]), list(group[TRANSLATED]))
        if self.emit_metadata_helpers:
            row[TRANSLATION_MAP], row[SEGMENTS_MAP] = map(as_json, maps)
        if self.aggregate_faith_scores:
            row |= _scores(group)
        return row

    def _joined(
        self, row: dict[str, Any], fields: Sequence[Mapping[str, Any]], translated: list[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write the translations of a document into its row; returns them, and the pairs of segments, by field."""
        waiting = iter(translated)
        texts: dict[str, list[str]] = {}
        translations: dict[str, Any] = {}
        pairs: dict[str, Any] = {}
        for field in fields:
            path = field.get("field_path") or normalize_text_field(self.text_field)[0]
            segments = [next(waiting, "") for _ in _sources(field)]
            text = _join(field, segments)
            both = [{"src": src, "tgt": tgt} for src, tgt in zip(_sources(field), segments, strict=True)]
            texts.setdefault(path, []).append(text)
            leaf = path.split(".")[-1]
            if is_wildcard_path(path):
                translations.setdefault(leaf, []).append(text)
                pairs.setdefault(leaf, []).extend(both)
            else:
                translations[leaf], pairs[leaf] = text, both
        unplaced = [text for text in waiting if str(text).strip()]
        if unplaced:
            _log.warning("%d translated segments belong to no field", len(unplaced))
        placed = [self._placed(row, path, path_texts) for path, path_texts in texts.items()]
        row[self.output_field] = translations if len(placed) > 1 else placed[0] if placed else ""
        return translations, pairs

    def _placed(self, row: dict[str, Any], path: str, texts: list[str]) -> Any:
        """The value of a column with its translation, which also replaces it if the stage is to."""
        column = path.split(".", maxsplit=1)[0]
        value: Any = "\n\n".join(texts)
        if path != column:
            before = row.get(column)
            nested = parse_structured_value(before)
            if nested is None:
                return value
            value = set_nested_fields({column: nested}, path, texts)[column]
            value = as_json(value) if isinstance(before, str) else value
        if self.replace_source_fields:
            row[column] = value
        return value


def _sources(field: Mapping[str, Any]) -> list[str]:
    """The segments of a field before translation."""
    match field.get("mode"):
        case "passthrough":
            return [field.get("original_text", "")]
        case "fine":
            return [unit["original"] for unit in field["units"] if unit["translatable"]]
        case _:
            return list(field.get("original_stripped_lines", ()))


def _join(field: Mapping[str, Any], translated: Sequence[str]) -> str:
    """The text of a field with its translated segments."""
    waiting: Iterator[str] = iter(translated)
    match field.get("mode"):
        case "passthrough":
            return "".join(translated)
        case "fine":
            return "".join(
                (next(waiting) if unit["translatable"] else unit["original"]) + unit["separator"]
                for unit in field["units"]
            )
        case _:
            spaces = iter(field["leading_spaces"])
            return "\n".join(next(spaces) + next(waiting) if line is None else line for line in field["template"])


def _scores(group: pd.DataFrame) -> dict[str, Any]:
    """The scores of a document: averages over its segments of what is above 0."""
    if not set(MARKS.values()) <= set(group.columns):
        return dict(NO_SCORES)
    segments = [{mark: float(row[column] or 0.0) for mark, column in MARKS.items()} for row in records(group)]
    means = {column: round(average([scores[mark] for scores in segments]), 2) for mark, column in MARKS.items()}
    failed = bool(group[PARSE_FAILED].any()) if PARSE_FAILED in group else False
    return {**means, AVERAGE: average(list(means.values())), PARSE_FAILED: failed, SEGMENT_SCORES: as_json(segments)}


def average(scores: Sequence[float]) -> float:
    """The mean of the scores above 0: 0 means that one does not apply.

    Examples:
        >>> average([4.0, 0.0, 5.0]), average([])
        (4.5, 0.0)
    """
    positive = [score for score in scores if score > 0]
    return sum(positive) / len(positive) if positive else 0.0
