"""Benchmarks that training data must not hold, and the n-grams of words to know them by."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FileGroup
from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError, PipelineError, shown
from dcurate.frames.columns import values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, text_column
from dcurate.fs.compression import ending_of, unpack
from dcurate.fs.stores import Directory
from dcurate.io.document_reader import DocumentReader
from dcurate.kernels.normal_words import Normal, normalised
from dcurate.kernels.overlap import Matches, SoughtNgrams, gram_hashes, gram_table, overlaps

#: How many words an n-gram has: a number, or the length below which 5 % of a benchmark's examples are, from 8 to 13.
NgramSize: TypeAlias = int | Literal["auto"]

#: Ids of some examples, if they have any, and their texts.
_Examples: TypeAlias = tuple[list[str], list[TextColumn]]

_SHORTEST, _LONGEST, _PERCENTILE = 8, 13, 5
_NONE = np.zeros(0, np.int64)
_SCALARS = ("anchor", "stride")
_MARK = b"dcurate n-grams 1\n"


@dataclass(frozen=True)
class Benchmark(HidesSecrets):
    """Files that hold the examples of a benchmark: one example a row, or a line.

    Args:
        path: a JSONL, Parquet or text file, the first and the last plain or compressed; or a folder of JSONL or
            Parquet files; wherever fsspec can read.
        text_field: the column to look for, or several; of a text file each line is an example.
        name: what it is called in reports; by default the file's name without endings.
        id_field: a column that identifies examples; by default they are numbered from 0.

    Raises:
        PipelineError: an invalid path or field.

    Examples:
        >>> Benchmark("s3://bucket/gsm8k/test.jsonl.gz", "question").title
        'test'
    """

    path: str
    text_field: str | tuple[str, ...] = "text"
    name: str | None = None
    id_field: str | None = None

    def __post_init__(self) -> None:
        if not self.path or not isinstance(self.path, str):
            raise PipelineError(f"path={self.path!r} is not a path of a benchmark")
        if not self.fields or not all(isinstance(field, str) and field for field in self.fields):
            raise PipelineError(f"benchmark {self.path}: text_field={self.text_field!r} must name at least one column")

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns to look for."""
        return (self.text_field,) if isinstance(self.text_field, str) else tuple(self.text_field)

    @property
    def title(self) -> str:
        """The name of the benchmark."""
        return self.name or PurePosixPath(self.path.rstrip("/")).name.partition(".")[0]

    def examples(self, options: dict[str, Any] | None = None) -> Iterator[_Examples]:
        """Ids and texts of the examples, file by file; a text column for each field.

        Raises:
            DataError: nothing is there, or a column is not.
        """
        plain = self.path.lower().removesuffix(ending_of(self.path))
        if plain.endswith(".txt"):
            yield [], [_column(self._lines(options))]
            return
        for batch in self._batches(options):
            table = batch.to_arrow()
            ids = [] if self.id_field is None else [str(value) for value in values(table, self.id_field)]
            yield ids, [text_column(table, field) for field in self.fields]

    def _batches(self, options: dict[str, Any] | None) -> Iterator[DocumentBatch]:
        wanted = list(dict.fromkeys([*self.fields, *([self.id_field] if self.id_field else [])]))
        reader = DocumentReader(self.path, fields=wanted, storage_options=options)
        for group in reader.splits():
            assert isinstance(group, FileGroup)
            batch = reader.process(group)
            if batch is not None:
                yield batch

    def _lines(self, options: dict[str, Any] | None) -> list[str]:
        folder, _, name = self.path.rpartition("/")
        data = Directory(folder or ".", options or {}).read(name)
        if data is None:
            raise DataError(f"{self.path}: no such file; name the file that holds the benchmark")
        try:
            text = unpack(data, ending_of(self.path), self.path).decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path} is not UTF-8 at byte {error.start}; convert it first") from error
        return [line for line in text.splitlines() if line.strip()]


