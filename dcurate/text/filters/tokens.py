"""Filters that count the tokens of a tokenizer."""

from __future__ import annotations

import math
import os.path
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol

from dcurate.core.extras import needed
from dcurate.errors import DataError, PipelineError
from dcurate.frames.text import encodable
from dcurate.hub.tokenizer_files import (
    check_tokenizer_name,
    is_tokenizer_file,
    load_sentencepiece,
    load_tokenizer_file,
    looks_like_file,
)
from dcurate.text.filter import DocumentFilter


class Tokenizer(Protocol):
    """Tokenizer protocol: a tokenizer of transformers or tokenizers, or a SentencePieceProcessor."""

    def encode(self, text: str) -> Any:
        """Return the tokens, as an object with a length."""


class _LoadsOnce(DocumentFilter):
    """Loaded tokenizers stay with one filter: slots do not share them, and they are not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class TokenizerFertilityFilter(_LoadsOnce):
    """Drop texts with too few characters per token on average.

    A text of no tokens scores -1.0, so an empty one does. Lone surrogates are read as question marks.

    Args:
        tokenizer: a SentencePiece model, ``.model``; must be given.
        min_char_to_token_ratio: the least number of characters a token.

    Needs the extra ``tokens``.

    Raises:
        PipelineError: no path is given.
        ResourceError: SentencePiece is not installed; when the model is loaded.
        DataError: the file is not there, or is not such a model; when it is loaded.

    Examples:
        >>> TokenizerFertilityFilter("code.model").keep_document(2.4)
        False
    """

    tokenizer: str | None = None
    min_char_to_token_ratio: float = 2.5
    _name = "tokenizer_fertility"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tokenizer:
            raise PipelineError(f"{self.name}: tokenizer must name a SentencePiece model, such as 'code.model'")

    def requires(self) -> dict[str, str]:
        return {"sentencepiece": "tokens"}

    @cached_property
    def _processor(self) -> Any:
        return load_sentencepiece(self.tokenizer or "", self.name)

    def load_tokenizer(self) -> None:
        self.score_document("")

    def score_document(self, text: str) -> float:
        tokens = len(self._processor.encode(encodable(text)))
        return len(text) / tokens if tokens else -1.0

    def keep_document(self, score: float) -> bool:
        return score >= self.min_char_to_token_ratio


@dataclass(frozen=True)
class TokenCountFilter(_LoadsOnce):
    """Drop texts with too few or too many tokens, including special tokens.

    An empty text has only those. Lone surrogates are read as question marks.

    Args:
        tokenizer: a model on the Hugging Face hub or in a folder, of which transformers loads the tokenizer (extra
            ``models``), or a file (extra ``tokens``, which is much lighter): a ``tokenizer.json``, a SentencePiece
            ``.model``, or ranks such as ``cl100k_base.tiktoken``; or a tokenizer that is loaded already, which travels
            to the workers.
        hf_token: for a model that is not public.
        min_tokens: the least number of tokens.
        max_tokens: the greatest number of tokens.
        transformers_init_kwargs: further arguments of ``AutoTokenizer.from_pretrained``.

    Of a model on the hub the tokenizer alone is downloaded, once per host and before the first text.

    Raises:
        PipelineError: no tokenizer; ``local_files_only`` among the further arguments.
        ResourceError: a package is not installed; when the tokenizer is loaded.
        DataError: the tokenizer does not exist; when it is loaded.

    Examples:
        >>> class Words:
        ...     def encode(self, text):
        ...         return text.split()
        >>> TokenCountFilter(Words(), min_tokens=2).score_document("three short words")
        3
    """

    tokenizer: str | Tokenizer | None = field(default=None, hash=False)
    hf_token: str | None = field(default=None, repr=False)
    min_tokens: int = 0
    max_tokens: float = math.inf
    transformers_init_kwargs: dict[str, Any] | None = field(default=None, hash=False)
    _name = "token_count"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer is None:
            raise PipelineError(f"{self.name}: tokenizer must name a model or a file, such as 'tokenizer.json'")
        if "local_files_only" in (self.transformers_init_kwargs or {}):
            raise PipelineError(
                f"{self.name}: local_files_only is set by dcurate; leave it out of transformers_init_kwargs"
            )

    def requires(self) -> dict[str, str]:
        name = self.tokenizer
        if not isinstance(name, str) or is_tokenizer_file(name):
            return {"tokenizers": "tokens"} if isinstance(name, str) and name.endswith(".json") else {}
        return (
            {} if looks_like_file(name) and not os.path.isdir(os.path.expanduser(name)) else {"transformers": "models"}
        )

    @cached_property
    def _loaded(self) -> Tokenizer:
        tokenizer = self.tokenizer
        assert tokenizer is not None
        return self._load(tokenizer, local_files_only=True) if isinstance(tokenizer, str) else tokenizer

    def model_check_or_download(self) -> None:
        if isinstance(self.tokenizer, str):
            self._load(self.tokenizer, local_files_only=False)

    def load_tokenizer(self) -> None:
        self.score_document("")

    def _load(self, name: str, local_files_only: bool) -> Tokenizer:
        check_tokenizer_name(name, self.name)
        if is_tokenizer_file(name):
            tokenizer: Tokenizer = load_tokenizer_file(name, self.name)
            return tokenizer
        tokenizers = needed("transformers", self.name, "models").AutoTokenizer
        options = {**(self.transformers_init_kwargs or {}), "local_files_only": local_files_only}
        try:
            tokenizer = tokenizers.from_pretrained(name, token=self.hf_token, **options)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.name}: no tokenizer {name!r} on this host; {str(error).splitlines()[0]}") from error
        return tokenizer

    def score_document(self, text: str) -> int:
        return len(self._loaded.encode(encodable(text)))

    def keep_document(self, score: int) -> bool:
        return self.min_tokens <= score <= self.max_tokens
