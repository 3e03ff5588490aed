"""Dictionaries of Structured Fields (RFC 9651), and the statements of use that are written in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

Use = Literal["train", "search"]
USES: tuple[Use, ...] = ("train", "search")

_KEY = r"[a-z*][a-z0-9_.*-]*+"
_TOKEN = r"[A-Za-z*][!#$%&'*+.^_`|~:/A-Za-z0-9-]*+"
_NUMBER = r"-?+(?:\d{1,12}+\.\d{1,3}+|\d{1,15}+(?!\.))(?!\d)"
_STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*+"'
_BARE = (
    rf"(?:{_TOKEN}|{_STRING}|{_NUMBER}|:[A-Za-z0-9+/=]*+:|\?[01]|@-?\d{{1,15}}+(?![\d.])"
    r'|%"(?:[ !#$&-~]|%[0-9a-f]{2})*+")'
)
_PARAMETERS = rf"(?:; *+{_KEY}(?:={_BARE})?+)*+"
_INNER = rf"\( *+(?:{_BARE}{_PARAMETERS}(?:(?= *\))| ++))*+ *+\)"
_MEMBER = re.compile(rf"({_KEY})(?:=(?:({_BARE})|{_INNER}))?+{_PARAMETERS}", re.ASCII)
_COMMA = re.compile(r"[ \t]*+,[ \t]*+(?!\Z)")

#: Labels of draft-ietf-aipref-vocab, the same in versions 06 and 07, and the use that each is about here.
AIPREF: Mapping[str, Use] = {"train-ai": "train", "search": "search"}
_PREFERENCES = {"y": True, "n": False}
#: Names of https://contentsignals.org, which robots.txt has in the line ``Content-Signal``.
_SIGNALS: Mapping[str, Use] = {"ai-train": "train", "search": "search"}
_ANSWERS = {"yes": True, "no": False}


class Statement(NamedTuple):
    """What a text says about a use.

    Args:
        text: text as it was written, on one line.
        use: the use; None where the text is not understood.
        allowed: whether it is allowed.
    """

    text: str
    use: Use | None = None
    allowed: bool | None = None


def dictionary(text: str) -> dict[str, str | None] | None:
    """Read a dictionary of RFC 9651: the bare items as they are written; None for the text if it is not one.

    A key without a value has the value ``?1``; an inner list has the value None. Parameters are left out. Of a key that
    comes again the last value counts.

    Examples:
        >>> dictionary('train-ai=y, search;p="a, b", list=(a b);q'), dictionary("Train=y")
        ({'train-ai': 'y', 'search': '?1', 'list': None}, None)
    """
    text = text.strip(" ")
    members: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        member = _MEMBER.match(text, at)
        if member is None:
            return None
        plain = member[2] is None and not text.startswith("=", member.end(1))
        members[member[1]] = "?1" if plain else member[2]
        at = member.end()
        if at < len(text):
            comma = _COMMA.match(text, at)
            if comma is None:
                return None
            at = comma.end()
    return members


def content_usage(value: str) -> list[Statement]:
    """Return the statements of a field ``Content-Usage``.

    Examples:
        >>> content_usage("train-ai=n;p=1")
        [Statement(text='train-ai=n', use='train', allowed=False)]
        >>> content_usage("bots=n"), content_usage("TRAIN-AI=n")
        ([Statement(text='bots=n', use=None, allowed=None)], [Statement(text='TRAIN-AI=n', use=None, allowed=None)])
    """
    members = dictionary(value)
    if members is None:
        return [Statement(value)]
    statements = []
    for key, item in members.items():
        allowed = _PREFERENCES.get(item or "")
        use = AIPREF.get(key) if allowed is not None else None
        statements.append(Statement(f"{key}={'()' if item is None else item}", use, allowed if use else None))
    return statements


def content_signal(value: str) -> list[Statement]:
    """Return the statements of a line ``Content-Signal`` of robots.txt.

    Examples:
        >>> content_signal("search=yes, ai-train=no")[1]
        Statement(text='ai-train=no', use='train', allowed=False)
    """
    statements = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        key, _, answer = (side.strip().lower() for side in part.partition("="))
        allowed = _ANSWERS.get(answer)
        use = _SIGNALS.get(key) if allowed is not None else None
        statements.append(Statement(part, use, allowed if use else None))
    return statements
