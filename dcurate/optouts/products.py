"""What is made of a corpus, and how documents are found in it and taken out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from dcurate.errors import DataError, listed
from dcurate.fs.compression import ending_of
from dcurate.fs.paths import open_store
from dcurate.fs.stores import META_DIR, Directory
from dcurate.groups.forgetting import ids_in_index, index_files, write_forgotten
from dcurate.io.csv_removal import compared_records, write_without_records
from dcurate.io.csv_rows import Dialect
from dcurate.io.files import CSV, PARQUET
from dcurate.io.optouts import ComparedColumns
from dcurate.io.output import ROUNDS, is_prepared
from dcurate.io.parquet_stream import opened_parquet
from dcurate.io.row_removal import ComparedRows, compared_rows, write_without
from dcurate.io.rows import is_readable, rows_in
from dcurate.io.tables import LOGS, table_at
from dcurate.media.sample_removal import compared_samples, write_without_samples
from dcurate.media.shard_removal import is_shard, shards_beside, write_shard_without
from dcurate.runs.load import read_run
from dcurate.tokens.folder import ABOUT, TokenFolder
from dcurate.tokens.spans import SPANS

_QUARANTINE = f"{META_DIR}/quarantine"
#: Columns of interleaved documents, of which each has several rows.
_INTERLEAVED = frozenset(("sample_id", "position", "modality"))
#: What the table of a folder of files is called.
_METADATA = "metadata.jsonl"
#: Settings of `dcurate.CsvWriter` that say how values are written.
_SIGNS = ("delimiter", "quote", "escape")


@dataclass
class CorpusProduct(ABC):
    """Files of one kind in an output.

    Args:
        directory: the output.
    """

    directory: Directory

    #: What it is called in a receipt.
    kind: ClassVar[str]
    #: Whether it has texts and URLs, and not ids alone.
    whole: ClassVar[bool] = False

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of the files that are compared."""

    @abstractmethod
    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        """Yield what the documents in a file are known by.

        Raises:
            DataError: it cannot be read.
        """

    def write(self, name: str, rows: Mapping[int, bytes], staged: Directory) -> tuple[list[str], int]:
        """Write a file again without some documents in another directory, and what belongs to it.

        Args:
            rows: numbers of the documents, and what takes the place of each in files of JSON Lines.

        Returns:
            The names of the files, and their bytes.

        Raises:
            DataError: a file cannot be read, or not written.
        """
        return [name], write_without(self.directory, name, rows, staged)

    def samples(self, name: str) -> Sequence[Any] | None:
        """Return the sample that each row of a file is a part of, where documents have several rows; else None.

        Raises:
            DataError: it cannot be read.
        """
        return None

    def removes(self, name: str, rows: Mapping[int, bytes]) -> list[str]:
        """Return the names of files that go with some documents of a file.

        Args:
            rows: numbers of the documents.

        Raises:
            DataError: a file cannot be read.
        """
        return []


@dataclass
class RowProduct(CorpusProduct):
    """Files of JSON Lines and Parquet, and the rows in quarantine."""

    chosen: Sequence[str] = ()

    kind: ClassVar[str] = "rows"
    whole: ClassVar[bool] = True

    def names(self) -> Sequence[str]:
        return self.chosen

    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        return compared_rows(self.directory, name, compared, texts=texts)

    def samples(self, name: str) -> Sequence[Any] | None:
        if not PARQUET.matches(name):
            return None
        with opened_parquet(self.directory, name) as file:
            if not set(file.schema_arrow.names) >= _INTERLEAVED:
                return None
            samples: list[Any] = file.read(columns=["sample_id"], use_threads=False).column(0).to_pylist()
            return samples


@dataclass
class FolderProduct(RowProduct):
    """Files called ``metadata.jsonl``, with the pictures, sounds or films beside them that their rows name."""

    kind: ClassVar[str] = "folders of files"

    def removes(self, name: str, rows: Mapping[int, bytes]) -> list[str]:
        named = files_named(self.directory, name)
        kept = {file for number, file in named.items() if number not in rows}
        gone = {file for number, file in named.items() if number in rows} - kept - set(self.chosen)
        return sorted(gone & self._files)

    @cached_property
    def _files(self) -> set[str]:
        """The files of the output: a row may name others, elsewhere."""
        return set(self.directory.files())


