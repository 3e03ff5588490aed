"""Texts in nested values, and the JSON of a translation."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dcurate.llm.paths import FieldPath

_log = logging.getLogger("dcurate.compat.nemo")

#: Between translated messages that are given as one text.
_SEPARATOR = "\n---\n"


def extract_nested_fields(record: Mapping[str, Any], path: str) -> list[str]:
    """The texts at a path such as ``messages.*.content``, in order.

    Examples:
        >>> extract_nested_fields({"messages": [{"content": "Hi"}, {"content": 3}]}, "messages.*.content")
        ['Hi']
    """
    return FieldPath(f"record.{path}").texts(record)


def set_nested_fields(record: Mapping[str, Any], path: str, values: Sequence[str]) -> Any:
    """A copy of a record with other texts at a path; the log warns of values that are left over.

    Examples:
        >>> set_nested_fields({"a": ["x", "y"]}, "a.*", ["1", "2"])
        {'a': ['1', '2']}
    """
    before = extract_nested_fields(record, path)
    if len(before) < len(values):
        _log.warning("path %r has %d texts, and %d values were given", path, len(before), len(values))
    texts = [*values[: len(before)], *before[len(values) :]]
    return FieldPath(f"record.{path}").replaced(record, texts)


def is_wildcard_path(path: str) -> bool:
    """Whether a path has a ``*``."""
    return "*" in path


def normalize_text_field(text_field: str | Sequence[str]) -> list[str]:
    """The paths as a list."""
    return [text_field] if isinstance(text_field, str) else list(text_field)


def parse_structured_value(value: Any) -> Any:
    """A dict or list, given as itself or as JSON; None for anything else.

    Examples:
        >>> parse_structured_value("[1]"), parse_structured_value("1"), parse_structured_value("text")
        ([1], None, None)
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict | list) else None


def as_json(value: Any) -> str:
    """JSON with letters as they are."""
    return json.dumps(value, ensure_ascii=False)


def build_translation_metadata(
    target_lang: str,
    translated_text: str | None = None,
    translation_map: Mapping[str, Any] | None = None,
    segmented_translation_map: Any = None,
) -> str:
    """The JSON of ``translation_metadata``.

    Examples:
        >>> build_translation_metadata("de", "Hallo")
        '{"target_lang": "de", "translation": {"content": "Hallo"}, "segmented_translation": []}'
    """
    translation = {"content": translated_text or ""} if translation_map is None else translation_map
    segments = [] if segmented_translation_map is None else segmented_translation_map
    return as_json({"target_lang": target_lang, "translation": translation, "segmented_translation": segments})


def merge_faith_scores_into_metadata(metadata_json: str, faith_scores: Mapping[str, Any]) -> str:
    """The JSON of ``translation_metadata`` with scores.

    Examples:
        >>> merge_faith_scores_into_metadata("{}", {"Fluency": 5.0})
        '{"faith_scores": {"Fluency": 5.0}}'
    """
    metadata = parse_structured_value(metadata_json)
    return as_json({**(metadata if isinstance(metadata, dict) else {}), "faith_scores": dict(faith_scores)})


def reconstruct_messages_with_translation(
    original_messages: Sequence[Mapping[str, Any]], translated_text: Any, field_path: str = "content"
) -> list[Any]:
    r"""Messages with their translations.

    Args:
        original_messages: are not changed.
        translated_text: messages, as a list or JSON, which are returned; or texts with ``\n---\n`` between them.
        field_path: path of the text within a message.

    Examples:
        >>> reconstruct_messages_with_translation([{"content": "Hi"}], "Hallo")
        [{'content': 'Hallo'}]
    """
    if not original_messages:
        return []
    parsed = parse_structured_value(translated_text)
    if isinstance(parsed, list) and all(isinstance(entry, dict) for entry in parsed):
        return copy.deepcopy(parsed)
    messages: list[Any] = copy.deepcopy(list(original_messages))
    *outer, last = field_path.split(".")
    texts = ("" if translated_text is None else str(translated_text)).split(_SEPARATOR)
    for message, text in zip(messages, texts, strict=False):
        place = message
        for name in outer:
            place = place.get(name) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[last] = text
    return messages
