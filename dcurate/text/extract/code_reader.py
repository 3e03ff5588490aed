"""Read the text of a code block byte for byte, and its language."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dcurate.text.extract.hints import HIDDEN, OUT, hints_of

_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-|brush:\s*|prettyprint lang-|"
    r"hljs (?=\w)(?!language|lang))([\w+#.-]+)",
    re.IGNORECASE,
)
_PANDOC = re.compile(r"(?:^|\s)sourceCode ([\w+#.-]+)")
_NO_LANGUAGE = frozenset(
    (
        "default",
        "none",
        "notranslate",
        "nohighlight",
        "plaintext",
        "highlight",
        "text",
        "source",
        "code",
        "undefined",
        "numberlines",
        "prettyprint",
        "copyable",
        "wrapper",
        "container",
        "block",
        "language",
    )
)
_STRICT = re.compile(
    r"(?:^|\s)(?:highlight-source-|highlight-|language-|lang-|brush:\s*)(?!\s)([\w+#.-]+)", re.IGNORECASE
)
_BLOCKS = frozenset(("p", "div", "li", "tr", "table", "ol", "ul", "section"))


def code_language(attributes: Mapping[str, str], strict: bool = False) -> str:
    """Return the language of code that an element names, in lower case; empty if it names none.

    Args:
        attributes: attributes of the element.
        strict: whether only unambiguous classes count, as for elements around code.

    Examples:
        >>> code_language({"class": "highlight-python3 notranslate"}, strict=True)
        'python3'
    """
    language = attributes.get("data-lang") or attributes.get("data-language") or ""
    names = attributes.get("class", "")
    if not language and names:
        match = (_STRICT if strict else _LANGUAGE).search(names) or _PANDOC.search(names)
        language = match[1] if match else ""
    language = language.strip().lower()
    return "" if language in _NO_LANGUAGE or len(language) > 30 or " " in language else language


class CodeReader:
    """Reads the content of a code block: all text as it is, apart from line numbers and buttons.

    Args:
        language: language that the block names; empty if it names none.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._parts: list[str] = []
        self._depth = 0
        self._out = 0  # depth of the element that is left out

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._out:
            return
        if tag == "br":
            self._parts.append("\n")
        elif tag in ("button", "script", "style", "svg", "textarea") or (
            attributes and hints_of(tag, attributes) & (OUT | HIDDEN)
        ):
            self._out = self._depth
        elif tag in _BLOCKS:
            self._begin_line()
        elif not self.language and attributes:
            self.language = code_language(attributes, strict=tag != "code")

    def end(self, tag: str) -> None:
        if self._out == self._depth:
            self._out = 0
        elif tag in _BLOCKS and not self._out:
            self._begin_line()
        self._depth -= 1

    def data(self, text: str) -> None:
        if not self._out:
            self._parts.append(text)

    def _begin_line(self) -> None:
        if self._parts and not self._parts[-1].endswith("\n"):
            self._parts.append("\n")

    @property
    def text(self) -> str:
        """The text of the block, without a line break at its beginning and those at its end."""
        text = "".join(self._parts)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text.removeprefix("\n").rstrip("\n")
