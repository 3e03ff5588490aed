"""English tokenization as in spaCy's blank pipeline, which datatrove's English filters use.

The order of steps is spaCy's: a run of non-blank characters is looked up whole; then marks are taken from its front
and back, one each in turn; what is left is an address or is cut where marks join words. Its tables of exceptions
(spacy.lang.en, MIT licence) are described here, not copied: clitics by rule, abbreviations by list.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels import runs
from dcurate.kernels.english import Exceptions, exceptions

_QUOTES = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉〈〉⟦⟧"
_MARKS = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
_CURRENCY = str.split("$ £ € ¥ ฿ US$ C$ A$ ₽ ﷼ ₴ ₠ ₡ ₢ ₣ ₤ ₥ ₦ ₧ ₨ ₩ ₪ ₫ ₭ ₮ ₯ ₰ ₱ ₲ ₳ ₵ ₶ ₷ ₸ ₹ ₺ ₻ ₼ ₾ ₿")
_LETTERED_CURRENCY = "US$", "C$", "A$"
_DIGITS = frozenset("0123456789")
#: Punctuation removed only at the end, after any character.
_SINGLE = frozenset(_QUOTES + _MARKS) - {"…"}
_UNITS = str.split(
    "km km² km³ m m² m³ dm dm² dm³ cm cm² cm³ mm mm² mm³ ha µm nm yd in ft kg g mg µg t lb oz m/s km/h kmh mph hPa Pa "
    "mbar mb MB kb KB gb GB tb TB T G M K % км км² км³ м м² м³ дм дм² дм³ см см² см³ мм мм² мм³ нм кг г мг м/с км/ч "
    "кПа Па мбар Кб КБ кб Мб МБ мб Гб ГБ гб Тб ТБ тбكم كم² كم³ م م² م³ سم سم² سم³ مم مم² مم³ كم غرام جرام جم كغ ملغ "
    "كوب اكواب"
)
#: Blocks of scripts without upper and lower case, whose every character counts as a letter of both cases.
_UNCASED = (
    "\u1200-\u137f\u0980-\u09ff\u0591-\u05f4\ufb1d-\ufb4f\u0620-\u064a\u066e-\u06d5\u06e5-\u06ff\u0750-\u077f\u08a0-\u08bd"
    "\ufb50-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdc7\ufdf0-\ufdfb\ufe70-\ufefc\U0001ee00-\U0001eebb\u0d80-\u0dff\u0900-\u097f"
    "\u0c80-\u0cff\u0b80-\u0bff\u0c00-\u0c7f\uac00-\ud7af\u1100-\u11ff\u3040-\u30ff\u4e00-\u9fff\u3400-\u4dbf"
    "\U00020000-\U000215ff\U00021600-\U000230ff\U00023100-\U000245ff\U00024600-\U000260ff\U00026100-\U000275ff"
    "\U00027600-\U000290ff\U00029100-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf"
    "\U0002ceb0-\U0002ebef\u2e80-\u2fdf\u2ff0-\u303f\u31c0-\u31ef\u3200-\u33ff\uf900-\ufaff\ufe30-\ufe4f"
    "\U0001f200-\U0001f2ff\U0002f800-\U0002fa1f"
)
#: Where letters with case are looked for: Latin and its extensions, full width.
_LATIN = (
    *(range(0x41, 0x5B), range(0x61, 0x7B), range(0xC0, 0x1C0), range(0x1C4, 0x2B0), range(0x1D00, 0x1D26)),
    *(range(0x1D6B, 0x1D78), range(0x1D79, 0x1D9B), range(0x1E00, 0x1F00), range(0x2C60, 0x2C80)),
    *(range(0xA722, 0xA7BA), range(0xAB30, 0xAB65), range(0xFF21, 0xFF3B), range(0xFF41, 0xFF5B)),
)
_LOWER_ELSEWHERE = "α-ωάέίόώήύа-яёіїєґѓѕјљњќѐѝәөүҗңһ"
_UPPER_ELSEWHERE = "Α-ΩΆΈΊΌΏΉΎА-ЯЁІЇЄҐЃЅЈЉЊЌЀЍӘӨҮҖҢҺ"

_ABBREVIATIONS = str.split(
    "Mt. Ak. Ala. Apr. Ariz. Ark. Aug. Calif. Colo. Conn. Dec. Del. Feb. Fla. Ga. Ia. Id. Ill. Ind. Jan. Jul. Jun. "
    "Kan. Kans. Ky. La. Mar. Mass. Mich. Minn. Miss. N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. Okla. "
    "Ore. Pa. S.C. Sep. Sept. Tenn. Va. Wash. Wis. a.m. Adm. Bros. co. Co. Corp. D.C. Dr. e.g. E.g. E.G. Gen. Gov. "
    "i.e. I.e. I.E. Inc. Jr. Ltd. Md. Messrs. Mo. Mont. Mr. Mrs. Ms. p.m. Ph.D. Prof. Rep. Rev. Sen. St. vs. v.s. "
    "'S 's ‘S ‘s and/or w/o 're 'Cause 'cause 'cos 'Cos 'coz 'Coz 'cuz 'Cuz 'bout ma'am Ma'am o'clock O'clock lovin' "
    "Lovin' havin' Havin' 'd 'em 'll 'nuff doin' Doin' goin' Goin' nothin' Nothin' nuthin' Nuthin' ol' Ol' somethin' "
    "Somethin' — ' '' \\\") \\t \\n <space> C++ ä. ö. ü."
)
_FACES = str.split(
    ":) :-) :)) :-)) :))) :-))) (: (-: =) (= :] :-] [: [-: [= =] :o) (o: :} :-} 8) 8-) (-8 ;) ;-) (; (-; :( :-( :(( "
    ":-(( :((( :-((( ): )-: =( >:( :') :'-) :'( :'-( :/ :-/ =/ =| :| :-| ]= =[ :1 :P :-P :p :-p :O :-O :o :-o :0 :-0 "
    ":() >:o :* :-* :3 :-3 =3 :> :-> :X :-X :x :-x :D :-D ;D ;-D =D xD XD xDD XDD 8D 8-D ^_^ ^__^ ^___^ >.< >.> <.< "
    "._. ;_; -_- -__- v.v V.V v_v V_V o_o o_O O_o O_O 0_o o_0 0_0 o.O O.o O.O o.o 0.0 o.0 0.o @_@ <3 <33 <333 </3 "
    "(^_^) (-_-) (._.) (>_<) (*_*) (¬_¬) ಠ_ಠ ಠ︵ಠ (ಠ_ಠ) ¯\\(ツ)/¯ (╯°□°）╯︵┻━┻ ><(((*>"
)
#: In two or three parts as written here, and with a capital first letter.
_PARTED = "y' all|y all|not 've|not ve|can not|gon na|got ta|let 's|c'm on|how 'd 'y"
_ONLY_LOWER = ("y'all", "yall")
_WHOLE = str.split("ill its hell shell shed were well whore")


def _clitics() -> dict[str, tuple[str, ...]]:
    """Contractions such as ``don't``, with and without the apostrophe."""
    clitics: dict[str, tuple[str, ...]] = {}

    def add(heads: str, *tails: str) -> None:
        for head, tail in product(heads.split(), tails):
            for first in (head, head.title()):
                parts = first, *tail.split()
                clitics["".join(parts)] = parts
                bare = tuple(part.replace("'", "") for part in parts)
                clitics["".join(bare)] = bare

    everyone = "i you he she it we they"
    add("i", "'m", "'m a")
    add(everyone, "'ll", "'ll 've", "'d", "'d 've")
    add("i you we they", "'ve")
    add("you we they", "'re")
    add("he she it", "'s")
    asking = "who what when where why how there"
    add(f"{asking} that this", "'s")
    add(f"{asking} that this these those", "'ll", "'ll 've", "'d", "'d 've")
    add(f"{asking} these those", "'re", "'ve")
    add("ca could do does did had may might must need ought sha should wo would", "n't", "n't 've")
    add("could might must should would", "'ve")
    add("ai are is was were have has dare", "n't")
    return clitics


