r"""The text of a paper: what comes before its first section, comments, and the bibliography taken off.

The rules are those of RedPajama's arXiv corpus, which NeMo Curator uses, where these say what they mean. Mended is what
does not: a comment takes no letter before its ``%`` with it; a section that is commented out is none; ``\paragraph``
and ``\subparagraph`` count as sections; a macro is expanded wherever it stands, with non-ASCII letters in it or another
macro after it; a paper in no file of which there is a section gives no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dcurate.download.extract import DocumentExtractor, Skipped

_SECTION = re.compile(
    r"\\(?:chapter|part|section|subsection|subsubsection|paragraph|subparagraph)\*?\s*(?:\[[^\]]*\]\s*)?\{"
)
_BACK_MATTER = re.compile(
    r"\\appendix(?![A-Za-z])|\\begin\{(?:references|REFERENCES|thebibliography)\}|\\bibliography\{|\\printbibliography"
)
_DEFINITION = re.compile(
    r"\\(?:newcommand\*?\s*(?:\{\s*\\([A-Za-z0-9]+)\s*\}|\\([A-Za-z0-9]+))|def\s*\\([A-Za-z0-9]+))\s*(?=\{)"
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_CALL = re.compile(r"\\(?:[^A-Za-z0-9]|([A-Za-z0-9]+))", re.DOTALL)
_LONGEST_VALUE = 10_000


class ArxivExtractor(DocumentExtractor):
    r"""Makes text of the TeX files of a paper: LaTeX still, of what there is to read.

    Of each file what stands from its first section (or chapter, part, ... subparagraph) to its appendix or bibliography
    stays; a file without a section is left out. Comments go. Macros without arguments, wherever in the paper they are
    defined, are replaced by what they stand for. The files are joined by a line end.

    Examples:
        >>> tex = r"\newcommand{\R}{\mathbb{R}} \title{T} \section{One} In $\R$. % why" + "\n" + r"\appendix More"
        >>> ArxivExtractor().extract({"id": "1", "source_id": "s", "content": [tex]})["text"]
        '\\section{One} In $\\mathbb{R}$.'
    """

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | None:
        """The paper with ``text`` in place of its files; `Skipped` where there is no section in them."""
        files = [without_comments(file) for file in record.get("content") or ()]
        found = [definitions(file) for file in files]
        macros = resolved(definition for each in found for definition in each)
        calls = _calls(macros)
        texts = (
            expanded(body(without(file, each)), macros, calls).strip() for file, each in zip(files, found, strict=True)
        )
        text = "\n".join(filter(None, texts))
        if not text:
            return Skipped("no section")
        return {"text": text, **{name: record[name] for name in ("id", "source_id") if name in record}}

    def input_columns(self) -> list[str]:
        return ["id", "source_id", "content"]

    def output_columns(self) -> list[str]:
        return ["text", "id", "source_id"]


class Definition(NamedTuple):
    """A macro without arguments: its name, what it stands for, and where in its file it is defined."""

    name: str
    value: str
    start: int
    stop: int


def without_comments(text: str) -> str:
    r"""The text without comments: lines of them whole, others from their ``%`` on.

    Examples:
        >>> without_comments("one % two\n  % three\n100\\% sure\n")
        'one \n100\\% sure\n'
    """
    if "%" not in text:
        return text
    lines = []
    for line in text.split("\n"):
        begin = _comment(line) if "%" in line else -1
        if begin < 0:
            lines.append(line)
        elif line[:begin].strip(" \t"):
            lines.append(line[:begin])
    return "\n".join(lines)


def _comment(line: str) -> int:
    """Where the comment of a line begins: at the first ``%`` that no backslash stands for; -1 if there is none."""
    place = line.find("%")
    while place >= 0:
        first = place
        while first and line[first - 1] == "\\":
            first -= 1
        if (place - first) % 2 == 0:
            return place
        place = line.find("%", place + 1)
    return -1


def body(text: str) -> str:
    r"""What stands from the first section on, up to the appendix or the bibliography; nothing without a section.

    Examples:
        >>> body(r"\title{T} \section*{One} text \bibliography{refs}")
        '\\section*{One} text '
    """
    first = _SECTION.search(text)
    if not first:
        return ""
    last = _BACK_MATTER.search(text, first.start())
    return text[first.start() : last.start() if last else len(text)]


def definitions(text: str) -> list[Definition]:
    r"""The macros without arguments that a file defines.

    Examples:
        >>> [(found.name, found.value) for found in definitions(r"\newcommand{\a}{1}\def\b{{x}}\newcommand{\c}[1]{#1}")]
        [('a', '1'), ('b', '{x}')]
    """
    found: list[Definition] = []
    if "\\newcommand" not in text and "\\def" not in text:
        return found
    place = 0
    while match := _DEFINITION.search(text, place):
        place = match.end()
        stop = _closing(text, match.end())
        if stop is not None:
            name = next(filter(None, match.groups()))
            found.append(Definition(name, text[match.end() + 1 : stop - 1], match.start(), stop))
            place = stop
    return found


def without(text: str, found: Iterable[Definition]) -> str:
    """The text without definitions of macros, which would stand in it with their own names replaced."""
    kept, place = [], 0
    for definition in found:
        kept.append(text[place : definition.start])
        place = definition.stop
    return "".join([*kept, text[place:]])


def resolved(found: Iterable[Definition]) -> dict[str, str]:
    r"""What each macro stands for, macros within it replaced too; the last definition of a name counts.

    A macro that stands for itself, or for very much, stays as it is.

    Examples:
        >>> resolved(definitions(r"\def\a{\b!}\def\b{B}\def\c{\c}"))
        {'a': 'B!', 'b': 'B'}
    """
    values = {definition.name: definition.value for definition in found}
    done: dict[str, str | None] = {}
    for name in values:
        _resolve(name, values, done)
    return {name: value for name, value in done.items() if value is not None and name in values}


def expanded(text: str, macros: Mapping[str, str], calls: re.Pattern[str] | None = None) -> str:
    r"""The text with every macro replaced by what it stands for.

    Args:
        calls: finds them, where that is known already.

    Examples:
        >>> expanded(r"\a\a \ab \\a", {"a": "A"})
        'AA \\ab \\\\a'
    """
    if not macros:
        return text
    return (calls or _calls(macros)).sub(lambda call: macros[call[1]] if call[1] else call[0], text)


def _calls(macros: Mapping[str, str]) -> re.Pattern[str]:
    """Finds calls of macros; two backslashes are a line end, and what follows them is none."""
    names = "|".join(sorted(macros, key=len, reverse=True))
    return re.compile(rf"\\(?:\\|({names})(?![A-Za-z0-9]))" if names else r"(?!)")


def _resolve(name: str, values: Mapping[str, str], done: dict[str, str | None]) -> str | None:
    """Put what a macro stands for into ``done``; None for one that is left as it is."""
    if name not in done:
        done[name] = None
        inner = {call for call in _CALL.findall(values[name]) if call in values}
        known = {call: _resolve(call, values, done) for call in sorted(inner)}
        if None not in known.values():
            value = expanded(values[name], {call: text for call, text in known.items() if text is not None})
            done[name] = value if len(value) <= _LONGEST_VALUE else None
    return done[name]


def _closing(text: str, opening: int) -> int | None:
    """One past the brace that closes the one at a place, None if none does."""
    depth = 0
    for match in _BRACE.finditer(text, opening, opening + _LONGEST_VALUE):
        if match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
            if not depth:
                return match.end()
    return None
