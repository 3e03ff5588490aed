"""Load tokenizers from files: ``tokenizer.json``, SentencePiece models, and the ranks of tiktoken."""

from __future__ import annotations

import os.path
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any

from dcurate.core.extras import needed
from dcurate.errors import DataError, PipelineError, listed, nearest

#: Endings of files that hold a whole tokenizer.
ENDINGS = (".json", ".model", ".tiktoken")

#: An ending of letters, as a file has, and how alike a misspelt one is to one of `ENDINGS`.
_WORD_ENDING, _ALIKE = re.compile(r"\.[A-Za-z]{2,9}$"), 0.6
_NAME = re.compile(r"[\w.-]+")
#: What is tokenised in one call: the tokenizer keeps some 100 bytes a token until it is over.
_CALL_CHARACTERS, _CALL_TEXTS = 500_000, 1000
#: Texts that ranks must give back.
_PROBES = (
    " It's 12,345.67 o'clock; DON'T (re)write e-mail@b.org!\r\n\n\tdef f(x):\n        return x ** 2  # \u00a0 \u3000 ",
    "na\u00efve e\u0301 \ufb01 \u2167 \u00b2 \u00df \u0130 \u4e2d\u6587\u5b57\u7b26 \u0e01\u0e33 \u0627\u0644",
    "\u0939\u093f\u0928 \U0001f468\u200d\U0001f469\u200d\U0001f467 \ufeff\x00\x1f <|endoftext|></s><s>",
)
_RANK = re.compile(rb"[A-Za-z0-9+/]+=* \d+\r?\n")
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_GPT4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_GPT4O = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]
)
_END = "<|endoftext|>"
#: The rule by which texts are cut, and the special tokens, of encodings by their names.
_ENCODINGS: dict[str, tuple[str, dict[str, int]]] = {
    "r50k_base": (_GPT2, {_END: 50256}),
    "p50k_base": (_GPT2, {_END: 50256}),
    "cl100k_base": (_GPT4, {_END: 100257}),
    "o200k_base": (_GPT4O, {_END: 199999}),
}


def is_tokenizer_file(name: str) -> bool:
    """Whether a name is that of a file with a tokenizer, not of a folder or of a model at a hub."""
    return name.endswith(ENDINGS)


def looks_like_file(name: str) -> bool:
    """Whether a name is that of a file or a folder, there or not, rather than of a model at a hub.

    Examples:
        >>> [looks_like_file(name) for name in ("tokenizer.jsn", "./gpt2", "a/b/c", "a/tokeniser.jsonn")]
        [True, True, True, True]
        >>> [looks_like_file(name) for name in ("gpt2", "org/model", "org/model-2.5B", "openai/whisper-tiny.en")]
        [False, False, False, False]
    """
    if is_tokenizer_file(name) or name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
        return True
    ending = _WORD_ENDING.search(name)
    return ending is not None and ("/" not in name or _like_an_ending(ending[0]))


def _like_an_ending(ending: str) -> bool:
    return any(SequenceMatcher(None, ending.lower(), known).ratio() >= _ALIKE for known in ENDINGS)


def check_tokenizer_name(name: str, asks: str) -> None:
    """Refuse a name of a file or folder that is not there, before a hub is asked for it.

    Args:
        name: file, folder, or id of a model at a hub.
        asks: asking stage, for errors.

    Raises:
        DataError: the file or folder does not exist, or is a file of another kind.
    """
    path = os.path.expanduser(name)
    if os.path.isdir(path) or (os.path.isfile(path) and is_tokenizer_file(name)):
        return
    if os.path.isfile(path):
        raise DataError(f"{asks}: {name!r} is not a tokenizer; give a file that ends in {listed(ENDINGS)}")
    folder, _, last = path.rpartition("/")
    try:
        beside = [entry for entry in os.listdir(folder or ("/" if path.startswith("/") else ".")) if entry[0] != "."]
    except OSError:
        beside = []
    close = get_close_matches(last, filter(is_tokenizer_file, beside), n=1, cutoff=0.8)
    if close or looks_like_file(name):
        hint = f", did you mean {close[0]!r}?" if close else ";"
        raise DataError(
            f"{asks}: file or folder {name!r} does not exist{hint} give the path of a tokenizer, or the id of a "
            "model at the Hugging Face hub"
        )


