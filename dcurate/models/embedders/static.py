"""Embeddings of texts by look-up: one vector a token, and their mean. Torch is not needed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column
from dcurate.frames.vectors import with_vectors
from dcurate.hub.shared import SHARED
from dcurate.hub.static_embeddings import StaticEmbeddings, TextEmbedder
from dcurate.hub.weights import Weights, named_after

#: Settings that do not decide the rows, and attributes made by `setup`, which are not pickled.
_NO_ROWS = {"cache_dir", "hf_token"}
_OF_SLOT = ("_embedder", "_key")


@dataclass
class StaticEmbedder(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Embed texts with a model of static embeddings, such as potion: the mean of one vector a token (model2vec).

    A hundred times as fast as an encoder on a CPU, and less exact. Embeddings equal those of model2vec 0.10 for the
    same folder, to the rounding of 32-bit sums: its length limit, unknown tokens, weights and scaling. Words are
    looked up in a table, and only those that are new to it go through the tokenizer. An empty or null text
    has an embedding of zeros, which `SemanticDuplicates` leaves alone.

    Args:
        model: an id at the Hugging Face hub, or a folder with ``model.safetensors``, ``tokenizer.json`` and
            ``config.json``. Pickles are not read.
        text_field: the column of texts; it is unchanged.
        embedding_field: the new column, fixed-size lists of float32.
        max_seq_length: tokens of a text that are looked at; by default the model's own limit, 512 if it has none.
        normalize: whether embeddings are scaled to length one; as the model says by default.
        truncate_dim: keep only this many of the first numbers.
        revision: revision of the model at the hub; pin a commit to get the same model for ever.
        cache_dir: where files of the hub are kept.
        hf_token: for models that ask for one.
        overwrite: replace a column of that name that is there already instead of refusing.
        name: name of the stage; after the model if not given.

    Raises:
        PipelineError: a number that cannot be, or the column is there already.
        DataError: the folder holds no static embeddings, or is damaged.

    Examples:
        >>> StaticEmbedder("minishlab/potion-base-8M").name
        'potion_base_8m_model'
    """

    model: str
    _: KW_ONLY
    text_field: str = "text"
    embedding_field: str = "embeddings"
    max_seq_length: int | None = None
    normalize: bool | None = None
    truncate_dim: int | None = None
    revision: str | None = None
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    overwrite: bool = False
    name: str = ""

    _embedder: TextEmbedder | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.name or named_after(self.model, "_model")
        for setting in ("max_seq_length", "truncate_dim"):
            number = getattr(self, setting)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise PipelineError(f"stage {self.name!r}: {setting}={number!r} must be a whole number, at least 1")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    def requires(self) -> dict[str, str]:
        return {"tokenizers": "static", "safetensors": "static"}

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.embedding_field]

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        return {name: value for name, value in settings.items() if name not in _NO_ROWS and not name.startswith("_")}

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return Weights(self.model, self.revision, self.cache_dir, self.hf_token)

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the model to this host."""
        self.weights.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the model, unless another slot of this process has; the network is not used."""
        folder = self.weights.folder()
        settings = (self.max_seq_length, self.normalize, self.truncate_dim)
        key: Hashable = (type(self), folder, settings)
        self._embedder = TextEmbedder(SHARED.hold(key, lambda: StaticEmbeddings.load(folder, *settings)))
        self._key = key

    def teardown(self) -> None:
        """Release the model; the last slot of the process frees its memory."""
        key, self._key, self._embedder = self._key, None, None
        if key is not None:
            SHARED.release(key)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self._embedder is None:
            raise PipelineError(f"stage {self.name!r} is not set up; run it in a pipeline, or call setup() first")
        self.check_columns(task.get_columns())
        table = task.to_arrow()
        vectors = self._embedder.embed(*text_column(table, self.text_field))
        return task.with_data(with_vectors(table, self.embedding_field, vectors))
