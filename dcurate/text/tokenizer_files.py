"""Load tokenizers from files: ``tokenizer.json``, SentencePiece models, and the ranks of tiktoken."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcurate.errors import DataError, PipelineError, listed
from dcurate.text.optional import needed

#: Endings of files that hold a whole tokenizer.
ENDINGS = (".json", ".model", ".tiktoken")

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


def load_tokenizer_file(path: str, asks: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Load the tokenizer of a file.

    Args:
        path: a Hugging Face ``tokenizer.json``, a SentencePiece ``.model``, or ranks of tiktoken.
        asks: who asks for it, for errors.
        settings: of ranks: ``pattern``, a regular expression or the name of an encoding such as ``"cl100k_base"`` (that
            of the file by default), and ``special_tokens`` with their ids.

    Returns:
        a ``tokenizers.Tokenizer``, a ``SentencePieceProcessor`` or a ``tiktoken.Encoding``.

    Raises:
        ResourceError: the library is not installed.
        DataError: the file is not there, or is no such tokenizer.
        PipelineError: ranks without a pattern.
    """
    if path.endswith(".json"):
        return _hugging_face(path, asks)
    if path.endswith(".tiktoken") or _holds_ranks(path):
        return _tiktoken(path, asks, settings or {})
    return load_sentencepiece(path, asks)


def load_sentencepiece(path: str, asks: str) -> Any:
    """Load a SentencePiece model; see `load_tokenizer_file`."""
    sentencepiece = needed("sentencepiece", asks, "tokens")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=path)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{asks}: {path!r} is not a SentencePiece model ({error})") from error


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
    rule, special = _ENCODINGS.get(pattern, (pattern, {}))
    special = dict(settings.get("special_tokens", special))
    tiktoken = needed("tiktoken", asks, "tokens")
    try:
        lines = (line.split() for line in Path(path).read_bytes().splitlines() if line)
        ranks = {b64decode(token): int(rank) for token, rank in lines}
    except (OSError, ValueError) as error:
        raise DataError(f"{asks}: {path!r} does not hold ranks of tiktoken ({error})") from error
    try:
        return tiktoken.Encoding(name, pat_str=rule, mergeable_ranks=ranks, special_tokens=special)
    except Exception as error:  # the library raises nothing narrower
        raise PipelineError(f"{asks}: pattern={pattern!r} and special_tokens={special!r}: {error}") from error
