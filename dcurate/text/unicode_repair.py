"""Repair of wrongly decoded text, by ftfy."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Literal

import ftfy
from ftfy import TextFixerConfig, fix_text

from dcurate.errors import PipelineError, shown
from dcurate.text.modifier import TextModifier

#: ftfy changes nothing in a line without any of these, with any settings.
_SUSPECT = re.compile(r"[^\t\n -%'-~]")
#: The same, if no setting restyles correct text. ftfy 6.3 detects wrong text by two adjacent characters that come from
#: wrong encodings, or by one of a few; others it fixes one by one. The pattern begins with a character class, which
#: makes the search fast.
_ALONE = "[\x00-\x08\x0b-\x1f&\x7f-\x9fÂÃŒœ\u2028\u2029\u206a-\u206f\ud800-\udfff\ufeff\ufff9-\uffff]"
_PAIRED = "[\xa0-\u05ff\u2000-\u2bff\ue000-\uffff]"
_ODD = re.compile(f"{_SUSPECT.pattern}(?:(?<={_ALONE})|(?<={_PAIRED}){_PAIRED})")
_RESTYLES = ("fix_latin_ligatures", "fix_character_width", "uncurl_quotes", "normalization")
_KNOWN = ftfy.__version__.startswith("6.3.")
_MINDED_IF_EXPLAINED = tuple(
    (name, TextFixerConfig._field_defaults[name])
    for name in ("restore_byte_a0", "replace_lossy_sequences", "decode_inconsistent_utf8", "fix_c1_controls")
)


@dataclass(frozen=True)
class UnicodeReformatter(TextModifier):
    """Repair wrongly decoded text, HTML entities, control characters and more, line by line, with ftfy.

    Args:
        config: all that follows as one object of ftfy, instead of it.
        unescape_html: make characters of HTML entities; ``"auto"`` does until the first ``<`` of a document.
        remove_terminal_escapes: remove escape sequences that colour a terminal.
        fix_encoding: repair wrongly decoded text where that makes sense.
        restore_byte_a0: with ``fix_encoding``, take a space for a no-break space where it helps.
        replace_lossy_sequences: with ``fix_encoding``, insert U+FFFD for partly lost characters.
        decode_inconsistent_utf8: with ``fix_encoding``, repair stretches on their own.
        fix_c1_controls: read control characters U+0080 to U+009F as Windows-1252, as browsers do.
        fix_latin_ligatures: write ligatures as letters.
        fix_character_width: write full-width Latin and half-width Katakana in the usual width.
        uncurl_quotes: write straight quotation marks.
        fix_line_breaks: write every kind of line break as a newline.
        fix_surrogates: join pairs of surrogates; a lone one becomes U+FFFD.
        remove_control_chars: remove control characters that show nothing.
        normalization: ``"NFC"``, ``"NFD"``, ``"NFKC"``, ``"NFKD"`` or None.
        max_decode_length: lines longer than this many characters are repaired in pieces.
        explain: has no effect. (In ftfy, False disables the four settings that are part of fix_encoding.)

    See https://ftfy.readthedocs.io/en/latest/config.html for each setting.

    Raises:
        PipelineError: ``max_decode_length`` below 1.

    Examples:
        >>> UnicodeReformatter().modify_document("sÃ­ &amp; no")
        'sí & no'
    """

    config: TextFixerConfig | None = None
    unescape_html: str | bool = "auto"
    remove_terminal_escapes: bool = True
    fix_encoding: bool = True
    restore_byte_a0: bool = True
    replace_lossy_sequences: bool = True
    decode_inconsistent_utf8: bool = True
    fix_c1_controls: bool = True
    fix_latin_ligatures: bool = False
    fix_character_width: bool = False
    uncurl_quotes: bool = False
    fix_line_breaks: bool = False
    fix_surrogates: bool = True
    remove_control_chars: bool = True
    normalization: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = None
    max_decode_length: int = 1000000
    explain: bool = True

    def __post_init__(self) -> None:
        if self.config is not None and not isinstance(self.config, TextFixerConfig):
            raise PipelineError(
                f"{type(self).__name__}: config={shown(self.config)} is not a TextFixerConfig of ftfy; "
                "give the settings as arguments, such as fix_latin_ligatures=True"
            )
        if self._settings.max_decode_length < 1:
            raise PipelineError(f"{self.name}: max_decode_length must be at least 1 character")

    @property
    def _settings(self) -> TextFixerConfig:
        config = self.config or TextFixerConfig(
            **{setting.name: getattr(self, setting.name) for setting in fields(self) if setting.name != "config"}
        )
        # ftfy minds these four only when it explains, which takes longer.
        usual = all(getattr(config, name) == default for name, default in _MINDED_IF_EXPLAINED)
        return config._replace(explain=not usual)

    def modify_document(self, text: str) -> str:
        settings = self._settings
        restyles = any(getattr(settings, name) for name in _RESTYLES)
        suspect = _ODD if _KNOWN and not restyles else _SUSPECT
        repaired: list[str] = []
        done = 0
        while match := suspect.search(text, done):
            start = text.rfind("\n", done, match.start()) + 1 or done
            stop = text.find("\n", match.start()) + 1 or len(text)
            if settings.unescape_html == "auto" and "<" in text[done:start]:
                settings = settings._replace(unescape_html=False)
            repaired += text[done:start], fix_text(text[start:stop], settings)
            if settings.unescape_html == "auto" and "<" in text[start:stop]:
                settings = settings._replace(unescape_html=False)
            done = stop
        return "".join((*repaired, text[done:]))
