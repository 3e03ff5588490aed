"""Settings as text that shows no secret."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from itertools import islice
from reprlib import recursive_repr
from typing import Any

from dcurate.core.packages import is_ours
from dcurate.core.redirects import HARMLESS
from dcurate.redaction import HIDDEN, is_secret, logins_in, remember, without_secrets

#: Settings of which all that is in them may be secret, under any name: fsspec's options, headers, environments.
_WHOLE = ("storage_options", "options", "headers", "cookies", "env_vars", "environment")
#: Options among them that hold no secret.
_PLAIN = (
    "endpoint_url",
    "region_name",
    "anon",
    "use_ssl",
    "verify",
    "timeout",
    "default_block_size",
    "block_size",
    "project",
    "account_name",
)
#: Settings that say something of columns, by their names: one may be called "code" or "token".
_OF_COLUMNS = ("schema", "_sniffed", "_folder_types")
#: Members of a list, levels and values in all that are looked at for secrets.
_MEMBERS, _LEVELS, _VALUES = 1000, 8, 100_000
#: Characters of a value that its place alone makes secret, and values that may be words, columns or hosts.
_LEAST_OPTION, _WORD = 8, re.compile("[a-z._-]+")
#: Names of keys that are no columns; such a key is known unless it is a plain word, such as "ollama".
_KEY, _PLACEHOLDER = (
    re.compile(r"(api|access|account|private|shared|secret|encryption).?key$", re.IGNORECASE),
    re.compile("[a-z]+"),
)
#: Characters from which on a secret is looked for in other texts; shorter ones are in every sentence.
_LEAST = 4
_INNER = re.compile(r"""([\w-]+)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,{}\[\]]+)""")


def shown(value: Any, name: str = "", hide: bool = False) -> Any:
    """Return the value of a setting for printing, with secrets replaced.

    Args:
        name: name of the setting.
        hide: whether all that is in it may be secret.

    Examples:
        >>> shown({"fields": ["a"], "hf_token": "hf_1", "storage_options": {"anon": False, "any": {"name": 3}}})
        {'fields': ['a'], 'hf_token': '***', 'storage_options': {'anon': False, 'any': {'name': '***'}}}
        >>> shown("http://me:pw@host/a?sig=1")
        'http://host/a?sig=***'
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        hide = hide or _may_hold_any(name)
        inner = {key: shown(setting, str(key), hide and str(key) not in _PLAIN) for key, setting in value.items()}
        return value if all(inner[key] is setting for key, setting in value.items()) else inner
    if is_secret(name) and not _is_object(value):
        return HIDDEN
    if type(value) in (list, tuple):
        return type(value)(shown(element, name, hide) for element in value)
    if isinstance(value, str):
        return HIDDEN if hide else without_secrets(value) if type(value) is str else value
    if hide and isinstance(value, bytes | int | float):
        return HIDDEN
    return value


def secrets_in(value: Any, name: str = "", hide: bool = False) -> list[str]:
    """The texts and numbers in a setting that `shown` replaces, the longest first.

    Examples:
        >>> secrets_in({"api_key": "sk-1", "headers": {"X-Mine": "abcd"}, "name": "b"})
        ['abcd', 'sk-1']
    """
    secret_texts: list[str] = []
    if isinstance(value, Mapping):
        hide = hide or _may_hold_any(name)
        for key, setting in value.items():
            secret_texts += secrets_in(setting, str(key), hide and str(key) not in _PLAIN)
    elif isinstance(value, list | tuple):
        for element in value:
            secret_texts += secrets_in(element, name, hide)
    elif shown(value, name, hide) is HIDDEN and len(str(value)) >= _LEAST:
        secret_texts.append(str(value))
    return sorted(set(secret_texts), key=lambda text: (-len(text), text))


def remember_secrets(*holders: Any) -> None:
    """Remove the secrets of settings from the messages of this process: stages, params of recipes, options of stores.

    Args:
        holders: the objects that hold them, or mappings of names to values.
    """
    remember(_all_secrets(holders))


