"""Split a text into words in plain Python, as the kernels of n-grams do."""

from __future__ import annotations

import unicodedata

#: Scripts of which each character is a word.
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER")


def is_word(character: str) -> bool:
    return unicodedata.name(character, "").startswith(UNSPACED)


def words(text: str) -> list[tuple[str, int, int]]:
    """The words of a text, and where in it their first letter begins and their last ends."""
    found: list[tuple[str, int, int]] = []
    inside = False
    for place, character in enumerate(text):
        if character.isspace():
            inside = False
        elif unicodedata.category(character)[0] in "LMN":
            letter = "σ" if character == "ς" else character.lower()[0]
            if is_word(character):
                found.append((letter, place, place + 1))
                inside = False
            elif inside:
                word, start, _ = found[-1]
                found[-1] = (word + letter, start, place + 1)
            else:
                found.append((letter, place, place + 1))
                inside = True
    return found
