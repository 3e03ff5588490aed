"""Samples of exact sizes by strata: groups of rows with equal values, or values in the same band."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import Spec, Stage
from dcurate.datasets.shuffle import NOT_SAMPLED, KeyedBarrier, check_count
from dcurate.datasets.stratum_names import MOST_STRATA, strata_of, too_many
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import numbers, rows_at, with_column, with_text
from dcurate.frames.rows import row_keys
from dcurate.fs.stores import Directory
from dcurate.io.files import is_names
from dcurate.io.partition import parse_bytes
from dcurate.shuffle.chunks import Ints, read_chunks, read_indexes
from dcurate.shuffle.keyed import (
    CELLS,
    DATASET,
    HIGH,
    LOW,
    KeyedFile,
    KeyedWriter,
    StreamReader,
    keyed_files,
    keys_in,
    with_keys,
)
from dcurate.shuffle.keys import range_of
from dcurate.shuffle.random_streams import Stream, shares
from dcurate.shuffle.ranges import base_names

EQUAL, PROPORTIONAL = "equal", "proportional"
_ALLOCATIONS = (EQUAL, PROPORTIONAL)
#: The column with the hash of a row's stratum, between the two halves of a run.
_STRATUM = "_dcurate_stratum"

Uints = npt.NDArray[np.uint64]


@dataclass
class SampleStrata(KeyedBarrier):
    """Keep exactly ``n`` random rows of a whole dataset, spread over strata; all if there are fewer.

    A *stratum* is the rows with the same values in the columns ``by``. Within a stratum rows are drawn without
    replacement, those that `Shuffle` of the same seed and ``id_field`` puts first. The sample depends only on the rows
    and the seed, not on files, batches or workers. The other rows are counted as dropped, and not kept.

    Args:
        n: number of rows of the sample.
        by: columns of text, whole numbers or flags, whose values make the strata; null is a value, too. There may be
            4,096 strata.
        bands: columns in bands instead of values: for each the ascending edges. A number lies in ``[edge, next
            edge)``; of a text, its length in characters counts.
        allocation: ``"equal"`` for the same number from each stratum, where a stratum with fewer rows gives all and
            the others make up for it; ``"proportional"`` for the shares of the dataset, rounded to add up to ``n``.
        stratum_field: the column for the name of the stratum.
        weight_field: the column for the number of rows of the dataset that a row of the sample represents: rows of its
            stratum by rows drawn of it.
        seed, id_field, npartitions, blocksize: settings of the order and the batches, as in `Shuffle`.
        name: name of the stage.

    Raises:
        PipelineError: no column, edges that do not ascend, or an unknown allocation.
        DataError: too many strata, or a column of other values.

    Examples:
        >>> stage = SampleStrata(2000, by=["language"], bands={"text": [200, 1000, 5000]})
        >>> stage.inputs()[1], stage.outputs()[1]
        (['language', 'text'], ['stratum', 'sampling_weight'])
    """

    n: int
    by: list[str] = field(default_factory=list)
    bands: dict[str, list[float]] = field(default_factory=dict)
    allocation: str = EQUAL
    stratum_field: str = "stratum"
    weight_field: str = "sampling_weight"
    name: str = field(default="sample_strata", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.name, "n", self.n)
        if (self.by and not is_names(self.by)) or not isinstance(self.bands, Mapping) or not (self.by or self.bands):
            raise PipelineError(
                f"{self.name}: by={self.by!r} and bands={self.bands!r} must name the columns of the strata, such as "
                "by=['language'], bands={'text': [200, 1000]}"
            )
        for column, edges in self.bands.items():
            if column in self.by:
                raise PipelineError(f"{self.name}: {column!r} is in by= and in bands=; leave it out of one")
            if not _ascend(edges):
                raise PipelineError(f"{self.name}: bands[{column!r}]={edges!r} must be ascending numbers, at least one")
        if self.allocation not in _ALLOCATIONS:
            raise PipelineError(
                f"{self.name}: unknown allocation {self.allocation!r}{nearest(str(self.allocation), _ALLOCATIONS)}"
            )

    def inputs(self) -> Spec:
        identity = [] if self.id_field is None else [self.id_field]
        return [], list(dict.fromkeys([*identity, *self.by, *self.bands]))

    def outputs(self) -> Spec:
        return [], [self.stratum_field, self.weight_field]

    def streams(self, folder: Directory, files: Sequence[KeyedFile]) -> tuple[Stream, ...]:
        return tuple(stratum.stream for stratum in self._drawn(folder, files))

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            StratumWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                id_field=self.id_field,
                seed=self.seed,
                most=self.n,
                by=tuple(self.by),
                bands={column: tuple(edges) for column, edges in self.bands.items()},
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        files = keyed_files(folder, base_names(splits))
        strata = self._drawn(folder, files)
        written, nbytes = sum(file.written for file in files), sum(file.nbytes for file in files)
        drawn, total = sum(stratum.stream.wanted for stratum in strata), sum(file.rows for file in files)
        parts = max(1, -(-drawn * nbytes // max(1, written) // parse_bytes(self.blocksize)))
        return [
            StratumReader(
                url,
                dict(options),
                tuple(file.name for file in files),
                tuple(stratum.stream for stratum in strata),
                parts if self.npartitions is None else self.npartitions,
                (NOT_SAMPLED, total - drawn),
                strata=tuple((stratum.hash, stratum.label) for stratum in strata),
                added=(self.stratum_field, self.weight_field),
                name=self.name,
            )
        ]

    def _drawn(self, folder: Directory, files: Sequence[KeyedFile]) -> list[DrawnStratum]:
        """All strata in the order of their names, each with its rows to draw."""
        counted = counted_strata(folder, [file.name for file in files])
        wanted = allocated([rows for _, _, rows in counted], self.n, self.allocation)
        cut = {hash_: number for (hash_, _, rows), number in zip(counted, wanted, strict=True) if 0 < number < rows}
        last = _last_keys(folder, files, cut)
        return [
            DrawnStratum(hash_, label, Stream(rows, number, *last.get(hash_, ())))
            for (hash_, label, rows), number in zip(counted, wanted, strict=True)
        ]


@dataclass(frozen=True)
class DrawnStratum:
    """A stratum: its hash and name, and the rows to draw of it."""

    hash: int
    label: str
    stream: Stream


def allocated(rows: Sequence[int], n: int, allocation: str) -> list[int]:
    """Return how many rows to draw of each stratum; together they are ``n``, or all rows if there are fewer.

    Args:
        rows: number of rows of each stratum.

    Examples:
        >>> allocated([100, 5, 100], 25, "equal"), allocated([100, 5, 95], 20, "proportional")
        ([10, 5, 10], [10, 1, 9])
    """
    if n >= sum(rows):
        return list(rows)
    if allocation == PROPORTIONAL:
        return shares(n, rows)
    counts, left = [0] * len(rows), n
    order = sorted(range(len(rows)), key=lambda place: (rows[place], place))
    for done, place in enumerate(order):
        level = left // (len(rows) - done)
        if rows[place] > level:
            rest = sorted(order[done:])
            for number, place_left in enumerate(rest):
                counts[place_left] = level + (number < left - level * len(rest))
            break
        counts[place] = rows[place]
        left -= rows[place]
    return counts


@dataclass
class StratumWriter(KeyedWriter):
    """Writes of each batch the rows with the smallest keys of each stratum, in the order of their keys.

    Args:
        by, bands: columns of the strata, as in `SampleStrata`.
    """

    by: tuple[str, ...] = ()
    bands: dict[str, tuple[float, ...]] = field(default_factory=dict)
    name: str = "stratum_writer"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], list(dict.fromkeys([*super().inputs()[1], *self.by, *self.bands]))

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        codes, labels = strata_of(table, self.by, self.bands)
        hashes = np.array([_hash(label) for label in labels], np.uint64)
        keys = row_keys(table, None if self.id_field is None else [self.id_field], self.seed)
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        order = order[_ranks(codes[order]) < (self.most or len(order))]
        codes_in_order, keys_in_order = codes[order], keys[order]
        marks: dict[str, npt.NDArray[Any]] = {DATASET: np.zeros(len(order), np.int16), _STRATUM: hashes[codes_in_order]}
        places = codes_in_order * CELLS + range_of(keys_in_order[:, 0], CELLS).astype(np.int64)
        occupied, counts = np.unique(places, return_counts=True)
        yield self.keyed(
            with_keys(rows_at(self.to_spill(table), order), keys_in_order, marks),
            key,
            folder,
            about=np.array([0, table.num_rows]),
            strata=np.bincount(codes, minlength=len(labels)).astype(np.int64),
            labels=np.frombuffer(orjson.dumps(labels), np.uint8),
            places=occupied,
            counts=counts.astype(np.int64),
        )


@dataclass
class StratumReader(StreamReader):
    """Reads the rows that are drawn of all strata, evenly interleaved, with the name and the weight of each stratum.

    Args:
        strata: hash and name of the stratum of each stream.
        added: the columns for the name and the weight.
    """

    strata: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    added: tuple[str, str] = ("stratum", "sampling_weight")

    def turns_of(self, file: KeyedFile, turns: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
        return _united([turn for stream in turns for turn in stream])

    def _interleaved(self, table: Any, part: int) -> Any:
        hashes = np.array([hash_ for hash_, _ in self.strata], np.uint64)
        order = np.argsort(hashes)
        places = order[np.searchsorted(hashes[order], numbers(table, _STRATUM))]
        weights = np.array([stream.scale for stream in self.streams])
        table = with_column(table.drop_columns([DATASET, _STRATUM]), DATASET, places)
        table = with_text(table, self.added[0], [self.strata[place][1] for place in places.tolist()])
        return super()._interleaved(with_column(table, self.added[1], weights[places]), part)


def counted_strata(folder: Directory, names: Sequence[str]) -> list[tuple[int, str, int]]:
    """Return hash, name and rows of each stratum over all files, in the order of the names of strata.

    Raises:
        DataError: there are too many.
    """
    rows: dict[str, int] = {}
    for index in read_indexes(folder, names):
        labels = orjson.loads(index.notes["labels"].tobytes())
        for label, count in zip(labels, index.notes["strata"].tolist(), strict=True):
            rows[label] = rows.get(label, 0) + count
        if len(rows) > MOST_STRATA:
            raise too_many(len(rows), "all columns")
    return [(_hash(label), label, rows[label]) for label in sorted(rows)]


def _last_keys(
    folder: Directory, files: Sequence[KeyedFile], wanted: Mapping[int, int]
) -> dict[int, tuple[tuple[int, int], int]]:
    """The largest key that is drawn of each stratum, and how many of its rows are drawn.

    Args:
        wanted: rows to draw of each stratum, by hash; fewer than it has.
    """
    if not wanted:
        return {}
    hashes = list(wanted)
    numbers_by_hash = {hash_: number for number, hash_ in enumerate(hashes)}
    cells = np.zeros((len(hashes), CELLS), np.int64)
    for index in read_indexes(folder, [file.name for file in files]):
        labels = orjson.loads(index.notes["labels"].tobytes())
        local = np.array([numbers_by_hash.get(_hash(label), -1) for label in labels], np.int64)
        places = index.notes["places"]
        rows = local[places // CELLS]
        cells[rows[rows >= 0], (places % CELLS)[rows >= 0]] += index.notes["counts"][rows >= 0]
    before = np.cumsum(cells, axis=1)
    counts = np.array([wanted[hash_] for hash_ in hashes])
    last = (before < counts[:, None]).sum(axis=1)
    skipped = np.where(last > 0, before[np.arange(len(hashes)), np.maximum(last - 1, 0)], 0)
    strata, keys = _keys_in(folder, files, np.array(hashes, np.uint64), last)
    ends = {}
    for number, hash_ in enumerate(hashes):
        drawn_keys = keys[strata == number]
        drawn_keys = drawn_keys[np.lexsort((drawn_keys[:, 1], drawn_keys[:, 0]))][: counts[number] - skipped[number]]
        high, low = drawn_keys[-1].tolist()
        ends[hash_] = (high, low), int((drawn_keys == drawn_keys[-1]).all(axis=1).sum())
    return ends


def _keys_in(folder: Directory, files: Sequence[KeyedFile], hashes: Uints, cells: Ints) -> tuple[Ints, Uints]:
    """The keys of the rows in one cell of each stratum, and the number of the stratum of each."""
    order = np.argsort(hashes)
    strata, keys = [np.zeros(0, np.int64)], [np.zeros((0, 2), np.uint64)]
    spans = _united([(cell / CELLS, (cell + 1) / CELLS) for cell in np.unique(cells).tolist()])
    for file in files:
        for start, stop in file.spans(spans):
            columns = [HIGH, LOW, _STRATUM]
            for table in read_chunks(folder.path(file.name), dict(folder.options), start, stop, columns):
                row_hashes = numbers(table, _STRATUM)
                places = order[np.minimum(np.searchsorted(hashes[order], row_hashes), len(hashes) - 1)]
                table_keys = keys_in(table)
                here = (hashes[places] == row_hashes) & (range_of(table_keys[:, 0], CELLS) == cells[places])
                strata.append(places[here])
                keys.append(table_keys[here])
    return np.concatenate(strata), np.concatenate(keys)


def _united(ranges: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Ranges as ranges that do not overlap, in order."""
    united: list[tuple[float, float]] = []
    for start, stop in sorted(ranges):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(stop, united[-1][1])
        else:
            united.append((start, stop))
    return united


def _ranks(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many rows before each have its code.

    Examples:
        >>> _ranks(np.array([5, 3, 5, 5, 3])).tolist()
        [0, 0, 1, 2, 1]
    """
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    return ranks


def _ascend(edges: object) -> bool:
    if not isinstance(edges, list | tuple) or not edges:
        return False
    numbers_only = all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in edges)
    return numbers_only and all(map(math.isfinite, edges)) and all(low < high for low, high in pairwise(edges))


def _hash(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "little")
