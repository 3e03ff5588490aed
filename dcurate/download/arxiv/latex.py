r"""Extract the text of a paper: without the part before its first section, comments, and the bibliography.

The rules are those of RedPajama's arXiv corpus, which NeMo Curator uses, with these bugs fixed: a comment does not
remove the letter before its ``%``; a section that is commented out does not count; ``\paragraph`` and
``\subparagraph`` count as sections; a macro is expanded everywhere, also with non-ASCII letters in it or directly
before another macro; a paper without any section has no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from dcurate.download.extract import DocumentExtractor, Skipped

_SECTION = re.compile(r"\\(?:chapter|part|section|subsection|subsubsection|paragraph|subparagraph)\*?\s*([\[{])")
_TITLE = re.compile(r"\]\s*\{")
_BACK_MATTER = re.compile(
    r"\\appendix(?![A-Za-z])|\\begin\{(?:references|REFERENCES|thebibliography)\}|\\bibliography\{|\\printbibliography"
)
_DEFINITION = re.compile(
    r"\\(?:newcommand\*?\s*(?:\{\s*\\([A-Za-z0-9]+)\s*\}|\\([A-Za-z0-9]+))|def\s*\\([A-Za-z0-9]+))\s*(?=\{)"
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_INNER_CALL = re.compile(r"\\(?:[^A-Za-z0-9]|([A-Za-z0-9]+))", re.DOTALL)
#: Two backslashes are a line break; the text after them is not a macro.
_CALL = re.compile(r"\\(?:\\|([A-Za-z0-9]+))")
_LONGEST_VALUE = 10_000
#: By how many characters a text may grow when macros are expanded, and to how many times its length.
_GROWTH, _GROWTH_FACTOR = 1_000_000, 10


class ArxivExtractor(DocumentExtractor):
    r"""Extract text from the TeX files of a paper; it is still LaTeX.

    Each file is kept from its first section (or chapter, part, ... subparagraph) to its appendix or bibliography; a
    file without a section is dropped. Comments are removed. Macros without arguments, defined anywhere, are
    expanded. Files are joined by a line end.

    Examples:
        >>> tex = r"\newcommand{\R}{\mathbb{R}} \title{T} \section{One} In $\R$. % why" + "\n" + r"\appendix More"
        >>> ArxivExtractor().extract({"id": "1", "source_id": "s", "content": [tex]})["text"]
        '\\section{One} In $\\mathbb{R}$.'
    """

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | None:
        """The paper with ``text`` in place of its files.

        It is `Skipped` where there is no section in them, and where macros would make more than 1,000,000 characters
        and ten times its length of it.
        """
        files = [without_comments(file) for file in record.get("content") or ()]
        definition_lists = [definitions(file) for file in files]
        macros = resolved(definition for file_definitions in definition_lists for definition in file_definitions)
        bodies = [
            body(without(file, file_definitions))
            for file, file_definitions in zip(files, definition_lists, strict=True)
        ]
        before = sum(map(len, bodies))
        after = sum(_expanded_length(content, macros) for content in bodies)
        if after > _GROWTH + _GROWTH_FACTOR * before:
            return Skipped("macros too large", True, detail=f"{before:,} characters would become {after:,}")
        text = "\n".join(filter(None, (expanded(content, macros).strip() for content in bodies)))
        if not text:
            return Skipped("no section")
        return {"text": text, **{name: record[name] for name in ("id", "source_id") if name in record}}

    def input_columns(self) -> list[str]:
        return ["id", "source_id", "content"]

    def output_columns(self) -> list[str]:
        return ["text", "id", "source_id"]


class Definition(NamedTuple):
    """A macro without arguments: its name, its expansion, and the position of its definition in its file."""

    name: str
    value: str
    start: int
    stop: int


def without_comments(text: str) -> str:
    r"""The text without comments: comment lines are removed, others are cut at their ``%``.

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
    """The start of a line's comment: the first unescaped ``%``; -1 if there is none."""
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
    r"""The text from the first section to the appendix or the bibliography; empty without a section.

    Examples:
        >>> body(r"\title{T} \section*{One} text \bibliography{refs}")
        '\\section*{One} text '
    """
    first = _first_section(text)
    if first is None:
        return ""
    last = _BACK_MATTER.search(text, first)
    return text[first : last.start() if last else len(text)]


