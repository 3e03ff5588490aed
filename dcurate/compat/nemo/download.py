"""Functions that `nemo_curator.stages.text.download` has besides its stages."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any

from dcurate.download.common_crawl.crawls import BaseCommonCrawlUrlGenerator
from dcurate.text.extract.charset import decoded
from dcurate.text.optional import needed

__all__ = ["BaseCommonCrawlUrlGenerator"]

#: Languages that jusText calls otherwise than CLD2, in its capitals.
_LANGUAGES = {
    "Haitian": "HAITIAN_CREOLE",
    "Norwegian_Bokmal": "NORWEGIAN",
    "Norwegian_Nynorsk": "NORWEGIAN_N",
    "Waray_Waray": "WARAY_PHILIPPINES",
}
#: Languages for which jusText has no list. Extractors decide by length and links in them.
_WITHOUT_LIST = ("THAI", "CHINESE", "JAPANESE")


def get_stop_list_dict(languages: Sequence[str] | None = None) -> dict[str, frozenset[str]]:
    """Stop words of jusText by language, the names of languages in capitals.

    Args:
        languages: jusText's names; all but Latin if there are none. Thai, Chinese and Japanese have empty lists.
    """
    lists = needed("justext", "stop words", "html")
    wanted = languages or [*sorted(lists.get_stoplists() - {"Latin"}), *_WITHOUT_LIST]
    return {
        _LANGUAGES.get(name, name.upper()): frozenset()
        if name.upper() in _WITHOUT_LIST
        else frozenset(lists.get_stoplist(name))
        for name in wanted
    }


def detect_language(text: str) -> tuple[bool, int, Any]:
    """What CLD2 finds: whether it is sure, in how many bytes, and up to three languages."""
    found: tuple[bool, int, Any] = needed("pycld2", "identifying languages", "lang").detect(text)
    return found


def lang_detect(text: str) -> str:
    """CLD2's name of the language of a text, in capitals.

    Examples:
        >>> lang_detect("This is a text in English, which is long enough to be sure.")
        'ENGLISH'
    """
    cld2 = needed("pycld2", "identifying languages", "lang")
    try:
        found = detect_language(text)
    except cld2.error:  # control characters are no valid UTF-8 to it
        found = detect_language(remove_control_characters(text))
    return str(found[2][0][0]).upper()


def remove_control_characters(text: str) -> str:
    r"""Remove control and format characters, and what Unicode does not define.

    Examples:
        >>> remove_control_characters("a\x00b\u200bc\n")
        'abc'
    """
    return "".join(character for character in text if unicodedata.category(character)[0] != "C")


def decode_html(html_bytes: bytes) -> str | None:
    """Decode a page: as UTF-8 if it is valid, otherwise by what it declares or by a guess.

    Examples:
        >>> decode_html("naïve".encode())
        'naïve'
    """
    try:
        return html_bytes.decode()
    except UnicodeDecodeError:
        return try_decode_with_detected_encoding(html_bytes)


def try_decode_with_detected_encoding(html_bytes: bytes) -> str | None:
    """Decode a page by what it declares, or by a guess."""
    return decoded(html_bytes)


def check_s5cmd_installed() -> bool:
    """Whether the program s5cmd is installed. dcurate does not use it."""
    return shutil.which("s5cmd") is not None
