"""Scripts that ask for GPUs, run on CPUs: ``dcurate nemo --cpu``.

Stages request no GPU. Torch's device ``cuda`` is the CPU, while ``torch.cuda.is_available()`` says that there is none.
``import cudf`` gives pandas, and ``import ray`` a module that holds values of its own: no stage of dcurate runs in Ray.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

import cloudpickle

from dcurate.core.resources import Resources

#: Worker processes inherit it from the process that runs the script.
_VARIABLE = "DCURATE_NEMO_CPU"
#: Methods of tensors, and functions besides `torch.utils._device`'s list, that take a device.
_TENSOR = ("to", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")

_log = logging.getLogger("dcurate.compat.nemo")


def install() -> None:
    """Run on CPUs from now on, in this process and in those that it starts; the log says so once."""
    if not is_installed():
        _log.warning(
            "on CPUs alone: stages request no GPU, Torch's device 'cuda' is the CPU, cudf is pandas, and ray holds "
            "the values of ray.put itself"
        )
    os.environ.update({_VARIABLE: "1", "CUDA_VISIBLE_DEVICES": ""})
    join()


def is_installed() -> bool:
    """Whether this process is one of those."""
    return _VARIABLE in os.environ


def join() -> None:
    """Do so in a process that was started by one of those."""
    if is_installed() and not any(isinstance(finder, _CpuFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _CpuFinder())
        if "torch" in sys.modules:
            _on_cpu(sys.modules["torch"])


def engine_resources(given: Resources) -> Resources:
    """The resources that a stage requests, without GPUs if there are to be none; equal ones compare equal."""
    return Resources(given.cpus) if is_installed() else Resources(given.cpus, given.gpus, given.gpu_memory_gb)


class _CpuFinder(MetaPathFinder, Loader):
    """Finds cudf and ray, and changes torch when it is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        if package in _MODULES:
            if fullname != package:
                raise ModuleNotFoundError(_absent(fullname), name=package)
            return ModuleSpec(fullname, self, is_package=True)
        spec = PathFinder.find_spec(fullname) if fullname == "torch" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _TorchLoader(fullname, spec.loader.path)
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Alias(ModuleType):
    """A module whose names come from `_MODULES`."""

    def __getattr__(self, name: str) -> Any:
        names, module = _MODULES[self.__name__]
        if name in names:
            return names[name]
        if module is None or name.startswith("_") or not hasattr(importlib.import_module(module), name):
            raise AttributeError(_absent(f"{self.__name__}.{name}"), name=name, obj=self)
        return getattr(importlib.import_module(module), name)

    def __reduce__(self) -> Any:
        return _imported, (self.__name__,)


def _imported(name: str) -> ModuleType:
    join()
    return importlib.import_module(name)


def _absent(name: str) -> str:
    return f"{name} is not here under --cpu: install {name.partition('.')[0]}, and run without --cpu"


class _TorchLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _on_cpu(module)


def _on_cpu(torch: Any) -> None:
    """Have what takes a device take the CPU in place of CUDA."""
    devices, scripts = (importlib.import_module(f"torch.{name}") for name in ("utils._device", "jit._builtins"))

    def replaced(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "cuda" else value
        return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value

    def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            named.pop("pin_memory", None)
            return function(*map(replaced, args), **{name: replaced(value) for name, value in named.items()})

        call.__qualname__ = function.__name__
        if (operation := scripts._find_builtin(function)) is not None:
            scripts._register_builtin(call, operation)
        return call

    def load(file: Any, map_location: Any = None, *args: Any, **named: Any) -> Any:
        return read(file, "cpu" if map_location is None else replaced(map_location), *args, **named)

    def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(first: Any = None, *_: Any, **__: Any) -> Any:
            return first

        return call

    class NoDevice(torch.cuda.device):  # type: ignore[misc]
        def __init__(self, _: Any = None) -> None:
            super().__init__(-1)

    makers = {function.__name__ for function in devices._device_constructors()}
    for owner, names in ((torch, {*makers, *_LIKE}), (torch.Tensor, _TENSOR)):
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, on_cpu(getattr(owner, name)))
    read, torch.load = torch.load, wraps(torch.load)(load)
    context = devices.DeviceContext
    context.__init__ = on_cpu(context.__init__)
    for path in ("Tensor.cuda", "Tensor.pin_memory", "cuda.set_device", "cuda.synchronize"):
        owner, name = getattr(torch, path.partition(".")[0]), path.partition(".")[2]
        setattr(owner, name, as_it_is(getattr(owner, name)))
    torch.cuda.device = NoDevice


@dataclass(frozen=True)
class ObjectRef:
    """A value that `put` holds.

    Args:
        pickled: the value.
    """

    pickled: bytes


def put(value: Any) -> ObjectRef:
    """Hold a value.

    Examples:
        >>> get([put(1), put("a")])
        [1, 'a']
    """
    return ObjectRef(cloudpickle.dumps(value))


def get(refs: Any, *, timeout: float | None = None) -> Any:
    """A copy of a value that is held, or a list of them."""
    return [get(ref) for ref in refs] if isinstance(refs, list) else cloudpickle.loads(refs.pickled)


def _begin(*_: Any, **__: Any) -> None:
    """There is nothing to start or to stop."""


#: Modules under names of others: their own names, and the module that has the rest.
_MODULES: dict[str, tuple[dict[str, Any], str | None]] = {
    "cudf": ({"from_pandas": lambda frame: frame}, "pandas"),
    "ray": (
        {"ObjectRef": ObjectRef, "get": get, "put": put, "init": _begin, "shutdown": _begin, "is_initialized": bool},
        None,
    ),
}
