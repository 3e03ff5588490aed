"""One face for tokenizers of Hugging Face, SentencePiece and tiktoken: ids of many texts, and information about ids."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import missing_dependency
from dcurate.errors import PipelineError
from dcurate.hub.loading import tokenizer_of
from dcurate.hub.tokenizer_files import check_tokenizer_name, is_tokenizer_file, load_tokenizer_file, text_calls
from dcurate.hub.weights import Weights
from dcurate.tokens.special import (
    SpecialInText,
    as_control_pieces,
    check_special_in_text,
    spelling_pattern,
    without_special,
)

Ids = npt.NDArray[np.integer[Any]]

#: What special tokens are called in files of Hugging Face that do not say which is which.
_NAMES = {
    "eos": ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<|endofsentence|>"),
    "bos": ("<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", "<|startoftext|>"),
    "pad": ("<|pad|>", "<pad>", "[PAD]", "<|finetune_right_pad_id|>"),
}
_CONFIGS = ("tokenizer_config.json", "special_tokens_map.json")
#: Of texts that gigatoken tokenises, one of this number is compared with tokenizers, up to this number of characters.
_COMPARED, _COMPARED_CHARACTERS = 512, 20_000
#: Characters after which gigatoken is loaded again, as it keeps every word that it has seen.
_KEPT_CHARACTERS = 2**27
#: Texts that gigatoken and tokenizers must tokenise equally before anything is written.
_PROBES = (
    " It's 12,345.67 o'clock; DON'T (re)write e-mail@b.org!\r\n\n\tdef f(x):\n        return x ** 2  # \u00a0 \u3000 ",
    "na\u00efve e\u0301 \ufb01 \u2167 \u00b2 \u00df \u0130 \u4e2d\u6587\u5b57\u7b26 \u0e01\u0e33 \u0627\u0644",
    "\u0939\u093f\u0928 \U0001f468\u200d\U0001f469\u200d\U0001f467 \ufeff\x00\x1f <|endoftext|></s><s>",
)


class Encoded(NamedTuple):
    """The tokens of a text, and the characters that each was made of.

    Args:
        ids: ids of the tokens.
        starts: first character of each.
        stops: one past the last character of each.
    """

    ids: Ids
    starts: Ids
    stops: Ids


class TextEncoder(ABC):
    """A loaded tokenizer, which adds no special tokens of its own.

    Attributes:
        largest: the largest id that it can give, added tokens included.
        special_names: contents of the special tokens.
    """

    largest: int
    special_names: frozenset[str]

    @cached_property
    def spelling(self) -> re.Pattern[str]:
        """A pattern that finds special tokens in a text."""
        return spelling_pattern(self.special_names)

    def special_counts(self, texts: Sequence[str]) -> list[int]:
        """Return how many special tokens are spelled in each text."""
        return [len(self.spelling.findall(text)) for text in texts]

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text; few texts a call, as ids take much memory until they are in an array."""
        encoded: list[Ids] = []
        for start, stop in text_calls(texts):
            encoded += [np.array(ids, np.int32) for ids in self._call(texts[start:stop])]
        return encoded

    @abstractmethod
    def _call(self, texts: Sequence[str]) -> Iterable[Sequence[int]]:
        """Return the ids of a few texts."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""

    @abstractmethod
    def id_of(self, token: str) -> int | None:
        """Return the id of a token; None if there is no such token."""

    @abstractmethod
    def special(self, kind: str) -> int | None:
        """Return the id of the tokenizer's ``"eos"``, ``"bos"`` or ``"pad"``; None if it has none."""

    def gives(self, number: int) -> bool:
        """Whether the text of a token has its id."""
        [ids] = self._call([self.decode([number])])
        return number in ids

    def encode_places(self, text: str) -> Encoded | None:
        """Return the ids of a text with the characters of each; None if the tokenizer does not say them."""
        return None


