"""Stages that run a Torch model, as a person subclasses them for NeMo Curator."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import pandas as pd

from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.cpus import engine_resources
from dcurate.compat.nemo.rows import with_rows
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Resources, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.errors import DcurateError
from dcurate.frames.tokens import Tokens, tokens_of, with_tokens
from dcurate.hub.device import device_of, torch_for
from dcurate.hub.weights import Weights, named_after
from dcurate.models.tokenizer import INPUT_ID_FIELD

ATTENTION_MASK_FIELD = "attention_mask"
SEQ_ORDER_FIELD = "_curator_seq_order"

_TokenizerStage: type[Any] = builtin.TokenizerStage


def format_name_with_suffix(model_identifier: str, suffix: str = "_classifier") -> str:
    """The name of a stage after its model.

    Examples:
        >>> format_name_with_suffix("org/Some-Model")
        'some_model_classifier'
    """
    return named_after(model_identifier, suffix)


def clip_tokens(token_o: dict[str, Any], padding_side: str = "right") -> dict[str, Any]:
    """Remove the padding that all rows of a batch have; changes the dict, and returns it."""
    longest = int(token_o[ATTENTION_MASK_FIELD].sum(1).max())
    width = token_o[ATTENTION_MASK_FIELD].shape[1]
    kept = slice(None, longest) if padding_side == "right" else slice(width - longest, None)
    for name in (INPUT_ID_FIELD, ATTENTION_MASK_FIELD):
        token_o[name] = token_o[name][:, kept]
    token_o.pop("metadata", None)
    return token_o


def _by_length(frame: pd.DataFrame, lengths: Any) -> pd.DataFrame:
    """The rows from short to long, and a column with the place that each had."""
    order = np.argsort(lengths, kind="stable")
    return frame.assign(**{SEQ_ORDER_FIELD: np.arange(len(frame))}).iloc[order].reset_index(drop=True)


class TokenizerStage(_TokenizerStage):  # type: ignore[misc]
    """dcurate's tokenizer, which adds the columns that `ModelStage` of NeMo Curator reads, too.

    Lists of tokens are not padded: `ModelStage` does that.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.overwrite = True

    def outputs(self) -> Spec:
        order = [SEQ_ORDER_FIELD] if self.sort_by_length else []
        return ["data"], [self.text_field, INPUT_ID_FIELD, ATTENTION_MASK_FIELD, *order]

    def process(self, task: Any) -> Any:
        """Add tokens, their mask and, if asked, the order of the rows."""
        done = super().process(task)
        table = done.to_arrow()
        tokens = tokens_of(table, INPUT_ID_FIELD)
        mask = Tokens(tokens.bounds, np.ones_like(tokens.ids))
        done = done.with_data(with_tokens(table, ATTENTION_MASK_FIELD, mask))
        if not self.sort_by_length:
            return done
        return done.with_data(_by_length(done.to_pandas(), np.diff(tokens.bounds)))


class SortByLengthStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sort rows by their number of tokens; `ModelStage` puts them back."""

    name = "sort_by_length_stage"

    def inputs(self) -> Spec:
        return ["data"], [ATTENTION_MASK_FIELD]

    def outputs(self) -> Spec:
        return ["data"], [ATTENTION_MASK_FIELD, SEQ_ORDER_FIELD]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Sort the rows, unless they are sorted."""
        frame = task.to_pandas()
        if SEQ_ORDER_FIELD in frame:
            return task
        return with_rows(task, _by_length(frame, [int(np.sum(mask)) for mask in frame[ATTENTION_MASK_FIELD]]))


class ModelStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Run a Torch model on tokens; the base of stages of a person's own.

    A subclass writes ``_setup``, which sets ``self.model``, `outputs`, `process_model_output` and
    `create_output_dataframe`. dcurate's own models are built on `dcurate.models.ModelStage`, which packs tokens better.

    Args:
        model_identifier: an id at the Hugging Face hub, or a local folder.
        cache_dir: where files of the hub are kept.
        hf_token: for models that ask for one.
        model_inference_batch_size: rows of a batch.
        has_seq_order: whether rows were sorted by length, and are put back.
        padding_side: where short rows are padded.
        max_seq_length: tokens of a row.
        unpack_inference_batch: call ``model(**batch)`` instead of ``model(batch)``.
        autocast: compute in 16 bits on a GPU.
    """

    model: Any

    def __init__(  # noqa: PLR0913, PLR0917 - NeMo Curator's order
        self,
        model_identifier: str,
        cache_dir: str | None = None,
        hf_token: str | None = None,
        model_inference_batch_size: int = 256,
        has_seq_order: bool = True,
        padding_side: str = "right",
        max_seq_length: int | None = None,
        unpack_inference_batch: bool = False,
        autocast: bool = True,
    ) -> None:
        self.name = format_name_with_suffix(model_identifier, "_model")
        self.resources = Resources(cpus=1, gpus=1)
        self.model_identifier = model_identifier
        self.cache_dir = cache_dir
        self.hf_token = hf_token
        self.model_inference_batch_size = model_inference_batch_size
        self.has_seq_order = has_seq_order
        self.padding_side = padding_side
        self.max_seq_length = max_seq_length
        self.unpack_inference_batch = unpack_inference_batch
        self.autocast = autocast

    def ray_stage_spec(self) -> dict[str, Any]:
        """Run on CPUs where the whole cluster has no GPU."""
        return {**super().ray_stage_spec(), "gpu_optional": True}

    def inputs(self) -> Spec:
        order = [SEQ_ORDER_FIELD] if self.has_seq_order else []
        return ["data"], [INPUT_ID_FIELD, ATTENTION_MASK_FIELD, *order]

    def outputs(self) -> Spec:
        raise NotImplementedError(f"{type(self).__name__} must define outputs()")

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return Weights(self.model_identifier, cache_dir=self.cache_dir, hf_token=self.hf_token)

    def _own_setup(self) -> Callable[..., None] | None:
        return cast("Callable[..., None] | None", getattr(self, "_setup", None))

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the model to this host.

        Raises:
            RuntimeError: that fails.
        """
        try:
            self.weights.fetch()
        except DcurateError as error:
            raise RuntimeError(f"Failed to download {self.model_identifier}: {error}") from error

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the model.

        Raises:
            NotImplementedError: the subclass has no ``_setup``.
        """
        setup = self._own_setup()
        if setup is None:
            raise NotImplementedError(f"{type(self).__name__} must define _setup(local_files_only=True)")
        setup(local_files_only=True)

    def yield_next_batch(self, df: pd.DataFrame) -> Iterator[dict[str, Any]]:
        """Yield the inputs of the model, batch by batch, on its device."""
        torch = torch_for(self.name)
        for start in range(0, len(df), self.model_inference_batch_size):
            rows = df.iloc[start : start + self.model_inference_batch_size]
            width = max(1, *map(len, rows[INPUT_ID_FIELD]))
            both = {
                name: torch.from_numpy(self._padded(rows[name], width)).to(self.model.device)
                for name in (INPUT_ID_FIELD, ATTENTION_MASK_FIELD)
            }
            yield clip_tokens(both, self.padding_side) if both[ATTENTION_MASK_FIELD].any() else both

    def _padded(self, rows: Any, width: int) -> Any:
        padded = np.zeros((len(rows), width), np.int64)
        for place, row in enumerate(rows):
            where = slice(None, len(row)) if self.padding_side == "right" else slice(width - len(row), None)
            padded[place, where] = row
        return padded

    def process_model_output(self, outputs: Any, model_input_batch: Mapping[str, Any] | None = None) -> Any:
        """Return the results of a batch: arrays by name."""
        raise NotImplementedError(f"{type(self).__name__} must define process_model_output()")

    def collect_outputs(self, processed_outputs: list[Mapping[str, Any]]) -> Any:
        """Join the results of all batches."""
        return {name: np.concatenate([output[name] for output in processed_outputs]) for name in processed_outputs[0]}

    def create_output_dataframe(self, df_cpu: pd.DataFrame, collected_output: Any) -> pd.DataFrame:
        """Add the results to the rows."""
        raise NotImplementedError(f"{type(self).__name__} must define create_output_dataframe()")

    def _model_forward(self, model_input_batch: dict[str, Any]) -> Any:
        return self.model(**model_input_batch) if self.unpack_inference_batch else self.model(model_input_batch)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Run the model on all rows, and add its results."""
        torch = torch_for(self.name)
        frame = task.to_pandas()
        if self.max_seq_length is not None:
            most = self.max_seq_length
            kept = slice(None, most) if self.padding_side == "right" else slice(-most, None)
            names = (INPUT_ID_FIELD, ATTENTION_MASK_FIELD)
            frame = frame.assign(**{name: [row[kept] for row in frame[name]] for name in names})
        outputs = []
        for inputs in self.yield_next_batch(frame):
            on_gpu = torch.device(self.model.device).type == "cuda"
            with torch.no_grad(), torch.autocast("cuda") if self.autocast and on_gpu else nullcontext():
                result = self._model_forward(inputs)
            outputs.append(self.process_model_output(result, inputs))
        frame = self.create_output_dataframe(frame, self.collect_outputs(outputs))
        if self.has_seq_order:
            frame = frame.sort_values(SEQ_ORDER_FIELD, ignore_index=True).drop(columns=SEQ_ORDER_FIELD)
        return with_rows(task, frame)

    def teardown(self) -> None:
        """Free the memory of the model."""
        vars(self).pop("model", None)
        gc.collect()
        torch = torch_for(self.name)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def model_device(stage: ModelStage, worker_metadata: Any = None) -> Any:
    """The device of a slot: its GPU, or the CPU."""
    return device_of(stage.name, "auto", worker_metadata)


