"""Cut long texts at a position that does not change their first tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

#: Characters that may be where a text is cut, before one of them, if the tokenizer lets it.
_SEPARATORS = " \n\t,;。，、"
#: Letters and digits that combine with no adjacent character in any normalisation.
_PLAIN = "0-9A-Za-zÀ-ÖØ-öø-ɏΑ-ΡΣ-ωА-яא-תك-ي가-힣ぁ-ゖァ-ヺ一-鿿"
#: Words before and behind a separator with which a tokenizer is tried.
_TRIED = ("aaa", "Zz", "777", "été", "中文", "слово", "カナ", "한글")
#: Maximum average characters per token, above that of prose in any language: how much to read first.
_PER_TOKEN = 8
_MORE = 4


@dataclass(frozen=True)
class SafePrefix:
    """Cut long texts where the tokens before the cut do not depend on the text after it.

    The cut is before a separator between two letters or digits at which this tokenizer always begins another token. It
    is first tried after as many characters as the wanted tokens usually have, then further on. A text without such a
    position stays whole.

    Args:
        separators: separators that `separators` finds; none if texts are never cut.
    """

    separators: str = ""

    def first(self, tokens: int) -> int:
        """Maximum number of characters that this many tokens usually need."""
        return tokens * _PER_TOKEN

    def more(self, characters: int) -> int:
        """The next number of characters to try when there were too few tokens."""
        return characters * _MORE

    def cut(self, text: str, characters: int) -> str:
        """The text up to the first safe cut position after a number of characters; otherwise all of it.

        Examples:
            >>> SafePrefix(" ").cut("one two - three four", 5)
            'one two - three'
            >>> SafePrefix("").cut("one two", 2)
            'one two'
        """
        if not self.separators or len(text) <= characters:
            return text
        place = _places(self.separators).search(text, characters)
        return text[: place.start()] if place else text


def _places(separators: str) -> re.Pattern[str]:
    return re.compile(f"(?<=[{_PLAIN}])[{re.escape(separators)}](?=[{_PLAIN}])")


def separators(backend: Any) -> str:
    """Separators at which a tokenizer (of ``tokenizers``) always begins another token.

    It does if it splits texts there before it looks for tokens; or if none of its tokens holds the separator behind
    another character, so that no token can reach across.
    """
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    return "".join(
        separator for separator in _SEPARATORS if not _in_tokens(separator, added) and _begins(backend, separator)
    )


def _in_tokens(separator: str, added: list[str]) -> bool:
    """Whether an added token, which is matched first, could contain the separator between two letters."""
    return any(separator in token and (len(token) == 1 or token.strip()) for token in added)


def _begins(backend: Any, separator: str) -> bool:
    marks = set()
    for left in _TRIED:
        before = _pieces(backend, left)
        for right in _TRIED:
            combined = _pieces(backend, f"{left}{separator}{right}")
            if len(combined) > len(before) and combined[: len(before)] == before:
                continue
            first, joined = "".join(before), "".join(combined)
            if not joined.startswith(first) or len(joined) == len(first):
                return False
            marks.add(joined[len(first)])
    return not marks or (len(marks) == 1 and _never_inside(backend, marks.pop()))


def _pieces(backend: Any, text: str) -> list[str]:
    """The parts in which tokens are searched for, one by one."""
    normal = backend.normalizer.normalize_str(text) if backend.normalizer is not None else text
    if backend.pre_tokenizer is None:
        return [normal]
    return [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]


def _never_inside(backend: Any, mark: str) -> bool:
    """Whether no token contains the mark after another character, and the mark is known."""
    vocabulary = backend.get_vocab(with_added_tokens=False)
    if type(backend.model).__name__ not in ("BPE", "Unigram") or mark not in vocabulary:
        return False
    return not any(mark in token.lstrip(mark) for token in vocabulary)
