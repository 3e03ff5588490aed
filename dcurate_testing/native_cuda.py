"""Kernels for CUDA run on a CPU: the LLVM IR that numba hands to NVVM, compiled for this machine, a thread at a time.

It is the code that a GPU would run up to NVVM's own optimizer: the same types, wrap-around and inlining, at native
speed. Arrays end where a page that may not be touched begins, new ones hold a pattern, and what lies before them is
checked: a byte read or written out of bounds ends the process, or is reported.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from numba import typeof

from dcurate import DataError
from dcurate.kernels import cuda
from dcurate.kernels.cuda_compiler import tables_in_global_memory

types: Any = importlib.import_module("numba.types")
#: What new arrays hold, and what lies between the beginning of a page and an array.
PATTERN = 0xA5
PAGE = mmap.PAGESIZE
_REGISTERS = ("tid", "ntid", "ctaid", "nctaid")
_libc = ctypes.CDLL(None, use_errno=True)


class OnHost(np.ndarray[Any, Any]):
    """An array that counts as one on a GPU."""

    def copy_to_host(self, stream: Any = 0) -> Any:
        return np.array(self)

    def copy_to_device(self, array: Any, stream: Any = 0) -> None:
        self[...] = array


class _Guarded:
    """Memory of some bytes, with a page behind it that may not be touched."""

    def __init__(self, size: int) -> None:
        pages = -(-size // PAGE)
        self._map = mmap.mmap(-1, (pages + 1) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        if _libc.mprotect(ctypes.c_void_p(start + pages * PAGE), PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect refused to guard a page")
        whole = np.frombuffer(self._map, np.uint8, pages * PAGE)
        whole[...] = PATTERN
        self.before, self.bytes = whole[: pages * PAGE - size], whole[pages * PAGE - size :]

    def is_sound(self) -> bool:
        """Whether nothing was written before it."""
        return bool((self.before == PATTERN).all())


class Kernel(NamedTuple):
    """A kernel as numba lowered it.

    Args:
        name: of the function that measures a text.
        symbol: its name in the IR.
        library: numba's library of its code.
    """

    name: str
    symbol: str
    library: Any


def lowered(function: Any, signature: tuple[Any, ...], capability: tuple[int, int]) -> Kernel:
    """Compile a kernel as far as LLVM IR, by numba-cuda."""
    compiler = importlib.import_module("numba.cuda.compiler")
    library, _ = compiler._compile_pyfunc_with_fixup(function, signature, device=False, cc=capability, abi="numba")
    return Kernel(function.__name__, library._entry_name, library)


@contextmanager
def no_gpu(capability: tuple[int, int]) -> Iterator[Any]:
    """Yield numba.cuda, which takes this process to have a GPU of that compute capability."""
    numba_cuda, dispatcher = map(importlib.import_module, ("numba.cuda", "numba.cuda.dispatcher"))
    real = vars(dispatcher)["get_current_device"]
    vars(dispatcher)["get_current_device"] = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield numba_cuda
    finally:
        vars(dispatcher)["get_current_device"] = real


class Native:
    """A kernel in the machine code of this CPU."""

    def __init__(self, kernel: Kernel) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        modules = [llvm.parse_assembly(_for_cpu(text)) for text in kernel.library.llvm_strs]
        main = llvm.parse_assembly(_registers())
        for module in modules:
            main.link_in(module)
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        builder.getModulePassManager().run(main, builder)
        self._engine = llvm.create_mcjit_compiler(main, machine)
        self._engine.finalize_object()
        self._address = self._engine.get_function_address(kernel.symbol)

    def run(self, grid: tuple[int, int], arguments: list[Any]) -> None:
        """Run all threads of a grid of blocks, one after the other."""
        function = ctypes.CFUNCTYPE(None, *map(type, arguments))(self._address)
        registers = (self._engine.get_global_value_address(f"value_{name}_x") for name in _REGISTERS)
        thread, threads, block, blocks = map(ctypes.c_int32.from_address, registers)
        blocks.value, threads.value = grid
        for block.value in range(grid[0]):
            for thread.value in range(grid[1]):
                function(*arguments)


def _for_cpu(text: str) -> str:
    """IR without what only NVVM knows; the numbers of threads and blocks come from functions of `_registers`."""
    text = re.sub(r"^target (triple|datalayout) = .*$|^!nvvm.*$", "", text, flags=re.MULTILINE)
    text = text.replace("ptx_kernel ", "")
    return re.sub(r"llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.(\w)", r"read_\1_\2", text)


def _registers() -> str:
    return "".join(
        f"@value_{name}_{axis} = global i32 0\n"
        f"define i32 @read_{name}_{axis}() {{\n %v = load volatile i32, ptr @value_{name}_{axis}\n ret i32 %v\n}}\n"
        for name in _REGISTERS
        for axis in "xyz"
    )


def type_of(value: Any) -> Any:
    """The type that numba gives an argument of a kernel; arrays count as writable, as those on a GPU do."""
    if isinstance(value, np.ndarray):
        return typeof(np.empty((1,) * value.ndim, value.dtype))
    if isinstance(value, tuple):
        made = tuple(map(type_of, value))
        if type(value) is tuple:
            return types.UniTuple(made[0], len(made)) if made and len({*made}) == 1 else types.Tuple(made)
        kind = types.NamedUniTuple if len({*made}) == 1 else types.NamedTuple
        return kind(made[0], len(made), type(value)) if kind is types.NamedUniTuple else kind(made, type(value))
    return typeof(value)


def _flat(kind: Any, value: Any) -> Iterator[Any]:
    """The parameters of a kernel for an argument, as numba passes them."""
    if isinstance(kind, types.Array):
        yield from (ctypes.c_void_p(0), ctypes.c_void_p(0), ctypes.c_int64(value.size), ctypes.c_int64(value.itemsize))
        yield ctypes.c_void_p(value.ctypes.data)
        yield from map(ctypes.c_int64, (*value.shape, *value.strides))
    elif isinstance(kind, types.BaseTuple):
        for part, each in zip(kind, value, strict=True):
            yield from _flat(part, each)
    elif isinstance(kind, types.Boolean):
        yield ctypes.c_uint8(bool(value))
    elif isinstance(kind, types.Integer):
        yield getattr(ctypes, f"c_{'int' if kind.signed else 'uint'}{kind.bitwidth}")(int(value))
    else:
        raise TypeError(f"no way to pass a {kind} to a kernel")


@dataclass
class Launches:
    """A kernel that `launched` receives in place of a launch: the function, its types, the grid and the arguments."""

    function: Any
    launched: Callable[[Any, tuple[Any, ...], tuple[int, int], tuple[Any, ...]], None]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *given: self.launched(self.function, tuple(map(type_of, given)), (grid[0], grid[1]), given)


@dataclass
class NativeCuda:
    """What `dcurate.kernels.cuda` takes for numba's CUDA: it runs each kernel here.

    Args:
        capability: compute capability that the kernels are lowered for.
        guard: whether arrays end at a page that may not be touched.
    """

    capability: tuple[int, int] = (9, 0)
    guard: bool = True
    launches: int = 0
    kernels: dict[Any, tuple[Kernel, Native]] = field(default_factory=dict)
    _memory: list[_Guarded] = field(default_factory=list)

    def is_available(self) -> bool:
        return True

    def to_device(self, array: Any, *_: Any, **__: Any) -> Any:
        made = self.device_array(array.shape, array.dtype)
        made[...] = array
        return made

    def device_array(self, shape: Any, dtype: Any, *_: Any, **__: Any) -> Any:
        shape, dtype = np.atleast_1d(shape), np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        if self.guard:
            self._memory.append(_Guarded(size))
        data = self._memory[-1].bytes if self.guard else np.full(size, PATTERN, np.uint8)
        return data.view(dtype).reshape(shape).view(OnHost)

    def as_cuda_array(self, array: Any) -> Any:
        return array.view(OnHost)

    def jit(self, function: Any) -> Launches:
        return Launches(function, self._run)

    def stream(self) -> Any:
        return SimpleNamespace(synchronize=lambda: None)

    def event(self) -> Any:
        return SimpleNamespace(synchronize=lambda: None, record=lambda stream: None)

    def pinned_array(self, shape: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def current_context(self) -> Any:
        return SimpleNamespace(get_memory_info=lambda: SimpleNamespace(free=math.inf))

    def _run(self, function: Any, signature: tuple[Any, ...], grid: tuple[int, int], given: tuple[Any, ...]) -> None:
        key = function, signature
        if key not in self.kernels:
            kernel = lowered(function, signature, self.capability)
            self.kernels[key] = kernel, Native(kernel)
        kernel, native = self.kernels[key]
        native.run(grid, [one for kind, value in zip(signature, given, strict=True) for one in _flat(kind, value)])
        self.launches += 1
        unsound = sum(not one.is_sound() for one in self._memory)
        self._memory.clear()
        if unsound:
            raise DataError(f"{kernel.name} wrote before the beginning of {unsound} arrays")


@contextmanager
def native_cuda(capability: tuple[int, int] = (9, 0), *, guard: bool = True) -> Iterator[NativeCuda]:
    """Have `dcurate.kernels.cuda` run its kernels on this CPU."""
    tables_in_global_memory()
    with no_gpu(capability) as numba_cuda:
        native, saved = NativeCuda(capability, guard), {name: vars(cuda)[name] for name in ("_cuda", "cuda")}
        vars(cuda).update(_cuda=lambda: native, cuda=numba_cuda)
        try:
            yield native
        finally:
            vars(cuda).update(saved)
            cuda._compiled.cache_clear()
