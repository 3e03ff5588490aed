"""Errors between a stage and an endpoint: their cause, and whether to retry."""

from __future__ import annotations

import re
from collections.abc import Mapping

import orjson

from dcurate.core.foreign import retry_after_s
from dcurate.errors import DataError, DcurateError, ResourceError
from dcurate.redaction import redacted

#: Statuses that a retry may change.
PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})

#: Seconds in a header, up to 11 days; and the longest wait until a date. Other values are ignored.
_SECONDS, _LONGEST_BELIEVED_S = re.compile(r"\d{1,6}(\.\d{0,9})?|\d{7,9}(?=$)", re.ASCII), 1e6
#: Maximum length of a server's message in errors.
SAID = 300


class RequestError(DataError):
    """A request without a usable answer, for one row.

    Attributes:
        reason: short and stable, so that it can be counted.
        again: whether a retry may help.
        after: seconds that the server asks to wait; None if it does not.
        attempts: number of requests sent.
    """

    def __init__(
        self, sentence: str, reason: str = "failed", *, again: bool = False, after: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.again = again
        self.after = after
        self.attempts = 1


def failed(status: int, headers: Mapping[str, str], content: bytes, where: str) -> DcurateError:
    """The error for a response with HTTP status 400 and above.

    Args:
        where: description of the request.

    Returns:
        A `RequestError` if the row is the cause or the server may recover; a `ResourceError` if every row would fail.

    Examples:
        >>> failed(429, {"retry-after": "3"}, b"", "model 'm'").after
        3.0
        >>> str(failed(401, {}, b'{"error": {"message": "bad key"}}', "model 'm'"))[:47]
        "model 'm': the API key is refused (401: bad key"
    """
    message = what_it_says(content)
    detail = f"{status}: {message}" if message else str(status)
    if status in PASSING_STATUS:
        reason = "rate limit" if status == 429 else f"status {status}"
        if status == 429 and "insufficient_quota" in content.decode("utf-8", "replace"):
            return ResourceError(f"{where}: the account has no quota left ({detail}); add credit, then resume the run")
        return RequestError(f"{where}: {detail}", reason, again=True, after=wait_asked(headers))
    if status in (401, 403):
        return ResourceError(
            f"{where}: the API key is refused ({detail}); set the environment variable that holds it where the workers "
            "run, or give api_key="
        )
    if status in (404, 405):
        return ResourceError(f"{where}: no such model or path ({detail}); check model= and base_url=")
    if _too_long(content):
        sentence = f"{where}: the prompt is too long ({detail}); split the texts first, or lower max_tokens"
        return RequestError(sentence, "prompt too long")
    return RequestError(f"{where}: the request is refused ({detail})", f"status {status}")


def _too_long(content: bytes) -> bool:
    text = content.decode("utf-8", "replace").lower()
    return any(phrase in text for phrase in ("context_length", "context length", "maximum context", "too many tokens"))


def what_it_says(content: bytes) -> str:
    """The message in the body of an error.

    Examples:
        >>> what_it_says(b'{"error": {"message": "no such model"}}'), what_it_says(b"Bad Gateway")
        ('no such model', 'Bad Gateway')
    """
    text = content.decode("utf-8", "replace")
    try:
        message = orjson.loads(content)
    except orjson.JSONDecodeError:
        message = text
    if isinstance(message, dict):
        error = message.get("error", message.get("detail", message.get("message", "")))
        message = error.get("message", "") if isinstance(error, dict) else error
    # Secrets go first: of one that is cut in two, the first half would stay.
    return " ".join(redacted(message if isinstance(message, str) else text).split())[:SAID]


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait, in either form of ``Retry-After`` or in OpenAI's ``retry-after-ms``.

    Examples:
        >>> wait_asked({"retry-after": "2"}), wait_asked({"retry-after-ms": "250"}), wait_asked({"retry-after": "soon"})
        (2.0, 0.25, None)
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        if _SECONDS.fullmatch(lower.get(name, "")):
            return float(lower[name]) / unit
    seconds = retry_after_s(lower.get("retry-after"))
    return seconds if seconds is not None and seconds < _LONGEST_BELIEVED_S else None
