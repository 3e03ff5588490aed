"""Modifiers of transcripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from dcurate.errors import PipelineError, shown
from dcurate.text.modifier import TextModifier

#: Letters of languages that are not only those of English, as in NeMo Curator 26.09.
_LETTERS = {
    "bg": "А-Яа-я",
    "cs": "A-Za-zÁČĎÉĚÍŇÓŘŠŤÚŮÝŽáčďéěíňóřšťúůýž",
    "da": "A-Za-zÆØÅæøå",
    "de": "A-Za-zÄÖÜäöüß",
    "el": "Α-Ωα-ω",
    "es": "A-Za-zÁÉÍÓÚÜÑáéíóúüñ",
    "fi": "A-Za-zÄÖÅäöå",
    "fr": "A-Za-zÀ-ÖØ-öø-ÿ",
    "hr": "A-Za-zČĆĐŠŽčćđšž",
    "hu": "A-Za-zÁÉÍÓÖŐÚÜŰáéíóöőúüű",
    "it": "A-Za-zÀÈÉÌÒÓÙàèéìòóù",
    "mk": "А-Яа-яѓѕѝ",
    "no": "A-Za-zÆØÅæøå",
    "pl": "A-Za-zĄĆĘŁŃÓŚŹŻąćęłńóśźż",
    "pt": "A-Za-zÀ-ÖØ-öø-ÿ",
    "ro": "A-Za-zĂÂÎȘȚăâîșț",
    "ru": "А-ЯЁа-яё",
    "sk": "A-Za-zÁÄČĎÉÍĽĻŇÓÔŔŠŤÚÝŽáäčďéíľļňóôŕšťúýž",
    "sl": "A-Za-zČŠŽčšž",
    "sr": "А-ЯЂЈЉЊЋЏа-яђјљњћџ",
    "sv": "A-Za-zÅÄÖåäö",
    "uk": "А-ЯҐЄІЇа-яґєії",
}
#: Words of a letter, which are no part of an abbreviation at its ends.
_WORDS = {"en": {"a"}, "es": {"a"}, "it": {"a", "e"}, "pt": {"a", "e"}}
#: What follows the apostrophe after I: I'm, I'll, I've, I'd, you're.
_AFTER_I = ("m", "ll", "ve", "d", "re")


class AbbreviationJoiner(TextModifier):
    """Write letters that a recogniser spelled as one abbreviation: ``A P I`` becomes ``API``.

    The rules are those of NeMo Curator's ``AbbreviationConcatStage``: two or more letters with one space between them,
    the last with or without the ``s`` of a plural, as in ``P Cs``, and no letter or digit beside them. Left as they
    are: a letter that is only repeated, two letters of different case, words of one letter (``a``; in Italian and
    Portuguese also ``e``) at either end, ``Is``, ``As`` and the like at the end, and the I of ``I'm``.

    For the language of each row, give its column as a second field named ``language``:
    ``Modify(AbbreviationJoiner(), input_fields=[["text", "language"]], output_fields="text")``.

    Args:
        language: the language of texts, ISO 639-1; where a row has its own, this counts for those with none.

    Examples:
        >>> joiner = AbbreviationJoiner()
        >>> joiner.modify_document("the P Cs of N A S A")
        'the PCs of NASA'
        >>> joiner.modify_document("a P I. I'm A B", language="en")
        "a PI. I'm AB"
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language

    def modify_document(self, text: str | None, language: str | None = None) -> str | None:
        if text is None:
            return None
        return join_spelled(text, (language or self._language).strip().lower())[0]


