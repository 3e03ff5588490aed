"""The rules of the filters for code in plain Python, one text at a time, written as differently as they can be."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Callable

import regex
from bs4 import BeautifulSoup
from bs4.exceptions import ParserRejectedMarkup

from dcurate.text import (
    AlphaFilter,
    GeneralCommentToCodeFilter,
    HTMLBoilerplateFilter,
    NumberOfLinesOfCodeFilter,
    PerExtensionFilter,
    PythonCommentToCodeFilter,
    SignalFilter,
    XMLHeaderFilter,
)

SLASHED = r"//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|(?P<open>/\*)"
#: For each family what a comment is, and what is not, as one pattern whose matches follow one another.
FAMILIES = {
    "text/x-c++": rf'"[^"\n]*"|{SLASHED}',
    "text/x-javascript": rf'"(?:\\.|[^"\\])*"?|\'(?:\\.|[^\'\\])*\'?|{SLASHED}|/.',
    "text/x-go": rf'"(?:\\.|[^"\\])*"?|\'(?:\\.|[^\'\\])*\'?|`(?:\\.|[^`\\])*`?|{SLASHED}|/.',
    "text/x-shellscript": r'\\.|"(?:\\.|[^"\\])*"?|\'(?:\\.|[^\'\\])*\'?|#(?P<line>[^\n]*)',
    "text/x-ruby": r'(?P<quote>["\'])(?:\\(?P=quote)|(?!(?P=quote))[^\n])*(?P=quote)|#(?P<line>[^\n]*)',
    "text/html": r'"[^"\n]*"|<!--(?P<block>.*?)-->|(?P<open><!--)',
}


def comments(source: str, language: str) -> float:
    if not source:
        return 0.0
    found = list(re.finditer(FAMILIES[language], source, re.DOTALL))
    if any(match.lastgroup == "open" for match in found):
        return 9999.0
    texts = [match[match.lastgroup] for match in found if match.lastgroup in ("line", "block")]
    return len(" ".join(texts)) / len(source)


def tokens(source: str) -> list[str]:
    if sys.version_info >= (3, 12) and "\0" in source:
        raise SyntaxError("source code cannot contain null bytes")
    return [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]


def python_comments(source: str) -> float:
    try:
        return len(" ".join(comment[1:] for comment in tokens(source))) / len(source) if source else 0.0
    except (tokenize.TokenError, SyntaxError, UnicodeEncodeError):
        return 9999.0


def python_documentation(source: str) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return 0.0
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = "\n".join(filter(None, map(ast.get_docstring, owners)))
    lines = re.sub("\r\n?", "\n", source) + "\n"  # as the parser has it, and tokenize has not
    return (len(docstrings) + sum(map(len, tokens(lines)))) / len(source) if source else 0.0


def alphabetic(text: str) -> float:
    return len(regex.findall("[[:alpha:]]", text)) / len(text) if text else 0.0


def visible(page: str) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            soup = BeautifulSoup(re.sub("[\ud800-\udfff]", "\ufffd", page), features="html.parser")
        except ParserRejectedMarkup:
            return 0.0
    for hidden in soup(["script", "style"]):
        hidden.extract()
    seen = len(soup.get_text())
    return seen / len(page) if page and seen >= 10 else 0.0


def extension(longest: int | None, plain: float | None, letters: float | None) -> Callable[[str], float]:
    def rule(text: str) -> float:
        lengths = [len(line) for line in text.split("\n")]
        if longest and (max(lengths) > longest or (len(text) + 1) / len(lengths) - 1 > 100):
            return 0
        if plain and (len(re.findall(r"[a-zA-Z0-9\n?!,.]", text)) / len(text) if text else 0.0) < plain:
            return 0
        return int(not letters or sum(map(str.isalpha, text)) >= letters * len(text))

    return rule


#: Each filter, and what it must score.
RULES: list[tuple[SignalFilter, Callable[[str], float]]] = [
    (NumberOfLinesOfCodeFilter(), lambda text: len(text.split("\n"))),
    (XMLHeaderFilter(), lambda text: int("<?xml version=" in text[:100])),
    (XMLHeaderFilter(16), lambda text: int("<?xml version=" in text[:16])),
    (XMLHeaderFilter(0), lambda text: 0),
    (AlphaFilter(), alphabetic),
    (HTMLBoilerplateFilter(min_lang_content_num_chars=10), visible),
    (PythonCommentToCodeFilter(), python_documentation),
    (GeneralCommentToCodeFilter("text/x-python"), python_comments),
    *((GeneralCommentToCodeFilter(name), lambda text, name=name: comments(text, name)) for name in FAMILIES),
    (PerExtensionFilter("python", "py"), extension(1000, 0.25, None)),
    (PerExtensionFilter("tex", "tex"), extension(None, 0.25, None)),
    (PerExtensionFilter("ada", "ads"), extension(1000, 0.25, 0.25)),
    (PerExtensionFilter("bison", "bison"), lambda text: 0),
    (PerExtensionFilter("python", "nope"), lambda text: 0),
]
