"""Words of a language as a library finds them, by the names of both: ``spacy:fr``, ``indic:hi``, ``pythainlp:th``.

Each is the word tokenizer that datatrove, and so FineWeb-2, has assigned to languages.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from dcurate.errors import PipelineError

Tokenizer = Callable[[str], list[str]]


class _Library(NamedTuple):
    """A library: its name, module and package, and the factory of its tokenizer for a language."""

    title: str
    module: str
    package: str
    load: Callable[[str], Tokenizer]


def _spacy(lang: str) -> Tokenizer:
    """The tokenizer of spaCy's blank pipeline; Chinese is cut by jieba, not into single characters."""
    spacy = import_module("spacy")
    chinese: dict[str, Any] = {"nlp": {"tokenizer": {"segmenter": "jieba"}}}
    try:
        tokenizer = spacy.blank(lang, config=chinese if lang == "zh" else {}).tokenizer
    except ValueError as error:
        raise PipelineError(f"words='spacy:{lang}': {' '.join(str(error).split())}") from error
    return lambda run: [word.text for word in tokenizer(run)]


def _indic(lang: str) -> Tokenizer:
    """The Indic NLP Library's, which leaves a number whole unless a text begins with it: a letter is put before."""
    tokenize = import_module("indicnlp.tokenize.indic_tokenize").trivial_tokenize
    return lambda run: tokenize(f"a {run}", lang)[1:]


def _pythainlp(lang: str) -> Tokenizer:
    tokenize = import_module("pythainlp.tokenize").word_tokenize
    return lambda run: tokenize(run, keep_whitespace=False, engine="newmm-safe")


_LIBRARIES = {
    "spacy": _Library("spaCy", "spacy", "spacy", _spacy),
    "indic": _Library("the Indic NLP Library", "indicnlp", "indic-nlp-library", _indic),
    "pythainlp": _Library("PyThaiNLP", "pythainlp", "pythainlp", _pythainlp),
}


def is_known(name: str) -> bool:
    """Whether a name is a library followed by a language.

    Examples:
        >>> is_known("spacy:fr"), is_known("spacy:"), is_known("french")
        (True, False, False)
    """
    library, _, lang = name.partition(":")
    return library in _LIBRARIES and lang.isalpha()


def tokenizer(name: str) -> Tokenizer:
    """Return the word splitter of a library.

    Raises:
        PipelineError: the library, or what it needs for the language, is not installed, or it has no such language.
    """
    library, _, lang = name.partition(":")
    entry = _LIBRARIES[library]
    try:
        import_module(entry.module)
    except ImportError as error:
        sentence = f"words={name!r} needs {entry.title}: pip install {entry.package}; words='english' needs nothing"
        raise PipelineError(sentence) from error
    try:
        return entry.load(lang)
    except ImportError as error:
        raise PipelineError(f"words={name!r}: {' '.join(str(error).split())}") from error
