"""Split texts into translated and unchanged segments, so that they can be joined again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dcurate.text.splitters import SENTENCE_ENDS

MODES = ("coarse", "fine")

#: Where a sentence ends: after its marks and closing quotes, at whitespace; in scripts without spaces right there.
_ENDS = "".join(re.escape(mark) for mark in sorted(SENTENCE_ENDS))
_SENTENCE = re.compile(rf"(?:[。！？｡]+[\"'”’」』）)]*\s*|[{_ENDS}]+[\"'”’»)\]]*(?:\s+|$))")
_FENCE = "```"


@dataclass(frozen=True)
class Segments:
    """A text in segments.

    Args:
        pieces: pieces of the text, in order; joined they are the text.
        places: indices of the translated segments.
    """

    pieces: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def texts(self) -> list[str]:
        """The segments to translate, in order, without surrounding whitespace."""
        return [self.pieces[place].strip() for place in self.places]

    def joined(self, translations: Sequence[str]) -> str:
        r"""The text with translations inserted; surrounding whitespace is unchanged.

        Examples:
            >>> segments_of("  Hello.\n\nBye.").joined(["Hallo.", "Tschüss."])
            '  Hallo.\n\nTschüss.'
        """
        pieces = list(self.pieces)
        for place, translation in zip(self.places, translations, strict=True):
            piece = pieces[place]
            start = len(piece) - len(piece.lstrip())
            stop = len(piece.rstrip())
            pieces[place] = piece[:start] + translation.strip() + piece[stop:]
        return "".join(pieces)


def segments_of(text: str, mode: str = "coarse", least: int = 0) -> Segments:
    r"""A text as lines, or as sentences.

    Blocks of code between lines of three backticks, lines without letters, tags and JSON stay as they are.

    Args:
        mode: ``"coarse"`` for lines, ``"fine"`` for the sentences of lines.
        least: a text of fewer characters is one piece.

    Examples:
        >>> segments_of("A line.\n```\ncode\n```\n42").texts
        ['A line.']
        >>> segments_of("One. Two! “Three.” 4. 五。六。", "fine").texts
        ['One.', 'Two!', '“Three.”', '五。', '六。']
    """
    if len(text) < least:
        return Segments((text,), (0,) if text.strip() else ())
    pieces: list[str] = []
    places: list[int] = []
    in_code = False
    for line in text.splitlines(keepends=True):
        fence = line.strip().startswith(_FENCE)
        in_code ^= fence
        for piece in [line] if fence or in_code or mode == "coarse" else _sentences(line):
            if not fence and not in_code and is_translatable(piece):
                places.append(len(pieces))
            pieces.append(piece)
    return Segments(tuple(pieces), tuple(places))


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE.finditer(line):
        yield line[start : end.end()]
        start = end.end()
    if start < len(line):
        yield line[start:]


def is_translatable(piece: str) -> bool:
    """Return whether a text has something to translate: letters, and it is neither a tag nor JSON.

    Examples:
        >>> is_translatable("Hi"), is_translatable("3.14"), is_translatable("<br/>"), is_translatable('{"a": 1}')
        (True, False, False, False)
    """
    bare = piece.strip()
    if not any(map(str.isalpha, bare)) or (bare.startswith("<") and bare.endswith(">")):
        return False
    if bare[0] in "{[":
        try:
            return not isinstance(json.loads(bare), dict | list)
        except ValueError:
            return True
        except RecursionError:  # deep JSON is JSON, too
            return False
    return True