@cache
def _special() -> dict[str, tuple[str, ...]]:
    """Strings that are words, or contain them, by themselves."""
    special = _clitics()
    for hour, half in product(range(1, 13), ("a.m.", "am", "p.m.", "pm")):
        special[f"{hour}{half}"] = (str(hour), half)
    for text in _PARTED.split("|"):
        parts = tuple(text.split())
        special["".join(parts)] = parts
        if "".join(parts) not in _ONLY_LOWER:
            special["".join(parts).capitalize()] = (parts[0].capitalize(), *parts[1:])
    for word in (*_ABBREVIATIONS, *_FACES, *(f"{letter}." for letter in "abcdefghijklmnopqrstuvwxyz")):
        special[word] = (word,)
    for word in _WHOLE:
        for form in (word, word.title()):
            special.pop(form, None)
    for scale in "cfkCFK":
        special[f"°{scale}."] = ("°", scale, ".")
    curly = str.maketrans("'", "’")
    return special | {word.translate(curly): tuple(part.translate(curly) for part in special[word]) for word in special}


def _symbols() -> str:
    return "".join(re.escape(chr(point)) for point in range(0xA6, 0x1FA6E) if unicodedata.category(chr(point)) == "So")


class _Classes(NamedTuple):
    """Characters, as between the brackets of a pattern: letters that count as lower or upper case or either, marks."""

    lower: str
    upper: str
    either: str
    quotes: str
    marks: str
    icons: str
    label: str


