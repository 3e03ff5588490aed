"""Word definitions of the rule sets: ways to split a string without whitespace."""

from __future__ import annotations

import re
import string
import unicodedata


def _characters(runs: str) -> frozenset[str]:
    """The characters of runs of code points, written in hexadecimal.

    Examples:
        >>> sorted(_characters("41-43 61"))
        ['A', 'B', 'C', 'a']
    """
    bounds = [run.partition("-") for run in runs.split()]
    return frozenset(
        chr(point) for first, _, last in bounds for point in range(int(first, 16), int(last or first, 16) + 1)
    )


#: Marks at which a sentence ends (Unicode's Sentence_Terminal, as spaCy's sentencizer has it).
SENTENCE_ENDS = _characters(
    "21 2E 3F 589 61F 6D4 700-702 7F9 964-965 104A-104B 1362 1367-1368 166E 1735-1736 1803 1809 1944-1945 1AA8-1AAB "
    "1B5A-1B5B 1B5E-1B5F 1C3B-1C3C 1C7E-1C7F 203C-203D 2047-2049 2E2E 2E3C 3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 "
    "A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52 FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57 11047-11048 "
    "110BE-110C1 11141-11143 111C5-111C6 111CD 111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 "
    "115C9-115D7 11641-11642 1173C-1173E 11A42-11A43 11A9B-11A9C 11C41-11C42 16A6E-16A6F 16AF5 16B37-16B38 16B44 1BC9F "
    "1DA88"
)
#: Marks at which a line ends well (the same property in a later version of Unicode, as datatrove has it).
LINE_ENDS = SENTENCE_ENDS | _characters(
    "61D-61E 837 839 83D-83E 17D4-17D6 17D9-17DA 1B7D-1B7E 2E53-2E54 10F55-10F59 10F86-10F89 11944 11946 11EF7-11EF8 "
    "11F43-11F44 16E98"
)
#: What datatrove counts as symbols and not as parts of words: punctuation, most of ASCII's symbols, controls.
SYMBOLS = LINE_ENDS | _characters(
    "0-8 B-1F 22-2D 2F 3A-3E 40 5B-60 7B-9F AB B4 BB 2013-2014 2019 201C-201E 2026 2236 2501 25BA 3001 3008-300D "
    "3010-3011 FF05 FF08-FF09 FF0C FF11 FF1A-FF1B FF5E"
)

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PAIRS = re.compile(r"\w+|[^\w\s]+")
#: Letters of scripts written without spaces are words by themselves (Unicode Standard Annex 29).
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30a0\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINED = rf"(?![{_ALONE}])[^\W\d_]"
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u200c\u200d\ufe0f]"
)
_UNICODE = re.compile(
    rf"(?:(?:{_JOINED}|[\d_]){_MARK}*|(?<=[^\W\d_])[:·.'‘’․‧︓﹒﹕＇．：](?={_JOINED})|(?<=\d)[.,;'’‘٬︐︔﹐﹔，；․﹒＇．](?=\d))+"
    rf"|[{_ALONE}]{_MARK}*"
)


def split_unicode(chunk: str) -> list[str]:
    """Words by Unicode Standard Annex 29 that begin with a letter or digit (DCLM).

    Examples:
        >>> split_unicode("(don't,"), split_unicode("e.g.,3.14")
        (["don't"], ['e.g', '3.14'])
    """
    return [word for word in _UNICODE.findall(chunk) if word[0].isalnum()]


def split_pairs(chunk: str) -> list[str]:
    """Runs of letters and digits, and runs of other characters (NLTK's WordPunct, used by RedPajama).

    Examples:
        >>> split_pairs("don't...")
        ['don', "'", 't', '...']
    """
    return _PAIRS.findall(chunk)


def split_normalized(chunk: str) -> list[str]:
    """The string in lower case, without ASCII punctuation, decomposed (RedPajama).

    Examples:
        >>> split_normalized("Don't!"), split_normalized("--")
        (['dont'], [])
    """
    word = unicodedata.normalize("NFD", chunk.translate(_WITHOUT_PUNCTUATION).lower())
    return [word] if word else []


def split_fasttext(chunk: str) -> list[str]:
    """The string itself, split at zero bytes, if it begins with a letter or digit (DCLM's page length).

    Examples:
        >>> split_fasttext("don't"), split_fasttext("(a")
        (["don't"], [])
    """
    return [word for word in chunk.split("\0") if word and word[0].isalnum()]
