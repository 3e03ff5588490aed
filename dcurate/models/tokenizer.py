"""Tokenize texts for models."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.columns import column_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.tokens import Tokens, with_tokens
from dcurate.hub.loading import tokenizer_of
from dcurate.hub.shared import SHARED
from dcurate.hub.tokenizer_files import text_calls
from dcurate.hub.weights import Weights, named_after
from dcurate.models.packing import Side
from dcurate.models.safe_prefix import SafePrefix, separators

Ids = npt.NDArray[np.int32]

#: The column of token ids that `Tokenize` adds and every model stage reads.
INPUT_ID_FIELD = "input_ids"

#: A tokenizer without a longest text says some such number.
_NO_LENGTH = 100_000
#: Texts on which backends are compared, and tokens of each at most.
_SAMPLE_TEXTS, _SAMPLE_TOKENS = 64, 256
_NONE: Ids = np.zeros(0, np.int32)
_NO_ROWS = {"cache_dir", "hf_token", "resources", "padding_side", "sort_by_length", "unk_token"}
_OF_SLOT = ("_loaded", "_key")
_OWN_ARGUMENTS = ("cache_dir", "padding_side", "revision", "token", "trust_remote_code")


@dataclass(frozen=True)
class Encoder:
    """A loaded tokenizer.

    Args:
        tokenizer: tokenizer of transformers.
        longest: tokens of a text at most, special ones included; None for no limit.
        beginnings: where long texts can be cut.
    """

    tokenizer: Any
    longest: int | None
    beginnings: SafePrefix

    @classmethod
    def of(cls, tokenizer: Any, longest: int | None) -> Encoder:
        """A tokenizer, configured to truncate to a length and never to pad."""
        if not tokenizer.is_fast:
            return cls(tokenizer, longest, SafePrefix())
        backend = tokenizer.backend_tokenizer
        backend.no_padding()
        backend.no_truncation()
        if longest is None:
            return cls(tokenizer, longest, SafePrefix())
        backend.enable_truncation(longest, direction=tokenizer.truncation_side)
        return cls(tokenizer, longest, SafePrefix(separators(backend) if tokenizer.truncation_side == "right" else ""))

    def encode(self, texts: Sequence[str]) -> tuple[list[Ids], int]:
        """The token ids of each text, and the number of truncated texts."""
        if not self.tokenizer.is_fast:
            return self._slowly(texts)
        encoded = [_NONE] * len(texts)
        truncated, todo = 0, list(range(len(texts)))
        characters = self.beginnings.first(self.longest) if self.longest is not None else 0
        while todo:
            beginnings = [self.beginnings.cut(texts[row], characters) for row in todo]
            again = []
            for row, beginning, (ids, more) in zip(todo, beginnings, self._each(beginnings), strict=True):
                complete = len(beginning) == len(texts[row])
                if complete or len(ids) == self.longest:
                    encoded[row] = ids
                    truncated += more or not complete
                else:
                    again.append(row)
            todo, characters = again, self.beginnings.more(characters)
        return encoded, truncated

    def _each(self, texts: Sequence[str]) -> Iterator[tuple[Ids, bool]]:
        """The ids of each text, and whether there were more, a few texts per call."""
        backend = self.tokenizer.backend_tokenizer
        for start, stop in text_calls(texts):
            for encoding in backend.encode_batch_fast(texts[start:stop]):
                ids = np.array(encoding.ids, np.int32)
                yield ids, len(ids) == self.longest and bool(encoding.overflowing)

    def _slowly(self, texts: Sequence[str]) -> tuple[list[Ids], int]:
        encoded: list[Ids] = []
        truncated = 0
        for text in texts:
            ids = self.tokenizer(text, return_attention_mask=False, verbose=False)["input_ids"]
            if self.longest is not None and len(ids) > self.longest:
                truncated += 1
                ids = self.tokenizer(text, truncation=True, max_length=self.longest)["input_ids"]
            encoded.append(np.array(ids, np.int32))
        return encoded, truncated


@dataclass
class Tokenize(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the column ``input_ids``: the tokens of each text, special ones included, as a list of int32.

    Lists have the lengths of the texts: padding is added when a model is run, and there is no column for it. The text
    column stays as it is. A null text counts as empty; an empty text has the special tokens alone, or none where the
    tokenizer adds none. A slot uses one CPU.

    Of a text that is much longer than ``max_seq_length`` only the beginning is tokenised, cut where that changes no
    token: between words, as far as the tokenizer looks at words by themselves. A text without such a place (megabytes
    of letters or of spaces alone), and any text of a tokenizer written in Python, is tokenised as a whole, which takes
    memory for 100 to 250 times its bytes; ``max_chars`` bounds it.

    Args:
        model: an id at the Hugging Face hub, or a local folder.
        cache_dir: where files of the hub are kept.
        hf_token: for models that ask for one.
        text_field: the column of texts.
        max_chars: characters of a text that are tokenised at most; all by default.
        max_seq_length: tokens of a text at most, special ones included; by default as many as the tokenizer says, or
            the model's configuration where it says nothing, or all where neither does.
        padding_side, sort_by_length, unk_token: arguments of NeMo Curator, where this stage pads and sorts; in
            dcurate `ModelStage` does both as it needs to, and these change nothing.
        transformers_init_kwargs: more arguments of the tokenizer's ``from_pretrained``.
        revision: revision of the model at the hub; pin a commit to get the same tokens for ever.
        trust_remote_code: whether code that comes with the tokenizer may be run; one of the hub needs a commit as
            `revision`.
        name: name of the stage; after the model if not given.
        overwrite: replace existing tokens instead of refusing.

    Raises:
        PipelineError: a setting that cannot be; or there is a column ``input_ids`` already.
    """

    model: str
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    text_field: str = "text"
    max_chars: int | None = None
    max_seq_length: int | None = None
    padding_side: Side = "right"
    sort_by_length: bool = True
    unk_token: bool = False
    transformers_init_kwargs: dict[str, Any] | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    name: str = ""
    overwrite: bool = False

    _loaded: Encoder | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.name or named_after(self.model, "_tokenizer")
        for setting in ("max_chars", "max_seq_length"):
            number = getattr(self, setting)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise PipelineError(f"stage {self.name!r}: {setting}={number!r} must be a whole number, at least 1")
        if self.padding_side not in ("left", "right"):
            raise PipelineError(f"stage {self.name!r}: padding_side={self.padding_side!r} must be 'left' or 'right'")
        for argument in _OWN_ARGUMENTS:
            if argument in (self.transformers_init_kwargs or {}):
                stage_argument = "hf_token" if argument == "token" else argument
                raise PipelineError(
                    f"stage {self.name!r}: give {stage_argument}= to the stage, not in transformers_init_kwargs"
                )
        if "local_files_only" in (self.transformers_init_kwargs or {}):
            raise PipelineError(f"stage {self.name!r}: leave out local_files_only; setup never uses the network")
        _ = self.weights  # refuses a revision that does not pin trusted code

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    @property
    def weights(self) -> Weights:
        """The weights of the tokenizer."""
        return Weights(self.model, self.revision, self.cache_dir, self.hf_token, self.trust_remote_code)

    def requires(self) -> dict[str, str]:
        return {"transformers": "models"}

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [INPUT_ID_FIELD]

    def check_columns(self, columns: Sequence[str]) -> None:
        if INPUT_ID_FIELD in columns and not self.overwrite:
            raise PipelineError(
                f"stage {self.name!r}: column {INPUT_ID_FIELD!r} already exists; to use these tokens leave this "
                "stage out (of a classifier: use_existing_tokens=True), to replace them pass overwrite=True"
            )

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        return {name: value for name, value in settings.items() if name not in _NO_ROWS and not name.startswith("_")}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the tokenizer to this host, without the model's weights."""
        self.weights.fetch("tokenizer")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the tokenizer, unless another slot of this process has; the network is not used."""
        # Slots are the parallelism; threads of the library's own for each of them would fight over the CPUs.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        folder = self.weights.folder("tokenizer")
        key: Hashable = (type(self), folder, repr(sorted(self.settings().items())))
        self._loaded = SHARED.hold(key, lambda: self._load(folder))
        self._key = key

    def teardown(self) -> None:
        """Release the tokenizer; the last slot of the process frees its memory."""
        key, self._key, self._loaded = self._key, None, None
        if key is not None:
            SHARED.release(key)

    def load_tokenizer(self, folder: str) -> Any:
        """Load the transformers tokenizer for `setup`: by default with ``AutoTokenizer`` from the folder."""
        return tokenizer_of(self.weights, folder, self.transformers_init_kwargs)

    def texts(self, table: Any) -> list[str]:
        """The texts to tokenize, one for each row of an Arrow table; ``max_chars`` is applied afterwards.

        Raises:
            DataError: the column does not exist, or does not hold text.
        """
        texts: list[str] = column_of(table, self.text_field, text=True).fill_null("").to_pylist()
        return texts

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self._loaded is None:
            raise PipelineError(f"stage {self.name!r} is not set up; run it in a pipeline, or call setup() first")
        self.check_columns(task.get_columns())
        begin = time.perf_counter()
        table = task.to_arrow()
        texts = self.texts(table)
        if self.max_chars is not None:
            texts = [text[: self.max_chars] for text in texts]
        encoded, truncated = self._loaded.encode(texts)
        bounds = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(ids) for ids in encoded], out=bounds[1:])
        tokens = Tokens(bounds, np.concatenate([_NONE, *encoded]))
        seconds = time.perf_counter() - begin
        self._log_metrics(
            {
                "documents": len(encoded),
                "tokens": int(bounds[-1]),
                "truncated_documents": truncated,
                "tokenizer_seconds": seconds,
            }
        )
        return task.with_data(with_tokens(table, INPUT_ID_FIELD, tokens))

    def _load(self, folder: str) -> Encoder:
        tokenizer = self.load_tokenizer(folder)
        limit = int(tokenizer.model_max_length)
        longest = self.max_seq_length or (limit if limit < _NO_LENGTH else _positions(Path(folder)))
        return Encoder.of(tokenizer, longest)


def _positions(folder: Path) -> int | None:
    """The number of the model's positions, from its configuration; None if unknown."""
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    most = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(most, int) or most < 1:
        return None
    if "roberta" in str(config.get("model_type")) or config.get("model_type") == "camembert":
        return most - int(config.get("pad_token_id", 1)) - 1  # their positions count from behind the padding token
    return most


def sample_tokens(weights: Weights, folder: str, limits: Sequence[int | None]) -> Tokens:
    """The tokens of texts that come with dcurate, for the model in a folder.

    Args:
        limits: tokens of a text at most; None means no limit.
    """
    path = files("dcurate") / "bundled" / "sample" / "part-00.jsonl"
    texts = [str(json.loads(line)["text"]) for line in path.read_text("utf-8").splitlines() if line.strip()]
    tokenizer = tokenizer_of(weights, folder)
    longest = min([_SAMPLE_TOKENS, *(limit for limit in limits if limit is not None)])
    encoded = tokenizer(texts[:_SAMPLE_TEXTS], truncation=True, max_length=longest)[INPUT_ID_FIELD]
    bounds = np.cumsum([0, *map(len, encoded)])
    return Tokens(bounds, np.concatenate([np.asarray(ids, np.int32) for ids in encoded]))
