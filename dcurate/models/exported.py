"""Models exported to ONNX, and run by ONNX Runtime or OpenVINO on a CPU."""

from __future__ import annotations

import json
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from threading import local
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.errors import PipelineError, nearest
from dcurate.fs.locks import open_locked
from dcurate.fs.temporary import folder_of_host, held, sweep

#: What runs a model: Torch, ONNX Runtime in float32, the same with matrices in 8 bits, or OpenVINO.
BACKENDS = ("torch", "onnx", "onnx-int8", "openvino")
#: Libraries of each, and the extra that has them.
LIBRARIES: dict[str, dict[str, str]] = {
    "torch": {},
    "onnx": {"onnxruntime": "onnx", "onnxscript": "onnx"},
    "onnx-int8": {"onnxruntime": "onnx", "onnxscript": "onnx"},
    "openvino": {"openvino": "openvino", "onnxscript": "onnx"},
}
#: Protocol buffers hold no more; weights beyond it are in files of their own.
_MOST_IN_FILE = 1_500_000_000
_MODEL, _FACTS = "model.onnx", "facts.json"
#: Exports that no process uses are kept up to these many bytes, and this long after their last use, in seconds.
KEPT_BYTES, KEPT_S = 20 * 2**30, 30 * 86_400.0


@dataclass(frozen=True)
class Facts:
    """What is known of an exported model.

    Args:
        form: what it returns: ``"tensor"``, ``"logits"`` or ``"tensors"``.
        filler: the token that padding is made of.
        vocabulary: how many tokens it knows.
        longest: how many tokens a row may have.
        hidden: numbers that it has of each token.
        rows: rows of the sample on which it was compared.
        agreement: how far it agrees with Torch in float32 on these rows, 1 being equal.
    """

    form: str
    filler: int
    vocabulary: int | None
    longest: int | None
    hidden: int
    rows: int = 0
    agreement: float = 1.0


class ExportedModel:
    """An exported model, called like the module that it was made of. Threads may share it.

    Args:
        folder: holds what `export` wrote.
        known: what is known of it.
        backend: one of `BACKENDS`.
        threads: how many threads of a CPU a call uses.
    """

    def __init__(self, folder: Path, known: Facts, backend: str, threads: int) -> None:
        weakref.finalize(self, os.close, held(folder))  # it is not removed while it is in use
        self.facts = known
        path = str(folder / _MODEL)
        self._run = _openvino(path, threads) if backend == "openvino" else _onnx_runtime(path, threads)
        self._torch = needed("torch", "an exported model", "models")

    def __call__(self, input_ids: Any, attention_mask: Any, **unused: Any) -> Any:
        """Run it on a batch: int64 tensors of shape (rows, longest)."""
        outputs = [self._torch.from_numpy(array) for array in self._run(input_ids.numpy(), attention_mask.numpy())]
        if self.facts.form == "tensors":
            return outputs
        return SimpleNamespace(logits=outputs[0]) if self.facts.form == "logits" else outputs[0]


_Arrays = npt.NDArray[np.int64]
_Run = Callable[[_Arrays, _Arrays], Sequence[npt.NDArray[Any]]]


def _onnx_runtime(path: str, threads: int) -> _Run:
    runtime = needed("onnxruntime", "an exported model", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})


def _openvino(path: str, threads: int) -> _Run:
    openvino = needed("openvino", "an exported model", "openvino")
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    slots = local()

    def run(ids: _Arrays, mask: _Arrays) -> list[npt.NDArray[Any]]:
        if not hasattr(slots, "request"):
            slots.request = compiled.create_infer_request()
        results = slots.request.infer({"input_ids": ids, "attention_mask": mask})
        return [np.array(results[output]) for output in compiled.outputs]

    return run


def check_backend(stage: str, settings: Mapping[str, Any], *, exports: bool) -> None:
    """Refuse settings that do not go with a backend.

    Args:
        settings: ``backend``, ``min_agreement``, ``autocast``, ``compile``, ``device`` and ``padding_side`` of a stage.
        exports: whether its model can be exported.

    Raises:
        PipelineError: they do not go together.
    """
    backend, bound = settings["backend"], settings["min_agreement"]
    if backend not in BACKENDS:
        raise PipelineError(f"stage {stage!r}: unknown backend {backend!r}{nearest(str(backend), BACKENDS)}")
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 <= bound <= 1:
        raise PipelineError(f"stage {stage!r}: min_agreement={bound!r} must be a number from 0 to 1")
    if backend == "torch":
        return
    if not exports:
        raise PipelineError(f"stage {stage!r}: this model cannot be exported; leave out backend={backend!r}")
    wrong = {
        "device": settings["device"] not in ("auto", "cpu"),
        "autocast": isinstance(settings["autocast"], str) and settings["autocast"] != "off",
        "compile": settings["compile"],
        "padding_side": settings["padding_side"] != "right",
    }
    for name in (name for name, refused in wrong.items() if refused):
        raise PipelineError(
            f"stage {stage!r}: backend={backend!r} runs on CPUs, with its own precision and padding on the right; "
            f"leave out {name}={settings[name]!r}"
        )


