"""Signals: one function of one text, run over many texts on the CPU or a GPU.

`signal` generates both from one declaration: a loop for the CPU, and a kernel with one thread per text for CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn, Measure, TextFunction, launch, tables_on_gpu
from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import ALLOCATING, OPTIONS, Bytes, Offsets, Rows, frozen, longest

P = ParamSpec("P")
T = TypeVar("T")
Tuple = TypeVar("Tuple", bound=tuple[Any, ...])

#: Numbers of texts, of shape (texts, ...).
Array = npt.NDArray[Any]


class Signal(Generic[P, T]):
    """A function of (offsets, data, rows, *options): results for the texts numbered ``rows``, in order.

    Args:
        cpu: computes it for texts in the Arrow layout.
        gpu: computes the same, to the bit, for texts on a GPU; results are on the host.

    Attributes:
        blank: results of a number of texts in which a signal made by `signal` finds nothing.
        loop: function that returns the kernel of such a signal for the CPU.
    """

    __name__: str

    def __init__(
        self,
        cpu: Callable[Concatenate[Offsets, Bytes, Rows, P], T],
        gpu: Callable[Concatenate[CudaColumn, Rows, P], T],
    ) -> None:
        self.cpu = cpu
        self.gpu = gpu
        self.blank: Callable[Concatenate[int, P], T] | None = None
        self.loop: Callable[[], Any] | None = None
        update_wrapper(self, cpu)

    def run(self, column: tuple[Offsets, Bytes] | CudaColumn, rows: Rows, *args: P.args, **kwargs: P.kwargs) -> T:
        """Compute it where the texts are."""
        if isinstance(column, CudaColumn):
            return self.gpu(column, rows, *args, **kwargs)
        return self.cpu(*column, rows, *args, **kwargs)

    def __call__(self, offsets: Offsets, data: Bytes, rows: Rows, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.cpu(offsets, data, rows, *args, **kwargs)


def with_gpu(
    gpu: Callable[Concatenate[CudaColumn, Rows, P], T],
) -> Callable[[Callable[Concatenate[Offsets, Bytes, Rows, P], T]], Signal[P, T]]:
    """Make a signal of the decorated function, which is for the CPU, and of ``gpu``."""
    return partial(Signal, gpu=gpu)


class Output(NamedTuple, Generic[T]):
    """What a function of one text writes, and what becomes of it.

    Args:
        shape: the number of values; for an array of them, its shape as a function of ``tables``.
        read: makes the result from an array of shape (texts, ...) and ``tables``.
        dtype: the type of the values.
    """

    shape: int | Callable[[Any], tuple[int, ...]]
    read: Callable[[Array, Any], T]
    dtype: Any = np.int64

    def zeros(self, texts: int, tables: Any) -> Array:
        """Allocate an array for the values of a number of texts."""
        return np.zeros((texts, *(self.shape(tables) if callable(self.shape) else (self.shape,))), self.dtype)


def columns(fields: type[Tuple]) -> Output[Tuple]:
    """Declare a value for each field of a named tuple; the result has an array in each.

    Examples:
        >>> class Both(NamedTuple):
        ...     left: Array
        ...     right: Array
        >>> columns(Both).read(np.array([[7, 3], [9, 2]]), None)
        Both(left=array([7, 9]), right=array([3, 2]))
    """
    return Output(len(fields.__annotations__), lambda out, _: fields(*np.ascontiguousarray(out.T)))


#: One value for each text.
SINGLE: Output[Array] = Output(1, lambda out, _: out[:, 0])


@njit(**ALLOCATING)
def no_scratch(most: int, tables: Any) -> Bytes:
    """Scratch of functions that need none."""
    return np.empty(1, np.uint8)


NO_SCRATCH = Scratch(no_scratch)


def signal(
    measure: Measure, output: Output[T], *, scratch: Scratch = NO_SCRATCH, items: Any = np.uint8
) -> Callable[[Callable[P, Any]], Signal[P, T]]:
    """Declare a signal. The decorated function takes its options, and returns ``tables``: what all texts share.

    Args:
        measure: a compiled function of (data, span, tables, scratch, out), which measures one text: the items of
            ``data`` from ``span[0]`` to ``span[1]``. ``out`` begins as zeros.
        output: what it writes to ``out``.
        scratch: memory that it works in, allocated by a compiled function of (most, tables). The CPU resets it once,
            before the first text; a GPU before each, as each has scratch of its own.
        items: the type of ``data``.

    Examples:
        >>> @njit
        ... def measure(data, span, byte, scratch, out):
        ...     for at in range(span[0], span[1]):
        ...         out[0] += data[at] == byte
        >>> @signal(measure, SINGLE)
        ... def bytes_equal(byte: int) -> int:
        ...     return byte
        >>> bytes_equal(np.array([0, 3, 5]), np.frombuffer(b"abaab", np.uint8), np.array([0, 1]), ord("a"))
        array([2, 1])
    """

    def declared(tables_of: Callable[P, Any]) -> Signal[P, T]:
        def measured(offsets: Offsets, data: Any, rows: Rows, tables: Any) -> Array:
            out = output.zeros(len(rows), tables)
            layout = frozen(offsets, np.int64), frozen(data, items)
            loop_over(measure, scratch)(layout, frozen(rows, np.int64), tables, out)
            return out

        def cpu(offsets: Offsets, data: Bytes, rows: Rows, /, *args: P.args, **kwargs: P.kwargs) -> T:
            tables = tables_of(*args, **kwargs)
            return output.read(measured(offsets, data, rows, tables), tables)

        def gpu(column: CudaColumn, rows: Rows, /, *args: P.args, **kwargs: P.kwargs) -> T:
            tables = tables_of(*args, **kwargs)
            out = output.zeros(len(rows), tables)
            memory = scratch._replace(new=partial(_for_most, scratch.new, tables))

            def on_cpu(long: Rows) -> Array:
                return measured(column.offsets, column.host, long, tables)

            launch(TextFunction(measure, memory, on_cpu), column, rows, tables_on_gpu(tables), out=out)
            return output.read(out, tables)

        def blank(texts: int, /, *args: P.args, **kwargs: P.kwargs) -> T:
            tables = tables_of(*args, **kwargs)
            return output.read(output.zeros(texts, tables), tables)

        made = Signal(cpu, gpu)
        made.blank, made.loop = blank, partial(loop_over, measure, scratch)
        update_wrapper(made, tables_of)
        return made

    return declared


def _for_most(new: Callable[..., Any], tables: Any, most: int) -> Any:
    return new(most, tables)


@cache
def loop_over(measure: Measure, scratch: Scratch) -> Any:
    """The loop over texts of `signal`, compiled for one function of one text.

    numba stores compiled code by the name and file of a function, and not for closures. So this is a copy of `_loop`
    with these functions as its globals, and with the name and file of ``measure``. It is not stored for a notebook.
    """
    source = getattr(measure, "py_func", measure)
    code = _loop.__code__.replace(
        co_filename=source.__code__.co_filename, co_firstlineno=source.__code__.co_firstlineno
    )
    names = {**globals(), "measure": measure, "new_scratch": scratch.new, "reset": scratch.reset}
    loop = FunctionType(code, names, f"loop_{source.__name__}_{scratch.new.__name__}")
    loop.__qualname__ = loop.__name__
    return njit(**{**OPTIONS, "cache": Path(code.co_filename).exists()})(loop)


# `loop_over` sets these globals of `_loop`.
measure: Any = None
new_scratch: Any = None
reset: Any = None


def _loop(layout: tuple[Offsets, Bytes], rows: Rows, tables: Any, out: Array) -> None:
    offsets, data = layout
    scratch = new_scratch(longest(offsets, rows), tables)
    reset(scratch)
    for place in range(rows.size):
        measure(data, (offsets[rows[place]], offsets[rows[place] + 1]), tables, scratch, out[place])