class VLLMEmbeddingModelStage(CompositeStage[DocumentBatch, DocumentBatch]):
    """Add a column of embeddings by a model that dcurate runs with Torch, on a GPU if there is one: not with vLLM.

    Args:
        model_identifier, text_field, embedding_field, max_chars, cache_dir, hf_token: the same settings as in
            `EmbeddingCreatorStage`.
        metadata_fields: the columns that stay besides the embeddings; all by default.
        model_inference_batch_size: setting of vLLM, as are `vllm_init_kwargs`, `pretokenize` and `verbose`; without
            effect here.
        embedding_output_dtype: ``"float32"`` or ``"float16"``.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        model_identifier: str,
        vllm_init_kwargs: dict[str, Any] | None = None,
        text_field: str = "text",
        pretokenize: bool = True,
        embedding_field: str = "embeddings",
        max_chars: int | None = None,
        cache_dir: str | None = None,
        hf_token: str | None = None,
        verbose: bool = False,
        *,
        metadata_fields: list[str] | None = None,
        model_inference_batch_size: int | None = 8192,
        embedding_output_dtype: str = "float32",
    ) -> None:
        self.name = format_name_with_suffix(model_identifier, "_vllm")
        self.model_identifier = model_identifier
        self.vllm_init_kwargs = vllm_init_kwargs or {}
        self.text_field = text_field
        self.pretokenize = pretokenize
        self.embedding_field = embedding_field
        self.max_chars = max_chars
        self.cache_dir = cache_dir
        self.hf_token = hf_token
        self.verbose = verbose
        self.metadata_fields = list(dict.fromkeys(metadata_fields or []))
        self.model_inference_batch_size = model_inference_batch_size
        self.embedding_output_dtype = embedding_output_dtype

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], list(dict.fromkeys([*self.metadata_fields, self.embedding_field]))

    def decompose(self) -> list[Any]:
        """Return the stages of the tokenizer and of the model, and one that drops columns if some were named."""
        stages: list[Any] = builtin.EmbeddingCreatorStage(
            model_identifier=self.model_identifier,
            text_field=self.text_field,
            embedding_field=self.embedding_field,
            max_chars=self.max_chars,
            cache_dir=self.cache_dir,
            hf_token=self.hf_token,
            embedding_output_dtype="float16" if self.embedding_output_dtype == "float16" else "float32",
        ).decompose()
        return [*stages, _KeepColumns(self.outputs()[1])] if self.metadata_fields else stages

    def with_(self, stage_with_dict: Any = None, **settings: Any) -> Any:  # type: ignore[override]
        """A copy with some settings of the stage that runs the model changed; or as of any composite."""
        if stage_with_dict is not None:
            return super().with_(stage_with_dict)
        changed = copy.deepcopy(self)
        changed.name = settings.pop("name", None) or changed.name
        model = next(stage for stage in reversed(self.decompose()) if not isinstance(stage, _KeepColumns))
        known: dict[str, Any] = {
            name: settings[name] for name in ("resources", "batch_size", "num_workers") if name in settings
        }
        if known.get("resources") is not None:
            known["resources"] = engine_resources(known["resources"])
        return CompositeStage.with_(changed, {model.name: known})


class _KeepColumns(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drops all columns but some."""

    name = "keep_columns"

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return with_rows(task, task.to_pandas()[self.columns])
