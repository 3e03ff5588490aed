"""The text of a recipe as plain values: YAML, and references to params."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from dcurate.errors import PipelineError, nearest
from dcurate.text.yaml_values import MAX_DEPTH, MAX_SIZE, reason_of, yaml_values

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w-]*)\}")
# ``${name}`` cannot appear unquoted within YAML's ``{}``, so its braces travel through the parser as other characters.
_OPEN, _CLOSE, _LITERAL = "\U0010fd00", "\U0010fd01", "\U0010fd02"
_ESCAPED = re.compile(r"\$\$\{([\w-]*)\}")
#: How many values a param or the arguments of a stage may hold.
_MAX_VALUES = 2**18
_MASKED = re.compile(rf"\${_OPEN}([\w-]+){_CLOSE}")


def parse_setting(text: str) -> tuple[str, Any]:
    """A param and its value from ``key=value``, the value read as YAML.

    Examples:
        >>> parse_setting("min_words=20"), parse_setting("fields=[text, url]"), parse_setting("output=s3://b/out")
        (('min_words', 20), ('fields', ['text', 'url']), ('output', 's3://b/out'))

    Raises:
        PipelineError: there is no ``=``, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise PipelineError(f"{text!r} is not a setting; write it as key=value")
    try:
        return key, yaml_values(value) if value else ""
    except yaml.YAMLError as error:
        raise PipelineError(
            f"{key}: its value is not valid YAML ({reason_of(error)}); text with signs needs quotes within"
        ) from error


def parse(text: str, place: str) -> Any:
    """The values of a YAML text; references in them are still to be `filled`.

    Raises:
        PipelineError: it is not valid YAML.
    """
    masked = _ESCAPED.sub(rf"{_LITERAL}\1{_CLOSE}", text).replace("$${", _LITERAL)
    try:
        return yaml_values(_REFERENCE.sub(rf"${_OPEN}\1{_CLOSE}", masked))
    except yaml.YAMLError as error:
        reason = unmasked(reason_of(error))
        fix = "; indent with spaces, as YAML takes no tabs" if "character '\\t'" in reason else ""
        raise PipelineError(f"{place}: not valid YAML: {reason}{fix}") from error


def unmasked(value: Any) -> Any:
    """The value as it is written in the recipe, references and all."""
    if not isinstance(value, str):
        return value
    return _literal(_MASKED.sub(r"${\1}", value))


def _literal(text: str) -> str:
    return text.replace(_LITERAL, "${").replace(_CLOSE, "}")


def filled(value: Any, params: Mapping[str, Any], place: str) -> Any:
    """The value with every reference to a param replaced.

    Raises:
        PipelineError: the param is not known, or a text becomes too long.
    """
    if isinstance(value, dict):
        return {unmasked(key): filled(inner, params, place) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, params, place) for inner in value]
    if not isinstance(value, str):
        return value
    if "${" in value:
        raise PipelineError(
            f"{place}: {value[:100]!r} is not a reference; write ${{name}}, or $${{ for the text itself"
        )
    for name in _MASKED.findall(value):
        if name not in params:
            raise PipelineError(f"{place}: param {name!r} does not exist{nearest(name, params)}")
    if reference := _MASKED.fullmatch(value):
        return params[reference[1]]
    length = 0

    def text(match: re.Match[str]) -> str:
        nonlocal length
        text = str(params[match[1]])
        length += len(text)
        if length > MAX_SIZE:
            raise PipelineError(f"{place}: with its params filled in, a text is longer than {MAX_SIZE:,} characters")
        return text

    return _literal(_MASKED.sub(text, value))


def check_size(value: Any, place: str) -> None:
    """Refuse a value that params have made larger or deeper than a recipe may be.

    Raises:
        PipelineError: it is.
    """
    known: dict[int, tuple[int, int]] = {}  # what params share is measured once

    def measured(value: Any) -> tuple[int, int]:
        """Return the number of values in a value, and its depth."""
        if not isinstance(value, dict | list):
            return 1, 0
        if id(value) not in known:
            inner = [measured(element) for element in (value.values() if isinstance(value, dict) else value)]
            size, depth = 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)
            if size > _MAX_VALUES or depth > 2 * MAX_DEPTH:
                raise PipelineError(f"{place}: with its params filled in, it is too large or nested too deep")
            known[id(value)] = size, depth
        return known[id(value)]

    measured(value)


def text_of(value: Any, place: str) -> str:
    """The value, which must be text.

    Raises:
        PipelineError: it is not.
    """
    if not isinstance(value, str):
        raise PipelineError(f"{place} must be text, not {kind(value)}")
    return value


def kind(value: Any) -> str:
    """Return the kind of a value, for messages.

    Examples:
        >>> kind([1]), kind({}), kind(None), kind(3)
        ('a list', 'a mapping', 'nothing', '3')
    """
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "nothing" if value is None else repr(value)