@cache
def _classes(ascii_only: bool) -> _Classes:
    def known(characters: str) -> str:
        return re.escape("".join(c for c in characters if c.isascii()) if ascii_only else characters)

    quotes, marks = known(_QUOTES), known(_MARKS)
    if ascii_only:
        return _Classes("a-z", "A-Z", "a-zA-Z", quotes, marks, "", "A-Za-z0-9")
    latin = [chr(point) for block in _LATIN for point in block]
    return _Classes(
        "".join(c for c in latin if unicodedata.category(c) == "Ll") + _LOWER_ELSEWHERE + _UNCASED,
        "".join(c for c in latin if unicodedata.category(c) == "Lu") + _UPPER_ELSEWHERE + _UNCASED,
        "".join(c for c in latin if c not in "×÷") + _LOWER_ELSEWHERE + _UPPER_ELSEWHERE + _UNCASED,
        quotes,
        marks,
        _symbols(),
        "A-Za-z0-9\u00a1-\uffff",
    )


class _Patterns(NamedTuple):
    """Patterns for prefixes, suffixes (also a single full stop), infixes and addresses."""

    prefix: re.Pattern[str]
    suffix: re.Pattern[str]
    stop: re.Pattern[str]
    infix: re.Pattern[str]
    address: re.Pattern[str]


