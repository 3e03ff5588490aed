"""Stages that run an embedding model on token ids. Untested on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy.typing as npt

from dcurate.core.stage import Spec
from dcurate.errors import PipelineError, nearest
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import with_vectors
from dcurate.hub.loading import pretrained, tokenizer_of
from dcurate.models.embedders.layout import EmbeddingSteps, encoder_class, read_layout
from dcurate.models.embedders.network import sentence_network
from dcurate.models.inference import ModelStage
from dcurate.models.tokenizer import INPUT_ID_FIELD

Pooling = Literal["mean_pooling", "last_token", "cls"]
Precision = Literal["float32", "float16"]

_POOLINGS = {"mean_pooling": "mean", "last_token": "lasttoken", "cls": "cls"}
#: Weights of encoders that embeddings do without.
_UNUSED = ("pooler",)


@dataclass
class EmbeddingModel(ModelStage):
    """Embed each row of token ids, as made by `Tokenize`, with any Hugging Face encoder.

    Args:
        embedding_field: the new column: lists of one length, float32.
        pooling: how the vectors of tokens become one: ``"mean_pooling"``, ``"last_token"`` or ``"cls"`` (the first).
        normalize: whether embeddings are scaled to length one.
        truncate_dim: keep only this many of the first numbers, for models trained for it.
        embedding_output_dtype: ``"float32"``, or ``"float16"`` for half the size on disk.
        keep_tokens: whether ``input_ids`` stays.
        overwrite: replace a column of that name that is there already instead of refusing.
        transformers_init_kwargs: for ``from_pretrained`` of the model.
        model and all others: arguments of `ModelStage`.

    Raises:
        PipelineError: a pooling or a precision that there is not; or the column is there already.

    Examples:
        >>> EmbeddingModel("org/model").outputs()[1]
        ['embeddings']
    """

    model_inference_batch_size: int = 1024
    _: KW_ONLY
    embedding_field: str = "embeddings"
    pooling: Pooling = "mean_pooling"
    normalize: bool = True
    truncate_dim: int | None = None
    embedding_output_dtype: Precision = "float32"
    keep_tokens: bool = False
    overwrite: bool = False
    transformers_init_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in _POOLINGS:
            raise PipelineError(f"{self.name}: unknown pooling {self.pooling!r}{nearest(str(self.pooling), _POOLINGS)}")
        if self.embedding_output_dtype not in ("float32", "float16"):
            raise PipelineError(
                f"{self.name}: embedding_output_dtype={self.embedding_output_dtype!r}; choose 'float32' or 'float16'"
            )
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise PipelineError(f"{self.name}: truncate_dim={self.truncate_dim} must be at least 1")

    def outputs(self) -> Spec:
        return ["data"], [self.embedding_field]

    def dropped_columns(self) -> Sequence[str]:
        return [] if self.keep_tokens else [INPUT_ID_FIELD]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        return super().process(task)

    def load_model(self, folder: str, device: Any) -> Any:
        layout = self.layout(folder)
        return sentence_network(
            self.load_encoder(layout.encoder, device),
            layout.pooling,
            layout.layers,
            normalize=self.normalize,
            skip=self.tokens_of_prompt(layout),
            dimensions=self.truncate_dim,
        )

    def layout(self, folder: str) -> EmbeddingSteps:
        """The steps after the tokens for the model in a folder."""
        return EmbeddingSteps(folder, (_POOLINGS[self.pooling],))

    def load_encoder(self, folder: str, device: Any) -> Any:
        """The model that gives a vector for each token."""
        return pretrained(
            encoder_class(folder),
            self.weights,
            folder,
            device,
            optional=_UNUSED,
            settings=self.transformers_init_kwargs,
        )

    def tokens_of_prompt(self, layout: EmbeddingSteps) -> int:
        """The number of first tokens of each row to exclude from pooling."""
        return 0

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {self.embedding_field: outputs}

    def create_output_dataframe(self, frame: Any, collected: Mapping[str, npt.NDArray[Any]]) -> Any:
        table = frame if self.keep_tokens else frame.drop_columns([INPUT_ID_FIELD])
        vectors = collected[self.embedding_field].astype(self.embedding_output_dtype, copy=False)
        return with_vectors(table, self.embedding_field, vectors)


@dataclass
class SentenceTransformerModel(EmbeddingModel):
    """Embed texts as defined by the folder of a sentence-transformers model: its pooling, its layers, its scaling.

    The package sentence-transformers is not needed. A folder without its files is a plain encoder, see `read_layout`.

    Args:
        prompt, prompt_name: what `SentenceTokenizer` puts before each text; it counts for models whose pooling
            leaves the prompt out.
        embedding_field and all others: arguments of `EmbeddingModel`, except ``pooling``, which the folder
            defines.
    """

    _: KW_ONLY
    prompt: str | None = None
    prompt_name: str | None = None

    def layout(self, folder: str) -> EmbeddingSteps:
        return read_layout(folder)

    def tokens_of_prompt(self, layout: EmbeddingSteps) -> int:
        prompt = layout.prompt(self.prompt_name) if self.prompt is None else self.prompt
        if layout.pools_prompt or not prompt:
            return 0
        tokenizer = tokenizer_of(self.weights, layout.encoder)
        ids = tokenizer(prompt)[INPUT_ID_FIELD]
        return len(ids) - (ids[-1] in tokenizer.all_special_ids)
