"""The order of a dataset, and samples of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dcurate.core.kernels import Kernels
from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.rows import row_keys
from dcurate.fs.stores import Directory
from dcurate.io.partition import parse_bytes
from dcurate.kernels.json_canonical import KERNELS
from dcurate.shuffle.keyed import KeyedFile, KeyedWriter, StreamReader, keyed_files, stream_of
from dcurate.shuffle.random_streams import Stream
from dcurate.shuffle.ranges import base_names

NOT_SAMPLED = "not_sampled"
_WHOLE = 2.0**64


@dataclass(kw_only=True)
class KeyedBarrier(BarrierStage[DocumentBatch]):
    """A barrier after which rows come in the order of their keys; see its subclasses."""

    seed: int = 0
    id_field: str | None = None
    npartitions: int | None = None
    blocksize: int | str = "128MiB"
    name: str = "keyed_barrier"

    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_seed(self.name, self.seed)
        check_count(self.name, "npartitions", self.npartitions)
        parse_bytes(self.blocksize, f"{self.name}: blocksize")

    def inputs(self) -> Spec:
        return [], [] if self.id_field is None else [self.id_field]

    @abstractmethod
    def streams(self, folder: Directory, files: Sequence[KeyedFile]) -> tuple[Stream, ...]:
        """Return how many rows of each dataset are read, and which."""

    @property
    def most(self) -> int | None:
        """Rows of each batch that can be read at most; None for all."""
        return None

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            KeyedWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                id_field=self.id_field,
                seed=self.seed,
                most=self.most,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        names = base_names(splits)
        files = keyed_files(folder, names)
        streams = self.streams(folder, files)
        return [
            StreamReader(
                url,
                dict(options),
                names,
                streams,
                self._parts(files, streams),
                (NOT_SAMPLED, sum(max(0, stream.rows - stream.wanted) for stream in streams)),
                name=self.name,
            )
        ]

    def _parts(self, files: Sequence[KeyedFile], streams: Sequence[Stream]) -> int:
        if self.npartitions is not None:
            return self.npartitions
        written = [0] * len(streams)
        nbytes = [0] * len(streams)
        for file in files:
            written[file.dataset] += file.written
            nbytes[file.dataset] += file.nbytes
        coming = sum(
            stream.wanted * size // max(1, rows) for stream, size, rows in zip(streams, nbytes, written, strict=True)
        )
        return max(1, -(-coming // parse_bytes(self.blocksize)))


@dataclass
class Shuffle(KeyedBarrier):
    """Shuffle the rows of a whole dataset, out of core.

    The order depends only on the seed and the rows, not on files, batch sizes, the number of workers or the order of
    completion. Batches have that order, and so do output files by name.

    Args:
        seed: other seeds give other orders.
        id_field: the column that identifies rows, such as that of `AddId`; rows with equal ids stay together, in
            one batch, in the order of the source. If None, all columns identify a row, and equal rows stay together.
        npartitions: number of batches afterwards; by default one for each ``blocksize``.
        blocksize: target bytes of a batch in memory, as a number or text.
        name: name of the stage.

    All rows are spilled to disk beside the output first; then each batch is assembled.

    Examples:
        >>> Shuffle(seed=7, id_field="id").inputs()
        ([], ['id'])
    """

    name: str = field(default="shuffle", kw_only=True)

    def streams(self, folder: Directory, files: Sequence[KeyedFile]) -> tuple[Stream, ...]:
        rows = sum(file.rows for file in files)
        return (Stream(rows, rows),)


@dataclass
class SampleRows(KeyedBarrier):
    """Keep exactly ``n`` random rows of a whole dataset, drawn without replacement; all if there are fewer.

    They are the first ``n`` rows that `Shuffle` of the same seed and ``id_field`` gives, in that order. The others are
    counted as dropped, and not kept.

    Args:
        n: how many.
        seed, id_field, npartitions, blocksize: settings of the order and the batches, as in `Shuffle`.
        name: name of the stage.

    Examples:
        >>> SampleRows(1000, seed=3).name
        'sample_rows'
    """

    n: int
    name: str = field(default="sample_rows", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.name, "n", self.n)

    @property
    def most(self) -> int | None:
        return self.n

    def streams(self, folder: Directory, files: Sequence[KeyedFile]) -> tuple[Stream, ...]:
        return (stream_of(folder, files, min(self.n, sum(file.rows for file in files))),)


@dataclass
class SampleFraction(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep a random share of the rows; each row is drawn independently.

    The choice depends only on the seed and the rows, as with `Shuffle`, so it is the same for any number of files and
    workers, and a smaller share is a subset of a larger one. It needs no barrier. For an exact number use `SampleRows`.

    Args:
        fraction: share of the rows to keep, from 0 to 1.
        seed: other seeds give other rows.
        id_field: the column that identifies rows; rows of equal ids stay or go together. All columns if None.
        name: name of the stage.

    Raises:
        PipelineError: a fraction out of range.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"id": range(1000)}))
        >>> SampleFraction(0.1, seed=1).process(batch).num_items
        112
    """

    fraction: float
    seed: int = 0
    id_field: str | None = None
    name: str = "sample_fraction"

    def __post_init__(self) -> None:
        fraction: Any = self.fraction  # also of NumPy, or of the module fractions
        if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 <= float(fraction) <= 1:
            raise PipelineError(f"{self.name}: fraction={self.fraction!r} must lie between 0 and 1")
        check_seed(self.name, self.seed)

    def inputs(self) -> Spec:
        return [], [] if self.id_field is None else [self.id_field]

    def kernels(self) -> Sequence[Kernels]:
        return [KERNELS] if self.id_field is None else []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        fields = None if self.id_field is None else [self.id_field]
        shares = row_keys(task.to_arrow(), fields, self.seed)[:, 0] / _WHOLE
        return task.keep(np.asarray(shares < self.fraction) | (self.fraction == 1), self.name, NOT_SAMPLED)


def check_seed(stage: str, seed: object) -> None:
    """Refuse a value that is no seed.

    Raises:
        PipelineError: not a whole number of up to 63 bits.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise PipelineError(f"{stage}: seed={seed!r} must be a whole number of at most 63 bits")


def check_count(stage: str, what: str, number: object) -> None:
    """Refuse a value that is no count; None is allowed.

    Raises:
        PipelineError: not a whole number of at least 1.
    """
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise PipelineError(f"{stage}: {what}={number!r} must be a whole number of at least 1")