def _first_section(text: str) -> int | None:
    """The start of the first section; its title in braces may follow a short title in brackets."""
    end, has_title = -1, False
    for match in _SECTION.finditer(text):
        if match[1] == "{":
            return match.start()
        if end < match.end():
            end = text.find("]", match.end())
            if end < 0:
                end = len(text)
            has_title = _TITLE.match(text, end) is not None
        if has_title:
            return match.start()
    return None


def definitions(text: str) -> list[Definition]:
    r"""The macros without arguments that a file defines.

    Examples:
        >>> [(macro.name, macro.value) for macro in definitions(r"\newcommand{\a}{1}\def\b{{x}}\newcommand{\c}[1]{#1}")]
        [('a', '1'), ('b', '{x}')]
    """
    macros: list[Definition] = []
    if "\\newcommand" not in text and "\\def" not in text:
        return macros
    matches = list(_DEFINITION.finditer(text))
    stops = _closings(text, {match.end() for match in matches})
    place = 0
    for match in matches:
        stop = stops.get(match.end())
        if stop is not None and match.start() >= place:
            name = next(filter(None, match.groups()))
            macros.append(Definition(name, text[match.end() + 1 : stop - 1], match.start(), stop))
            place = stop
    return macros


def without(text: str, found: Iterable[Definition]) -> str:
    """The text without macro definitions, in which names would be expanded too."""
    kept, place = [], 0
    for definition in found:
        kept.append(text[place : definition.start])
        place = definition.stop
    return "".join([*kept, text[place:]])


def resolved(found: Iterable[Definition]) -> dict[str, str]:
    r"""The expansion of each macro, nested macros included; the last definition of a name counts.

    A macro that is recursive, or expands to a very long text, stays as it is.

    Examples:
        >>> resolved(definitions(r"\def\a{\b!}\def\b{B}\def\c{\c}"))
        {'a': 'B!', 'b': 'B'}
    """
    values = {definition.name: definition.value for definition in found}
    inner = {
        name: sorted({call for call in _INNER_CALL.findall(value) if call in values}) for name, value in values.items()
    }
    done: dict[str, str] = {}
    for name in _inner_first(inner):
        if all(call in done for call in inner[name]):
            known = {call: done[call] for call in inner[name]}
            if _expanded_length(values[name], known) <= _LONGEST_VALUE:
                done[name] = expanded(values[name], known)
    return {name: done[name] for name in values if name in done}


def _inner_first(inner: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Names in dependency order, except for recursive ones."""
    seen: set[str] = set()
    for first in inner:
        path = [] if first in seen else [(first, iter(inner[first]))]
        seen.add(first)
        while path:
            name, calls = path[-1]
            for call in calls:
                if call not in seen:
                    seen.add(call)
                    path.append((call, iter(inner[call])))
                    break
            else:
                path.pop()
                yield name


def expanded(text: str, macros: Mapping[str, str]) -> str:
    r"""The text with every macro expanded.

    Examples:
        >>> expanded(r"\a\a \ab \\a", {"a": "A"})
        'AA \\ab \\\\a'
    """
    return _CALL.sub(lambda call: macros.get(call[1], call[0]) if call[1] else call[0], text) if macros else text


def _expanded_length(text: str, macros: Mapping[str, str]) -> int:
    """The length of the result of `expanded`."""
    if not macros:
        return len(text)
    return len(text) + sum(len(macros[call]) - len(call) - 1 for call in _CALL.findall(text) if call in macros)


def _closings(text: str, openings: Set[int]) -> dict[int, int]:
    """For each of these braces that is closed soon enough, the offset after its closing brace."""
    closings: dict[int, int] = {}
    open_: list[int] = []
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            open_.append(match.start())
        elif match[0] == "}" and open_:
            begin = open_.pop()
            if begin in openings and match.end() <= begin + _LONGEST_VALUE:
                closings[begin] = match.end()
    return closings
