"""Keys and tokens with a characteristic prefix."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.alphabet import CLASS, DIGIT, DOT, HYPHEN, INNER, WORD, in_class, is_byte

#: Alphabets of the part after a prefix.
_ALPHABETS = {
    "base32": b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "hex": b"0123456789abcdef",
    "alnum": b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "url": b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-",
    "dotted": b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-.",
    "path": b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-/",
    "block": b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/=\\\r\n",
    "hyphen": b"-",
}
#: Prefix of a secret, its search byte, alphabet and length: as documented by the issuers.
_RULES = [
    *((start, 2 if start == "ASIA" else 1, "base32", 16, 16) for start in ("AKIA", "ASIA", "ABIA", "ACCA")),
    *((f"gh{kind}_", 3, "alnum", 36, 255) for kind in "pousr"),
    ("github_pat_", 6, "url", 82, 82),
    *((f"{kind}-", len(kind), "url", 20, 255) for kind in ("glpat", "gldt", "glrt", "glptt", "glcbt", "glagent")),
    *((f"xox{kind}-", 4, "url", 24, 255) for kind in "abeoprs"),
    ("xapp-", 4, "url", 30, 255),
    ("hooks.slack.com/services/", 5, "path", 40, 80),
    ("discord.com/api/webhooks/", 7, "path", 75, 110),
    ("AIza", 1, "url", 35, 35),
    ("ya29.", 4, "url", 20, 1024),
    ("GOCSPX-", 6, "url", 28, 28),
    *((f"{kind}_{mode}_", 2, "alnum", 16, 255) for kind in ("sk", "rk") for mode in ("live", "test")),
    ("whsec_", 5, "alnum", 32, 64),
    ("sk-ant-", 2, "url", 40, 255),
    ("sk-proj-", 2, "url", 40, 255),
    ("sk-svcacct-", 2, "url", 40, 255),
    ("sk-or-v1-", 2, "hex", 64, 64),
    ("sk-", 2, "alnum", 40, 64),
    ("hf_", 2, "alnum", 34, 40),
    ("gsk_", 3, "alnum", 52, 52),
    ("hvs.", 3, "url", 90, 120),
    ("hvb.", 3, "url", 138, 300),
    ("HRKU-", 4, "url", 36, 80),
    ("npm_", 3, "alnum", 36, 36),
    ("pypi-AgEI", 4, "url", 50, 1024),
    ("rubygems_", 8, "hex", 48, 48),
    *((f"do{kind}_v1_", 3, "hex", 64, 64) for kind in "opr"),
    *((f"shp{kind}_", 5, "alnum", 32, 32) for kind in ("at", "ca", "pa", "ss")),
    ("SG.", 2, "dotted", 60, 80),
    ("glsa_", 4, "url", 41, 41),
    ("dckr_pat_", 4, "url", 27, 27),
    ("NRAK-", 4, "alnum", 27, 27),
    ("PMAK-", 4, "url", 59, 59),
    ("tskey-", 5, "url", 20, 80),
    ("lin_api_", 3, "alnum", 40, 40),
    ("xkeysib-", 7, "url", 81, 81),
    ("key-", 3, "hex", 32, 32),
    ("sq0atp-", 6, "url", 22, 22),
    ("sq0csp-", 6, "url", 43, 43),
    ("EAAA", 1, "url", 60, 60),
    ("dp.pt.", 2, "alnum", 40, 44),
    ("AGE-SECRET-KEY-1", 3, "alnum", 58, 58),
]
#: Fewer different characters than this are a placeholder, such as ``ghp_xxxx``.
_FEWEST_DIFFERENT = 6
_PRIVATE = b"PRIVATE KEY"
_BEGIN, _END = b"-----BEGIN ", b"-----END "
_LONGEST_LABEL, _SHORTEST_BLOCK = 40, 40
_LONGEST_BLOCK: Scalar = np.int64(1 << 15)
_JWT_PART = 10
#: Of a bot's token of Telegram: digits of its number, and what comes after ``:AA``.
_FEWEST_BOT, _MOST_BOT, _BOT_PART = 8, 10, 33

_PREFIXES = np.frombuffer("".join(rule[0] for rule in _RULES).encode(), np.uint8).copy()
_PREFIX_BOUNDS = np.cumsum([0, *(len(rule[0]) for rule in _RULES)])
_TRIGGER = np.array([rule[1] for rule in _RULES], np.int64)
_FEWEST = np.array([rule[3] for rule in _RULES], np.int64)
_LARGEST = np.array([rule[4] for rule in _RULES], np.int64)
_ALPHABET = np.array([1 << list(_ALPHABETS).index(rule[2]) for rule in _RULES], np.uint8)
_URL, _BLOCK, _DASHES = (np.int64(1 << list(_ALPHABETS).index(name)) for name in ("url", "block", "hyphen"))
_CAPITAL_A, _CAPITAL_B = np.int64(0x41), np.int64(0x42)
#: The alphabets that each byte is in, as bits.
_IN = np.array(
    [sum(1 << number for number, given in enumerate(_ALPHABETS.values()) if byte in given) for byte in range(256)],
    np.uint8,
)


def _classes(bytes_before: bool) -> np.ndarray:
    """A number for each search byte, or for each byte before one; 0 for all others."""
    numbers = np.zeros(256, np.uint8)
    known = sorted({ord(prefix[place - 1] if bytes_before else prefix[place]) for prefix, place, *_ in _RULES})
    numbers[known] = np.arange(1, len(known) + 1)
    return numbers


_BEFORE, _LOOKED_FOR = _classes(True), _classes(False)
_WIDTH = int(_LOOKED_FOR.max()) + 1


def _chains() -> tuple[np.ndarray, np.ndarray]:
    """The first rule for each pair of a search byte and the byte before it, and the next rule after each."""
    heads, following = np.zeros((int(_BEFORE.max()) + 1) * _WIDTH, np.uint8), np.zeros(len(_RULES) + 1, np.uint8)
    for number in range(len(_RULES), 0, -1):
        prefix, place = _RULES[number - 1][:2]
        pair = int(_BEFORE[ord(prefix[place - 1])]) * _WIDTH + int(_LOOKED_FOR[ord(prefix[place])])
        following[number], heads[pair] = heads[pair], number
    return heads, following


_HEADS, _NEXT = _chains()

#: The bytes to find.
SECRET_BYTES = bytes(sorted({ord(rule[0][rule[1]]) for rule in _RULES} | set(b"J-")))


@njit(**INNER)
def _holds(data: Bytes, at: int, stop: int, sought: Bytes, part: tuple[int, int]) -> Scalar:
    """Whether the text at ``at`` equals that part of ``sought``."""
    first, last = part
    if at + last - first > stop:
        return False
    for step in range(last - first):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[at + step] != sought[first + step]:
            return False
    return True


@njit(**INNER)
def _run(data: Bytes, at: int, stop: int, alphabet: int, most: int) -> Scalar:
    """End of the span of bytes of the alphabet from ``at`` on, searched up to ``most`` bytes."""
    end = min(stop, at + most)
    while at < end and _IN[data[at]] & alphabet:
        at += 1
    return at


@njit(**INNER)
def _varied(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether there are enough distinct bytes in a span."""
    seen = np.uint64(0)
    for at in range(start, stop):
        seen |= np.uint64(1) << np.uint64(data[at] & 0x3F)
    count = 0
    while seen:
        seen &= seen - np.uint64(1)
        count += 1
    return count >= _FEWEST_DIFFERENT