class _HuggingFace(TextEncoder):
    def __init__(self, backend: Any, named: Mapping[str, str], source: TokenizerSource) -> None:
        backend.no_padding()
        backend.no_truncation()
        self._backend, self._named = backend, named
        self.largest = max(backend.get_vocab(with_added_tokens=True).values(), default=0)
        marked = (token.content for token in backend.get_added_tokens_decoder().values() if token.special)
        ends = (end if isinstance(end, str) else backend.id_to_token(end) for end in source.ends)
        around = (name for kind, name in named.items() if kind != "pad")
        self.special_names = frozenset(name for name in (*marked, *ends, *around) if name)
        self._of_texts = backend
        if source.special_in_text != "token":
            try:
                self._of_texts = without_special(backend, self.special_names, source.fast)
            except Exception as error:  # the library raises nothing narrower
                raise PipelineError(
                    f"{source.asks}: special tokens cannot be taken out of the tokenizer {source.identifier!r} "
                    f"({error}); give special_in_text='token'"
                ) from error

    def _call(self, texts: Sequence[str]) -> Iterable[Sequence[int]]:
        return (encoding.ids for encoding in self._of_texts.encode_batch_fast(texts, add_special_tokens=False))

    def encode_places(self, text: str) -> Encoded:
        encoding = self._of_texts.encode(text, add_special_tokens=False)
        places = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        return Encoded(np.array(encoding.ids, np.int64), places[:, 0], places[:, 1])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._backend.decode(list(ids), skip_special_tokens=False))

    def id_of(self, token: str) -> int | None:
        number = self._backend.token_to_id(token)
        return None if number is None else int(number)

    def special(self, kind: str) -> int | None:
        if kind in self._named:
            return self.id_of(self._named[kind])
        added = {token.content for token in self._backend.get_added_tokens_decoder().values() if token.special}
        return next((self.id_of(name) for name in _NAMES[kind] if name in added), None)


class _Fast(_HuggingFace):
    """Tokenises with gigatoken, and some texts also with tokenizers, whose ids they must have."""

    def __init__(self, backend: Any, named: Mapping[str, str], source: TokenizerSource) -> None:
        super().__init__(backend, named, source)
        self._source, self._lock, self._texts = source, threading.Lock(), 0
        try:
            self._library = importlib.import_module("gigatoken")
        except ImportError as error:
            raise missing_dependency(f"stage {source.asks!r} with fast=True", str(error), "fast-tokens") from error
        self._reload()
        for text in _PROBES:
            self._compare(text)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        with self._lock:
            return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> Ids:
        if self._texts % _COMPARED == 0:
            self._compare(text[:_COMPARED_CHARACTERS])
        self._texts += 1
        self._characters += len(text)
        if self._characters > _KEPT_CHARACTERS:
            self._reload()
        ids: Ids = self._fast.encode(text)
        return ids

    def _reload(self) -> None:
        try:
            self._fast = self._library.Tokenizer(self._of_texts)
        except Exception as error:
            message = str(error).strip().partition("\n")[0]
            raise PipelineError(
                f"{self._source.asks}: gigatoken cannot load the tokenizer {self._source.identifier!r} ({message}); "
                "leave out fast=True"
            ) from error
        self._characters = 0

    def _compare(self, text: str) -> None:
        if self._fast.encode(text).tolist() != self._of_texts.encode(text, add_special_tokens=False).ids:
            raise PipelineError(
                f"{self._source.asks}: gigatoken gives other ids than tokenizers with {self._source.identifier!r}, for "
                f"the text that begins {text[:40]!r}; leave out fast=True"
            )


class _SentencePiece(TextEncoder):
    def __init__(self, processor: Any, source: TokenizerSource) -> None:
        self._processor = processor
        self.largest = processor.get_piece_size() - 1
        pieces = range(processor.get_piece_size())
        special = {piece for piece in pieces if processor.is_control(piece) or processor.is_unknown(piece)}
        ends = (self.id_of(end) if isinstance(end, str) else end for end in source.ends)
        ordinary = {end for end in (*ends, self.special("bos"), self.special("eos")) if end is not None} - special
        self.special_names = frozenset(processor.id_to_piece(piece) for piece in special | ordinary)
        self._makes_special = source.special_in_text == "token"
        if ordinary and not self._makes_special:
            self._processor = type(processor)(
                model_proto=as_control_pieces(processor.serialized_model_proto(), ordinary)
            )

    def _call(self, texts: Sequence[str]) -> Iterable[Sequence[int]]:
        if self._makes_special:
            return map(self._with_special, texts)
        ids: list[list[int]] = self._processor.encode(list(texts), out_type=int)
        return ids

    def _with_special(self, text: str) -> list[int]:
        """The ids of a text with special tokens: what is between two of them is tokenised by itself."""
        ids: list[int] = []
        start = 0
        for match in self.spelling.finditer(text):
            ids += self._processor.encode(text[start : match.start()], out_type=int)
            ids.append(self._processor.piece_to_id(match[0]))
            start = match.end()
        return ids + list(self._processor.encode(text[start:], out_type=int))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([int(number) for number in ids]))

    def id_of(self, token: str) -> int | None:
        number = int(self._processor.piece_to_id(token))
        return number if self._processor.id_to_piece(number) == token else None

    def special(self, kind: str) -> int | None:
        number = int(getattr(self._processor, f"{kind}_id")())
        return number if number >= 0 else None


