"""Names of languages, as recognisers of speech give them, and their codes."""

from __future__ import annotations

import re

#: A code of two or three letters, with or without a region, such as ``en``, ``en-US`` and ``zh_CN``.
_CODE = re.compile("([a-z]{2,3})([-_][a-z0-9]+)*")
#: Codes that Whisper has and ISO 639-1 has not.
_OWN = {"jw": "jv", "iw": "he"}

#: Names and codes of the languages of Whisper, in its order; other names of some follow.
_WHISPER = """
english:en chinese:zh german:de spanish:es russian:ru korean:ko french:fr japanese:ja portuguese:pt turkish:tr
polish:pl catalan:ca dutch:nl arabic:ar swedish:sv italian:it indonesian:id hindi:hi finnish:fi vietnamese:vi
hebrew:he ukrainian:uk greek:el malay:ms czech:cs romanian:ro danish:da hungarian:hu tamil:ta norwegian:no thai:th
urdu:ur croatian:hr bulgarian:bg lithuanian:lt latin:la maori:mi malayalam:ml welsh:cy slovak:sk telugu:te persian:fa
latvian:lv bengali:bn serbian:sr azerbaijani:az slovenian:sl kannada:kn estonian:et macedonian:mk breton:br basque:eu
icelandic:is armenian:hy nepali:ne mongolian:mn bosnian:bs kazakh:kk albanian:sq swahili:sw galician:gl marathi:mr
punjabi:pa sinhala:si khmer:km shona:sn yoruba:yo somali:so afrikaans:af occitan:oc georgian:ka belarusian:be
tajik:tg sindhi:sd gujarati:gu amharic:am yiddish:yi lao:lo uzbek:uz faroese:fo haitian_creole:ht pashto:ps
turkmen:tk nynorsk:nn maltese:mt sanskrit:sa luxembourgish:lb myanmar:my tibetan:bo tagalog:tl malagasy:mg
assamese:as tatar:tt hawaiian:haw lingala:ln hausa:ha bashkir:ba javanese:jv sundanese:su cantonese:yue
burmese:my valencian:ca flemish:nl haitian:ht letzeburgesch:lb pushto:ps panjabi:pa moldavian:ro moldovan:ro
sinhalese:si castilian:es mandarin:zh
"""
_NAMES = dict(pair.split(":") for pair in _WHISPER.split())
#: Languages that differ in sound only or in spelling only, by one of them.
_ALIKE = {
    **dict.fromkeys(("nb", "nn"), "no"),
    **dict.fromkeys(("yue", "wuu", "nan", "hak", "cmn"), "zh"),
    **dict.fromkeys(("bs", "sr", "hbs", "cnr", "sh"), "hr"),
    **dict.fromkeys(("ms", "zsm"), "id"),
    "fil": "tl",
}


def language_code(name: str) -> str | None:
    """The code of a language (ISO 639-1, or 639-3 where that has none) by its English name or a code; None if unknown.

    Args:
        name: name as Whisper and endpoints give it, such as ``"english"``, ``"en"``, ``"en-US"`` or ``"jw"``.

    Examples:
        >>> [language_code(name) for name in ("English", "en-US", "jw", "Haitian Creole", "", "Klingonese")]
        ['en', 'en', 'jv', 'ht', None, None]
    """
    plain = name.strip().lower()
    known = _NAMES.get(plain.replace(" ", "_"))
    if known is not None:
        return known
    match = _CODE.fullmatch(plain)
    return None if match is None else _OWN.get(match[1], match[1])


def is_one_language(first: str, second: str) -> bool:
    """Whether two codes are of one language, or of languages that do not differ for certain in sound or in spelling.

    Examples:
        >>> is_one_language("no", "nn"), is_one_language("zh", "yue"), is_one_language("de", "nl")
        (True, True, False)
    """
    return _ALIKE.get(first, first) == _ALIKE.get(second, second)
