"""Decide what is secret, and make texts of others fit for errors, logs and reports: short, encodable, without secrets.

A text shows a secret by a name (``?sig=...``), by its place (``//user:password@``), or because it holds a value that is
known: one that was given to a stage, a store or a client (`remember`), or that the environment holds under such a name.
So a server that repeats what it was sent reveals nothing. Names of files and splits come from `without_secrets`, which
depends on its text alone; messages from `redacted`, which knows more.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import threading
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote

#: Replaces a secret.
HIDDEN = "***"
#: Characters of a message and of a traceback that are kept.
LONGEST, LONGEST_TRACE = 10_000, 50_000

_SECRET = re.compile(
    r"secret|token_*$|passw|passphrase|pwd$|credential|signature|cookie|bearer|connection.?string|hmac|hdn(ts|ea)"
    r"|authori[sz]ation|authentication|^auth(?!or)|(^|[_.-])auth([_.-]|$)"
    r"|(?<!com)(?<!by)pass$|(^|[_.-])(pw|pat|sig|sign|sas|jwt|dsn|otp)$|^(code|pin|sid|ticket|assertion|samlresponse)$"
    r"|session.?(id|key)|sess.?id$|(api|access|account|private|shared|encryption).?key"
    r"|(?<!primary)(?<!foreign)(?<!public)(?<!group)(?<!sort)(?<!partition)(?<!cluster)(?<!object)(?<!cache)"
    r"(?<!primary.)(?<!foreign.)(?<!public.)(?<!group.)(?<!sort.)(?<!partition.)(?<!cluster.)(?<!object.)(?<!cache.)key$",
    re.IGNORECASE,
)
#: Tokens that are text, the marks of a tokenizer; and names of variables.
_NOT_SECRET = re.compile(
    r"(^|_)variable$|(^|_)(bos|eos|eot|eod|unk|pad|sep|cls|mask|special|end|stop|start)_token$", re.IGNORECASE
)
_LOGIN = re.compile(r"(?<=://)[^/\s?#<>]*@")
_QUERY = re.compile(r"""(?<=[?&;#])([\w.%-]+)=((?:[^&;\s'"<>#]|['"](?=[\w%]))+)""")
#: A URL that is a part of another, percent-encoded.
_QUOTED_MARK = re.compile("%3A%2F%2F", re.IGNORECASE)
_QUOTED = re.compile(r"""\b[a-z][a-z0-9+.-]{0,20}%3A%2F%2F[^\s'"<>&]*""", re.IGNORECASE)
#: What is sent with "Authorization", and pairs that a message of a library may hold, under names that say enough.
_BEARER = re.compile(r"\b(bearer|basic)\s+(?=[\w.~+/=-]*[\d=])[\w.~+/=-]{8,}", re.IGNORECASE)
_PAIR = re.compile(
    r"""\b(passw(?:or)?d|passphrase|(?:client_|secret_)?secret(?:_access)?_key|client_secret|api_?key|account_?key"""
    r"""|(?:access|auth|refresh|session)_?token)(["']?=|["']?\s+=\s+|["']\s*:\s*)"""
    r"""("[^"\n]*"|'[^'\n]*'|[^\s,;&)}\]'"]+)""",
    re.IGNORECASE,
)
#: Characters of values of the environment, and of all that is remembered, that are looked for in texts; shorter ones
#: are looked for as words. Shorter ones still are in every sentence.
_LEAST_OF_ENVIRONMENT, _LEAST_WITHIN, _LEAST = 8, 8, 6
#: Characters before a cut that are read for secrets, too.
_MARGIN = 4096
#: Characters of the words at a cut, at most.
_MARK = 40
#: Values that are remembered at most; the oldest go first.
_MOST = 1000
_LONGEST_NAME = 200


class _Known:
    """The values that are known to be secret, the oldest first; thread-safe."""

    def __init__(self) -> None:
        self.values: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def add(self, secrets: Iterable[str]) -> None:
        with self._lock:
            new = dict.fromkeys(secret for secret in secrets if len(secret) >= _LEAST and secret not in self.values)
            if new:
                self.values = (*self.values, *new)[-_MOST:]


_KNOWN = _Known()


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Whether the value of a setting, a header, a variable or a part of a URL is secret, by its name.

    Examples:
        >>> [is_secret(name) for name in ("api_key", "X-Amz-Signature", "DB_PASS", "sort_key", "tokenizer", "author")]
        [True, True, True, False, False, False]
    """
    return _SECRET.search(name) is not None and _NOT_SECRET.search(name) is None


def remember(secrets: Iterable[str]) -> None:
    """Add values that `redacted` removes from texts, in this process.

    Args:
        secrets: the values; those of less than six characters are left out.
    """
    _KNOWN.add(secrets)


def logins_in(text: str) -> list[str]:
    """The passwords in the URLs of a text, and what is sent for them.

    Examples:
        >>> logins_in("cannot read https://me:p%40w@host/a")
        ['me:p%40w', 'p%40w', 'me:p@w', 'p@w']
    """
    written = [login[:-1] for login in _LOGIN.findall(text)]
    logins = dict.fromkeys(form for login in written for form in (login, unquote(login)))
    return [part for login in logins for part in (login, login.partition(":")[2]) if part]


def without_secrets(text: str) -> str:
    """Remove users, passwords, tokens and signatures from the URLs in `text`.

    Examples:
        >>> without_secrets("cannot read 'https://me:pw@host/a.jsonl?page=2&sig=x%2Fy'")
        "cannot read 'https://host/a.jsonl?page=2&sig=***'"
    """
    if "://" not in text:
        return text
    return _QUERY.sub(lambda part: f"{part[1]}={HIDDEN}" if _is_secret_part(part) else part[0], _LOGIN.sub("", text))


def redacted(text: str) -> str:
    """Remove all secrets from a message: those in URLs and parts of URLs, in headers and pairs, and those known.

    Examples:
        >>> remember(["sk-12345678"])
        >>> redacted("401: the key sk-12345678 is unknown; see /help?sig=x")
        '401: the key *** is unknown; see /help?sig=***'
    """
    text = without_values(text, _KNOWN.values, _of_environment())
    if "://" in text:
        text = without_secrets(text)
    elif "=" in text:
        text = _QUERY.sub(
            # A path may be "a?key=1.jsonl".
            lambda part: f"{part[1]}={HIDDEN}" if part[1] != "key" and _is_secret_part(part) else part[0],
            text,
        )
    if _QUOTED_MARK.search(text):
        text = _QUOTED.sub(lambda url: quote(without_secrets(unquote(url[0])), safe="*"), text)
    text = _PAIR.sub(lambda part: f"{part[1]}{part[2]}{HIDDEN}", text)
    return _BEARER.sub(lambda part: f"{part[1]} {HIDDEN}", text)


def without_values(text: str, *values: tuple[str, ...]) -> str:
    """Remove values from a text, in every form in which they are written.

    Examples:
        >>> without_values("you sent c2stMTIzNDU2Nzg=", ("sk-12345678",))
        'you sent ***'
    """
    known = _pattern(*values)
    return text if known is None else known.sub(HIDDEN, text)


def _is_secret_part(part: re.Match[str]) -> bool:
    """Whether a part of a query is secret: by its name, or as a URL in it has a secret part."""
    name, value = unquote(part[1]), part[2]
    if is_secret(name if len(name) < _LONGEST_NAME else name[-_LONGEST_NAME:]):
        return True
    return _QUOTED_MARK.search(value) is not None and without_secrets(unquote(value)) != unquote(value)


def legible(text: str, most: int = LONGEST) -> str:
    """Make a text of others fit for an error or a report: its middle cut, lone surrogates escaped, secrets removed.

    Examples:
        >>> legible("a" * 50_000 + "z", 50)
        'aaaaa...[49,991 characters left out]...aaaaz'
    """
    half = max(1, (most - _MARK) // 2)
    is_whole = len(text) <= most + 2 * _MARGIN
    ends = [text] if is_whole else [text[: half + _MARGIN], text[-half - _MARGIN :]]
    # Secrets go before the last cut: of one that is cut in two, a half would stay.
    ends = [redacted(end.encode(errors="backslashreplace").decode()) for end in ends]
    if is_whole and len(ends[0]) <= most:
        return ends[0]
    left_out = (len(ends[0]) if is_whole else len(text)) - 2 * half
    return f"{ends[0][:half]}...[{left_out:,} characters left out]...{ends[-1][-half:]}"


def text_of(error: BaseException, most: int = LONGEST) -> str:
    """The message of an exception, `legible`; also of one whose ``__str__`` raises.

    Examples:
        >>> text_of(ValueError("no number"))
        'no number'
    """
    text, problem = _printed(error)
    return legible(text, most) if not problem else f"(its message cannot be read: {problem})"


def _printed(error: BaseException) -> tuple[str, str]:
    """The message of an exception, and the name of what was raised instead of it."""
    try:
        return str.__getitem__(str(error), slice(None)), ""  # a subclass of str may override its methods
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # code of a user
        return "", type(problem).__name__


def line_of(text: str, most: int) -> str:
    """Make a text of others fit for a line of a log: its end cut, lone surrogates escaped, secrets removed.

    Examples:
        >>> line_of("key=abc and more", 12), line_of("/help?sig=abcdefgh", 14)
        ('key=abc and ', '/help?sig=***')
    """
    cut = text[: most + _MARGIN]  # of a secret that is cut in two, a half would stay
    return redacted(cut.encode(errors="backslashreplace").decode())[:most]


def hush(error: BaseException) -> None:
    """Remove secrets from the messages of an exception and of those that led to it, which Python prints with it.

    One that keeps its message elsewhere than in its arguments is taken out of the chain.
    """
    _is_hushed(error)
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        if notes := getattr(link, "__notes__", None):
            link.__notes__ = [redacted(note) if isinstance(note, str) else note for note in notes]
        for name in ("__cause__", "__context__"):
            inner = getattr(link, name)
            if inner is not None and not _is_hushed(inner):
                setattr(link, name, None)
        waiting += [link.__cause__, link.__context__]
        waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()


def _is_hushed(error: BaseException) -> bool:
    """Make the arguments of an exception `legible`; return whether its message is."""
    for _ in range(2):
        message, problem = _printed(error)
        if problem or legible(message) == message:
            return True
        try:
            error.args = tuple(legible(value) if isinstance(value, str) else value for value in error.args)
        except Exception:  # code of a user
            return False
    return False


def _of_environment() -> tuple[str, ...]:
    """The secrets among the environment variables: values under such names."""
    return tuple(
        value
        for name, value in os.environ.items()
        if is_secret(name) and len(value) >= _LEAST_OF_ENVIRONMENT and not _is_path(value)
    )


@lru_cache(256)
def _is_path(value: str) -> bool:
    """Whether a value is a path, such as that of a file with a key."""
    return value.startswith("/") and os.path.exists(value)


@lru_cache(8)
def _pattern(*values: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern that finds each value in any form."""
    secrets = dict.fromkeys(secret for group in values for secret in group)
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=lambda form: (-len(form), form))
    if not forms:
        return None
    bounded = [re.escape(form) if len(form) >= _LEAST_WITHIN else rf"(?<!\w){re.escape(form)}(?!\w)" for form in forms]
    return re.compile("|".join(bounded), re.IGNORECASE)


@lru_cache(2 * _MOST)
def _forms(secret: str) -> frozenset[str]:
    """The ways to write a secret that a reader recognises: as it is, and as URLs, JSON, HTML, Python and Base64 do."""
    data = secret.encode(errors="surrogatepass")
    ascii_json, any_json = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    written = {secret, quote(data, safe=""), quote(data), quote_plus(data), ascii_json, any_json}
    written |= {any_json.replace("/", "\\/"), html.escape(secret), repr(secret)[1:-1], repr(data)[2:-1]}
    if len(secret) >= _LEAST_WITHIN:
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            written |= {encode(data).decode(), encode(data).decode().rstrip("=")}
        written.add(data.hex())
    return frozenset(written)
