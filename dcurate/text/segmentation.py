"""Word segmentation for languages written without spaces, by libraries of the ``lang`` extra."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias

from dcurate.core.extras import missing, missing_dependency, needed
from dcurate.frames.text import TextColumn, column_of, encodable

#: A function from a text to its words, in order; together they cover the text except some whitespace.
Splitter: TypeAlias = Callable[[str], list[str]]

#: Replacements for whitespace that a library counts as a word or as part of one: Unicode noncharacters, which are
#: reserved for internal use by programs.
_STAND_INS = {space: 0xFDD0 + place for place, space in enumerate(at for at in range(0x3001) if chr(at).isspace())}
_SPACES = {stand_in: space for space, stand_in in _STAND_INS.items()}
_SPACE = re.compile(r"\s")

#: How jieba cuts a text before it looks at words, and what it makes of marks between letters and digits; jieba-rs
#: differs in these, and nowhere else that we have seen.
_BLOCKS = re.compile(r"([\u4E00-\u9FD5a-zA-Z0-9+#&._%\-]+)")
_SINGLE = re.compile(r"\r\n|.", re.DOTALL)
_MARK = re.compile(r"[+#&._%\-]")
_PARTS = re.compile(r"([\u4E00-\u9FD5]+|[a-zA-Z0-9]+(?:\.\d+)?%?)")
_WITH_MARKS = frozenset({"AT&T", "C#", "c#", "C++", "c++"})

#: What MeCab may take for one unknown word, if it is long: it looks at all of it from each of its characters on, so
#: 100,000 digits take minutes. Such a word has characters of one kind, as `char.def` of UniDic lists them. Only blanks,
#: tabs and line ends are whitespace to it; all other whitespace and ends of sentences are symbols. So are kanji that
#: are numbers, after the one for zero.
_NO_NUMBERS = (
    "\u4e01\u4e02\u4e04-\u4e06\u4e08\u4e0a-\u4e5c\u4e5e-\u4e8b\u4e8d-\u4e93\u4e95-\u5103\u5105-\u5145\u5147-\u516a\u516c"
    "\u516e-\u5340\u5342\u5344-\u56da\u56dc-\u767d\u767f-\u9fa5"
)
_LONG_RUN = re.compile(
    r"([^\s\u3040-\u309F\u4E00-\u9FFF。、]{2000}|[\u3041-\u309F]{2000}"
    rf"|[^ \t\n\v0-9A-Za-z\u3041-\u309F\u30A1-\u30FF{_NO_NUMBERS}]{{2000}})"
)
#: Parts of a text that MeCab refuses as a whole, since the sum of its costs does not fit 32 bits: that of so few
#: characters does. They end at whitespace or at the end of a sentence if they can.
_PART = re.compile(r".{1,10000}(?<=[\s。])|.{1,10000}", re.DOTALL)

#: Parts of a long text that Kiwi is given one by one, as its time grows faster than the text: they end at a line end if
#: they can, else at whitespace. And characters without whitespace that it looks at together, from each of them on.
_STRETCH = re.compile(r".{1,10000}(?:.{0,10000}?\n|.{0,10000}?\s|.{0,10000})", re.DOTALL)
_LONG_CHUNK = re.compile(r"(\S{2000})")

#: Digits that PyThaiNLP takes for one number, if they are many: it looks at all of them from each of them on.
_LONG_NUMBER = re.compile(r"([\d.,]{500})")


def _chinese() -> Splitter:
    cut = needed("rjieba", "splitting Chinese into words", "lang").cut
    cut("")

    def words(text: str) -> list[str]:
        pieces: list[str] = []
        for place, part in enumerate(_BLOCKS.split(text)):
            if place % 2 == 0:
                pieces += _SINGLE.findall(part)
                continue
            for word in cut(part):
                if len(word) > 1 and _MARK.search(word) and word not in _WITH_MARKS:
                    pieces += filter(None, _PARTS.split(word))
                else:
                    pieces.append(word)
        return pieces

    return words


def cut_runs(text: str) -> str:
    r"""A Japanese text with a blank in each run of characters that MeCab could take for a long unknown word.

    Examples:
        >>> cut_runs("日本語。"), len(cut_runs("=\u2028" * 3000))
        ('日本語。', 6003)
    """
    return _LONG_RUN.sub(r"\1 ", text)


def _japanese() -> Splitter:
    mecab = needed("MeCab", "splitting Japanese into words", "lang")
    needed("unidic_lite", "splitting Japanese into words", "lang")
    local = threading.local()  # a tagger must not be used by two threads at a time

    def words(text: str) -> list[str]:
        if not hasattr(local, "tagger"):
            local.tagger = mecab.Tagger("-Owakati")
        cut = cut_runs(text.replace("\0", " "))
        parsed = local.tagger.parse(cut)
        parts = map(local.tagger.parse, _PART.findall(cut)) if parsed is None else [parsed]
        return [word for part in parts for word in part.rstrip("\n").split(" ")]

    words("")
    return words


def _korean() -> Splitter:
    kiwi = needed("kiwipiepy", "splitting Korean into words", "lang").Kiwi(num_workers=1)

    def words_of(part: str) -> list[str]:
        spans: list[tuple[int, int]] = []
        for token in kiwi.tokenize(part):
            if spans and token.start < spans[-1][1]:  # two morphemes of one syllable
                spans[-1] = spans[-1][0], max(spans[-1][1], token.end)
            else:
                spans.append((token.start, token.end))
        return [part[start:stop] for start, stop in spans]

    def words(text: str) -> list[str]:
        parts = _STRETCH.findall(_LONG_CHUNK.sub(r"\1 ", text))
        return [word for part in parts for word in words_of(part)]

    words("")
    return words


def _thai() -> Splitter:
    tokenize = needed("pythainlp.tokenize", "splitting Thai into words", "lang").word_tokenize

    def words(text: str) -> list[str]:
        cut = _LONG_NUMBER.sub(r"\1 ", text)
        return tokenize(cut, engine="newmm-safe", keep_whitespace=False)  # type: ignore[no-any-return]

    words("ก")
    return words


_LIBRARIES: dict[str, Callable[[], Splitter]] = {"zh": _chinese, "ja": _japanese, "ko": _korean, "th": _thai}
_MODULES = {"zh": ("rjieba",), "ja": ("MeCab", "unidic_lite"), "ko": ("kiwipiepy",), "th": ("pythainlp",)}
_loading = threading.Lock()


def needs_splitting(lang: str) -> bool:
    """Whether words of the language, an ISO 639-1 code in any case, need a library for segmentation.

    Examples:
        >>> needs_splitting("ZH"), needs_splitting("en")
        (True, False)
    """
    return lang.lower() in _LIBRARIES


def libraries_of(lang: str) -> tuple[str, ...]:
    """The top-level modules that split texts of a language into words; none for most languages."""
    return _MODULES.get(lang.lower(), ())


def check_installed(lang: str) -> None:
    """Check that the library for a language is installed, without loading its dictionary.

    Raises:
        ResourceError: the library is not installed.
    """
    for module in missing(libraries_of(lang)):
        raise missing_dependency(
            f"splitting texts of language={lang!r} into words", f"No module named {module!r}", "lang"
        )


def splitter(lang: str) -> Splitter:
    """The segmenter of a language; the first call in a process loads its dictionary.

    Raises:
        ResourceError: the library is not installed.
    """
    with _loading:
        return _loaded(lang.lower())


@cache
def _loaded(lang: str) -> Splitter:
    return _LIBRARIES[lang]()


def spaced(texts: Iterable[str], lang: str) -> TextColumn:
    """The texts with their words separated by one space, and no other whitespace.

    Whitespace that the library takes for a word or a part of one is replaced, character by character.
    """
    words_of = splitter(lang)
    return column_of(_line(words_of(encodable(text.strip()))).encode() for text in texts)


def words_in(line: str) -> list[str]:
    """The words of a text made by `spaced`, as returned by the library.

    Examples:
        >>> words_in(_line(["a", " ", "b"]))
        ['a', ' ', 'b']
    """
    return [word.translate(_SPACES) for word in line.split()]


def _line(words: list[str]) -> str:
    return " ".join(word.translate(_STAND_INS) if _SPACE.search(word) else word for word in words if word)
