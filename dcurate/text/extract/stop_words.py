"""Stop words of a page's language: jusText's lists, found by the code or the name of the language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import NamedTuple

from dcurate.core.extras import needed
from dcurate.text.extract.language import StopWordVote, shown_text

ENGLISH = "ENGLISH"

#: jusText's names of languages by ISO 639-1 and 639-3 codes; those of no list are written as NeMo Curator has them.
_CODES = """
af afr Afrikaans, sq sqi Albanian, ar ara Arabic, an arg Aragonese, hy hye Armenian, rup Aromanian, ast Asturian,
az aze Azerbaijani, azj Azerbaijani, eu eus Basque, be bel Belarusian, bn ben Bengali, bpy Bishnupriya_Manipuri,
bs bos Bosnian, br bre Breton, bg bul Bulgarian, ca cat Catalan, ceb Cebuano, cv chv Chuvash, hr hrv Croatian,
cs ces Czech, da dan Danish, nl nld Dutch, en eng English, eo epo Esperanto, et est Estonian, ekk Estonian,
fi fin Finnish, fr fra French, gl glg Galician, ka kat Georgian, de deu German, el ell Greek, gu guj Gujarati,
ht hat Haitian, he heb Hebrew, iw Hebrew, hi hin Hindi, hu hun Hungarian, is isl Icelandic, io ido Ido, ig ibo Igbo,
id ind Indonesian, ga gle Irish, it ita Italian, jv jav Javanese, kn kan Kannada, kk kaz Kazakh, ko kor Korean,
ku kur Kurdish, kmr Kurdish, ky kir Kyrgyz, lv lav Latvian, lvs Latvian, lt lit Lithuanian, lmo Lombard, nds Low_Saxon,
lb ltz Luxembourgish, mk mkd Macedonian, ms msa Malay, zsm Malay, ml mal Malayalam, mt mlt Maltese, mr mar Marathi,
nap Neapolitan, ne nep Nepali, npi Nepali, new Newar, no nor Norwegian_Bokmal, nb nob Norwegian_Bokmal,
nn nno Norwegian_Nynorsk, oc oci Occitan, fa fas Persian, pes Persian, pms Piedmontese, pl pol Polish,
pt por Portuguese, qu que Quechua, ro ron Romanian, ru rus Russian, sgs Samogitian, sr srp Serbian,
sh hbs Serbo_Croatian, scn Sicilian, sk slk Slovak, sl slv Slovenian, es spa Spanish, su sun Sundanese,
sw swa Swahili, swh Swahili, sv swe Swedish, tl tgl Tagalog, fil Tagalog, ta tam Tamil, te tel Telugu, tr tur Turkish,
tk tuk Turkmen, uk ukr Ukrainian, ur urd Urdu, uz uzb Uzbek, uzn Uzbek, vi vie Vietnamese, vo vol Volapuk,
wa wln Walloon, war Waray_Waray, cy cym Welsh, fy fry West_Frisian, pnb Western_Panjabi, yo yor Yoruba,
zh zho Chinese, cmn Chinese, yue Chinese, ja jpn Japanese, th tha Thai
"""
_NAMES = {
    code: name
    for line in _CODES.replace("\n", " ").split(",")
    for *codes, name in [line.split()]
    for code in [*codes, name.lower()]
}


#: The two-letter code of each language that has one, by its three-letter codes and its English name.
_SHORT = {
    name: codes[0]
    for line in reversed(_CODES.replace("\n", " ").split(","))  # the first of a name stays
    for *codes, english in [line.split()]
    if len(codes[0]) == 2
    for name in [*codes[1:], english.lower()]
}


def short_code(name: str) -> str | None:
    """The two-letter code of a language by its three-letter code or English name; None if unknown.

    Examples:
        >>> short_code("eng"), short_code("German"), short_code("en"), short_code("ceb")
        ('en', 'de', None, None)
    """
    return _SHORT.get(name.lower())


def language_name(code: str) -> str | None:
    """The English name of a language, by its ISO 639 code; None if unknown.

    Examples:
        >>> language_name("de"), language_name("qqq")
        ('German', None)
    """
    name = _NAMES.get(code.strip().lower().replace("-", "_").partition("_")[0])
    return None if name is None else name.replace("_", " ")


class StopWords(NamedTuple):
    """The stop words of a language, and its English name in capitals."""

    words: frozenset[str]
    language: str


class StopLists:
    """Lists of stop words by language, loaded when a page first needs one.

    Args:
        given: lists by the English name of the language in capitals, to be used instead of jusText's.
    """

    def __init__(self, given: Mapping[str, frozenset[str]] | None = None) -> None:
        self._given = given
        self._known: dict[str, StopWords] = {}

    def of_page(self, page: str) -> StopWords:
        """The stop words of the language of a page's text; none if it is unclear.

        Args:
            page: its markup.

        Examples:
            >>> lists = StopLists({"ENGLISH": frozenset({"the"}), "GERMAN": frozenset({"der"})})
            >>> lists.of_page("<p>Der Tag</p>").language, lists.of_page("<p>12:30</p>")
            ('GERMAN', StopWords(words=frozenset(), language=''))
        """
        vote = _vote() if self._given is None else self._given_vote
        language = vote.language(shown_text(page)) or ""
        return StopWords(self._list(language), language)

    @cached_property
    def _given_vote(self) -> StopWordVote:
        return StopWordVote(self._given or {})

    def of(self, language: str) -> StopWords:
        """The stop words of a language; none if there is no list for it.

        Args:
            language: ISO 639 code, also with a script (``"srp_Cyrl"``), or its English name.

        Examples:
            >>> StopLists({"ENGLISH": frozenset({"the"})}).of("en")
            StopWords(words=frozenset({'the'}), language='ENGLISH')
        """
        wanted = language.strip().lower()
        if wanted not in self._known:
            name = _NAMES.get(wanted) or _NAMES.get(wanted.replace("-", "_").partition("_")[0], wanted)
            self._known[wanted] = StopWords(self._list(name), name.upper())
        return self._known[wanted]

    def _list(self, name: str) -> frozenset[str]:
        if self._given is not None:
            return frozenset(self._given.get(name.upper(), ()))
        return _justext().get(name.upper(), frozenset())


@cache
def _justext() -> dict[str, frozenset[str]]:
    """All of jusText's lists."""
    lists = needed("justext", "stop words", "html")
    return {name.upper(): frozenset(lists.get_stoplist(name)) for name in lists.get_stoplists()}


@cache
def _vote() -> StopWordVote:
    return StopWordVote(_justext())
