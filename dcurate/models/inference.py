"""The base of stages that run a Torch model.

Untested on a GPU: it has run on CPUs only.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from dcurate.core.backoff import Backoff
from dcurate.core.extras import needed
from dcurate.core.gpu_errors import is_out_of_memory
from dcurate.core.gpu_memory import WAITS_S
from dcurate.core.resources import Resources
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError, ResourceError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.tokens import Tokens, tokens_of, with_results
from dcurate.hub import device as devices
from dcurate.hub.loading import pretrained
from dcurate.hub.shared import SHARED
from dcurate.hub.weights import Weights, named_after
from dcurate.models.exported import (
    LIBRARIES,
    ExportedModel,
    Facts,
    check_backend,
    export,
    exported_folder,
    once,
)
from dcurate.models.packing import BatchLimits, Ints, Side, TokenRows, batch_limits, packed, padding
from dcurate.models.tokenizer import INPUT_ID_FIELD, sample_tokens
from dcurate.models.transfer import DeviceBatch, HostToDevice, ResultBuffer

#: Fields that do not decide the rows: where things come from and lie, how much is done at once.
_NO_ROWS = {"cache_dir", "hf_token", "device", "resources", "model_inference_batch_size", "max_batch_tokens"}
_NO_ROWS |= {"has_seq_order", "compile", "min_agreement"}
#: Names of token embeddings and position embeddings in models.
_WORDS = ("word_embeddings", "embed_tokens", "tok_embeddings", "embed_in", "shared", "wte")
_POSITIONS = ("position_embeddings", "wpe")
#: Attributes made by `setup`, which are not pickled.
_OF_SLOT = ("_loaded", "_key", "_torch_device", "_backoffs", "_sender", "_memory")


@dataclass(frozen=True)
class Loaded:
    """A loaded model, and the constraints on its inputs.

    Args:
        model: the ``torch.nn.Module``.
        run: the same, compiled if that was asked for.
        filler: the token that padding is made of.
        vocabulary: how many tokens it knows; None if it does not say.
        longest: how many tokens a row may have; None if it has no positions of its own.
        hidden: numbers that it has of each token; 0 if it does not say.
        positions: whether position ids must be passed for rows padded on the left.
        maskless: whether a batch without padding can go without a mask. With one, transformers asks the device whether
            it hides anything, and the host waits for all work before it.
    """

    model: Any
    run: Any
    filler: int = 0
    vocabulary: int | None = None
    longest: int | None = None
    hidden: int = 0
    positions: bool = False
    maskless: bool = False


@dataclass
class ModelStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Run a Torch model on tokens and add columns of its output; the base of classifiers and embedders.

    Rows are packed into batches by length, so that there is little padding, and come out in the order in which they
    came. A row's results do not depend on the rows beside it, but for rounding. Tokens are read from the column
    ``input_ids``, as `Tokenize` makes it. An empty text is run as what its tokenizer makes of it; a row without
    any token is run as one token of padding.

    A subclass writes `process_model_output`, and `outputs`; it may replace `load_model`, `run_model` and
    `create_output_dataframe`.

    Args:
        model: an id at the Hugging Face hub, or a local folder.
        cache_dir: where files of the hub are kept.
        hf_token: for models that ask for one.
        model_inference_batch_size: rows of a batch at most; tokens and memory bound it further.
        has_seq_order: whether rows are packed by length; False takes them as they come, with more padding.
        padding_side: where the padding goes, and which end of a row ``max_seq_length`` keeps: ``"left"`` keeps the last
            tokens.
        max_seq_length: tokens of a row at most.
        unpack_inference_batch: ``model(**inputs)``, as models of transformers want it; False is ``model(inputs)``, for
            modules whose ``forward`` takes the dict.
        autocast: whether to compute in 16 bits where it does no harm: True does on a GPU (bfloat16, or float16 where it
            is too old for that) and not on a CPU; ``"bf16"`` and ``"fp16"`` do anywhere; False and ``"off"`` never.
            ``"bf16"`` also holds a model of transformers in bfloat16 from end to end: the quickest, and least exact.
        revision: revision of the model at the hub; pin a commit to get the same model for ever.
        trust_remote_code: whether code that comes with the model may be run; one of the hub needs a commit as
            `revision`.
        device: ``"auto"`` is a GPU where there is any, else a CPU; ``"cuda"`` insists on one, ``"cpu"`` wants none.
        max_batch_tokens: rows times longest of a batch at most; by default 65,536 on a GPU; on a CPU 1,024 to 4,096,
            fewer for a wider model.
        compile: whether to compile the model with ``torch.compile``, which takes a minute and pays for long runs.
        name: name of the stage; after the model if not given.
        backend: what runs the model on CPUs: ``"torch"``; ``"onnx"``, ONNX Runtime in float32; ``"onnx-int8"``, that
            with matrices in 8 bits; ``"openvino"``, which computes in bfloat16 where the CPU can. The model is exported
            once per host, before the run, and compared with Torch in float32 on the texts that come with dcurate.
        min_agreement: the least agreement on these texts: the share of equal labels, or the mean cosine of embeddings;
            a backend below is refused. The report has the agreement.

    Raises:
        PipelineError: a setting that cannot be, or a backend that agrees too little.
    """

    model: str
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    model_inference_batch_size: int = 256
    has_seq_order: bool = True
    padding_side: Side = "right"
    max_seq_length: int | None = None
    unpack_inference_batch: bool = True
    autocast: bool | str = True
    revision: str | None = None
    trust_remote_code: bool = False
    device: str = "auto"
    max_batch_tokens: int | None = None
    compile: bool = False
    name: str = ""
    backend: str = "torch"
    min_agreement: float = 0.98

    #: Whether the model can be exported: it is run once for a batch, and results do not need the module itself.
    exports: ClassVar[bool] = True
    #: Whether the slots of a process share one copy of the model; False for a model that keeps state between calls.
    shares_model: ClassVar[bool] = True
    #: GPUs of a slot, where no resources are given. Two slots of a small model share its weights, and keep a GPU busy
    #: while one of them packs rows or makes results.
    gpu_share: ClassVar[float] = 1.0
    #: What ``autocast=True`` computes in on a GPU, where it can: ``"bf16"`` or ``"fp16"``.
    half: ClassVar[str] = "bf16"

    _loaded: Loaded | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)
    _memory: devices.MemoryShare | None = field(default=None, init=False, repr=False, compare=False)
    _compared: bool = field(default=False, init=False, repr=False, compare=False)
    #: Facts of an export that is being compared with Torch.
    _draft: Facts | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.name or named_after(self.model, "_model")
        for setting in ("model_inference_batch_size", "max_seq_length", "max_batch_tokens"):
            number = getattr(self, setting)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise PipelineError(f"stage {self.name!r}: {setting}={number!r} must be a whole number, at least 1")
        if self.padding_side not in ("left", "right"):
            raise PipelineError(f"stage {self.name!r}: padding_side={self.padding_side!r} must be 'left' or 'right'")
        devices.check_autocast(self.name, self.autocast)
        devices.check_device(self.name, self.device)
        check_backend(self.name, vars(self), exports=self.exports)
        _ = self.weights  # refuses a revision that does not pin trusted code
        if self.backend != "torch":
            self.device = "cpu"
        if type(self).resources is ProcessingStage.resources:  # a subclass that has its own means them
            self.resources = Resources(cpus=1.0, gpus=0.0 if self.device == "cpu" else self.gpu_share)
            self.spec = replace(self.spec, gpu_optional=self.device == "auto")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return Weights(self.model, self.revision, self.cache_dir, self.hf_token, self.trust_remote_code)

    def requires(self) -> dict[str, str]:
        return {"torch": "models", **LIBRARIES[self.backend]}

    def inputs(self) -> Spec:
        return ["data"], [INPUT_ID_FIELD]

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        return {name: value for name, value in settings.items() if name not in _NO_ROWS and not name.startswith("_")}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the model to this host, and export it for the backend."""
        with self.hold_export(self.weights.fetch()):
            pass

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the model, unless another slot of this process has; the network is not used.

        An export that was removed to make room for others is made again.
        """
        folder = self.weights.folder()
        self._torch_device = devices.device_of(self.name, self.device, worker_metadata)
        key: Hashable = (
            type(self),
            folder,
            str(self.torch_device),
            self.compile,
            repr(sorted(self.settings().items())),
        )
        key = key if self.shares_model else (key, id(self))
        self._memory = devices.MemoryShare(self.torch_device, self.resources)
        with self.hold_export(folder) as known:
            self._loaded = SHARED.hold(key, lambda: self._load(folder, known))
        self._key = key
        self._sender = HostToDevice(self.torch_device, self._loaded.filler, self.padding_side)
        where = f"{self.torch_device} {hash(key):x}"
        free = self._emptied if self._torch_device.type == "cuda" else None
        waits = WAITS_S if free else None
        self._backoffs = [Backoff(f"{where} {power}", free, waits) for power in range(32)]

    def teardown(self) -> None:
        """Release the model; the last slot of the process frees its memory."""
        key, self._key, self._loaded = self._key, None, None
        if key is not None and SHARED.release(key):
            devices.emptied(self.torch_device)
        if self._memory is not None:
            self._memory.release()

    @property
    def torch_device(self) -> Any:
        """The ``torch.device`` of the slot, once the stage is set up."""
        return self._torch_device

    @property
    def module(self) -> Any:
        """The ``torch.nn.Module``, once the stage is set up.

        Raises:
            PipelineError: it is not.
        """
        return self._ready().model

    def load_model(self, folder: str, device: Any) -> Any:
        """Load the ``torch.nn.Module`` for `setup`: by default with ``AutoModel`` from the folder.

        It is called once for all slots of a process that share it, then put on the device and into ``eval()``.
        """
        return pretrained("AutoModel", self.weights, folder, device, optional=("pooler.",))

    def run_model(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        """Run the model on a batch: without gradients, under autocast, on the device.

        Args:
            inputs: ``input_ids`` and ``attention_mask``, int64 tensors of shape (rows, longest). Unless a subclass
                replaces this method, a model whose ``forward`` needs no mask gets none for rows of one length.
        """
        return model(**inputs) if self.unpack_inference_batch else model(inputs)

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return results by name: tensors, preferably on the device, or arrays; the first axis is the batch's rows."""
        raise PipelineError(f"stage {self.name!r}: define process_model_output(outputs, inputs) to return the results")

    def create_output_dataframe(self, frame: Any, collected: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Add the results to the rows: by default a column for each name, of lists where a result is a vector.

        Args:
            frame: an Arrow table.
            collected: arrays with one result a row, in the order of the table.
        """
        for name, values in collected.items():
            frame = with_results(frame, name, values)
        return frame

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        collected = self._results(tokens_of(table, INPUT_ID_FIELD))
        return task.with_data(self.create_output_dataframe(table, collected))

    def agreement(self, exact: Mapping[str, npt.NDArray[Any]], quick: Mapping[str, npt.NDArray[Any]]) -> float:
        """How far the results of two backends agree, 1 being equal: by default the mean cosine of rows.

        Args:
            exact, quick: results by name, as `process_model_output` returns them.
        """
        left, right = (
            np.concatenate([part.reshape(len(part), -1) for part in of.values()], 1) for of in (exact, quick)
        )
        norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        return float(np.mean((left * right).sum(axis=1) / np.maximum(norms, 1e-30)))

    def exported_folder(self) -> Path:
        """Return the folder of this host for the exported model; names of columns do not decide it."""
        return self._export_place(self.weights.folder())

    @contextmanager
    def hold_export(self, folder: str) -> Iterator[Facts | None]:
        """Keep the export from being removed inside the block, and give its facts; None with ``backend="torch"``.

        It is made if it is not there.

        Args:
            folder: the model's.

        Raises:
            PipelineError: it agrees too little with Torch.
        """
        if self.backend == "torch" or self._draft is not None:
            yield self._draft
            return
        place = self._export_place(folder)
        with once(place, lambda: self._export(folder, place)) as known:
            if known.agreement < self.min_agreement:
                raise PipelineError(
                    f"stage {self.name!r}: backend={self.backend!r} agrees with Torch to {known.agreement:.4f} on "
                    f"{known.rows} texts, less than min_agreement={self.min_agreement}; take another backend, or "
                    "lower it"
                )
            yield known

    def _export_place(self, folder: str) -> Path:
        settings = sorted((name, value) for name, value in self.settings().items() if not _names_column(name))
        return exported_folder(folder, self.backend, f"{type(self).__module__} {type(self).__qualname__} {settings!r}")

    def _export(self, folder: str, place: Path) -> Facts:
        """Export the model, and compare it with Torch on a sample of texts."""
        torch_stage = replace(self, backend="torch", device="cpu", autocast=False)
        torch_stage.setup()
        try:
            loaded = torch_stage._ready()
            tokens = sample_tokens(self.weights, folder, [self.max_seq_length, loaded.longest])
            exact = torch_stage._results(tokens)
            inner = _inner(loaded.model)
            if inner is not None:
                inner.set_attn_implementation("eager")  # which exports to fewer operators
            form = export(loaded.model, place, self.backend, unpacks=self.unpack_inference_batch)
        finally:
            torch_stage.teardown()
        known = self._draft = Facts(form, loaded.filler, loaded.vocabulary, loaded.longest, loaded.hidden)
        try:
            self.setup()
            agreement = self.agreement(exact, self._results(tokens))
        finally:
            self.teardown()
            self.take_metrics()
            self._compared, self._draft = False, None
        return replace(known, rows=len(tokens.lengths), agreement=agreement)

    def _load(self, folder: str, known: Facts | None) -> Loaded:
        if known is not None:
            threads = max(1, int(self.resources.cpus))
            exported = ExportedModel(self._export_place(folder), known, self.backend, threads)
            return Loaded(exported, exported, known.filler, known.vocabulary, known.longest, known.hidden)
        torch = devices.torch_for(self.name)
        with devices.current(self.torch_device):
            # Weights go on to ask for gradients, which nobody computes: of others autocast keeps no copy in 16 bits.
            model = self.load_model(folder, self.torch_device).eval()
            inner = _inner(model)
            if self.autocast == "bf16" and inner is not None:
                _halved(inner, torch)  # the layers on top stay exact, and autocast has almost nothing left to do
            model = model.to(self.torch_device)
        run = torch.compile(model, dynamic=True) if self.compile else model
        maskless = type(self).run_model is ModelStage.run_model and _is_maskless(model, inner)
        return Loaded(model, run, _filler(inner), maskless=maskless, **_traits(model, torch, self.padding_side))

    def _emptied(self) -> None:
        devices.emptied(self.torch_device)

    def _ready(self) -> Loaded:
        if self._loaded is None:
            raise PipelineError(f"stage {self.name!r} is not set up; run it in a pipeline, or call setup() first")
        return self._loaded

    def _results(self, tokens: Tokens) -> dict[str, npt.NDArray[Any]]:
        """Results for each row, in row order."""
        loaded = self._ready()
        begin = time.perf_counter()
        rows = TokenRows.cut(tokens, self.max_seq_length, self.padding_side)
        _check(self.name, rows, loaded)
        if not len(rows):  # it is run as one row without tokens, so that columns have their names and types
            rows = TokenRows.cut(Tokens(np.zeros(2, np.int64), rows.ids))
        rows = rows.widened(devices.aligned(self.torch_device), loaded.longest)
        exact = devices.precision(self.autocast, self.torch_device, self.half)
        batches = packed(rows.widths, self._limits(loaded, exact), self.has_seq_order)
        returns = ResultBuffer(self.name, self.torch_device)
        with (
            devices.current(self.torch_device),
            devices.threads(self.resources.cpus),
            devices.without_gradients(exact),
            devices.casting(exact, self.torch_device),
        ):
            for batch in self._sender.each(rows, batches):
                self._run(batch, returns)
            collected = returns.ordered(batches, len(tokens.lengths))
        self._log(tokens, rows, batches, time.perf_counter() - begin)
        if self.backend != "torch" and not self._compared:
            self._compared = True
            known = loaded.model.facts
            self._log_metrics({"compared_rows": known.rows, "agreeing_rows": known.rows * known.agreement})
        return collected

    def _limits(self, loaded: Loaded, exact: Any) -> BatchLimits:
        size = 4 if exact is None else exact.itemsize
        return batch_limits(
            self.torch_device, self.model_inference_batch_size, self.max_batch_tokens, loaded.hidden, size
        )

    def _run(self, batch: DeviceBatch, returns: ResultBuffer) -> None:
        """The results of a batch, with as many rows at a time as memory allows for rows of about this length."""
        widest = int(batch.widths.max())
        backoff = self._backoffs[widest.bit_length()]
        try:
            parts = backoff.run(self._forward, cast(Sequence[Any], batch))
        except Exception as error:  # raised again
            if not is_out_of_memory(error):
                raise
            raise ResourceError(
                f"stage {self.name!r}: a row of {widest} tokens alone is too much for the memory of "
                f"{self.torch_device}; lower max_seq_length, or give the stage a device to itself"
            ) from error
        for results, rows in parts:
            returns.add(results, rows)

    def _forward(self, batch: DeviceBatch) -> tuple[dict[str, Any], int]:
        loaded = self._ready()
        inputs = arguments = batch.inputs(loaded.positions)
        if loaded.maskless and batch.is_full and self.unpack_inference_batch:
            arguments = {"input_ids": inputs["input_ids"]}
        outputs = self.run_model(loaded.run, arguments)
        return dict(self.process_model_output(outputs, inputs)), len(batch)

    def _log(self, tokens: Tokens, rows: TokenRows, batches: list[Ints], seconds: float) -> None:
        documents, lengths = len(tokens.lengths), rows.lengths
        self._log_metrics(
            {
                "documents": documents,
                "tokens": int(lengths.sum()),
                "padding": padding(lengths, batches, rows.widths) if documents else 0,
                "model_batches": len(batches),
                "cut_tokens": int(tokens.lengths.sum() - lengths.sum()),
                "model_seconds": seconds,
            }
        )


def _names_column(setting: str) -> bool:
    """Whether a setting names a column or the stage, and so does not decide what is exported."""
    return setting in ("name", "overwrite") or setting.endswith("_field")


def _inner(model: Any) -> Any:
    """Return the transformers model in a module, if any."""
    known = needed("transformers", "a model", "models").PreTrainedModel
    return next((module for module in model.modules() if isinstance(module, known)), None)


def _halved(inner: Any, torch: Any) -> None:
    """Cast parameters to bfloat16; keep position buffers in float32, where bfloat16 is too coarse."""
    for weight in inner.parameters():
        if weight.dtype == torch.float32:
            weight.data = weight.data.to(torch.bfloat16)


def _filler(inner: Any) -> int:
    """The padding token: its value does not matter, but some models require one."""
    if inner is None:
        return 0
    config = inner.config.get_text_config()
    for setting in (config.pad_token_id, config.eos_token_id):
        token = setting[0] if isinstance(setting, list) and setting else setting
        if isinstance(token, int) and token >= 0:
            config.pad_token_id = token
            return token
    return 0


def _is_maskless(model: Any, inner: Any) -> bool:
    """Whether a model takes rows without a mask, and is quicker without one: with PyTorch's own attention."""
    mask = inspect.signature(model.forward).parameters.get("attention_mask")
    optional = mask is not None and mask.default is None
    return optional and inner is not None and getattr(inner.config, "_attn_implementation", None) == "sdpa"


def _traits(model: Any, torch: Any, side: Side) -> dict[str, Any]:
    """Constraints on a model's inputs, as far as the names of its modules reveal them."""
    traits: dict[str, Any] = {}
    has_padding = False
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if not isinstance(module, torch.nn.Embedding):
            continue
        if last in _POSITIONS:  # where they have a padding_idx, positions count from behind it
            has_padding = module.padding_idx is not None
            traits["longest"] = module.num_embeddings - (
                module.padding_idx + 1 if module.padding_idx is not None else 0
            )
        elif last in _WORDS:
            traits |= {"vocabulary": module.num_embeddings, "hidden": module.embedding_dim}
    takes = "position_ids" in inspect.signature(model.forward).parameters
    return {**traits, "positions": side == "left" and takes and not has_padding}


def _check(stage: str, rows: TokenRows, loaded: Loaded) -> None:
    """Refuse rows with tokens or positions that the model does not have.

    Raises:
        DataError: there is one.
    """
    if not len(rows.ids):
        return
    highest, lowest = int(rows.ids.max()), int(rows.ids.min())
    if lowest < 0 or (loaded.vocabulary is not None and highest >= loaded.vocabulary):
        wrong = lowest if lowest < 0 else highest
        raise DataError(
            f"stage {stage!r}: token {wrong} is not in the model's vocabulary of {loaded.vocabulary}: the rows were "
            "tokenized for another model; give Tokenize the model of this one"
        )
    longest = int(rows.lengths.max(initial=0))
    if loaded.longest is not None and longest > loaded.longest:
        raise DataError(
            f"stage {stage!r}: a row has {longest} tokens and the model positions for {loaded.longest}; "
            f"pass max_seq_length={loaded.longest} to the stage that makes the tokens"
        )