def files_named(directory: Directory, name: str) -> dict[int, str]:
    """Return the names of the files beside a ``metadata.jsonl`` that its rows name, by row.

    Raises:
        DataError: it cannot be read.
    """
    folder = name[: -len(_METADATA)]
    named = ((row.number, row.values.get("file_name")) for row in rows_in(directory, name))
    return {number: f"{folder}{file}" for number, file in named if isinstance(file, str)}


@dataclass
class CsvProduct(CorpusProduct):
    """Files of comma-separated values with a header."""

    chosen: Sequence[str] = ()

    kind: ClassVar[str] = "rows of CSV"
    whole: ClassVar[bool] = True

    @cached_property
    def _signs(self) -> dict[str, Any]:
        """The signs that the last run wrote its files with; those of its class if none has ended here.

        Raises:
            DataError: the files have no header.
        """
        try:
            stages = list(read_run(self.directory.address, self.directory.options).about["stages"])
        except DataError:
            return {}
        if not stages or stages[-1].get("kind") != "CsvWriter":
            return {}
        settings = stages[-1]["settings"]
        if "header" not in settings:  # records leave out what is not set
            raise DataError(
                f"the files of CSV in {self.directory.url!r} have no names of columns, so nothing can be compared with "
                "them; write them with header=True, or leave this output out"
            )
        return {name: literal_eval(settings[name]) for name in _SIGNS if name in settings}

    def _dialect(self, name: str) -> Dialect:
        tabs = name.removesuffix(ending_of(name)).endswith(".tsv")
        return Dialect(**{"delimiter": "\t" if tabs else ",", **self._signs})

    def names(self) -> Sequence[str]:
        return self.chosen

    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        return compared_records(self.directory, name, compared, self._dialect(name))

    def write(self, name: str, rows: Mapping[int, bytes], staged: Directory) -> tuple[list[str], int]:
        return [name], write_without_records(self.directory, name, rows, staged, self._dialect(name))


@dataclass
class ShardProduct(CorpusProduct):
    """Shards of WebDataset with a table beside each.

    Args:
        shards: the shards, by the names of their tables.
    """

    shards: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "shards"
    whole: ClassVar[bool] = True

    def names(self) -> Sequence[str]:
        return list(self.shards)

    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        return compared_rows(self.directory, name, compared, texts=texts)

    def write(self, name: str, rows: Mapping[int, bytes], staged: Directory) -> tuple[list[str], int]:
        shard = self.shards[name]
        return [shard, name], write_shard_without(self.directory, name, shard, rows, staged)


@dataclass
class SampleProduct(CorpusProduct):
    """Shards of WebDataset without tables: samples are known by their records and keys."""

    chosen: Sequence[str] = ()

    kind: ClassVar[str] = "samples"
    whole: ClassVar[bool] = True

    def names(self) -> Sequence[str]:
        return self.chosen

    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        return compared_samples(self.directory, name, compared, texts=texts)

    def write(self, name: str, rows: Mapping[int, bytes], staged: Directory) -> tuple[list[str], int]:
        return [name], write_without_samples(self.directory, name, rows, staged)


@dataclass
class IndexProduct(CorpusProduct):
    """An index of the documents that earlier runs have seen; it knows ids."""

    files: Sequence[str] = ()

    kind: ClassVar[str] = "index of seen documents"

    def names(self) -> Sequence[str]:
        return self.files

    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        for first, ids in ids_in_index(self.directory, name):
            yield ComparedRows(list(range(first, first + len(ids))), _urls_of(ids), ids, None)

    def write(self, name: str, rows: Mapping[int, bytes], staged: Directory) -> tuple[list[str], int]:
        return write_forgotten(self.directory, name, rows, staged)