def exported_folder(folder: str, backend: str, settings: str) -> Path:
    """The folder of this host for a model as a backend runs it; it changes when files of the model do.

    Args:
        folder: the model's.
        settings: whatever else decides what is exported.
    """
    files = sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in Path(folder).rglob("*.*"))
    names = [
        f"{name} {needed(name, 'an exported model', extra).__version__}" for name, extra in LIBRARIES[backend].items()
    ]
    key = blake2b(repr((folder, backend, settings, files, names)).encode(), digest_size=16).hexdigest()
    return folder_of_host("exported", key)


def facts(folder: Path) -> Facts:
    """What `export` found out."""
    return Facts(**json.loads((folder / _FACTS).read_text("utf-8")))


@contextmanager
def once(folder: Path, make: Callable[[], Facts]) -> Iterator[Facts]:
    """Hold a folder, and give the facts in it; the first process of the host makes what is in it, while others wait.

    No process removes the folder inside the block. Older exports that are not in use are removed once they take more
    than `KEPT_BYTES`, or are older than `KEPT_S`.
    """
    used = held(folder)
    try:
        lock = open_locked(folder / "lock")
        try:
            if not (folder / _FACTS).is_file():
                known = make()
                write_facts(folder, known)
                prune(folder.parent)
            os.utime(folder / _FACTS)
        finally:
            os.close(lock)
        yield facts(folder)
    finally:
        os.close(used)


def folder_size(folder: Path) -> int:
    """The size of the files in a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir())


def prune(parent: Path) -> None:
    """Remove exports that no process uses: those beyond `KEPT_BYTES`, the longest unused first, and old ones."""
    uses = []
    for folder in parent.iterdir():
        with suppress(FileNotFoundError):  # being made, or removed by another process
            uses.append(((folder / _FACTS).stat().st_mtime, folder_size(folder), folder))
    kept, total = set(), 0
    for last, size, folder in sorted(uses, reverse=True):
        total += size
        if total <= KEPT_BYTES and time.time() - last <= KEPT_S:
            kept.add(folder)
    sweep(parent, kept.__contains__)


def write_facts(folder: Path, known: Facts) -> None:
    """Write the facts, as a whole."""
    (folder / f"{_FACTS}.new").write_text(json.dumps(asdict(known)), "utf-8")
    os.replace(folder / f"{_FACTS}.new", folder / _FACTS)


def export(model: Any, folder: Path, backend: str, *, unpacks: bool = True) -> str:
    """Write a module to ``model.onnx``; returns what it returns, as in `Facts`.

    Args:
        model: a ``torch.nn.Module`` on the CPU.
        folder: where the file goes.
        backend: the backend that is to run it.
        unpacks: whether the module takes its inputs by name, not as a dict.

    Raises:
        PipelineError: it returns something else.
    """
    torch = needed("torch", "an exported model", "models")
    ids = torch.ones((2, 5), dtype=torch.int64)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        result = model(**inputs) if unpacks else model(inputs)
    form = _form(result, torch)

    class Outputs(torch.nn.Module):  # type: ignore[misc, name-defined]  # Torch is there on workers only
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
            result = self.model(**inputs) if unpacks else self.model(inputs)
            return result.logits if form == "logits" else result if form == "tensor" else tuple(result)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter and the optimizer, about their own future
        _write(Outputs().eval(), inputs, folder / _MODEL, backend)
    return form


def _write(module: Any, inputs: dict[str, Any], path: Path, backend: str) -> None:
    torch = needed("torch", "an exported model", "models")
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("longest")}
    large = sum(weight.numel() * weight.element_size() for weight in module.parameters()) > _MOST_IN_FILE
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        str(path),
        input_names=list(inputs),
        dynamo=True,
        external_data=large,
        dynamic_shapes=dict.fromkeys(inputs, sizes),
        verbose=False,
    )
    if backend != "openvino":
        _optimized(path, backend, large=large)


def _form(result: Any, torch: Any) -> str:
    if isinstance(result, torch.Tensor):
        return "tensor"
    if isinstance(getattr(result, "logits", None), torch.Tensor):
        return "logits"
    if isinstance(result, tuple | list) and all(isinstance(part, torch.Tensor) for part in result):
        return "tensors"
    raise PipelineError(
        f"a model that returns {type(result).__name__} cannot be exported; return a tensor, tensors, or logits"
    )


def _optimized(path: Path, backend: str, *, large: bool) -> None:
    """Join operators that ONNX Runtime computes in one, and store matrices in 8 bits for ``onnx-int8``."""
    optimizer = needed("onnxruntime.transformers.optimizer", "an exported model", "onnx")
    optimized = optimizer.optimize_model(str(path), model_type="bert", opt_level=0)
    optimized.save_model_to_file(str(path), use_external_data_format=large)
    if backend == "onnx-int8":
        quantization = needed("onnxruntime.quantization", "an exported model", "onnx")
        quick = path.with_name("int8.onnx")
        quantization.quantize_dynamic(
            str(path),
            str(quick),
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
            use_external_data_format=large,
        )
        os.replace(quick, path)
