"""Characters of symbol fonts, which have codes of their own, as Unicode."""

from __future__ import annotations

from typing import Final

#: The character for a symbol that Unicode lacks.
UNKNOWN: Final = "\ufffd"

#: The first code and the characters of each font; spaces for codes without a character in Unicode.
_TABLES: Final[dict[str, dict[int, str]]] = {
    "symbol": {
        0x20: " !∀#∃%&∋()∗+,−./0123456789:;<=>?",
        0x40: "≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_",
        0x60: "‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
        0xA0: "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵",
        0xC0: "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓",
        0xE0: "◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
    },
    "wingdings": {
        0x21: "✏✂✁👓🕭🕮🕯🕿✆🖂🖃📪📫📬📭",
        0x30: "📁📂📄🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍",
        0x40: "🖎✌👌👍👎☜☞☝☟✋☺😐☹💣☠⚐🏱✈☼💧❄✞✞✠✡☪☯ॐ☸♈♉",
        0x60: "♊♋♌♍♎♏♐♑♒♓🙰🙵●❍■□🞐❑❒⬧⧫◆❖⬥⌧⍓⌘❀✿❝❞",
        0x80: "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿",
        0x9E: "·•▪○⭘◉◎🔿▪◻🟂✦★✶✴✹✵",
        0xD5: "⌫⌦⮘⮚⮙⮛⮈⮊⮉⮋🡨🡪🡩🡫🡬🡭🡯🡮🡸🡺🡹🡻🡼🡽🡿🡾⇦⇨⇧⇩⬄⇳⬀⬁⬃⬂🢬🢭🗶✔🗷🗹",
    },
}
#: Where symbol fonts have their codes in the private area of Unicode.
_PRIVATE: Final = 0xF000


def symbol_of(font: str, code: str) -> str:
    """A character of a symbol font as Unicode; U+FFFD for one that is not known.

    Args:
        font: its name.
        code: hexadecimal digits, with or without the offset of the private area.

    Examples:
        >>> symbol_of("Symbol", "F0B1"), symbol_of("Wingdings", "FC"), symbol_of("Arial", "2192")
        ('±', '✔', '→')
        >>> symbol_of("Webdings", "F061") == UNKNOWN
        True
    """
    try:
        number = int(code, 16)
    except ValueError:
        return UNKNOWN
    table = _TABLES.get(font.lower())
    if _PRIVATE <= number <= _PRIVATE + 0xFF:
        number -= _PRIVATE
    elif table is None or number > 0xFF:
        return chr(number) if 0x20 <= number < 0xD800 or 0xE000 <= number < 0xF0000 else UNKNOWN
    for first, characters in (table or {}).items():
        if first <= number < first + len(characters) and (number == 0x20 or characters[number - first] != " "):
            return characters[number - first]
    return UNKNOWN
