"""The stage that makes a row of each line or sentence to translate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dcurate.compat.nemo.rows import records, stripped, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.fields import (
    as_json,
    extract_nested_fields,
    normalize_text_field,
    parse_structured_value,
)
from dcurate.llm.segmenting import is_translatable, segments_of

SEGMENTS, METADATA, DOCUMENT = COLUMNS = ("_seg_segments", "_seg_metadata", "_seg_doc_id")


def is_line_translatable_content(line: str) -> bool:
    """Whether a line has something to translate: letters, and it is neither a tag nor JSON."""
    return is_translatable(line)


def split_into_sentences_with_structure(text: str, src_lang: str = "en") -> list[tuple[str, str]]:
    """The sentences of a text, each with the whitespace after it; joined, they are the text.

    Args:
        src_lang: dcurate finds the ends of sentences of all languages by their marks, without spaCy.

    Examples:
        >>> split_into_sentences_with_structure("  One. Two.")
        [('', '  '), ('One.', ' '), ('Two.', '')]
    """
    return [unit for piece in segments_of(text, "fine").pieces for unit in _units(piece)]


def _units(piece: str) -> Iterator[tuple[str, str]]:
    """A piece without the whitespace around it, and the whitespace."""
    bare = piece.strip()
    start = len(piece) - len(piece.lstrip()) if bare else 0
    if start:
        yield "", piece[:start]
    yield bare, piece[start + len(bare) :]


@dataclass(kw_only=True)
class SegmentationStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row of each segment; `ReassemblyStage` joins them again.

    Args:
        source_lang: language of the texts.
        text_field: the column, or columns, or paths within them such as ``"messages.*.content"``.
        mode: ``"coarse"`` for lines, ``"fine"`` for sentences.
        min_segment_chars: texts of fewer characters are one segment.
        skipme_field: a column; rows with something else than 0 or None there are not translated.

    Raises:
        ValueError: no language is given.
    """

    name: str = "SegmentationStage"
    source_lang: str
    text_field: str | list[str] = "text"
    mode: str = "coarse"
    min_segment_chars: int = 0
    skipme_field: str | None = None

    def __post_init__(self) -> None:
        stripped(self, "source_lang")

    def inputs(self) -> Spec:
        return ["data"], list(dict.fromkeys(path.split(".")[0] for path in normalize_text_field(self.text_field)))

    def outputs(self) -> Spec:
        return ["data"], list(COLUMNS)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Segment each row."""
        frame = task.to_pandas()
        if frame.empty:
            kinds = zip(COLUMNS, ("object", "object", "int64"), strict=True)
            return with_rows(task, frame.assign(**{name: pd.Series(dtype=kind) for name, kind in kinds}))
        rows = enumerate(records(frame))
        return with_rows(
            task, pd.DataFrame([output_row for number, row in rows for output_row in self._rows(number, row)])
        )

    def _rows(self, number: int, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        skipped = row.get(self.skipme_field) if self.skipme_field is not None else None
        texts: list[str] = []
        if skipped is not None and skipped != 0:
            metadata: dict[str, Any] = {"mode": "skip"}
        else:
            fields = [
                self._segmented(text, path)
                for path in normalize_text_field(self.text_field)
                for text in texts_of(row, path)
            ]
            texts = [text for segments, _ in fields for text in segments]
            metadata = {"field_metadatas": [field_metadata for _, field_metadata in fields]}
        made = as_json(metadata)
        for text in texts or [""]:
            yield {**row, SEGMENTS: text, METADATA: made, DOCUMENT: number}

    def _segmented(self, text: str, path: str) -> tuple[list[str], dict[str, Any]]:
        if len(text) < self.min_segment_chars:
            return [text], {"mode": "passthrough", "original_text": text, "field_path": path}
        segments, metadata = _sentences(text) if self.mode == "fine" else _lines(text)
        return segments, {**metadata, "field_path": path}


def _lines(text: str) -> tuple[list[str], dict[str, Any]]:
    """The lines to translate, and what joins them again: other lines, and the whitespace that they begin with."""
    template: list[str | None] = []
    leading: list[str] = []
    segments: list[str] = []
    in_code = False
    for line in text.split("\n"):
        fence = line.strip().startswith("```")
        in_code ^= fence
        if fence or in_code or not is_translatable(line):
            template.append(line)
            continue
        bare = line.lstrip()
        template.append(None)
        leading.append(line[: len(line) - len(bare)])
        segments.append(bare)
    metadata = {"template": template, "leading_spaces": leading, "original_stripped_lines": segments}
    return segments, {"mode": "coarse", **metadata}


def _sentences(text: str) -> tuple[list[str], dict[str, Any]]:
    """The sentences to translate, and what joins them again."""
    segmented = segments_of(text, "fine")
    units = [
        {"translatable": bool(bare) and place in segmented.places, "original": bare, "separator": space}
        for place, piece in enumerate(segmented.pieces)
        for bare, space in _units(piece)
    ]
    return [str(unit["original"]) for unit in units if unit["translatable"]], {"mode": "fine", "units": units}


def texts_of(row: dict[str, Any], path: str) -> list[str]:
    """The texts of a row at a path.

    Examples:
        >>> row = {"number": 3, "messages": '[{"content": "Hi"}]', "plain": "text"}
        >>> [texts_of(row, path) for path in ("number", "messages.*.content", "plain.*.content", "none")]
        [['3'], ['Hi'], ['text'], []]
    """
    column = path.partition(".")[0]
    value = row.get(column)
    if path == column:
        return [str(value)] if not _is_missing(value) else []
    nested = parse_structured_value(value)
    if nested is not None:
        return extract_nested_fields({column: nested}, path)
    return [value] if isinstance(value, str) and value else []


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))
