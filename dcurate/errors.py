"""Errors raised on purpose: one sentence with what is wrong, what was given, and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

#: Names of settings, headers and URL parts whose values are secret.
SECRET = re.compile(
    r"secret|token$|passw|passphrase|pwd$|credential|signature|cookie|authorization|bearer|connection.?string|^auth"
    r"|^(key|sig|sas|jwt)$|(api|access|account|private|shared|encryption).?key",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<=://)[^/\s?#'\"<>]*@")
_QUERY = re.compile(r"(?<=[?&;])([\w.%-]+)=([^&;\s'\"<>#]+)")


def without_secrets(text: str) -> str:
    """Remove users, passwords, tokens and signatures from the URLs in `text`.

    Examples:
        >>> without_secrets("cannot read 'https://me:pw@host/a.jsonl?page=2&sig=x%2Fy'")
        "cannot read 'https://host/a.jsonl?page=2&sig=***'"
    """
    if "://" not in text:
        return text
    text = _LOGIN.sub("", text)
    return _QUERY.sub(lambda part: f"{part[1]}=***" if SECRET.search(part[1]) else part[0], text)


class DcurateError(Exception):
    """Base class of all dcurate errors. Its message shows no secrets of URLs."""

    def __str__(self) -> str:
        return without_secrets(super().__str__())


class PipelineError(DcurateError):
    """An invalid pipeline, recipe or configuration."""


class ResourceError(DcurateError):
    """A resource that the machine or cluster does not have."""


class StageError(DcurateError):
    """A stage's own code raised, or the stage cannot be shipped to a worker."""


class DataError(DcurateError):
    """Input that cannot be read or output that cannot be written."""


class RunError(DcurateError):
    """A run that ended early: its cluster was lost, or it was interrupted."""


def listed(names: Iterable[str]) -> str:
    """Quote and join names for an error sentence.

    Examples:
        >>> listed(["text", "url"])
        "'text', 'url'"
        >>> listed([])
        'nothing'
    """
    return ", ".join(repr(name) for name in names) or "nothing"


def nearest(name: str, among: Iterable[str]) -> str:
    """Suggest the closest of the names `among`, as the end of an error message.

    Examples:
        >>> nearest("colour", ["color", "size"])
        "; did you mean 'color'?"
        >>> nearest("zzz", ["size", "color"])
        "; there are 'size', 'color'"
        >>> nearest("zzz", [])
        ''
    """
    options = list(among)
    if not options:
        return ""
    close = difflib.get_close_matches(name, options, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {listed(options)}"
