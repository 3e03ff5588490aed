"""Facts that a provider states, from a YAML file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dcurate.errors import DataError, PipelineError, nearest, shown
from dcurate.runs.summary.fields import FACTS, Kind

_DATASET = ("name", "link", "description", "modalities")
_WANTED: Mapping[Kind, str] = {
    "text": "text",
    "texts": "text, or a list of texts",
    "yes or no": "true or false",
    "data sets": f"a list of data sets, each with name and, if you like, {', '.join(_DATASET[1:])}",
}


def read_facts(path: str) -> dict[str, Any]:
    """Read the facts of a provider.

    Raises:
        DataError: the file cannot be read or is not YAML.
        PipelineError: it has unknown keys, or values of other types.
    """
    try:
        values = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, UnicodeError) as error:
        raise DataError(f"facts: {path!r} cannot be read ({error}); name a YAML file") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataError(f"facts: {path!r} is not YAML ({' '.join(str(error).split())}); correct it") from error
    return checked_facts({} if values is None else values)


def checked_facts(values: object) -> dict[str, Any]:
    """Return facts with values of the right types.

    Raises:
        PipelineError: a key is unknown, or a value has another type.

    Examples:
        >>> checked_facts({"crawlers": "Bot/1.0", "placed_on_market": datetime.date(2026, 8, 2)})
        {'crawlers': ['Bot/1.0'], 'placed_on_market': '2026-08-02'}
        >>> checked_facts({"contact": "Jo"})
        Traceback (most recent call last):
        dcurate.errors.PipelineError: facts: unknown key 'contact'; did you mean ...
    """
    if not isinstance(values, Mapping):
        what = type(values).__name__ if isinstance(values, list) else shown(values)
        raise PipelineError(f"facts: {what} must be a mapping of names to values, such as provider_name: ACME")
    facts = {}
    for name, value in values.items():
        if name not in FACTS:
            raise PipelineError(f"facts: unknown key {name!r}{nearest(str(name), FACTS)}")
        facts[name] = _fact(name, value, FACTS[name].kind)
    return facts


def _fact(name: str, value: Any, kind: Kind) -> Any:
    fact: Any = None
    if kind == "text":
        fact = _text(value)
    elif kind == "texts":
        texts = [_text(entry) for entry in (value if isinstance(value, list) else [value])]
        fact = None if None in texts else texts
    elif kind == "yes or no":
        fact = value if isinstance(value, bool) else None
    elif isinstance(value, list):
        sets = [_dataset(entry) for entry in value]
        fact = None if None in sets else sets
    if fact is None:
        what = type(value).__name__ if isinstance(value, list | Mapping) else shown(value)
        raise PipelineError(f"facts: {name}: {what} must be {_WANTED[kind]}")
    return fact


def _text(value: Any) -> str | None:
    """Text, or a date or number as text."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value).encode("utf-8", "replace").decode()
    return None


def _dataset(value: Any) -> dict[str, str] | None:
    if not isinstance(value, Mapping) or "name" not in value or not set(value) <= set(_DATASET):
        return None
    texts = {name: _text(value[name]) for name in _DATASET if name in value}
    return {name: text for name, text in texts.items() if text is not None} if None not in texts.values() else None