class _Tiktoken(TextEncoder):
    def __init__(self, encoding: Any, source: TokenizerSource) -> None:
        self._encoding = encoding
        self.largest = int(encoding.max_token_value)
        self.special_names = frozenset(encoding.special_tokens_set)
        self._makes_special = source.special_in_text == "token"

    def _call(self, texts: Sequence[str]) -> Iterable[Sequence[int]]:
        if self._makes_special:
            return (self._encoding.encode(text, allowed_special="all") for text in texts)
        return (self._encoding.encode_ordinary(text) for text in texts)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._encoding.decode([int(number) for number in ids]))

    def id_of(self, token: str) -> int | None:
        try:
            return int(self._encoding.encode_single_token(token))
        except KeyError:
            return None

    def special(self, kind: str) -> int | None:
        return next((self.id_of(name) for name in _NAMES[kind] if name in self._encoding.special_tokens_set), None)


@dataclass(frozen=True)
class TokenizerSource:
    """Where a tokenizer is: a file, a folder, or the id of a model at the Hugging Face hub.

    Args:
        identifier: the file, folder or id.
        settings: settings of ranks, see `load_tokenizer_file`.
        init_kwargs: more arguments of ``AutoTokenizer.from_pretrained``, by which it is then loaded.
        asks: the stage that uses it, for errors.
        cache_dir: where files of the hub are kept.
        hf_token: for a model that is not public.
        fast: whether gigatoken gives the ids.
        special_in_text: see `TokenWriter`.
        ends: names or ids of the tokens that are put around documents, and are special therefore.
    """

    identifier: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    init_kwargs: Mapping[str, Any] = field(default_factory=dict)
    asks: str = "tokens"
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    fast: bool = False
    special_in_text: SpecialInText = "text"
    ends: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        check_special_in_text(self.asks, self.special_in_text)

    @property
    def here(self) -> bool:
        """Whether it is a file or a folder, so that nothing need be fetched."""
        return is_tokenizer_file(self.identifier) or os.path.isdir(os.path.expanduser(self.identifier))

    @property
    def weights(self) -> Weights:
        """The model that it belongs to, where it is not a file."""
        revision = self.init_kwargs.get("revision")
        return Weights(self.identifier, revision, cache_dir=self.cache_dir, hf_token=self.hf_token)

    @property
    def key(self) -> Hashable:
        """What two equal tokenizers share."""
        return type(self), self.identifier, self.cache_dir, self._more, self.fast, self.special_in_text, self.ends

    @property
    def _more(self) -> str:
        both = [*self.settings.items(), *self.init_kwargs.items()]
        return repr(sorted(both)) if both else ""

    def fetch(self) -> None:
        """Download it to this host, unless it is here.

        Raises:
            DataError: it is a file or a folder that is not there.
        """
        check_tokenizer_name(self.identifier, self.asks)
        if not is_tokenizer_file(self.identifier):
            self.weights.fetch("tokenizer")

    def digest(self) -> str:
        """Return a digest of the file that holds it, or of its name where that is elsewhere."""
        file = self._file() if self.here else None
        content = Path(file).read_bytes() if file is not None and os.path.isfile(file) else self.identifier.encode()
        return hashlib.blake2b(content + self._more.encode(), digest_size=16).hexdigest()

    def load(self) -> TextEncoder:
        """Load it; the network is not used.

        Raises:
            DataError: it is not there, or damaged.
            ResourceError: a library is not installed, or it was not fetched to this host.
            PipelineError: a tokenizer written in Python.
        """
        # Slots are the parallelism; threads of the library's own for each of them would fight over the CPUs.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        check_tokenizer_name(self.identifier, self.asks)
        file = self._file()
        if file is not None:
            return self._encoder(load_tokenizer_file(file, self.asks, self.settings), file)
        arguments = {name: value for name, value in self.init_kwargs.items() if name != "revision"}
        loaded = tokenizer_of(self.weights, self.weights.folder("tokenizer"), arguments)
        if not loaded.is_fast:
            raise PipelineError(
                f"{self.asks}: the tokenizer {self.identifier!r} is written in Python, which is too slow; "
                "give a tokenizer.json or a SentencePiece model"
            )
        named = {kind: getattr(loaded, f"{kind}_token") for kind in _NAMES}
        return self._hugging_face(loaded.backend_tokenizer, {kind: name for kind, name in named.items() if name})

    def _encoder(self, loaded: Any, file: str) -> TextEncoder:
        kind = type(loaded).__module__.partition(".")[0]
        if kind == "tokenizers":
            return self._hugging_face(loaded, _named_beside(file))
        if self.fast:
            raise PipelineError(
                f"{self.asks}: fast=True needs a tokenizer.json, and {self.identifier!r} is of {kind}; leave it out"
            )
        return _Tiktoken(loaded, self) if kind == "tiktoken" else _SentencePiece(loaded, self)

    def _hugging_face(self, backend: Any, named: Mapping[str, str]) -> TextEncoder:
        return (_Fast if self.fast else _HuggingFace)(backend, named, self)

    def _file(self) -> str | None:
        """The file that holds it; None if transformers must find out."""
        if is_tokenizer_file(self.identifier):
            return os.path.expanduser(self.identifier)
        if self.init_kwargs.keys() - {"revision"}:
            return None
        folder = Path(self.weights.folder("tokenizer"))
        names = sorted(path.name for path in folder.iterdir())
        wanted = ["tokenizer.json", *(name for name in names if name.endswith((".model", ".tiktoken")))]
        return next((str(folder / name) for name in wanted if name in names), None)