@dataclass
class TokenProduct(CorpusProduct):
    """A folder of tokens; it knows ids, and `dcurate.tokens.drop.Drop` writes it again."""

    kind: ClassVar[str] = "tokens"

    @cached_property
    def folder(self) -> TokenFolder:
        """The folder."""
        return TokenFolder(self.directory.url, self.directory.options)

    def names(self) -> Sequence[str]:
        return [f"{SPANS}/{shard['shard']}.parquet" for shard in self.folder.shards]

    def rows(self, name: str, compared: ComparedColumns, *, texts: bool) -> Iterator[ComparedRows]:
        for rows in compared_rows(self.directory, name, ComparedColumns(id="doc"), texts=False):
            yield rows._replace(urls=_urls_of(rows.ids or []))


def products_of(directory: Directory) -> list[CorpusProduct]:
    """Return what an output holds.

    Raises:
        DataError: there is nothing, or files that documents cannot be taken out of.
    """
    if directory.read(ABOUT) is not None:
        _refuse_begun(directory)
        return [TokenProduct(directory)]
    seen = index_files(directory)
    if seen is not None:
        return [IndexProduct(directory, seen)]
    names = sorted(name for name in directory.files() if not name.rpartition("/")[2].startswith("."))
    _refuse_tables(directory, names)
    shards = shards_beside(names)
    metadata = [name for name in names if name.rpartition("/")[2] == _METADATA]
    beside = {file for name in metadata for file in files_named(directory, name).values()}
    rows = [name for name in names if is_readable(name) and name not in shards and name not in beside]
    rows = sorted(set(rows) - set(metadata))
    csv = [name for name in names if CSV.matches(name)]
    tars = [name for name in names if is_shard(name) and name not in beside and name not in shards.values()]
    others = set(names) - set(rows) - set(csv) - set(tars) - set(shards) - set(shards.values()) - set(metadata) - beside
    if others:
        raise DataError(
            f"{directory.url!r} holds {min(others)!r}{f' and {len(others) - 1:,} more' if len(others) > 1 else ''}, "
            "which are neither rows of JSON Lines, Parquet or CSV, files that a metadata.jsonl names, shards of "
            "WebDataset, tokens nor an index of duplicates, so documents cannot be taken out of them; move them "
            "elsewhere, or leave this output out"
        )
    if not names:
        if not is_prepared(directory):
            raise DataError(f"there is nothing in {directory.url!r}; name the output of a run")
        _refuse_begun(directory)
    rows += sorted(name for name in directory.files(_QUARANTINE) if is_readable(name))
    made = [
        RowProduct(directory, rows),
        FolderProduct(directory, metadata),
        CsvProduct(directory, csv),
        ShardProduct(directory, shards),
        SampleProduct(directory, tars),
    ]
    return [product for product in made if product.names()] or made[:1]


def has_rows(product: CorpusProduct) -> bool:
    """Whether a product has rows at all.

    Raises:
        DataError: a file cannot be read.
    """
    if isinstance(product, RowProduct | ShardProduct):
        return any(next(rows_in(product.directory, name), None) is not None for name in product.names())
    if isinstance(product, CsvProduct | SampleProduct):
        parts = (product.rows(name, ComparedColumns(), texts=False) for name in product.names())
        return any(rows.numbers for pieces in parts for rows in pieces)
    return bool(product.names())


def _refuse_begun(directory: Directory) -> None:
    """Refuse an output whose run has documents as tokens on their way: it would write them when it goes on."""
    if any(name.startswith(f"{META_DIR}/{ROUNDS}") for name in directory.files(META_DIR)):
        raise DataError(
            f"a run into {directory.url!r} has not ended, and holds documents that it would write yet; end it with "
            "resume=True or begin again with mode='overwrite', and then remove the documents"
        )


def _refuse_tables(directory: Directory, names: Sequence[str]) -> None:
    store, _ = open_store(directory.url, directory.options)
    logs = [log for log in LOGS if any(log in name.split("/")[:-1] for name in names)]
    kind = table_at(store, directory.address, logs, [directory.path(name) for name in names])
    if kind:
        raise DataError(
            f"{directory.url!r} is a table of {kind}, whose files its own programs change; delete the rows with "
            f"{listed([kind])}'s library"
        )


def _urls_of(ids: Sequence[Any]) -> list[Any]:
    """The ids that are URLs."""
    return [value if isinstance(value, str) and "://" in value else None for value in ids]
