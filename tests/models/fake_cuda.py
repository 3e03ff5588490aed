"""Models on a GPU that is not there: tensors with a device, a shape and a dtype, and no numbers.

An operation on tensors of several devices is an error, as on a GPU; so is a number that the host asks a tensor for, for
which it would wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from dcurate.models import ModelStage
from dcurate.models.transfer import DeviceBatch

CUDA = torch.device("cuda", 0)


def _picked(tensor: Any, places: Any) -> Any:
    """``tensor[places]`` without the guard of a device that a Torch without CUDA does not have."""
    ops, axis = torch.ops.aten, 0
    given = list(places) if isinstance(places, tuple) else [places]
    if Ellipsis in [one for one in given if not isinstance(one, torch.Tensor)]:
        cut = given.index(Ellipsis)
        given[cut : cut + 1] = [slice(None)] * (tensor.dim() - sum(one is not None for one in given) + 1)
    arrays: list[Any] = []
    for one in given:
        if one is None:
            tensor = ops.unsqueeze.default(tensor, axis)
        elif isinstance(one, int):
            tensor = ops.select.int(tensor, axis, one)
            continue
        elif isinstance(one, slice):
            tensor = ops.slice.Tensor(tensor, axis, one.start, one.stop, one.step or 1)
        else:
            arrays += [None] * (axis - len(arrays)) + [torch.as_tensor(one)]
        axis += 1
    return ops.index.Tensor(tensor, arrays) if arrays else tensor


class _Indexing(TorchFunctionMode):
    """Indexing without that guard; and the answers, in order, to what the host asks tensors for."""

    def __init__(self, answers: Sequence[Any] = ()) -> None:
        super().__init__()
        self.answers = list(answers)

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if self.answers and getattr(function, "__name__", "") in ("__bool__", "__int__", "item"):
            return self.answers.pop(0)
        if function is torch.Tensor.__getitem__:
            return _picked(*args)
        if function is torch.Tensor.contiguous:
            return torch.ops.aten.clone.default(args[0], memory_format=torch.contiguous_format)
        if function is torch.Tensor.__invert__:
            return torch.ops.aten.bitwise_not.default(*args)
        if function is torch.Tensor.__setitem__:
            part, value = _picked(*args[:2]), args[2]
            return torch.ops.aten.copy_.default(part, value) if isinstance(value, torch.Tensor) else part.fill_(value)
        if function is torch.Tensor.__deepcopy__:
            return torch.ops.aten.clone.default(args[0])
        return function(*args, **(kwargs or {}))


_packed = vars(torch.nn.functional)["_in_projection_packed"]


def _projected(*args: Any) -> Any:
    """The part of `torch.nn.MultiheadAttention` that has to be watched: its own call hides it from `_Indexing`."""
    with _Indexing():
        return _packed(*args)


_WATCHED = patch.object(torch.nn.functional, "_in_projection_packed", _projected)


def moved(model: Any) -> None:
    """Put a model on the GPU: it is what ``model.to(device)`` does with tensors that have numbers."""
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    there = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=CUDA)
                    tensors[name] = (
                        torch.nn.Parameter(there, requires_grad=False) if tensors is module._parameters else there
                    )


@contextmanager
def fake_cuda(half: Any = None, answers: Sequence[Any] = ()) -> Iterator[None]:
    """Context in which tensors have no numbers and may be on `CUDA`; without gradients, under autocast if asked for.

    Args:
        half: the dtype of autocast; None for none.
        answers: what the host gets when it asks a tensor for a number, in order; to ask for more is an error.
    """
    dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
    with FakeTensorMode(), _Indexing(answers), torch.no_grad(), _WATCHED:
        if half is not None:
            torch.set_autocast_dtype("cuda", half)
            torch.set_autocast_enabled("cuda", True)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", enabled)
            torch.set_autocast_dtype("cuda", dtype)
            torch.clear_autocast_cache()


def forward(
    stage: ModelStage, lengths: Sequence[int], widest: int, half: Any = None, answers: Sequence[Any] = ()
) -> dict[str, Any]:
    """The results of a stage for a batch of rows on a GPU.

    Args:
        stage: a stage that was set up on the CPU; its model is on the GPU afterwards, and of no use.
        half: the dtype of autocast; None for none.
        answers: see `fake_cuda`.
    """
    with fake_cuda(half, answers):
        moved(stage._ready().model)
        ids = torch.empty((len(lengths), widest), dtype=torch.int32, device=CUDA)
        counts = torch.empty(len(lengths), dtype=torch.int32, device=CUDA)
        widths = np.full(len(lengths), widest)
        results, rows = stage._forward(DeviceBatch(ids, counts, np.array(lengths), widths, stage.padding_side))
        assert rows == len(lengths)
        return {name: (str(value.device), tuple(value.shape), value.dtype) for name, value in results.items()}