def _patterns(ascii_only: bool) -> _Patterns:
    """The patterns; for ASCII text shorter ones, which match the same and are faster."""

    def one_of(texts: list[str]) -> str:
        return "|".join(re.escape(text) for text in texts if text.isascii() or not ascii_only)

    lower, upper, either, quotes, marks, symbols, label = _classes(ascii_only)
    icons = f"[{symbols}]" if symbols else "(?!)"
    octet = r"(?:1?\d{1,2}|2[0-4]\d|25[0-5])"
    stop = rf"(?:(?<=[0-9{lower}%²\-+|{marks}{quotes}])|(?<=[{upper}][{upper}]))\."
    return _Patterns(
        prefix=re.compile(rf"[§%=—–]|\+(?![0-9])|[{marks}]|\.\.+|[{quotes}]|{one_of(_CURRENCY)}|{icons}"),
        suffix=re.compile(
            rf"(?:[{marks}]|\.\.+|……|[{quotes}]|{icons}|['’][sS]|[—–]|(?<=[0-9])\+|(?<=°[FfCcKk])\."
            rf"|(?<=[0-9])(?:{one_of(_CURRENCY)}|{one_of(_UNITS)})|{stop})$"
        ),
        stop=re.compile(stop),
        infix=re.compile(
            rf"\.\.+|…|{icons}|(?<=[0-9])[+\-*^](?=[0-9-])|(?<=[{lower}{quotes}])\.(?=[{upper}{quotes}])"
            rf"|(?<=[{either}]),(?=[{either}])|(?<=[{either}0-9])(?:-|–|—|--|---|——|~)(?=[{either}])"
            rf"|(?<=[{either}0-9])[:<>=/](?=[{either}])"
        ),
        address=re.compile(
            r"(?:[\w+\-.]{2,}://)?(?:\S+@)?(?:"
            r"(?!(?:10|127)(?:\.\d{1,3}){3})(?!(?:169\.254|192\.168)(?:\.\d{1,3}){2})"
            r"(?!172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})"
            rf"(?:[1-9]\d?|1\d\d|2[01]\d|22[0-3])(?:\.{octet}){{2}}\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])"
            rf"|(?:(?:[{label}][{label}_-]{{0,62}})?[{label}]\.)+[{lower}]{{2,63}}"
            r")(?::\d{2,5})?(?:[/?#]\S*)?$"
        ),
    )


class _Rules:
    """The exceptions and the patterns; built on first use, because it takes a while."""

    def __init__(self) -> None:
        self.ascii, self.any = _patterns(ascii_only=True), _patterns(ascii_only=False)
        self.special = _special()
        self.longest = max(map(len, self.special))
        #: Exceptions that the patterns take apart, by how they do: put together again wherever that is met.
        self.rejoined = {
            tuple(parts): self.special[word] for word in self.special if len(parts := _by_rule(word, self, {})) > 1
        }
        self.window = max(map(len, self.rejoined))


@cache
def _rules() -> _Rules:
    return _Rules()


def split_english(chunk: str) -> list[str]:
    """Split a string without whitespace into words.

    Examples:
        >>> split_english("(don't"), split_english("U.S.-led,"), split_english("end.")
        (['(', 'do', "n't"], ['U.S.-led', ','], ['end', '.'])
    """
    rules = _rules()
    special = rules.special
    if chunk in special:
        return list(special[chunk])
    if chunk.isalpha():
        return [chunk]
    words = _by_rule(chunk, rules, special)
    return _rejoined(words, rules) if len(words) > 1 else words


@cache
def short_way() -> Exceptions:
    """Tables for `dcurate.kernels.english.cut_english`; strings they do not cover go to `split_english`."""
    rules = _rules()
    pairs = ((key[0], key[1]) for key in rules.rejoined)
    return exceptions(_kinds(), rules.special, pairs, (*_CURRENCY, *_UNITS))


def _kinds() -> npt.NDArray[np.uint16]:
    """The class of each character, as in the patterns."""
    known = _classes(ascii_only=False)
    marks = _MARKS + _QUOTES
    money = "".join(text for text in _CURRENCY if text not in _LETTERED_CURRENCY)
    kinds = np.zeros(runs.POINTS, np.uint16)
    for bit, characters in (
        *((runs.LOWER, known.lower), (runs.UPPER, known.upper), (runs.LETTER, known.either), (runs.DIGIT, "0-9")),
        *((runs.QUOTE, _QUOTES), (runs.FRONT, f"§%=—–{marks}{money}{known.icons}"), (runs.BACK, "".join(_SINGLE))),
        *((runs.ICON, known.icons), (runs.LABEL, known.label), (runs.BEFORE_STOP, f"0-9{known.lower}%²+|{marks}-")),
    ):
        for interval in re.finditer("(.)(?:-(.))?", characters):
            kinds[ord(interval[1]) : ord(interval[2] or interval[1]) + 1] |= bit
    every = "".join(map(chr, range(runs.POINTS)))
    for bit, pattern in ((runs.ALNUM, r"[^\W_]+"), (runs.DECIMAL, r"\d+")):
        for match in re.finditer(pattern, every):
            kinds[match.start() : match.end()] |= bit
    return kinds


