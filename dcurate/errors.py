"""Every error that dcurate raises on purpose: one sentence that says what is wrong and what would do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

#: Names of settings, headers and parts of addresses whose values are secret.
SECRET = re.compile(
    r"secret|token$|passw|passphrase|pwd$|credential|signature|cookie|authorization|bearer|connection.?string|^auth"
    r"|^(key|sig|sas|jwt)$|(api|access|account|private|shared|encryption).?key",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<=://)[^/\s?#'\"<>]*@")
_QUERY = re.compile(r"(?<=[?&;])([\w.%-]+)=([^&;\s'\"<>#]+)")


def without_secrets(text: str) -> str:
    """A text in which addresses have no user, password, token or signature any more.

    Examples:
        >>> without_secrets("cannot read 'https://me:pw@host/a.jsonl?page=2&sig=x%2Fy'")
        "cannot read 'https://host/a.jsonl?page=2&sig=***'"
    """
    if "://" not in text:
        return text
    text = _LOGIN.sub("", text)
    return _QUERY.sub(lambda part: f"{part[1]}=***" if SECRET.search(part[1]) else part[0], text)


class DcurateError(Exception):
    """The root of dcurate's own errors; catch it to catch them all. Its sentence shows no secret of an address."""

    def __str__(self) -> str:
        return without_secrets(super().__str__())


class PipelineError(DcurateError):
    """A pipeline, recipe or configuration that cannot work as it is put together."""


class ResourceError(DcurateError):
    """Something was asked of the machine or cluster that it does not have."""


class StageError(DcurateError):
    """A stage's own code raised, or the stage cannot be shipped to a worker."""


class DataError(DcurateError):
    """Input that cannot be read or output that cannot be written."""


class RunError(DcurateError):
    """A run that could not go on: its cluster went away, or it was interrupted."""


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
    """The end of an error sentence that offers what was probably meant.

    Examples:
        >>> nearest("colour", ["color", "size"])
        "; did you mean 'color'?"
        >>> nearest("zzz", ["size", "color"])
        "; there are 'size', 'color'"
    """
    options = list(among)
    close = difflib.get_close_matches(name, options, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {listed(options)}"
