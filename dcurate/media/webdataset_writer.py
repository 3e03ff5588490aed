"""`WebDatasetWriter`: samples as tar archives, their members byte for byte as they were."""

from __future__ import annotations

import tarfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.batch import BatchKey, FileGroup, FilePart, Rejection
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.fs.compression import ending_for, packing
from dcurate.io.parquet_schema import packed as packed_schema
from dcurate.io.sink import FileWriter
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.names import shown
from dcurate.media.refs import BYTES, REF
from dcurate.media.sample_members import Samples
from dcurate.media.samples import KEY, MEMBERS, TEXTS
from dcurate.media.tar import BLOCK, NO_PART, SEGMENT, MeantPart
from dcurate.rows import columns_listed

#: Columns without which there are no members.
_ABOUT = (KEY, "file_name", BYTES, REF, MEMBERS)
_REPLACED = "members were left out, as others of the same name come later in their sample"
#: Columns of the Parquet file that say where the file of a row is.
_PLACE = {"shard": pa.string(), "member": pa.string(), "offset": pa.int64()}
#: Archives end with zeros up to a multiple of this, as other programs write them.
_RECORD = 20 * BLOCK
_COMPRESSIONS = ("", ".gz", ".zst")


@dataclass
class WebDatasetWriter(FileWriter):
    """Write samples as WebDataset shards: tar archives whose members are the bytes that were read.

    Rows of `WebDatasetReader` are written with all of their members, in their order and under their names. A text of
    which a stage changed the column (``txt``, ``json``, ``cls``) is written with the new value; null leaves it out; a
    text that a sample did not have comes after its other members. Nothing is decoded or encoded again. Rows without
    ``members`` become samples of their file, from `media_ref` or ``bytes``, under its ``file_name``, and of their
    texts. All other columns go to a Parquet file beside the shard, under the same name, with the place of each file in
    the shard.

    The same rows make the same bytes: times, owners and rights in headers are fixed. Two samples of one key go to
    different shards; of members with one name, the last is written. Shards and Parquet files appear when they are
    complete. A shard holds rows of one batch, about 64 MiB of media: put `Rebatch` before the writer for larger ones. A
    row whose bytes cannot be had goes to quarantine.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches.
        write_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        fields: the columns to write besides those that say what the members are; all by default.
        mode: what to do about existing files: ``"error"`` refuses, ``"overwrite"`` deletes what an earlier
            run wrote, ``"ignore"`` writes beside them and replaces those of equal name, ``"append"`` leaves
            them all and writes under new names.
        compression: compression of the archives: None, ``"gzip"`` or ``"zstd"``. Plain ones can be read in parts.
        max_rows_per_file: samples of a shard, at most.
        max_bytes_per_file: bytes of a shard, at most, if it has several samples; as bytes or ``"1GB"``.
        storage_options: for fsspec.
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: when a later run with the same
            label ends, its rows have replaced these, and those of other labels stay.
        separate_by: a column; rows of each of its values go to a folder of their own.
        members: columns that become members of text, by suffix: ``{"txt": "caption"}``; by default ``txt``, ``json``
            and ``cls`` of the columns of these names, where they exist.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import io, tarfile, tempfile
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pa.table({"file_name": ["0.png"], "bytes": [b"pixels"], "txt": ["A gull."]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("write", stages=[WebDatasetWriter(folder.name)])
        >>> [files] = pipeline.run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> with tarfile.open(max(files.data)) as shard:  # the other is the Parquet file
        ...     [(each.name, shard.extractfile(each).read()) for each in shard]
        [('0.png', b'pixels'), ('0.txt', b'A gull.')]
        >>> folder.cleanup()
    """

    members: dict[str, str] | None = None
    name: str = "webdataset_writer"
    endings: ClassVar[tuple[str, ...]] = (".tar", ".parquet")
    takes_label: ClassVar[bool] = True
    _bad: list[tuple[pa.Table, MediaFault]] = field(default_factory=list, init=False, repr=False, compare=False)
    _replaced: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if ending_for(self.compression) not in _COMPRESSIONS:
            raise PipelineError(f"{self.name}: compression={self.compression!r} must be None, 'gzip' or 'zstd'")
        if self._writing():
            raise PipelineError(
                f"{self.name}: write_kwargs {listed(self._writing())} mean nothing here; leave them out"
            )
        names = self.members
        if names is not None and not all(isinstance(name, str) and name for pair in names.items() for name in pair):
            raise PipelineError(
                f"{self.name}: members={names!r} must be columns by suffix, such as {{'txt': 'caption'}}"
            )

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], list(dict.fromkeys([*super().inputs()[1], *(self.members or {}).values()]))

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; rows whose bytes cannot be had are left out, and go to quarantine.

        Raises:
            DataError: they cannot be written.
        """
        self._bad, self._replaced = [], 0
        files = super().process(task)
        if self._replaced:
            files.found = {**files.found, _REPLACED: self._replaced}
        rejections = [rejection for rows, fault in self._bad for rejection in _rejections(self.name, rows, fault)]
        files.rejections, self._bad = (*files.rejections, *rejections), []
        return files

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        samples = Samples.of(table, self._suffixes(table), key)
        ending = ending_for(self.compression)
        for number, rows in enumerate(samples.shards(self.max_rows_per_file, self._max_bytes())):
            shard = self._name(key, f".tar{ending}", number)
            with self.directory.writing(folder + shard) as file:
                with packing(file, ending) as packed:
                    written = self._put(packed, samples, rows, table)
                size = file.tell()
            yield FilePart(self.directory.path(folder + shard), size=size)
            name = folder + self._name(key, ".parquet", number)
            with self.directory.writing(name) as file:
                about = _metadata(table, shard, written, {BYTES, *self._suffixes(table).values()})
                pq.write_table(packed_schema(about), file, compression="zstd")
                size = file.tell()
            yield FilePart(self.directory.path(name), size=size)
        self._replaced += samples.replaced

    def _put(self, file: BinaryIO, samples: Samples, rows: Sequence[int], table: pa.Table) -> list[_Placed]:
        """Write the samples of some rows as an archive; return where the file of each is in it."""
        placed, at = [], 0
        for row, contents in samples.read(rows, self.storage_options or {}):
            if isinstance(contents, MediaFault):
                self._bad.append((table.slice(row, 1), contents))
                continue
            member, offset = None, None
            for entry, data in contents:
                header = header_of(entry.name, len(data), entry.segment)
                at += len(header)
                if entry.is_media and member is None:
                    member, offset = shown(entry.name), at
                file.write(header)
                file.write(data)
                file.write(bytes(-len(data) % BLOCK))
                at += len(data) + -len(data) % BLOCK
            placed.append(_Placed(row, member, offset))
        file.write(end_of_archive(at))
        return placed

    def _chosen(self, table: pa.Table) -> pa.Table:
        """The columns of `fields`, and those that say what the members of a sample are."""
        if self.fields is None:
            return table
        chosen = super()._chosen(table)
        return table.select([name for name in table.column_names if name in _ABOUT or name in chosen.column_names])

    def _suffixes(self, table: pa.Table) -> dict[str, str]:
        """The columns that are members of text, by suffix."""
        if self.members is None:
            return {suffix: suffix for suffix in TEXTS if suffix in table.column_names}
        missing = [column for column in self.members.values() if column not in table.column_names]
        if missing:
            raise DataError(
                f"{self.name}: no column {listed(missing)} for members=; the rows have "
                f"{columns_listed(table.column_names)}"
            )
        return dict(self.members)


class _Placed(NamedTuple):
    """Where the file of a row is in its shard."""

    row: int
    member: str | None
    offset: int | None


def end_of_archive(at: int) -> bytes:
    """Return the end of an archive whose members take `at` bytes."""
    return bytes(2 * BLOCK + -(at + 2 * BLOCK) % _RECORD)


def header_of(name: str, size: int, segment: MeantPart = NO_PART) -> bytes:
    """The header of a member, which follows from these alone.

    Args:
        name: name of the member, decoded with ``surrogateescape``.
        size: bytes of its content.
        segment: the part that the row means.

    Examples:
        >>> len(header_of("a.png", 3)), len(header_of("a" * 300, 3))
        (512, 1536)
    """
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    info.pax_headers = {name: repr(value) for name, value in zip(SEGMENT, segment, strict=True) if value is not None}
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _metadata(table: pa.Table, shard: str, placed: Sequence[_Placed], members: Container[str]) -> pa.Table:
    """The rows of a shard without the bytes of members, and where their files are in it."""
    rows = table.take(pa.array([member.row for member in placed], pa.int64()))
    held = [column.name for column in rows.schema if column.name in members and _is_bytes(column.type)]
    rows = rows.drop_columns([*held, *(name for name in (MEMBERS, *_PLACE) if name in rows.column_names)])
    if REF in rows.column_names:
        rows = rows.rename_columns({REF: "source_ref"})
    values = ([shard] * len(placed), [member.member for member in placed], [member.offset for member in placed])
    for (name, kind), column in zip(_PLACE.items(), values, strict=True):
        rows = rows.append_column(name, pa.array(column, kind))
    return rows


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _rejections(stage: str, rows: pa.Table, fault: MediaFault) -> tuple[Rejection, ...]:
    return quarantined(DocumentBatch(data=rows), [fault], stage).rejections
