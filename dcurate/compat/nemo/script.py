"""Run a script that was written for NeMo Curator as ``python`` would run it."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from multiprocessing import spawn
from types import CodeType, ModuleType
from typing import Any

from dcurate.compat.nemo import cpus
from dcurate.compat.nemo.finder import install

#: Exit codes of ``python``: for an uncaught error, for a script that cannot be read, and after Ctrl-C.
FAILED, NOT_READ, INTERRUPTED = 1, 2, 130

#: Name of a worker process of Dask, as in `dcurate.cluster.nannies`, which would load Dask.
WORKER_PROCESS = "Dask Worker process"
#: How a worker process of Dask would find the script, to run it, too.
_MAIN = ("init_main_from_name", "init_main_from_path")
#: Modules that scripts import themselves, and packages that NeMo Curator installs for them.
_PACKAGES = {
    **{name: name for name in ("datasets", "fasttext", "jieba", "loguru", "omegaconf", "openai", "ray", "warcio")},
    "absl": "absl-py",
    "bs4": "beautifulsoup4",
    "hydra": "hydra-core",
    "sentence_transformers": "sentence-transformers",
    "transformers": "'dcurate[models]'",
    "torch": "'dcurate[models]'",
}
#: What errors say where there is no GPU: of dcurate, of Python without cuDF, and of Torch.
_NO_GPU = ("but the workers have none", "named 'cudf'", "compiled with CUDA", "NVIDIA driver", "No CUDA GPUs")


class NotReadError(Exception):
    """A script or module that is not there."""


def run_script(path: str, arguments: Sequence[str], *, cpu: bool = False) -> int:
    """Run a file of Python, without GPUs if `cpu` is set, and return the exit code.

    Raises:
        NotReadError: the file cannot be read.
    """
    file = os.path.abspath(path)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        with io.open_code(file) as opened:
            source = opened.read()
    except OSError as error:
        raise NotReadError(f"can't open file {file!r}: {error.strerror}") from error
    install(cpu=cpu)
    return _run(lambda: compile(source, file, "exec"), [path, *arguments], {"__file__": file})


def run_module(name: str, arguments: Sequence[str], *, cpu: bool = False) -> int:
    """Run a module, or the ``__main__`` of a package, without GPUs if `cpu` is set, and return the exit code.

    Raises:
        NotReadError: there is no such module.
    """
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    install(cpu=cpu)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ImportError as error:
        raise NotReadError(f"Error while finding module specification for {name!r} ({error})") from error
    read: Any = getattr(spec and spec.loader, "get_code", None)
    if spec is None or read is None:
        raise NotReadError(f"No module named {name}")
    return _run(
        lambda: read(spec.name),
        [spec.origin or name, *arguments],
        {"__file__": spec.origin, "__package__": spec.parent},
    )


def _run(read: Any, arguments: list[str], attributes: dict[str, Any]) -> int:
    """Run code as ``__main__``. An error prints its traceback, without the lines that are not the script's."""
    _keep_from_workers()
    sys.argv[:] = arguments
    main = ModuleType("__main__")
    vars(main).update({"__builtins__": builtins, "__package__": None, **attributes})
    sys.modules["__main__"] = main
    try:
        code: CodeType = read()
        exec(code, vars(main))
    except Exception as error:
        _print(error)
        return FAILED
    except KeyboardInterrupt as error:
        _print(error)
        return INTERRUPTED
    return 0


def _print(error: BaseException) -> None:
    if isinstance(error, ModuleNotFoundError) and error.name in _PACKAGES:
        error.add_note(f"NeMo Curator installs {error.name}, dcurate does not: pip install {_PACKAGES[error.name]}")
    if not cpus.is_installed() and any(sign in str(error) for sign in _NO_GPU):
        error.add_note("dcurate nemo --cpu SCRIPT runs what asks for a GPU on CPUs")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _keep_from_workers() -> None:
    """Have Dask's worker processes not run the script, which may start the pipeline without a main guard.

    Their stages arrive pickled, and classes of the script with them. Other processes that the script starts import it,
    as the ``multiprocessing`` module has it.
    """
    everything = spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data = everything(name)
        return {key: data[key] for key in data if key not in _MAIN} if name.startswith(WORKER_PROCESS) else data

    vars(spawn)["get_preparation_data"] = without_main
