"""The text of a recipe as plain values: YAML, and references to params."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from dcurate.errors import PipelineError, nearest

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w-]*)\}")
# ``${name}`` cannot stand bare within YAML's ``{}``, so its braces travel through the parser as other characters.
_OPEN, _CLOSE, _LITERAL = "\U0010fd00", "\U0010fd01", "\U0010fd02"
_ESCAPED = re.compile(r"\$\$\{([\w-]*)\}")
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
        return key, yaml.load(value, Loader=_Loader) if value else ""
    except yaml.YAMLError as error:
        raise PipelineError(
            f"{key}={value}: the value is not valid YAML; text with signs needs quotes within"
        ) from error


class _Loader(yaml.SafeLoader):
    """YAML as `yaml.safe_load` reads it, but a key given twice is refused and ``1e-3`` is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def parse(text: str, place: str) -> Any:
    """The values of a YAML text; references in them are still to be `filled`.

    Raises:
        PipelineError: it is not valid YAML.
    """
    masked = _ESCAPED.sub(rf"{_LITERAL}\1{_CLOSE}", text).replace("$${", _LITERAL)
    try:
        return yaml.load(_REFERENCE.sub(rf"${_OPEN}\1{_CLOSE}", masked), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise PipelineError(f"{place}{where}: not valid YAML: {unmasked(str(error.problem))}") from error
    except yaml.YAMLError as error:
        raise PipelineError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from error


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
        PipelineError: there is no such param.
    """
    if isinstance(value, dict):
        return {unmasked(key): filled(inner, params, place) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, params, place) for inner in value]
    if not isinstance(value, str):
        return value
    if "${" in value:
        raise PipelineError(f"{place}: {value!r} is not a reference; write ${{name}}, or $${{ for the text itself")
    for name in _MASKED.findall(value):
        if name not in params:
            raise PipelineError(f"{place}: there is no param {name!r}{nearest(name, params)}")
    if whole := _MASKED.fullmatch(value):
        return params[whole[1]]
    return _literal(_MASKED.sub(lambda found: str(params[found[1]]), value))


def text_of(value: Any, place: str) -> str:
    """The value, which must be text.

    Raises:
        PipelineError: it is not.
    """
    if not isinstance(value, str):
        raise PipelineError(f"{place} must be text, not {kind(value)}")
    return value


def kind(value: Any) -> str:
    """What a value is, in a reader's words.

    Examples:
        >>> kind([1]), kind({}), kind(None), kind(3)
        ('a list', 'a mapping', 'nothing', '3')
    """
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "nothing" if value is None else repr(value)