@njit(**INNER)
def _token(data: Bytes, at: int, stop: int) -> Scalar:
    """End of the JSON web token whose ``eyJ`` has its ``J`` at ``at``; -1 if there is none."""
    first = _run(data, at + 1, stop, _URL, _LONGEST_BLOCK)
    if first - at < _JWT_PART or first + 2 >= stop or data[first] != DOT:
        return -1
    if data[first + 1] != 0x65 or data[first + 2] != 0x79:
        return -1
    second = _run(data, first + 1, stop, _URL, _LONGEST_BLOCK)
    if second - first < _JWT_PART or second >= stop or data[second] != DOT:
        return -1
    third = _run(data, second + 1, stop, _URL, _LONGEST_BLOCK)
    return third if third - second > _JWT_PART else -1


_BEGIN_BYTES, _END_BYTES, _PRIVATE_BYTES = (np.frombuffer(mark, np.uint8).copy() for mark in (_BEGIN, _END, _PRIVATE))


@njit(**INNER)
def _private_key(data: Bytes, at: int, stop: int) -> Scalar:
    """End of the PEM private key starting at ``at``; -1 if there is none. Its end marker may be missing."""
    if not _holds(data, at, stop, _BEGIN_BYTES, (0, _BEGIN_BYTES.size)):
        return -1
    place = at + _BEGIN_BYTES.size
    label = place
    while place < stop and place - label < _LONGEST_LABEL and data[place] != HYPHEN:
        place += 1
    private = False
    for step in range(label, place):
        private |= _holds(data, step, place, _PRIVATE_BYTES, (0, _PRIVATE_BYTES.size))
    if not private:
        return -1
    body = _run(data, place, stop, _DASHES, _BEGIN_BYTES.size)
    end = min(stop, at + _LONGEST_BLOCK)
    for step in range(body, end):
        if data[step] == HYPHEN and _holds(data, step, stop, _END_BYTES, (0, _END_BYTES.size)):
            over = step + _END_BYTES.size
            while over < stop and over - step < 2 * _LONGEST_LABEL and data[over] != HYPHEN and data[over] != 10:
                over += 1
            return _run(data, over, stop, _DASHES, _BEGIN_BYTES.size) if step - body >= _SHORTEST_BLOCK else -1
    over = _run(data, body, stop, _BLOCK, _LONGEST_BLOCK)
    return over if over - body >= _SHORTEST_BLOCK else -1