@dataclass(frozen=True, eq=False)
class NgramIndex:
    """The n-grams of benchmarks, and the examples that they are of.

    Make one with `build` or `of_texts`.

    Attributes:
        grams: the n-grams, by hash.
        bounds: n-gram ``i`` is of the examples in ``holders`` from ``bounds[i]`` to ``bounds[i + 1]``.
        holders: numbers of examples.
        owners: for each example the number of its benchmark.
        ids: for each example its id.
        benchmarks: names of the benchmarks.
        short: for each benchmark, how many examples have too few words to be known by.

    Examples:
        >>> index = NgramIndex.of_texts({"tale": ["Once upon a time there was a king."]}, ngram_size=8)
        >>> len(index), index.text_of(0), index.found_in(0)
        (1, 'once upon a time there was a king', [('tale', '0')])
    """

    grams: SoughtNgrams
    bounds: npt.NDArray[np.int64]
    holders: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]
    ids: tuple[str, ...]
    benchmarks: tuple[str, ...]
    short: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.grams.hashes)

    @classmethod
    def build(
        cls,
        benchmarks: Sequence[Benchmark],
        ngram_size: NgramSize = 13,
        min_ngram_size: int = 8,
        storage_options: dict[str, Any] | None = None,
    ) -> Self:
        """Read the benchmarks, and take all their n-grams.

        Args:
            ngram_size: how many words an n-gram has; see `NgramSize`.
            min_ngram_size: an example with fewer words than that is left out; one with fewer than ``ngram_size`` is an
                n-gram as a whole.
            storage_options: storage options of fsspec.

        Raises:
            PipelineError: no benchmark, two of one name, or sizes that do not fit.
            DataError: a file or column is not there.
        """
        check_sizes(ngram_size, min_ngram_size)
        names = [benchmark.title for benchmark in benchmarks]
        if not names or len(set(names)) < len(names):
            raise PipelineError(f"benchmarks {names} must be at least one, each with a name of its own; give name=...")
        parts = [list(benchmark.examples(storage_options)) for benchmark in benchmarks]
        return cls._of(names, parts, ngram_size, min_ngram_size)

    @classmethod
    def of_texts(cls, benchmarks: dict[str, list[str]], ngram_size: NgramSize = 13, min_ngram_size: int = 8) -> Self:
        """Build the index from texts in memory, by name of benchmark."""
        check_sizes(ngram_size, min_ngram_size)
        parts: list[list[_Examples]] = [[([], [_column(texts)])] for texts in benchmarks.values()]
        return cls._of(list(benchmarks), parts, ngram_size, min_ngram_size)

    @classmethod
    def _of(cls, names: list[str], parts: list[list[_Examples]], size: NgramSize, smallest: int) -> Self:
        ids: list[str] = []
        texts: list[TextColumn] = []
        examples, limits, owners, short = [_NONE], [_NONE], [_NONE], []
        for number, files in enumerate(parts):
            begin, mine, lengths = len(ids), [_NONE], [_NONE]
            for example_ids, columns in files:
                first, rows = len(ids), len(columns[0])
                ids.extend(example_ids or [str(first - begin + row) for row in range(rows)])
                texts.extend(columns)
                mine.extend(np.arange(first, first + rows) for _ in columns)
                lengths.extend(np.diff(normalised(*column, np.arange(rows)).bounds) for column in columns)
            held, words = np.concatenate(mine), np.concatenate(lengths)
            limit = _auto(words) if size == "auto" else size
            examples.append(held)
            limits.append(np.full(len(words), limit))
            owners.append(np.full(len(ids) - begin, number))
            short.append(len(ids) - begin - len(np.unique(held[words >= min(smallest, limit)])))
        column = _stacked(texts)
        every = normalised(*column, np.arange(len(column)))
        grams, bounds, holders = _grams(every, np.concatenate(examples), np.concatenate(limits), smallest)
        return cls(grams, bounds, holders, np.concatenate(owners), tuple(ids), tuple(names), tuple(short))

    def find(self, column: TextColumn) -> Matches:
        """Find the n-grams of the benchmarks in the texts of a column."""
        return overlaps(*column, np.arange(len(column)), self.grams)

    def text_of(self, gram: int) -> str:
        """The words of an n-gram."""
        return "".join(map(chr, self.grams.points[self.grams.starts[gram] : self.grams.stops[gram]]))

    def found_in(self, gram: int) -> list[tuple[str, str]]:
        """The examples that hold an n-gram: names of their benchmarks, and their ids."""
        held = self.holders[self.bounds[gram] : self.bounds[gram + 1]]
        return [(self.benchmarks[self.owners[example]], self.ids[example]) for example in held]

    def save(self, path: str, storage_options: dict[str, Any] | None = None) -> None:
        """Write the index to a file, from which workers can load it."""
        arrays = {f"grams_{name}": np.asarray(value) for name, value in self.grams._asdict().items()}
        arrays |= {name: getattr(self, name) for name in ("bounds", "holders", "owners")}
        names = json.dumps({name: getattr(self, name) for name in ("ids", "benchmarks", "short")}).encode()
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, names=np.frombuffer(names, np.uint8), **arrays)
        folder, _, name = path.rpartition("/")
        Directory(folder or ".", storage_options or {}).write(name, _MARK + buffer.getvalue())

    @classmethod
    def load(cls, path: str, storage_options: dict[str, Any] | None = None) -> Self:
        """Read an index that `save` wrote.

        Raises:
            DataError: the file does not exist, or is not an index.
        """
        folder, _, name = path.rpartition("/")
        data = Directory(folder or ".", storage_options or {}).read(name)
        if data is None or not data.startswith(_MARK):
            problem = "is not there" if data is None else "is not an index of n-grams"
            raise DataError(f"{path} {problem}; make one with NgramIndex.build(...).save({path!r})")
        with np.load(io.BytesIO(data[len(_MARK) :]), allow_pickle=False) as arrays:
            fields = {name: arrays[f"grams_{name}"] for name in SoughtNgrams._fields}
            grams = SoughtNgrams(**{**fields, **{name: int(fields[name]) for name in _SCALARS}})
            names = json.loads(arrays["names"].tobytes())
            index_arrays = [arrays[name] for name in ("bounds", "holders", "owners")]
        return cls(grams, *index_arrays, *(tuple(names[name]) for name in ("ids", "benchmarks", "short")))


