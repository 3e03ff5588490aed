"""What NeMo Curator has around its download stages, for scripts that use it by hand."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any

from dcurate.compat.nemo.download_stages import DocumentIterateExtractStage
from dcurate.download.common_crawl.crawls import BaseCommonCrawlUrlGenerator
from dcurate.text.extract.charset import decoded
from dcurate.text.optional import needed

__all__ = ["BaseCommonCrawlUrlGenerator"]


class DocumentIterateStage(DocumentIterateExtractStage):
    """Read the records of files, as version 25.09 has it.

    Args:
        iterator: reads the records of a file.
        record_limit: the most records of a file.
        add_filename_column: keep the name of the file.
    """

    def __init__(self, iterator: Any, record_limit: int | None = None, add_filename_column: bool | str = True) -> None:
        super().__init__(iterator, None, record_limit, add_filename_column)


_WITHOUT_LIST = ("THAI", "CHINESE", "JAPANESE")

#: jusText's names that are not those of the language detector.
_OTHER_NAMES = {
    "Haitian": "HAITIAN_CREOLE",
    "Norwegian_Bokmal": "NORWEGIAN",
    "Norwegian_Nynorsk": "NORWEGIAN_N",
    "Waray_Waray": "WARAY_PHILIPPINES",
}


def get_stop_list_dict(languages: Sequence[str] | None = None) -> dict[str, frozenset[str]]:
    """Stop words by the name of their language in capitals.

    For Thai, Chinese and Japanese, which jusText has no list of, there are none: extractors keep all paragraphs.

    Args:
        languages: by jusText's names; all but Latin if not given.
    """
    justext = needed("justext", "get_stop_list_dict", "html")
    names = languages or [*(name for name in sorted(justext.get_stoplists()) if name != "Latin"), *_WITHOUT_LIST]
    keys = {name: _OTHER_NAMES.get(name, name.upper()) for name in names}
    return {
        key: frozenset() if key in _WITHOUT_LIST else frozenset(justext.get_stoplist(name))
        for name, key in keys.items()
    }


def check_s5cmd_installed() -> bool:
    """Whether the command s5cmd is on the PATH; dcurate does not use it."""
    return shutil.which("s5cmd") is not None


def remove_control_characters(text: str) -> str:
    r"""The text without control characters.

    Examples:
        >>> remove_control_characters("a\x00b\nc")
        'abc'
    """
    return "".join(character for character in text if unicodedata.category(character)[0] != "C")


def detect_language(text: str) -> Any:
    """What CLD2 says of the language of a text."""
    return needed("pycld2", "detect_language", "lang").detect(text)


def lang_detect(text: str) -> str:
    """The English name of the language of a text in capitals, by CLD2."""
    try:
        details = detect_language(text)[2]
    except Exception:  # of CLD2, which refuses some characters
        details = detect_language(remove_control_characters(text))[2]
    return str(details[0][0]).upper()


def decode_html(html_bytes: bytes) -> str | None:
    """The text of a page, by its own encoding.

    Examples:
        >>> decode_html("Grüße".encode("utf-8"))
        'Grüße'
    """
    try:
        return html_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return decoded(html_bytes)


def try_decode_with_detected_encoding(html_bytes: bytes) -> str | None:
    """The text of a page in another encoding than UTF-8."""
    return decoded(html_bytes)