def load_tokenizer_file(path: str, asks: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Load the tokenizer of a file.

    Args:
        path: a Hugging Face ``tokenizer.json``, a SentencePiece ``.model``, or ranks of tiktoken.
        asks: who asks for it, for errors.
        settings: settings for ranks: ``pattern``, a regular expression or the name of an encoding such as
            ``"cl100k_base"`` (that of the file by default), and ``special_tokens`` with their ids.

    Returns:
        a ``tokenizers.Tokenizer``, a ``SentencePieceProcessor`` or a ``tiktoken.Encoding``.

    Raises:
        ResourceError: the library is not installed.
        DataError: the file is not there, or is no such tokenizer.
        PipelineError: ranks without a pattern, or with one that loses text.
    """
    if path.endswith(".json"):
        return _hugging_face(path, asks)
    if path.endswith(".tiktoken") or _holds_ranks(path):
        return _tiktoken(path, asks, settings or {})
    return load_sentencepiece(path, asks)


def load_sentencepiece(path: str, asks: str) -> Any:
    """Load a SentencePiece model; see `load_tokenizer_file`."""
    if not os.path.isfile(path):
        check_tokenizer_name(path, asks)
    sentencepiece = needed("sentencepiece", asks, "tokens")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=path)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{asks}: {path!r} is not a SentencePiece model ({error})") from error


def text_calls(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Boundaries of the texts of each call."""
    start, characters = 0, 0
    for number, text in enumerate(texts):
        if number > start and (characters + len(text) > _CALL_CHARACTERS or number - start == _CALL_TEXTS):
            yield start, number
            start, characters = number, 0
        characters += len(text)
    if start < len(texts):
        yield start, len(texts)


def _hugging_face(path: str, asks: str) -> Any:
    tokenizers = needed("tokenizers", asks, "tokens")
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the library raises nothing narrower
        raise DataError(f"{asks}: {path!r} is not a Hugging Face tokenizer file ({error})") from error


def _holds_ranks(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _RANK.match(file.readline(4096)) is not None
    except OSError:
        return False


def _tiktoken(path: str, asks: str, settings: Mapping[str, Any]) -> Any:
    name = Path(path).stem
    pattern = settings.get("pattern", name)
    if pattern == name and name not in _ENCODINGS:
        raise PipelineError(
            f"{asks}: the ranks in {path!r} do not say how texts are cut; give tokenizer_kwargs={{'pattern': ...}}, a "
            f"regular expression or one of {listed(_ENCODINGS)}"
        )
    if pattern not in _ENCODINGS and _NAME.fullmatch(str(pattern)):
        raise PipelineError(
            f"{asks}: pattern={pattern!r} is not the name of an encoding{nearest(str(pattern), _ENCODINGS)}; give one "
            f"of {listed(_ENCODINGS)}, or a regular expression"
        )
    rule, special = _ENCODINGS.get(pattern, (pattern, {}))
    special = dict(settings.get("special_tokens", special))
    tiktoken = needed("tiktoken", asks, "tokens")
    try:
        lines = (line.split() for line in Path(path).read_bytes().splitlines() if line)
        ranks = {b64decode(token): int(rank) for token, rank in lines}
    except (OSError, ValueError) as error:
        raise DataError(f"{asks}: {path!r} does not hold ranks of tiktoken ({error})") from error
    if any(bytes([byte]) not in ranks for byte in range(256)):
        raise DataError(
            f"{asks}: {path!r} lacks ranks of single bytes, so texts cannot be cut into them; copy it again"
        )
    try:
        encoding = tiktoken.Encoding(name, pat_str=rule, mergeable_ranks=ranks, special_tokens=special)
    except Exception as error:  # the library raises nothing narrower
        raise PipelineError(f"{asks}: pattern={pattern!r} and special_tokens={special!r}: {error}") from error
    lost = next((text for text in _PROBES if _loses(encoding, text)), None)
    if lost is not None:
        raise PipelineError(
            f"{asks}: pattern={pattern!r} loses a part of the text {lost[:40]!r}; give a regular expression that "
            f"matches every character and nothing empty, or one of {listed(_ENCODINGS)}"
        )
    return encoding


def _loses(encoding: Any, text: str) -> bool:
    """Whether a text does not come back from its tokens."""
    try:
        return bool(encoding.decode(encoding.encode_ordinary(text)) != text)
    except BaseException as error:  # an empty match panics in the library, which does not raise an Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return True
        raise
