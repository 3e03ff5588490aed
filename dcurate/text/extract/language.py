"""The language of a page that does not come with one, by the stop words in its text."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping

#: A tag, comment or declaration; its name comes first. Possessive, so that a tag without an end costs its length once.
_TAG = re.compile(r"<(/?[a-zA-Z!][^\s<>/]*+)[^<>]*+>")
_HIDDEN = frozenset(("script", "style", "template", "noscript", "textarea", "svg"))
_NUMBER = re.compile(r"&#[0-9]{8,}+;?")

#: Characters of text that are looked at, and the least share of its words that stop words are in any language.
_LOOK, _LEAST = 50_000, 0.1
_MARKS = ".,;:!?\"'()[]{}<>/|-–—…»«„“”‘’·•"
#: Languages that are written without spaces, by the letters that no other of these has, the first that counts.
_UNSPACED = {
    "JAPANESE": re.compile("[\u3040-\u30ff]"),
    "THAI": re.compile("[\u0e00-\u0e7f]"),
    "CHINESE": re.compile("[\u4e00-\u9fff]"),
}


def unescaped(text: str) -> str:
    """Resolve HTML character references; numbers too large for a character become spaces.

    Examples:
        >>> unescaped("Fish &amp; chips"), unescaped("a&#" + "9" * 5000 + ";b")
        ('Fish & chips', 'a b')
    """
    return html.unescape(_NUMBER.sub(" ", text))


def shown_text(markup: str) -> str:
    """Return the text of (the beginning of) a page without tags, scripts and styles: roughly what a reader sees.

    Examples:
        >>> shown_text("<style>p {}</style><p>Fish &amp; <b>chips</b></p>").split()
        ['Fish', '&', 'chips']
    """
    pieces: list[str] = []
    hidden, at, length = "", 0, 0
    for tag in _TAG.finditer(markup):
        if not hidden:
            pieces.append(markup[at : tag.start()])
            length += tag.start() - at
        if length > _LOOK:
            break
        name, at = tag[1].lower(), tag.end()
        if hidden:
            hidden = "" if name == f"/{hidden}" else hidden
        elif name in _HIDDEN:
            hidden = name
    else:
        if not hidden:
            pieces.append(markup[at:])
    return unescaped(" ".join(pieces)[:_LOOK])


class StopWordVote:
    """Finds the language of a text by which stop words it has most of.

    Args:
        lists: stop words by the name of their language.

    Examples:
        >>> vote = StopWordVote({"ENGLISH": {"the", "is"}, "GERMAN": {"der", "ist"}})
        >>> vote.language("Der Tag ist kalt."), vote.language("12:30"), vote.language("これはペンです")
        ('GERMAN', None, 'JAPANESE')
    """

    def __init__(self, lists: Mapping[str, frozenset[str] | set[str]]) -> None:
        self._languages: dict[str, list[str]] = {}
        for name in sorted(lists):
            for word in lists[name]:
                self._languages.setdefault(word, []).append(name)

    def language(self, text: str) -> str | None:
        """The name of the language; None where hardly any word is a stop word of one."""
        beginning = text[:_LOOK]
        letters = sum(map(str.isalpha, beginning))
        for name, letter_pattern in _UNSPACED.items():
            if letters and len(letter_pattern.findall(beginning)) > 0.2 * letters:
                return name
        words = [word.strip(_MARKS) for word in beginning.lower().split()]
        votes = Counter(name for word in words for name in self._languages.get(word, ()))
        if not votes:
            return None
        name, most = min(votes.items(), key=lambda item: (-item[1], item[0]))
        return name if most >= _LEAST * sum(1 for word in words if word) else None