def _all_secrets(holders: Sequence[Any]) -> Iterator[str]:
    """The secrets in objects of dcurate and what they hold: by names, by place, and of logins."""
    seen: dict[int, Any] = {}  # keeps the objects alive, so that their ids are not reused
    waiting: list[tuple[Any, str, str, int]] = [(holder, "", "", 0) for holder in holders]
    while waiting and len(seen) < _VALUES:
        value, name, place, level = waiting.pop()
        if isinstance(value, HidesSecrets) or is_ours(type(value)):
            names = [field.name for field in _fields(value)] or list(getattr(value, "__dict__", ()))
            names = [name for name in names if name not in _OF_COLUMNS]
            value = {attribute: getattr(value, attribute) for attribute in names if hasattr(value, attribute)}
        if isinstance(value, str):
            if _is_remembered(value, name, place):
                yield value
            if "@" in value:
                yield from logins_in(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and is_secret(name):
            yield str(value)
        elif level < _LEVELS and id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, Mapping):
                inside = name if _may_hold_any(name) else place
                for key, member in value.items():
                    plain = str(key) in _PLAIN or str(key).lower() in HARMLESS
                    waiting.append((member, str(key), "" if plain else inside, level + 1))
            elif isinstance(value, list | tuple | set | frozenset):
                waiting += [(member, name, place, level + 1) for member in islice(value, _MEMBERS)]


def _is_remembered(value: str, name: str, place: str) -> bool:
    """Whether a text is certainly a secret and not a plain word, so that it is removed from all messages.

    Args:
        value: the text.
        name: name of the setting.
        place: name of the mapping around it in which all may be secret; empty if there is none.
    """
    if is_secret(name):
        plain = _PLACEHOLDER if _KEY.search(name) else _WORD
        return not name.lower().endswith("key") or plain.fullmatch(value) is None
    if not place or len(value) < _LEAST_OPTION:
        return False
    return place.endswith(("headers", "cookies")) or _WORD.fullmatch(value) is None


def argument_without_secrets(argument: str) -> str:
    """An argument of a command line, such as ``api_key=sk-1``, in which nothing is secret any more.

    Examples:
        >>> [argument_without_secrets(one) for one in ("--set", "api_key=sk-1", "input=s3://me:pw@b", "words=[a, b]")]
        ['--set', 'api_key=...', 'input=s3://b', 'words=[a, b]']
        >>> argument_without_secrets("client={OpenAIClient: {api_key: sk-1, timeout: 3}}")
        'client={OpenAIClient: {api_key: ..., timeout: 3}}'
    """
    name, equals, _ = argument.partition("=")
    name = name.lstrip("-")
    if equals and (is_secret(name) or _may_hold_any(name)):
        return argument[: argument.index("=") + 1] + "..."
    return _INNER.sub(
        lambda match: match[1] + match[2] + "..." if is_secret(match[1]) else match[0], without_secrets(argument)
    )


def _may_hold_any(name: str) -> bool:
    """Whether all that is in a setting may be secret, by its name."""
    return name in _WHOLE or name.endswith(("_headers", "_storage_options"))


def _is_object(value: Any) -> bool:
    """Whether a value has its own `repr`, which hides secrets."""
    return not isinstance(value, str | bytes | int | float | list | tuple)


class HidesSecrets:
    """A base class with the `repr` of a dataclass, without secrets.

    An object of another class shows the arguments of its constructor that it keeps under their names.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Reader(HidesSecrets):
        ...     path: str
        ...     storage_options: dict
        >>> Reader("s3://b/a", {"key": "AKIA"})
        Reader(path='s3://b/a', storage_options={'key': '***'})
        >>> class Fetcher(HidesSecrets):
        ...     def __init__(self, url, token):
        ...         self.url, self.token = url, token
        >>> Fetcher("http://host/a", "t-1")
        Fetcher(url='http://host/a', token='***')
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__repr__ in (HidesSecrets.__repr__, object.__repr__):
            setattr(cls, "__repr__", HidesSecrets.__repr__)  # noqa: B010 - so that a dataclass keeps it

    @recursive_repr()
    def __repr__(self) -> str:
        kind: type[Any] = type(self)
        if is_dataclass(kind):
            values = {field.name: getattr(self, field.name) for field in _fields(self) if field.repr}
        else:
            values = _kept_arguments(self)
            if not values and kind.__init__ is not object.__init__:
                return object.__repr__(self)
        return f"{kind.__qualname__}({', '.join(f'{name}={shown(value, name)!r}' for name, value in values.items())})"


def _kept_arguments(value: Any) -> dict[str, Any]:
    """The arguments of an object's constructor that it has as attributes."""
    held = getattr(value, "__dict__", {})
    return {name: held[name] for name in inspect.signature(type(value).__init__).parameters if name in held}


def _fields(value: Any) -> tuple[Field[Any], ...]:
    """The fields of a dataclass; none of another object."""
    return fields(value) if is_dataclass(value) else ()
