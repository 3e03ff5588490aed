"""What dcurate has numba-cuda do otherwise: tables in global memory, and compiled kernels kept on disk.

Both go through functions of numba-cuda that it does not document, as numba-cuda 0.30 has them. Untested on a GPU; the
code that comes of it is assembled and run on a CPU by ``make check-cuda``.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import unicodedata
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numba import config

_GLOBAL_MEMORY = 1
_ALIGNMENT = 16


def numba_refuses() -> str:
    """Why numba-cuda cannot compile with the NumPy that is installed; empty if it can.

    numba-cuda 0.30 uses `numpy.row_stack`, which NumPy 2.5 does not have; upstream will not change it.
    """
    try:
        numba_cuda = version("numba-cuda")
    except PackageNotFoundError:
        return ""
    if np.lib.NumpyVersion(np.__version__) < "2.5.0":
        return ""
    return f"numba-cuda {numba_cuda} cannot compile with NumPy {np.__version__}; install NumPy below 2.5: numpy==2.4.6"


def tables_in_global_memory() -> None:
    """Have numba put the arrays that kernels read as globals into global memory, each once in a kernel.

    By default it puts them into constant memory, once for each function that reads one. A warp reads one address of
    constant memory at a time: threads that look up different bytes of their texts in a table take turns, up to 32. Of
    global memory they read all at once, through the L1 cache; and there is no limit of 64 KiB.
    """
    if not vars(config)["ENABLE_CUDASIM"]:
        importlib.import_module("numba.cuda.target").CUDATargetContext.make_constant_array = _global_array


def _global_array(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """An array of a table, in place of `CUDATargetContext.make_constant_array`."""
    ir = importlib.import_module("llvmlite.ir")
    table = np.ascontiguousarray(array) if kind.layout == "C" else np.asfortranarray(array)
    data = bytearray(table.tobytes(order="A")) or bytearray(1)
    name = f"table_{hashlib.sha256(data).hexdigest()[:32]}"
    byte = ir.IntType(8)
    place = builder.module.globals.get(name)
    if place is None:
        place = ir.GlobalVariable(builder.module, ir.ArrayType(byte, len(data)), name, addrspace=_GLOBAL_MEMORY)
        place.initializer = ir.Constant(place.value_type, data)
        place.linkage, place.global_constant, place.align = "linkonce_odr", True, _ALIGNMENT
    pointer = builder.addrspacecast(place, ir.PointerType(byte), "generic")
    made = context.make_array(kind)(context, builder)
    sizes = importlib.import_module("numba").types.intp
    context.populate_array(
        made,
        data=builder.bitcast(pointer, made.data.type),
        shape=[context.get_constant(sizes, size) for size in table.shape],
        strides=[context.get_constant(sizes, stride) for stride in table.strides],
        itemsize=context.get_constant(sizes, table.itemsize),
        parent=None,
        meminfo=None,
    )
    return made._getvalue()


@cache
def sources() -> str:
    """A hash of the sources of all kernels, and of what tables are made from as they are imported."""
    digest = hashlib.sha256(f"{sys.version_info} {unicodedata.unidata_version} {np.__version__}".encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.relative_to(Path(__file__).parent).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def identity(measure: Any, form: Any, reset: Any) -> str:
    """A hash of what a kernel is compiled from, the same in every process."""
    functions = [getattr(function, "py_func", function) for function in (measure, reset)]
    parts = [sources(), repr(form)]
    for function in functions:
        parts += [function.__module__, function.__qualname__]
        if not function.__module__.startswith(f"{__package__}."):
            parts.append(inspect.getsource(function))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def stored(jitted: Any, measure: Any, form: Any, reset: Any) -> Any:
    """Have a kernel kept on disk once it is compiled, beside the kernels of the CPU; the kernel itself.

    numba cannot keep it by itself: its key has a hash of the functions that the kernel calls, which differs in every
    process, and looks at the time of this one file. A key of sources replaces both.
    """
    if vars(config)["ENABLE_CUDASIM"] or not hasattr(jitted, "enable_caching"):
        return jitted
    name = identity(measure, form, reset)
    jitted.py_func.__qualname__ = f"{jitted.py_func.__name__}-{name[:16]}"
    jitted._cache = _cache_class()(jitted.py_func, name)
    return jitted


@cache
def _cache_class() -> Any:
    dispatcher, caching = map(importlib.import_module, ("numba.cuda.dispatcher", "numba.cuda.core.caching"))

    class SourceCache(dispatcher.CUDACache):  # type: ignore[name-defined, misc]
        """A cache of one kernel in files of its own, with a key of the sources of all kernels."""

        def __init__(self, function: Any, name: str) -> None:
            self._identity = name
            super().__init__(function)
            self._cache_file._source_stamp = name

        def _index_key(self, signature: Any, codegen: Any) -> Any:
            return signature, codegen.magic_tuple(), caching.numba_cuda.__version__, self._identity

    return SourceCache
