"""Load transformers models and tokenizers from a folder, with helpful errors."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.hub.weights import Weights

T = TypeVar("T")

#: Loading sets a default of Torch for the whole process, so models are loaded one at a time.
_one_at_a_time = threading.Lock()


def pretrained(
    kind: str,
    weights: Weights,
    folder: str,
    device: Any,
    *,
    optional: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """A transformers model with all of its weights, for inference.

    Args:
        kind: the class that reads it, such as ``"AutoModelForSequenceClassification"``.
        device: on a CPU the weights are held in float32; elsewhere as they were saved, and each goes there as it is
            read, so that the host never holds them all.
        optional: prefixes of weights that may be missing because they are not used; they are NaN then.
        settings: more arguments of ``from_pretrained``.

    Raises:
        DataError: the folder cannot be read, or weights are missing, which would be random numbers.
        ResourceError: a library that the model needs is not installed.
    """
    transformers = needed("transformers", str(weights), "models")
    torch = needed("torch", str(weights), "models")
    arguments = {
        "dtype": torch.float32 if device.type == "cpu" else "auto",
        "trust_remote_code": weights.trust_remote_code,
        "local_files_only": True,
        "output_loading_info": True,
        **({"device_map": {"": device}} if _takes_weights(torch, device) else {}),
        **(settings or {}),
    }

    def load() -> Any:
        return getattr(transformers, kind).from_pretrained(folder, **arguments)

    with _one_at_a_time, _silent(transformers):
        model, info = read(weights, folder, load)
    missing = sorted(name for name in info["missing_keys"] if not name.startswith(tuple(optional)))
    if missing:
        raise DataError(
            f"{weights} has no weights for {missing[0]!r}"
            + (f" and {len(missing) - 1} more" if missing[1:] else "")
            + ", "
            f"which {type(model).__name__} needs; use another model or stage class"
        )
    for name in info["missing_keys"]:
        model.get_parameter(name).data.fill_(float("nan"))  # rather than a random number in somebody's results
    return model


def _takes_weights(torch: Any, device: Any) -> bool:
    """Whether transformers can read weights straight to a device; it needs the figures of Torch's own allocator."""
    return device.type != "cpu" and not (device.type == "cuda" and torch.cuda.get_allocator_backend() == "pluggable")


def tokenizer_of(weights: Weights, folder: str, settings: Mapping[str, Any] | None = None) -> Any:
    """The tokenizer of a folder, a fast one if there is one.

    Args:
        settings: more arguments of ``from_pretrained``.

    Raises:
        DataError: the folder cannot be read.
        ResourceError: a library that the tokenizer needs is not installed.
    """
    transformers = needed("transformers", str(weights), "models")
    arguments = {"trust_remote_code": weights.trust_remote_code, "local_files_only": True, **(settings or {})}

    def load() -> Any:
        return transformers.AutoTokenizer.from_pretrained(folder, **arguments)

    with _silent(transformers):
        return read(weights, folder, load)


def read(weights: Weights, folder: str, load: Callable[[], T]) -> T:
    """The result of ``load``; errors caused by the files are raised as one sentence.

    Raises:
        DataError: the folder cannot be read.
        ResourceError: a library is not installed.
    """
    damaged = needed("safetensors", str(weights), "models").SafetensorError
    try:
        weights.check_code(folder)
        return load()
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError, EOFError, pickle.UnpicklingError) as e:
        raise weights.refusal(e, folder) from e
    except damaged as error:
        raise weights.refusal(error, folder) from error


@contextmanager
def _silent(transformers: Any) -> Iterator[None]:
    """Context without log output of transformers; important messages are raised."""
    logging = transformers.utils.logging
    drew, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if drew:
            logging.enable_progress_bar()
