"""Answers that are JSON objects, as columns."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.endpoints.errors import RequestError
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import with_column, with_text, with_texts_each

#: Python types of the value types of a schema, and those of numeric columns.
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
_NUMBERS: Mapping[str, type] = {"integer": np.int64, "number": np.float64, "boolean": np.bool_}

#: Where an object may begin.
_OBJECT = re.compile(r"\{(?=[ \t\n\r]*+[\"}])")
#: Characters that may be read in vain, and how many times the answer; and what a place costs where none begins: it is
#: found after some characters, and then the lines before it are counted, many characters at a time.
_PATIENCE, _TIMES = 10_000_000, 20
_FAILED, _COUNTED_AT_ONCE = 100, 16
_UNPARSABLE = "unparsable answer"
#: Levels of objects and lists in an answer.
_DEEPEST = 100


@dataclass(frozen=True)
class AnswerSchema:
    r"""The columns of an answer, as a JSON Schema of one flat object.

    Of a property are known: ``type`` (or, instead, ``enum``), ``enum``, ``minimum``, ``maximum``, and whether it is
    ``required``; one that is not required may be null. Arrays of strings become lists, other arrays and objects JSON.

    Args:
        schema: ``{"type": "object", "properties": {...}, "required": [...]}``, or the properties alone; they are then
            all required.

    Raises:
        PipelineError: something else, or a type that there is not.

    Examples:
        >>> schema = AnswerSchema({"score": {"type": "integer", "minimum": 1, "maximum": 5}})
        >>> schema.parsed('```json\n{"score": 4}\n```'), schema.columns
        ({'score': 4}, ['score'])
        >>> schema.parsed('{"score": 7}')
        Traceback (most recent call last):
        ...
        dcurate.endpoints.errors.RequestError: 'score' is 7, above 5, in the answer '{"score": 7}'
    """

    schema: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Mapping) or not self.properties:
            raise PipelineError(f"schema={self.schema!r} must be a JSON Schema of an object that has properties")
        for name, of in self.properties.items():
            kind = of.get("type", "string" if "enum" in of else None) if isinstance(of, Mapping) else of
            if not isinstance(kind, str) or kind not in _TYPES:
                raise PipelineError(f"schema: {name!r} has type {kind!r}; there are {listed(_TYPES)}")

    @cached_property
    def properties(self) -> Mapping[str, Mapping[str, Any]]:
        """The type of each property."""
        bare = not isinstance(self.schema.get("properties"), Mapping)
        properties: Mapping[str, Mapping[str, Any]] = self.schema if bare else self.schema["properties"]
        return properties

    @cached_property
    def required(self) -> frozenset[str]:
        """Required properties."""
        bare = not isinstance(self.schema.get("properties"), Mapping)
        return frozenset(self.properties if bare else self.schema.get("required", ()))

    @property
    def columns(self) -> list[str]:
        """A column for each property."""
        return list(self.properties)

    def response_format(self) -> dict[str, Any]:
        """The request field that makes an endpoint follow the schema."""
        schema = {
            "type": "object",
            "properties": {name: dict(of) for name, of in self.properties.items()},
            "required": [name for name in self.properties if name in self.required],
            "additionalProperties": False,
        }
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}

    def parsed(self, text: str) -> dict[str, Any]:
        """The values in an answer: of its first valid object.

        Raises:
            RequestError: there is none, or it does not fit.
        """
        answer = first_object(text)
        if answer is None:
            raise RequestError(f"no JSON object in the answer {_short(text)}", _UNPARSABLE)
        if problem := _unstorable(answer):
            raise RequestError(f"the object {problem} in the answer {_short(text)}", _UNPARSABLE)
        for name, of in self.properties.items():
            wrong = self._wrong(name, of, answer.get(name))
            if wrong:
                raise RequestError(f"{name!r} {wrong} in the answer {_short(text)}", _UNPARSABLE)
        return {name: answer.get(name) for name in self.properties}

    def _wrong(self, name: str, of: Mapping[str, Any], value: Any) -> str:
        """The error of a value, in words; empty if there is none."""
        if value is None:
            return "is missing," if name in self.required else ""
        if "type" in of:
            kind = _TYPES[of["type"]]
            flag = isinstance(value, bool) and of["type"] != "boolean"
            if flag or not isinstance(value, kind):
                return f"is {_cut(value)}, no {of['type']},"
            if not _fits(of["type"], value):
                return f"is {_cut(value)}, which a column of this type cannot hold,"
        if "enum" in of and value not in of["enum"]:
            return f"is {_cut(value)}, none of {listed(of['enum'])},"
        if "minimum" in of and value < of["minimum"]:
            return f"is {_cut(value)}, below {of['minimum']},"
        if "maximum" in of and value > of["maximum"]:
            return f"is {_cut(value)}, above {of['maximum']},"
        return ""

    def with_columns(self, table: Any, rows: Sequence[Mapping[str, Any] | None]) -> Any:
        """The table with a column for each property, null in rows without an answer.

        Examples:
            >>> from dcurate.frames.columns import table_of
            >>> schema = AnswerSchema({"score": {"type": "integer"}})
            >>> schema.with_columns(table_of({"id": [1, 2]}), [{"score": 3}, None])["score"].to_pylist()
            [3, None]
        """
        for name, of in self.properties.items():
            values = [None if row is None else row[name] for row in rows]
            table = _with_values(table, name, of, values)
        return table


def _with_values(table: Any, name: str, of: Mapping[str, Any], values: list[Any]) -> Any:
    kind = of.get("type", "string")
    if kind in _NUMBERS:
        numbers: npt.NDArray[Any] = np.array([0 if value is None else value for value in values], _NUMBERS[kind])
        return with_column(table, name, np.ma.masked_array(numbers, [value is None for value in values]))
    if kind == "array" and of.get("items", {}).get("type") == "string":
        lists: list[Any] = [None if value is None else list(map(str, value)) for value in values]
        return with_texts_each(table, name, lists)
    texts = [value if value is None or kind == "string" else json.dumps(value, ensure_ascii=False) for value in values]
    return with_text(table, name, [text if text is None else str(text) for text in texts])


def first_object(text: str) -> dict[str, Any] | None:
    """Return the first valid JSON object in a text, ignoring the text around it.

    In a hostile text, with objects in invalid ones at thousands of places, the search ends early and may find none.

    Examples:
        >>> first_object('Sure! {"a": {"b": 1}} Anything else?'), first_object("{no}")
        ({'a': {'b': 1}}, None)
    """
    decoder = json.JSONDecoder(strict=False)
    patience = _PATIENCE + _TIMES * len(text)
    for place in _OBJECT.finditer(text):
        try:
            parsed: dict[str, Any] = decoder.raw_decode(text, place.start())[0]
            return parsed
        except json.JSONDecodeError as error:
            patience -= error.pos - place.start() + error.pos // _COUNTED_AT_ONCE + _FAILED
        except (ValueError, RecursionError):  # a number of too many digits, or nested too deeply
            patience -= len(text) - place.start()
        if patience < 0:
            return None
    return None


def _fits(kind: str, value: Any) -> bool:
    """Whether the column of a type can hold a value of it."""
    if kind == "integer":
        return bool(-(2**63) <= value < 2**63)
    try:
        return kind != "number" or math.isfinite(value)
    except OverflowError:  # a whole number above all floats
        return False


def _unstorable(value: Any) -> str:
    """Why a value cannot be stored as JSON, in words; empty if it can."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
    if level:
        return f"is nested deeper than {_DEEPEST} levels"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    return ""


def _cut(value: Any, most: int = 80) -> str:
    """A value as it prints, cut."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _short(text: str, most: int = 80) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}...")
