"""NumPy under the signatures of CuPy, and with nothing else; its arrays do not meet those of the host.

An array of CuPy refuses to be one of NumPy, and to be reckoned with one: what is not brought to the GPU, or back by
``get``, is an error. So it is here; what comes out is NumPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.frames.stand_in import like


def _plain(value: Any) -> Any:
    if isinstance(value, OnGpu):
        return value.array
    if isinstance(value, bool | int | float):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _by(reckon: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: OnGpu(reckon(self.array, _plain(other)))


class OnGpu:
    """An array on a GPU."""

    __array_ufunc__ = None

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    __matmul__, __mul__, __add__, __truediv__, __gt__ = map(
        _by, (operator.matmul, operator.mul, operator.add, operator.truediv, operator.gt)
    )

    def __imul__(self, other: Any) -> OnGpu:  # type: ignore[misc]
        self.array *= _plain(other)
        return self

    def __isub__(self, other: Any) -> OnGpu:
        self.array -= _plain(other)
        return self

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, at: Any) -> OnGpu:
        return OnGpu(self.array[at])

    def __setitem__(self, at: slice, value: Any) -> None:
        self.array[at] = _plain(value)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def astype(self, kind: Any) -> OnGpu:
        return OnGpu(self.array.astype(kind))

    def view(self, kind: Any) -> OnGpu:
        return OnGpu(self.array.view(kind))

    @property
    def T(self) -> OnGpu:
        return OnGpu(self.array.T)

    def argmax(self, axis: int) -> OnGpu:
        return OnGpu(self.array.argmax(axis))

    def sum(self, axis: int) -> OnGpu:
        return OnGpu(self.array.sum(axis))

    def get(self) -> Any:
        return self.array.copy()


def _added(array: OnGpu, places: OnGpu, values: OnGpu) -> None:
    """Add as CuPy does, which has no other types; and in an order of its own, as a GPU does."""
    assert array.dtype == values.dtype
    assert str(array.dtype) in ("int32", "uint32", "uint64", "float16", "float32", "float64")
    order = np.random.default_rng().permutation(len(places))
    np.add.at(array.array, _plain(places)[order], _plain(values)[order])


CUPY: Any = SimpleNamespace(
    add=SimpleNamespace(at=_added),
    asarray=like("cupy.asarray")(lambda array: array if isinstance(array, OnGpu) else OnGpu(np.array(array))),
    maximum=lambda one, other: OnGpu(np.maximum(_plain(one), _plain(other))),
    ones=like("cupy.ones")(lambda *given: OnGpu(np.ones(*given))),
    zeros=like("cupy.zeros")(lambda *given: OnGpu(np.zeros(*given))),
    take_along_axis=like("cupy.take_along_axis")(
        lambda array, places, axis: OnGpu(np.take_along_axis(_plain(array), _plain(places), axis))
    ),
    tri=like("cupy.tri")(lambda *given, **named: OnGpu(np.tri(*given, **named))),
    where=like("cupy.where")(lambda condition, x, y: OnGpu(np.where(_plain(condition), _plain(x), _plain(y)))),
)