class RegexSubstituter(TextModifier):
    r"""Replace what matches regular expressions, one after the other, and write white space as single spaces.

    Each expression sees the text with a space before and after it, as in NeMo Curator's ``RegexSubstitutionStage``, so
    that ``" um "`` also matches at the ends.

    Args:
        rules: the rules, in order, each with ``pattern`` and ``repl``, in the syntax of Python's `re`, and maybe
            ``count``: how often it is applied to a text; 0 for no limit. One such as ``(a+)+b`` can take for ever.

    Raises:
        PipelineError: a rule lacks a pattern, or it cannot be compiled.

    Examples:
        >>> rules = [{"pattern": r"[\[\(].*?[\]\)]", "repl": " "}, {"pattern": " um ", "repl": " "}]
        >>> RegexSubstituter(rules).modify_document("um [noise] so  it (laughs) is")
        'so it is'
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        if isinstance(rules, str | bytes | Mapping) or not isinstance(rules, Sequence):
            raise PipelineError(f"rules={shown(rules)} must be a list of rules, each with 'pattern' and 'repl'")
        self._rules = [_rule(number, rule) for number, rule in enumerate(rules)]

    def modify_document(self, text: str) -> str:
        text = f" {text} "
        for pattern, replacement, count in self._rules:
            text = pattern.sub(replacement, text, count=count)
        return " ".join(text.split())


def join_spelled(text: str, language: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a text with spelled abbreviations joined, and what was joined, before and after.

    Examples:
        >>> join_spelled("the P Cs of N A S A", "en")
        ('the PCs of NASA', [('P Cs', 'PCs'), ('N A S A', 'NASA')])
    """
    words, changes = _WORDS.get(language, set()), []

    def joined(match: re.Match[str]) -> str:
        run, end = match[0], match.end()
        after = text[end + 1 : end + 4].lower().startswith(_AFTER_I) and text[end] in "'’‘ʼ"
        if not after or run[-2:] not in (" I", " i"):
            made = _joined(run, words)
        else:
            made = (_joined(run[:-2], words) if len(run) > 3 else run[:-2]) + run[-2:]
        if made != run:
            changes.append((run, made))
        return made

    return _runs(language).sub(joined, text), changes


@cache
def _runs(language: str) -> re.Pattern[str]:
    """What finds letters with single spaces between them."""
    letter = f"[{_LETTERS.get(language, 'A-Za-z')}]"
    return re.compile(rf"(?<![\w’ʼ])(?<![Ii]['‘])({letter}(?: {letter})+s?)(?!\w)")


def _joined(run: str, words: set[str]) -> str:
    letters = run.split(" ")
    tail = ""
    last = letters[-1]
    if len(last) == 2 and run != "A P Is" and (last[0] in "AEIOUaeiou" or not last[0].isupper()):
        tail = " " + letters.pop()
    rest = " ".join(letters)
    if len(letters) < 2 or (len(letters) == 2 and not words.isdisjoint(letters)):
        return run
    word = "".join(letters)
    if len(set(word.upper())) == 1 or (len(word) == 2 and word[0].islower() != word[1].islower()):
        return run
    inner = _without_words(letters, words)
    start = rest.index(inner)  # of the first such letters, as in NeMo Curator
    return rest[:start] + inner.replace(" ", "") + rest[start + len(inner) :] + tail


def _without_words(letters: list[str], words: set[str]) -> str:
    """The letters without words of a letter at the ends; all of them if less than two remain."""
    start, stop = int(letters[0] in words), len(letters)
    before = [letter.upper() for letter in letters[start:-1]][-2:]
    if stop > start and letters[-1] in words and before not in (["D", "N"], ["R", "N"]):
        stop -= 1
    return " ".join(letters[start:stop] if stop - start >= 2 else letters)


def _rule(number: int, rule: Mapping[str, Any]) -> tuple[re.Pattern[str], str, int]:
    if (
        not isinstance(rule, Mapping)
        or not isinstance(rule.get("pattern"), str)
        or not isinstance(rule.get("repl"), str)
    ):
        raise PipelineError(f"rules[{number}]={shown(rule)} must have texts 'pattern' and 'repl'")
    unknown = sorted(set(rule) - {"pattern", "repl", "count"})
    if unknown:
        raise PipelineError(f"rules[{number}] has {unknown[0]!r}; a rule has 'pattern', 'repl' and 'count'")
    count = rule.get("count", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise PipelineError(f"rules[{number}]: count={shown(count)} must be a number of times, 0 for no limit")
    try:
        pattern = re.compile(rule["pattern"])
        pattern.sub(rule["repl"], "")
    except (re.error, IndexError) as error:
        raise PipelineError(
            f"rules[{number}]: {rule['pattern']!r} to {rule['repl']!r} does not work: {error}"
        ) from None
    return pattern, rule["repl"], count
