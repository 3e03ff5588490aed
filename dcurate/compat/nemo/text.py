"""Functions and constants of `nemo_curator.stages.text.utils` and of its modifiers."""

from __future__ import annotations

import ast
import io
import logging
import re
import string
import tokenize
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.frames.columns import column_of
from dcurate.text.boilerplate import POLICY
from dcurate.text.extract.stop_words import language_name
from dcurate.text.segmentation import needs_splitting, splitter

end_marks = (".", "?", "!", '"', "'")
ellipsis_marks = {"...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more"}
policy_substrings = list(POLICY)
white_space_list = ["\t", "\n", "\r", "\b", " "]
common_english_words = {"the", "be", "to", "of", "and", "that", "have", "with"}
bullet_list = set("•‣⁃⁌⁍∙○●◘◦⦾⦿")

regex_alpha = re.compile(r"[^\W\d_]")
regex_digit = re.compile(r"\d")
regex_alphanum = re.compile(r"[a-zA-Z0-9\n?!,.]")
regex_url = re.compile(r"https?://(?:[\w$\-@.&+/:=?#~!*(),]|%[0-9A-Fa-f]{2})+", re.ASCII)
regex_paren = re.compile(r"[{}⟨⟩\[\]()]")
regex_hash = re.compile("#+")
URL_REGEX = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
THREE_OR_MORE_NEWLINES_REGEX = re.compile(r"(\n){3,}")
THREE_OR_MORE_WINDOWS_NEWLINES_REGEX = re.compile(r"(\r\n){3,}")

#: What docstrings are read from.
NODE_TYPES: dict[type[ast.AST], str] = {
    ast.ClassDef: "Class",
    ast.FunctionDef: "Function/Method",
    ast.Module: "Module",
}

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_log = logging.getLogger("dcurate.compat.nemo")


def get_word_splitter(language: str) -> Callable[[str], list[str]]:
    """The function that splits texts of a language, an ISO 639-1 code, into words.

    Examples:
        >>> get_word_splitter("en")("Two words")
        ['Two', 'words']
    """
    return splitter(language) if needs_splitting(language) else str.split


def normalize_text(
    text_series: pd.Series[Any], *, lowercase: bool = True, normalize_space: bool = True
) -> pd.Series[Any]:
    r"""Return texts in lower case, with runs of whitespace as one space and none at the ends; a null stays null.

    Whitespace is what cuDF takes for it: characters up to U+0020.

    Args:
        text_series: texts, in pandas' Series in place of cuDF's.
        lowercase: whether texts are changed to lower case.
        normalize_space: whether whitespace is changed.

    Raises:
        TypeError: `text_series` is not a Series.

    Examples:
        >>> normalize_text(pd.Series([" So  it GOES\n"])).tolist()
        ['so it goes']
    """
    if not isinstance(text_series, pd.Series):
        raise TypeError(f"text_series is a {type(text_series).__name__}; give a Series of texts")
    texts = _normalized(pa.array(text_series, pa.large_string(), from_pandas=True), lowercase, normalize_space)
    return pd.Series(texts.to_pylist(), index=text_series.index, dtype=text_series.dtype, name=text_series.name)


def with_normalized(table: pa.Table, text_field: str) -> pa.Table:
    """Return the table with the texts of a column as `normalize_text` has them.

    Raises:
        DataError: there is no such column, or it does not hold text.
    """
    texts = _normalized(column_of(table, text_field, text=True), lowercase=True, normalize_space=True)
    return table.set_column(table.column_names.index(text_field), text_field, texts)


def _normalized(texts: pa.Array, lowercase: bool, normalize_space: bool) -> pa.Array:
    if lowercase:
        texts = pc.utf8_lower(pc.replace_substring(texts, "İ", "i\u0307"))  # Arrow drops the dot, cuDF does not
    if normalize_space:
        texts = pc.utf8_trim(pc.replace_substring_regex(texts, r"[\x00-\x20]+", " "), " ")
    return texts


def get_paragraphs(document: str) -> list[str]:
    """The parts of a text between empty lines."""
    return document.split("\n\n")