#: Benchmarks, or the path of an index that `NgramIndex.save` wrote.
Tasks: TypeAlias = Benchmark | Sequence[Benchmark] | str


@dataclass(frozen=True)
class IndexSource(HidesSecrets):
    """The source of the n-grams of benchmarks."""

    tasks: Tasks
    ngram_size: NgramSize
    min_ngram_size: int
    storage_options: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        check_sizes(self.ngram_size, self.min_ngram_size)
        if isinstance(self.tasks, str | Benchmark):
            return
        several = isinstance(self.tasks, Sequence) and self.tasks
        if not several or not all(isinstance(task, Benchmark) for task in self.tasks):
            raise PipelineError(
                f"{shown(self.tasks)} is not a benchmark; give Benchmark('path', 'field'), several, or the path of an "
                "index"
            )

    def load(self) -> NgramIndex:
        """The index: read, or made of the benchmarks' files."""
        options = dict(self.storage_options or {})
        if isinstance(self.tasks, str):
            return NgramIndex.load(self.tasks, options)
        benchmarks = [self.tasks] if isinstance(self.tasks, Benchmark) else list(self.tasks)
        return NgramIndex.build(benchmarks, self.ngram_size, self.min_ngram_size, options)


def check_sizes(ngram_size: NgramSize, min_ngram_size: int) -> None:
    """Refuse sizes of n-grams that make no sense.

    Raises:
        PipelineError: they do not.
    """
    if ngram_size != "auto" and (not isinstance(ngram_size, int) or ngram_size < 1):
        raise PipelineError(f"ngram_size={ngram_size!r} must be a number of words, or 'auto'")
    if min_ngram_size < 1:
        raise PipelineError(f"min_ngram_size={min_ngram_size} must be at least 1")


def _auto(lengths: npt.NDArray[np.int64]) -> int:
    return int(np.clip(np.percentile(lengths, _PERCENTILE), _SHORTEST, _LONGEST)) if len(lengths) else _LONGEST


def _column(texts: list[str]) -> TextColumn:
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    return TextColumn(np.cumsum([0, *map(len, encoded)]), np.frombuffer(b"".join(encoded), np.uint8))


def _stacked(columns: list[TextColumn]) -> TextColumn:
    """The texts of several columns in one."""
    sizes = [np.diff(column.offsets) for column in columns]
    data = [column.data[column.offsets[0] : column.offsets[-1]] for column in columns]
    if not columns:
        return TextColumn(np.zeros(1, np.int64), np.zeros(0, np.uint8))
    return TextColumn(np.concatenate([[0], np.cumsum(np.concatenate(sizes))]), np.concatenate(data))


def _grams(
    words: Normal, examples: npt.NDArray[np.int64], limits: npt.NDArray[np.int64], smallest: int
) -> tuple[SoughtNgrams, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All n-grams of the texts, each once, and the examples that hold each, as bounds and numbers."""
    lengths = np.diff(words.bounds)
    sizes = np.where(lengths >= limits, limits, np.where(lengths >= smallest, lengths, 0))
    counts = np.where(sizes > 0, lengths - sizes + 1, 0)
    text = np.repeat(np.arange(len(counts)), counts)
    firsts = words.bounds[:-1][text] + np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    hashes = gram_hashes(words, firsts, sizes[text])
    unique, where, which = np.unique(hashes, return_index=True, return_inverse=True)
    held = np.unique(np.stack([which, examples[text]]), axis=1) if len(text) else np.zeros((2, 0), np.int64)
    bounds = np.searchsorted(held[0], np.arange(len(unique) + 1))
    return gram_table(words, unique, firsts[where], sizes[text][where]), bounds, held[1]