@njit(**INNER)
def may_be_bot_token(data: Bytes, at: int, stop: int) -> Scalar:
    """Whether the colon at ``at`` may be that of a Telegram bot token: two capital letters A follow."""
    return is_byte(data, at, at + 1, stop, _CAPITAL_A) and is_byte(data, at, at + 2, stop, _CAPITAL_A)


@njit(**INNER)
def bot_token_at(data: Bytes, span: tuple[int, int, int], at: int) -> tuple[Scalar, Scalar]:
    """Start and end of the Telegram bot token with its colon at ``at``; twice ``at`` if there is none."""
    _, stop, free = span
    if not may_be_bot_token(data, at, stop):
        return at, at
    start = at
    while start > free and CLASS[data[start - 1]] & DIGIT:
        start -= 1
    end = _run(data, at + 3, stop, _URL, _BOT_PART + 1)
    fits = _FEWEST_BOT <= at - start <= _MOST_BOT and end - at == 3 + _BOT_PART
    return (start, end) if fits and _varied(data, at + 3, end) else (at, at)


@njit(**INNER)
def _known_from(data: Bytes, span: tuple[int, int, int], at: int, rule: int) -> Scalar:
    """Return the first rule of a chain, from ``rule`` on, whose prefix has its search byte at ``at``; else 0."""
    begin, stop, free = span
    while rule:
        number = rule - 1
        start = at - _TRIGGER[number]
        part = _PREFIX_BOUNDS[number], _PREFIX_BOUNDS[number + 1]
        bounded = start >= free and not in_class(data, begin, start - 1, stop, WORD)
        if bounded and _holds(data, start, stop, _PREFIXES, part):
            break
        rule = _NEXT[rule]
    return np.int64(rule)


@njit(**INNER)
def _first_rule(data: Bytes, span: tuple[int, int, int], at: int) -> Scalar:
    """Return the first rule whose prefix has its search byte at ``at``, after the first free byte; else 0."""
    head = np.int64(_HEADS[np.int64(_BEFORE[data[at - 1]]) * _WIDTH + np.int64(_LOOKED_FOR[data[at]])])
    return _known_from(data, span, at, head) if head else 0


@njit(**INNER)
def may_be_secret(data: Bytes, span: tuple[int, int, int], at: int) -> Scalar:
    """Whether the search byte at ``at`` may be in a secret: a few bytes around it say."""
    _, stop, free = span
    if data[at] == HYPHEN and is_byte(data, at, at + 1, stop, HYPHEN) and is_byte(data, at, at + 5, stop, _CAPITAL_B):
        return True
    if at <= free:
        return False
    return (data[at] == 0x4A and data[at - 1] == 0x79) or _first_rule(data, span, at) > 0


@njit(**INNER)
def secret_at(data: Bytes, span: tuple[int, int, int], at: int) -> tuple[Scalar, Scalar]:
    """Start and end of the secret with its search byte at ``at``; twice ``at`` if there is none.

    Args:
        span: where the text begins and ends, and from where on it is free.
    """
    begin, stop, free = span
    if at <= free:
        if data[at] == HYPHEN:
            end = _private_key(data, at, stop)
            return (at, end) if end >= 0 else (at, at)
        return at, at
    before = np.int64(data[at - 1])
    if data[at] == HYPHEN and before != HYPHEN:
        end = _private_key(data, at, stop)
        if end >= 0:
            return at, end
    jose = data[at] == 0x4A and before == 0x79 and at - 2 >= free and data[at - 2] == 0x65  # eyJ
    if jose and not in_class(data, begin, at - 3, stop, WORD):
        end = _token(data, at, stop)
        if end >= 0:
            return at - 2, end
    rule = _first_rule(data, span, at)
    while rule:
        number = rule - 1
        body = at - _TRIGGER[number] + _PREFIX_BOUNDS[number + 1] - _PREFIX_BOUNDS[number]
        end = _run(data, body, stop, np.int64(_ALPHABET[number]), _LARGEST[number] + 1)
        fits = _FEWEST[number] <= end - body <= _LARGEST[number] and not in_class(data, begin, end, stop, WORD)
        if fits and _varied(data, body, end):
            return at - _TRIGGER[number], end
        rule = _known_from(data, span, at, np.int64(_NEXT[rule]))
    return at, at
