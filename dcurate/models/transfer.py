"""Copy batches to a device, one ahead of the computation; and copy results back, with one synchronization.

Untested on a GPU. With tensors of a CPU the same code copies nothing and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.errors import PipelineError
from dcurate.models.packing import Ints, Side, TokenRows


@dataclass(frozen=True)
class DeviceBatch:
    """A batch of padded rows on a device; slicing gives fewer rows, with less padding if possible.

    Args:
        ids: int32, of shape (rows, widest).
        counts: tokens of each row, on the device.
        lengths: the same, on the host.
        widths: columns that each row takes, on the host.
        side: where the padding is.
        sent: the event after which it is there; None where it is there already.
    """

    ids: Any
    counts: Any
    lengths: Ints
    widths: Ints
    side: Side = "right"
    sent: Any = None

    def __len__(self) -> int:
        return len(self.widths)

    def __getitem__(self, rows: slice) -> DeviceBatch:
        widths = self.widths[rows]
        widest = int(widths.max())
        ids = self.ids[rows, :widest] if self.side == "right" else self.ids[rows, self.ids.shape[1] - widest :]
        return DeviceBatch(ids, self.counts[rows], self.lengths[rows], widths, self.side)

    @property
    def is_full(self) -> bool:
        """Whether no row has padding; known without asking the device, which the work would wait for."""
        return bool((self.lengths == self.ids.shape[1]).all())

    def inputs(self, positions: bool = False) -> dict[str, Any]:
        """Inputs of transformers models: ``input_ids`` and ``attention_mask``, int64.

        Args:
            positions: whether ``position_ids`` are to be among them, counted from the first token of a row.
        """
        torch = needed("torch", "a model", "models")
        columns = torch.arange(self.ids.shape[1], device=self.ids.device)
        first = 0 if self.side == "right" else (self.ids.shape[1] - self.counts)[:, None]
        places = columns[None, :] - first
        mask = (places >= 0) & (places < self.counts[:, None])
        made = {"input_ids": self.ids.long(), "attention_mask": mask.long()}
        return {**made, "position_ids": places.clamp(min=0).expand_as(self.ids)} if positions else made


class HostToDevice:
    """Copy batches of rows to a device, one ahead of the one in use.

    On a GPU a batch is copied from pinned memory on a stream of its own, which the work waits for when it gets there.
    In turn that stream waits for the work on a batch before the memory of the batch is freed: an allocator such as
    RMM's gives it to the next copy at once, while the GPU has yet to read it. The next batch is there by then, so that
    copies still run beside the work. A slot keeps its sender, and with it the stream: Torch keeps memory that was freed
    for the stream that had it.

    Args:
        filler: the token that padding is made of.
    """

    def __init__(self, device: Any, filler: int, side: Side) -> None:
        self.torch = needed("torch", "a model", "models")
        self.device, self.filler, self.side = device, filler, side
        self._stream = self.torch.cuda.Stream(device) if device.type == "cuda" else None

    def each(self, rows: TokenRows, batches: Iterable[Ints]) -> Iterator[DeviceBatch]:
        """The batches in order, on the device."""
        ahead: DeviceBatch | None = None
        for batch in batches:
            current, ahead = ahead, self._sent(rows, batch)
            if current is not None:
                yield from self._lent(current)
        if ahead is not None:
            yield from self._lent(ahead)

    def _lent(self, batch: DeviceBatch) -> Iterator[DeviceBatch]:
        """Yield a batch once it is there; nothing takes its memory until the work asked for meanwhile is done."""
        if self._stream is None:
            yield batch
            return
        work = self.torch.cuda.current_stream(self.device)
        work.wait_event(batch.sent)
        try:
            yield batch
        finally:
            self._stream.wait_event(work.record_event())

    def _sent(self, rows: TokenRows, batch: Ints) -> DeviceBatch:
        lengths, widths = np.maximum(rows.lengths[batch], 1), rows.widths[batch]
        ids = self.torch.from_numpy(rows.padded(batch, self.filler, self.side))
        counts = self.torch.from_numpy(lengths.astype(np.int32))
        if self._stream is None:
            return DeviceBatch(ids.to(self.device), counts.to(self.device), lengths, widths, self.side)
        with self.torch.cuda.stream(self._stream):
            ids = ids.pin_memory().to(self.device, non_blocking=True)
            counts = counts.pin_memory().to(self.device, non_blocking=True)
            return DeviceBatch(ids, counts, lengths, widths, self.side, self._stream.record_event())


class ResultBuffer:
    """Results of batches, copied back from a device and put into row order at the end."""

    def __init__(self, stage: str, device: Any) -> None:
        self.torch = needed("torch", "a model", "models")
        self.stage, self.device = stage, device
        self._parts: dict[str, list[Any]] = {}

    def add(self, results: Mapping[str, Any], rows: int) -> None:
        """Add the results of a number of rows, without waiting for the GPU.

        Raises:
            PipelineError: a result is not one for each row, or its name is new after the first batch.
        """
        if self._parts and set(results) != set(self._parts):
            raise PipelineError(
                f"stage {self.stage!r}: process_model_output() gave {sorted(results)} after {sorted(self._parts)}; "
                "give the same names for every batch"
            )
        for name, values in results.items():
            shape = tuple(values.shape)
            if not shape or shape[0] != rows:
                raise PipelineError(
                    f"stage {self.stage!r}: process_model_output() gave {name!r} of shape {shape} for {rows} rows; "
                    "its first axis must be the rows of the batch"
                )
            self._parts.setdefault(name, []).append(self._sent(values))

    def _sent(self, values: Any) -> Any:
        if not isinstance(values, self.torch.Tensor):
            return np.asarray(values)
        values = values.detach()
        if values.dtype in (self.torch.bfloat16, self.torch.float16):
            values = values.float()  # NumPy has no bfloat16, Arrow and pandas little use for float16
        if values.device.type != "cuda":
            return values.cpu().clone()  # it may be a view that keeps much more alive
        host = self.torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        return host.copy_(values, non_blocking=True)

    def ordered(self, batches: list[Ints], rows: int) -> dict[str, npt.NDArray[Any]]:
        """Wait for all results: under each name an array with the result of row ``i`` at index ``i``."""
        if self.device.type == "cuda":
            # Not for what other slots of the process have asked for since, and without keeping a CPU busy.
            done = self.torch.cuda.Event(blocking=True)
            done.record(self.torch.cuda.current_stream(self.device))
            done.synchronize()
        order = np.concatenate(batches) if batches else np.zeros(0, np.int64)
        collected = {}
        for name, parts in self._parts.items():
            joined = np.concatenate([part if isinstance(part, np.ndarray) else part.numpy() for part in parts])
            placed = np.empty_like(joined)
            placed[order] = joined
            collected[name] = placed[:rows]
        return collected