def _by_rule(chunk: str, rules: _Rules, special: dict[str, tuple[str, ...]]) -> list[str]:
    start, stop = 0, len(chunk)
    patterns = rules.ascii if chunk.isascii() else rules.any
    before: list[str] = []
    after: list[str] = []

    def is_special(first: int, last: int) -> bool:
        return 0 < last - first <= rules.longest and chunk[first:last] in special

    while start < stop and not is_special(start, stop):
        front = _front(chunk, start, stop, patterns)
        if front and is_special(start + front, stop):
            before.append(chunk[start : start + front])
            start += front
            break
        back = _back(chunk, start + front, stop, patterns)
        if back and is_special(start, stop - back):
            after.append(chunk[stop - back : stop])
            stop -= back
            break
        if not front and not back:
            break
        if front:
            before.append(chunk[start : start + front])
        if back:
            after.append(chunk[stop - back : stop])
        start, stop = start + front, stop - back
    core = chunk[start:stop]
    if not core:
        middle: list[str] = []
    elif is_special(start, stop):
        middle = list(special[core])
    else:
        is_word = core.isalnum() or ("." in core and patterns.address.match(core))
        middle = [core] if is_word else _cut(core, patterns)
    return before + middle + after[::-1]


def _front(chunk: str, start: int, stop: int, patterns: _Patterns) -> int:
    """Length of the prefix mark, or 0."""
    first = chunk[start]
    if first.isalnum():
        return next((len(money) for money in _LETTERED_CURRENCY if chunk.startswith(money, start, stop)), 0)
    if first == "." and chunk.startswith("..", start, stop):
        return stop - start - len(chunk[start:stop].lstrip("."))
    match = patterns.prefix.match(chunk[start : min(stop, start + 4)])
    return match.end() if match else 0


def _back(chunk: str, start: int, stop: int, patterns: _Patterns) -> int:
    """Length of the suffix mark, or 0."""
    if start == stop:
        return 0
    last, before = chunk[stop - 1], chunk[max(start, stop - 2) : stop - 1]
    if last in _SINGLE:
        return 1
    if last == ".":
        if before == ".":
            return stop - start - len(chunk[start:stop].rstrip("."))
        if "a" <= before <= "z" or "0" <= before <= "9":
            return 1
    window = chunk[max(start, stop - 8) : stop]
    if last.isalpha() and not _DIGITS.intersection(window):
        return 2 if last in "sS" and before in {"'", "’"} else 0
    if last == "." and "°" not in window:
        return 1 if patterns.stop.match(window, len(window) - 1) else 0
    match = patterns.suffix.search(window)
    return len(window) - match.start() if match else 0


def _cut(core: str, patterns: _Patterns) -> list[str]:
    words, start = [], 0
    for match in patterns.infix.finditer(core):
        if match.start() == 0:
            continue
        words += [part for part in (core[start : match.start()], match[0]) if part]
        start = match.end()
    return [*words, core[start:]] if start < len(core) else words


def _rejoined(words: list[str], rules: _Rules) -> list[str]:
    """The words, with exceptions that the patterns split joined again, the longest first.

    As in spaCy, an exception that overlaps one before it keeps those after it from being put together too.
    """
    most = min(rules.window, len(words))
    candidates = [
        (at, at + size)
        for size in range(most, 1, -1)
        for at in range(len(words) - size + 1)
        if tuple(words[at : at + size]) in rules.rejoined
    ]
    if not candidates:
        return words
    taken: set[int] = set()
    chosen = {}
    for start, stop in candidates:
        if start not in taken and stop - 1 not in taken:
            chosen[start] = stop
        taken.update(range(start, stop))
    parts: list[str] = []
    at = 0
    while at < len(words):
        stop = chosen.get(at, at + 1)
        parts += rules.rejoined.get(tuple(words[at:stop]), words[at:stop])
        at = stop
    return parts
