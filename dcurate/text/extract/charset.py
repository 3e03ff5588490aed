"""Decode a page: by its byte order mark, its content, the declared encodings, or detection."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from dcurate.core.extras import needed
from dcurate.frames.text import is_utf8

_META = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
#: The beginning of a page without byte order mark, XML declaration, and spaces that are no ASCII.
_PLAIN = re.compile(rb"\s*(?!<\?xml)[!-~]")
_HEAD = 2**13
_SAMPLE = 2**17
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

#: Encodings whose bytes are all ASCII: that a page is valid UTF-8 says nothing against them.
_WITH_ESCAPES = ("iso2022_jp", "iso2022_kr", "hz")

#: Escape sequences that begin and end a stretch of Japanese; browsers look for them too where nothing is declared.
_SHIFT_TO_JAPANESE = re.compile(rb"\x1b\$[@B][!-~]{2,10000}\x1b\([BJ]")
#: Share of the characters beyond ASCII that are Hangul in Korean; other encodings, read as Korean, make about half.
_HANGUL = 0.9

#: What browsers take a declaration for: the larger encoding that is meant by it (https://encoding.spec.whatwg.org).
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "ksc5601": "cp949",
    "utf-16": "utf-16-le",
}
#: What Python calls an encoding too, but no page means.
_OF_PYTHON = ("charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
_ALIASES = {
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "windows-874": "cp874",
    "ks_c_5601-1987": "cp949",
    "x-euc-jp": "euc_jp",
}


def decoded(page: bytes, declared: str | None = None) -> str:
    """Decode the bytes of a page.

    A byte order mark decides. Otherwise a page that is valid UTF-8 is UTF-8, even if it declares another encoding: text
    in another encoding is hardly ever valid UTF-8. ASCII with escapes to Japanese is the exception. Otherwise the first
    encoding that fits is used: that of the server, that of the page, or a guess from its bytes. If none fits, the one
    with the fewest invalid bytes is used; these become U+FFFD. NULs and an XML declaration are removed.

    Args:
        page: its bytes.
        declared: the charset that the server declares.

    Raises:
        ResourceError: the page declares nothing that fits, and the package that guesses is not installed.

    Examples:
        >>> decoded("<p>naïve</p>".encode("cp1252"), "ISO-8859-1")
        '<p>naïve</p>'
        >>> decoded("<p>naïve</p>".encode(), "ISO-8859-1")
        '<p>naïve</p>'
    """
    for mark, encoding in _MARKS:
        if page.startswith(mark):
            return markup(page[len(mark) :].decode(encoding, "replace"))
    known = _known(page, declared)
    if not any(encoding in _WITH_ESCAPES for encoding in known):
        try:
            text = page.decode()
        except UnicodeDecodeError:
            pass
        else:  # NULs are found faster in bytes
            return markup(text) if b"\0" in page else _without_declaration(text.removeprefix("\ufeff"))
    best: tuple[int, str] | None = None
    for encoding in _candidates(page, known):
        try:
            return markup(page.decode(encoding))
        except UnicodeDecodeError:
            text = page.decode(encoding, "replace")
            strange = text.count("\ufffd")
            best = min(best or (strange, text), (strange, text), key=lambda attempt: attempt[0])
    return markup(best[1] if best else page.decode(errors="replace"))


def in_utf8(page: bytes, declared: str | None = None) -> bytes:
    """Return a page decoded as by `decoded`, in UTF-8; most pages are that already, and are returned as they are."""
    plain = _PLAIN.match(page) and b"\0" not in page and is_utf8(page)
    if plain and not any(encoding in _WITH_ESCAPES for encoding in _known(page, declared)):
        return page
    return decoded(page, declared).encode("utf-8", "replace")


def _known(page: bytes, declared: str | None) -> list[str | None]:
    """Return the encodings that the server and the page declare; None for an unknown one."""
    head = page[:_HEAD]
    known = [_codec(name) for name in (declared, _found(_META, head), _found(_XML, head)) if name]
    if page.isascii() and _SHIFT_TO_JAPANESE.search(page, 0, _SAMPLE):
        known.insert(0, "iso2022_jp")
    return known


def _candidates(page: bytes, known: list[str | None]) -> Iterator[str]:
    yield from dict.fromkeys(encoding for encoding in known if encoding)
    guess = needed("resiliparse.parse.encoding", "guessing the encoding of a page", "html").detect_encoding
    guessed = _codec(str(guess(page, max_len=_SAMPLE)))
    if guessed:
        yield guessed
    if _mostly_hangul(page[:_SAMPLE]):
        yield "cp949"
    yield "cp1252"


def _mostly_hangul(page: bytes) -> bool:
    """Whether a page is Korean in that language's encoding, which the detection does not name."""
    beyond = [character for character in page.decode("cp949", "ignore") if character > "\x7f"]
    return sum("\uac00" <= character <= "\ud7a3" for character in beyond) > _HANGUL * len(beyond)


def _found(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    match = pattern.search(head)
    return match[1].decode("ascii") if match else None


def _codec(name: str) -> str | None:
    """The codec of a declared encoding; None if it is unknown.

    Examples:
        >>> _codec("Latin1"), _codec("GB2312"), _codec("klingon"), _codec("rot13")
        ('cp1252', 'gb18030', None, None)
    """
    name = name.strip().lower()
    try:
        codec = codecs.lookup(_ALIASES.get(name, name)).name
        if codec in _OF_PYTHON:
            return None
        b"?".decode(codec, "replace")  # refused by codecs from bytes to bytes
    except (LookupError, ValueError):
        return None
    return _MEANT.get(codec, codec)


def markup(page: str) -> str:
    """The text of a page without NULs, byte order mark and XML declaration, which break parsers."""
    page = page.removeprefix("\ufeff")
    if "\0" in page:
        page = page.replace("\0", "")
    return _without_declaration(page)


def _without_declaration(page: str) -> str:
    if page.lstrip().startswith("<?xml"):
        # lxml searches the rest of the declaration for an encoding: 100,000 spaces there take it a minute
        return " " + content if len(content := _XML_DECLARATION.sub("", page, count=1)) == len(page) else content
    return page