def get_sentences(document: str) -> list[str]:
    """The lines of a text that are not blank."""
    return [line for line in document.split("\n") if line.strip()]


def get_ngrams(input_list: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Each `n` items in a row.

    Examples:
        >>> get_ngrams(["a", "b", "c"], 2)
        [('a', 'b'), ('b', 'c')]
    """
    return list(zip(*(input_list[start:] for start in range(n)), strict=False))


def get_words(text: str) -> tuple[list[str], list[int]]:
    """The words of a text in small letters without punctuation, and where they start in what is left.

    Examples:
        >>> get_words("One, two!")
        (['one', 'two'], [0, 4])
    """
    matches = [*re.finditer(r"[^ ]+", remove_punctuation(text.lower()))]
    return [word[0].strip() for word in matches], [word.start() for word in matches]


def remove_punctuation(str_in: str) -> str:
    """Remove ASCII's punctuation."""
    return str_in.translate(_WITHOUT_PUNCTUATION)


def is_paragraph_indices_in_top_or_bottom_only(boilerplate_paragraph_indices: list[int], num_paragraphs: int) -> bool:
    """Whether some of the paragraphs of a text, but not all, are in a row at its start or end.

    Examples:
        >>> is_paragraph_indices_in_top_or_bottom_only([0, 1], 5), is_paragraph_indices_in_top_or_bottom_only([0, 4], 5)
        (True, False)
    """
    first, last = boilerplate_paragraph_indices[0], boilerplate_paragraph_indices[-1]
    in_a_row = boilerplate_paragraph_indices == [*range(first, last + 1)]
    at_an_end = first == 0 or last == num_paragraphs - 1
    return in_a_row and at_an_end and len(boilerplate_paragraph_indices) < num_paragraphs


def parse_docstrings(source: str) -> Iterator[tuple[ast.AST, str | None, str | None]]:
    """Yield the module, classes and functions of a program with their names and docstrings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module):
            yield node, getattr(node, "name", None), ast.get_docstring(node)


def get_docstrings(source: Any, module: str = "<string>") -> list[str]:
    """The docstrings of a program, a text or an open file: those of classes, then functions, then the module.

    `module` is for NeMo Curator's signature.
    """
    docstrings = parse_docstrings(source.read() if hasattr(source, "read") else source)
    ordered = sorted(docstrings, key=lambda item: (NODE_TYPES[type(item[0])], item[1] or ""))
    return [docstring for _, _, docstring in ordered if docstring]


def get_comments(s: str, clean: bool = False) -> str:
    """The comments of a program, one after the other; `clean` removes each ``#``."""
    tokens = tokenize.generate_tokens(io.StringIO(s).readline)
    comments = tokenize.untokenize([(token.type, token.string) for token in tokens if token.type == tokenize.COMMENT])
    return comments.replace("#", "") if clean else comments


def get_comments_and_docstring(
    source: str, comments: bool = True, clean_comments: bool = False
) -> tuple[str | None, str | None]:
    """The docstrings and the comments of a program; None for what cannot be read, with a warning.

    Args:
        source: the program.
        comments: whether to return comments, too.
        clean_comments: whether to remove each ``#``.
    """
    docstrings, comment_text = None, ""
    try:
        docstrings = "\n".join(get_docstrings(source))
    except (SyntaxError, ValueError, RecursionError):
        warnings.warn("the program cannot be parsed: no docstring is returned", stacklevel=2)
    try:
        comment_text = get_comments(source, clean_comments) if comments else ""
    except (SyntaxError, tokenize.TokenError):
        warnings.warn("the program cannot be tokenized: no comment is returned", stacklevel=2)
        return docstrings, None
    return docstrings, comment_text


def get_language_name(lang_code: str) -> str:
    """The English name of a language; an unknown code stays.

    Examples:
        >>> get_language_name("de"), get_language_name("zz")
        ('German', 'zz')
    """
    name = language_name(lang_code)
    if name is None and lang_code:
        _log.warning("%r is no known language code", lang_code)
    return name or lang_code
