"""Models with one vector a token, as model2vec makes them (potion and others); Torch is not needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.kernels.interning import Numbered, WordTable
from dcurate.kernels.layout import Bytes, Ints, Offsets
from dcurate.kernels.static_embeddings import TokenVectors, first_characters, mean_vectors

Matrix = npt.NDArray[np.float32]

_WHAT = "static embeddings"
#: Where a folder has its configuration, its weights and its tokenizer, and the name of the vectors: model2vec's
#: layout, and two of sentence-transformers'.
_LAYOUTS = (
    ("config.json", "", "embeddings"),
    ("config_sentence_transformers.json", "", "embedding.weight"),
    ("config_sentence_transformers.json", "0_StaticEmbedding/", "embedding.weight"),
)
#: Tokens of a text at most, where the folder has no such setting: the library's default.
_MOST_TOKENS = 512
#: A text without a limit has fewer tokens than this.
_NO_LIMIT = 1 << 40
#: What cuts a text into words that are tokenized independently of each other.
_NORMALIZERS, _PRE_TOKENIZERS = (None, "BertNormalizer"), ("BertPreTokenizer", "WhitespaceSplit")
#: Words that are remembered at most.
_MOST_WORDS = 1 << 20


@dataclass(frozen=True, eq=False)
class StaticEmbeddings:
    """A model with one vector a token. Threads may share it; each has a `TextEmbedder` of its own.

    Args:
        vectors: the vectors.
        tokenizer: the ``tokenizers.Tokenizer``, which neither truncates nor pads.
        characters: characters of a text that are read at most.
        normalize: whether embeddings are scaled to length one.
        half: whether the vectors have 16 bits, as the embeddings then have.
        added: tokens that are looked for before a text is cut into words.
        by_words: whether words, as of ``str.split``, are tokenized independently of each other.
        apart: whether ASCII punctuation is a word of its own then.
        lower: whether the tokenizer lower-cases texts.
    """

    vectors: TokenVectors
    tokenizer: Any
    characters: int
    normalize: bool = False
    half: bool = False
    added: tuple[bytes, ...] = ()
    by_words: bool = False
    apart: bool = False
    lower: bool = False

    @property
    def dimensions(self) -> int:
        """Numbers of an embedding."""
        return int(self.vectors.rows.shape[1])

    @classmethod
    def load(
        cls, folder: str, most: int | None = None, normalize: bool | None = None, dimensions: int | None = None
    ) -> StaticEmbeddings:
        """Read a folder of model2vec or a static model of sentence-transformers; pickles are never read.

        Args:
            folder: holds ``model.safetensors``, ``tokenizer.json`` and a configuration.
            most: tokens of a text that are looked at; as the folder says by default.
            normalize: whether embeddings are scaled to length one; as the folder says by default.
            dimensions: keep only this many of the first numbers.

        Raises:
            DataError: a file is missing or damaged, or the files do not fit together.
            ResourceError: a library is not installed.
        """
        place = Path(folder)
        config, weights, name = next(
            ((config, place / inner, name) for config, inner, name in _LAYOUTS if _is_layout(place, config, inner)),
            (None, place, ""),
        )
        if config is None:
            raise DataError(
                f"{folder!r} holds no static embeddings; give a folder with model.safetensors, tokenizer.json and "
                "config.json, as model2vec saves it (pickles are not read)"
            )
        settings = _settings(place / config)
        tensors = _tensors(weights / "model.safetensors", name)
        tokenizer = _tokenizer(weights / "tokenizer.json")
        state = json.loads(tokenizer.to_str())
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        limit = settings.get("max_length", _MOST_TOKENS) if most is None else most
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise DataError(f"{place / config} has max_length {limit!r}, not a whole number above 0; fix the file")
        vectors = TokenVectors(
            *_fitting(folder, tensors, name, vocabulary), _unknown(tokenizer, state), limit or _NO_LIMIT
        )
        rows = vectors.rows if dimensions is None else np.ascontiguousarray(vectors.rows[:, :dimensions])
        median = int(np.median([len(token) for token in vocabulary]))
        return cls(
            vectors._replace(rows=rows),
            tokenizer,
            _NO_LIMIT if limit is None else limit * median,
            bool(settings.get("normalize", False)) if normalize is None else normalize,
            tensors[name].dtype == np.float16,
            tuple(token["content"].encode() for token in state["added_tokens"]),
            _is_by_words(state),
            state["pre_tokenizer"] == {"type": "BertPreTokenizer"},
            bool((state["normalizer"] or {}).get("lowercase")),
        )


@dataclass(eq=False)
class TextEmbedder:
    """Embed texts with a model of static embeddings; remembers the tokens of words. Not thread-safe.

    Args:
        model: the model.

    Examples:
        >>> TextEmbedder.__name__
        'TextEmbedder'
    """

    model: StaticEmbeddings
    _words: WordTable = field(default_factory=WordTable, init=False, repr=False)
    _firsts: Ints = field(default_factory=lambda: np.zeros(1, np.int64), init=False, repr=False)
    _tokens: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32), init=False, repr=False)

    def embed(self, offsets: Offsets, data: Bytes) -> Matrix:
        """The embeddings of texts in the Arrow layout, of shape (texts, numbers); zeros for a text without tokens.

        They equal the library's.
        """
        model = self.model
        if not model.by_words:
            return self._finished(self._whole(offsets, data, np.arange(len(offsets) - 1)))
        cut = first_characters(offsets, data, model.characters, model.apart, model.lower)
        whole = cut.joins | self._holds_added(offsets, data)
        out = np.empty((len(whole), model.dimensions), np.float32)
        out[~whole] = self._by_words(cut.offsets, cut.data, np.flatnonzero(~whole))
        out[whole] = self._whole(offsets, data, np.flatnonzero(whole))
        return self._finished(out)

    def _holds_added(self, offsets: Offsets, data: Bytes) -> npt.NDArray[np.bool_]:
        """Whether each text holds a token that is looked for before texts are cut into words."""
        raw = data[offsets[0] : offsets[-1]].tobytes()
        added = [token for token in self.model.added if token in raw]
        spans = zip((offsets[:-1] - offsets[0]).tolist(), (offsets[1:] - offsets[0]).tolist(), strict=True)
        return np.array([any(raw.find(token, *span) >= 0 for token in added) for span in spans], np.bool_)

    def _by_words(self, ends: Offsets, letters: Bytes, rows: Ints) -> Matrix:
        if len(self._words) > _MOST_WORDS:
            fresh = TextEmbedder(self.model)
            self._words, self._firsts, self._tokens = fresh._words, fresh._firsts, fresh._tokens
        known = len(self._words)
        words = self._words.number(ends, letters, rows)
        new = [word.decode(errors="replace") for word in self._words.words(known, len(self._words))]
        firsts, tokens = _joined(self._encoded(new))
        self._firsts = np.concatenate([self._firsts, firsts[1:] + self._firsts[-1]])
        self._tokens = np.concatenate([self._tokens, tokens])
        return mean_vectors(words, self._firsts, self._tokens, self.model.vectors)

    def _whole(self, offsets: Offsets, data: Bytes, rows: Ints) -> Matrix:
        """The means of texts that are tokenized as a whole: each as one word."""
        raw = [data[offsets[row] : offsets[row + 1]].tobytes().decode(errors="replace") for row in rows.tolist()]
        firsts, tokens = _joined(self._encoded([text[: self.model.characters] for text in raw]))
        words = Numbered(np.arange(len(rows), dtype=np.int32), np.arange(len(rows)), np.ones(len(rows), np.int64))
        return mean_vectors(words, firsts, tokens, self.model.vectors)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        return [part.ids for part in self.model.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _finished(self, out: Matrix) -> Matrix:
        kind = np.float16 if self.model.half else np.float32
        rounded: Matrix = out.astype(kind).astype(np.float32)
        if self.model.normalize:
            norms = np.linalg.norm(rounded, axis=1, keepdims=True) + np.float32(1e-32)
            rounded = (rounded / norms).astype(kind).astype(np.float32)
        return rounded


def _joined(encoded: Sequence[Sequence[int]]) -> tuple[Ints, npt.NDArray[np.int32]]:
    """The tokens of texts one after the other, and where those of each begin."""
    firsts = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(ids) for ids in encoded], out=firsts[1:])
    return firsts, np.fromiter(chain.from_iterable(encoded), np.int32, int(firsts[-1]))


def _is_layout(folder: Path, config: str, inner: str) -> bool:
    names = (config, f"{inner}model.safetensors", f"{inner}tokenizer.json")
    return all((folder / name).is_file() for name in names)


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}; fetch the model again") from error
    if not isinstance(settings, dict):
        raise DataError(f"{path} holds no object; fetch the model again")
    return settings


def _tokenizer(path: Path) -> Any:
    try:
        tokenizer = needed("tokenizers", _WHAT, "static").Tokenizer.from_file(str(path))
    except ImportError:
        raise
    except Exception as error:  # the library raises nothing more specific
        raise DataError(f"{path} is not a tokenizer: {error}; fetch the model again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _tensors(path: Path, name: str) -> dict[str, npt.NDArray[Any]]:
    try:
        tensors: dict[str, npt.NDArray[Any]] = needed("safetensors.numpy", _WHAT, "static").load_file(path)
    except ImportError:
        raise
    except Exception as error:  # the library raises nothing more specific
        raise DataError(f"{path} cannot be read: {error}; fetch the model again") from error
    if name not in tensors:
        raise DataError(f"{path} has no tensor {name!r}; give a folder that model2vec saved")
    return tensors


def _fitting(
    folder: str, tensors: Mapping[str, npt.NDArray[Any]], name: str, vocabulary: Mapping[str, int]
) -> tuple[Matrix, Ints, Matrix]:
    """The vectors, mapping and weights, checked against the vocabulary.

    Raises:
        DataError: they do not fit together.
    """
    rows, mapping, weights = tensors[name], tensors.get("mapping"), tensors.get("weights")
    tokens = max(vocabulary.values(), default=-1) + 1
    if rows.ndim != 2 or (mapping is None and len(rows) != tokens):
        raise DataError(f"{folder!r} has vectors of shape {rows.shape} for {tokens} tokens; fetch the model again")
    for what, array in (("mapping", mapping), ("weights", weights)):
        if array is not None and (array.ndim != 1 or len(array) < tokens):
            raise DataError(f"{folder!r} has {what} of shape {array.shape} for {tokens} tokens; fetch the model again")
    if mapping is not None and (mapping.min(initial=0) < 0 or mapping.max(initial=0) >= len(rows)):
        raise DataError(f"{folder!r} has a mapping to vectors beyond its {len(rows)}; fetch the model again")
    return (
        rows.astype(np.float32),
        np.zeros(0, np.int64) if mapping is None else mapping.astype(np.int64),
        np.zeros(0, np.float32) if weights is None else weights.astype(np.float32),
    )


def _unknown(tokenizer: Any, state: Mapping[str, Any]) -> int:
    """The token for unknown words, which does not count; -1 if there is none."""
    model = state["model"]
    word = model.get("unk_token")
    number = model.get("unk_id") if word is None else tokenizer.token_to_id(word)
    return -1 if number is None else int(number)


def _is_by_words(state: Mapping[str, Any]) -> bool:
    kinds = ((state.get("normalizer") or {}).get("type"), (state.get("pre_tokenizer") or {}).get("type"))
    plain = all(
        not token["normalized"] and not set(token["content"]) & set(" \t\r\n") for token in state["added_tokens"]
    )
    return kinds[0] in _NORMALIZERS and kinds[1] in _PRE_TOKENIZERS and plain and not state["model"].get("dropout")
