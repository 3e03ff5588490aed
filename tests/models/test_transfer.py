"""Batches on their way to a GPU that works late: nothing may take the memory of what it has yet to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from dcurate.frames.tokens import Tokens
from dcurate.models import transfer
from dcurate.models.packing import Ints, TokenRows
from dcurate.models.transfer import DeviceBatch, HostToDevice
from tests.models.late_gpu import LateGpu

LENGTHS = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
ROWS = TokenRows.cut(Tokens(np.concatenate([[0], LENGTHS.cumsum()]), np.arange(LENGTHS.sum(), dtype=np.int32)))
BATCHES: list[Ints] = [np.array(rows) for rows in ([5, 7], [11, 4, 8], [10, 2], [0, 9], [6], [1, 3])]
CUDA = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> LateGpu:
    late = LateGpu()
    monkeypatch.setattr(transfer, "needed", lambda *_: late)
    return late


def read(batches: Iterator[DeviceBatch]) -> list[Any]:
    return [batch.ids.long() for batch in batches]


def wanted() -> list[Any]:
    return [ROWS.padded(batch, 0).tolist() for batch in BATCHES]


def test_a_gpu_that_is_late_reads_the_tokens_that_were_sent(gpu: LateGpu) -> None:
    found = read(HostToDevice(CUDA, 0, "right").each(ROWS, BATCHES))
    gpu.finished()
    assert [copy[0].tolist() for copy in found] == wanted()
    assert gpu.reused, "memory is given away again"


def test_slots_of_one_gpu_do_not_take_memory_from_each_other(gpu: LateGpu) -> None:
    slots = [HostToDevice(CUDA, 0, "right").each(ROWS, BATCHES) for _ in range(3)]
    found: list[list[Any]] = [[] for _ in slots]
    for _ in BATCHES:
        for slot, own in zip(slots, found, strict=True):
            own.append(next(slot).ids.long())
    del slot
    assert [next(one, None) for one in slots] == [None] * 3
    gpu.finished()
    assert [[copy[0].tolist() for copy in own] for own in found] == [wanted()] * 3
    assert gpu.reused


def test_a_batch_whose_work_failed_half_way_keeps_its_memory_until_that_work_is_done(gpu: LateGpu) -> None:
    sender = HostToDevice(CUDA, 0, "right")
    given: Any = sender.each(ROWS, BATCHES)
    begun = next(given).ids.long()
    given.close()
    found = read(sender.each(ROWS, BATCHES))
    gpu.finished()
    assert begun[0].tolist() == wanted()[0]
    assert [copy[0].tolist() for copy in found] == wanted()


def test_copies_run_beside_the_work_on_the_batch_before() -> None:
    """When the work on a batch is asked for, the copy of the next one waits for nothing that is asked for later."""
    late = LateGpu()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "needed", lambda *_: late)
        given = HostToDevice(CUDA, 0, "right").each(ROWS, BATCHES)
        for _ in BATCHES[:-1]:
            next(given)
            late.finished()  # the work on all batches before: the copy of the next must be done, too
            assert not late.copies[0].queue


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_knows_on_the_host_whether_a_row_has_padding(side: Any) -> None:
    sender = HostToDevice(torch.device("cpu"), 0, side)
    full = [batch.is_full for batch in sender.each(ROWS, [np.array([4, 8]), np.array([4, 2]), np.array([1, 3])])]
    assert full == [True, False, True]
    (wide,) = sender.each(ROWS.widened(8), [np.array([11, 11, 2])])
    assert (wide.is_full, wide[:2].is_full, wide[2:].is_full) == (False, True, False)