def _named_beside(file: str) -> dict[str, str]:
    """The special tokens that files beside a ``tokenizer.json`` name."""
    named: dict[str, str] = {}
    for path in (Path(file).with_name(name) for name in _CONFIGS):
        config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        for kind in _NAMES:
            token = config.get(f"{kind}_token")
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str) and token:
                named.setdefault(kind, token)
    return named


@dataclass(frozen=True)
class SpecialIds:
    """The special tokens that are put around documents, by id; None for one that is not.

    Args:
        bos: before each document.
        eos: after each document.
        pad: in what a window has left over.
    """

    bos: int | None
    eos: int | None
    pad: int

    @classmethod
    def of(cls, encoder: TextEncoder, source: TokenizerSource, bos: bool | str, eos: bool | str) -> SpecialIds:
        """Return what a tokenizer has of the special tokens that are asked for.

        Args:
            bos: whether there is one before each document; or its name.
            eos: the same, after each document.

        Raises:
            PipelineError: the tokenizer does not have one, or texts can give it although they must not.
        """
        special = {"bos": _special(encoder, source, "bos", bos), "eos": _special(encoder, source, "eos", eos)}
        for kind, number in special.items():
            if number is not None and source.special_in_text != "token" and encoder.gives(number):
                raise PipelineError(
                    f"{source.asks}: the {kind.upper()} token of {source.identifier!r} is that of the text "
                    f"{encoder.decode([number])!r}, too; name a special token, add_{kind}='<token>', or give "
                    "special_in_text='token'"
                )
        pads = (encoder.special("pad"), special["eos"], encoder.special("eos"), 0)
        return cls(**special, pad=next(pad for pad in pads if pad is not None))


def _special(encoder: TextEncoder, source: TokenizerSource, kind: str, asked: bool | str) -> int | None:
    if asked is False:
        return None
    number = encoder.special(kind) if asked is True else encoder.id_of(asked)
    if number is None:
        missing = f"no token {asked!r}" if isinstance(asked, str) else f"no {kind.upper()} token"
        raise PipelineError(
            f"{source.asks}: the tokenizer {source.identifier!r} has {missing}; name one that it has, "
            f"add_{kind}='<token>', or leave it out with add_{kind}=False"
        )
    return number


def kind_of_ids(encoder: TextEncoder, source: TokenizerSource, asked: str | None, kinds: Sequence[str]) -> str:
    """Return the type of ids, by its name in numpy.

    Args:
        asked: the type that is asked for; the first that holds all ids if None.
        kinds: types that the format has, smallest first.

    Raises:
        PipelineError: the format does not have the type, or an id does not fit it.

    Examples:
        >>> encoder = type("Big", (), {"largest": 70_000})()
        >>> kind_of_ids(encoder, TokenizerSource("big.json"), None, ["uint16", "int32"])
        'int32'
    """
    if asked is not None and asked not in kinds:
        raise PipelineError(f"{source.asks}: dtype={asked!r} is none that this format has; it has {', '.join(kinds)}")
    fitting = [kind for kind in kinds if np.iinfo(kind).max >= encoder.largest]
    if asked is None and fitting:
        return fitting[0]
    if asked is None or asked not in fitting:
        hint = f"; use dtype={fitting[0]!r}" if fitting else ""
        raise PipelineError(
            f"{source.asks}: the ids of {source.identifier!r} go up to {encoder.largest:,}, which does not fit "
            f"dtype={asked or kinds[-1]!r}{hint}"
        )
    return asked
