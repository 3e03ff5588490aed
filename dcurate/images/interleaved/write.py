"""Write interleaved documents: tars that MINT-1T's and NeMo Curator's readers read, and Parquet."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, ClassVar, Literal, get_args
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from dcurate.core.batch import BatchKey, FileGroup, FilePart, Rejection
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.images.interleaved.samples import NUMBER, Row, Sample, SampleColumns, numbered, samples_of
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.io.sink import FileWriter
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.interleaved.materialise import bytes_of, source_of
from dcurate.media.interleaved.schema import SourceRef, aligned
from dcurate.media.tar import BLOCK
from dcurate.media.webdataset_writer import header_of

OnError = Literal["drop_sample", "drop_row", "keep", "error"]

_ENDINGS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/bmp": "bmp",
    "image/avif": "avif",
}
_REASON = "image that cannot be had"


def check_on_error(stage: str, given: str) -> None:
    """Refuse an unknown way to go on without the bytes of an image.

    Raises:
        PipelineError: the value is not known.
    """
    if given not in get_args(OnError):
        raise PipelineError(f"{stage}: on_materialize_error={given!r} is not one of {listed(get_args(OnError))}")


class Materialised:
    """The rows of a batch with the bytes of their images, sample by sample; about 64 MiB are held at a time.

    Args:
        table: interleaved rows.
        on_error: what to do where the bytes of an image cannot be had.
        storage_options: for fsspec.
        stage: the name of the stage.
    """

    def __init__(
        self, table: pa.Table, on_error: OnError, storage_options: Mapping[str, Any] | None, stage: str
    ) -> None:
        self.table, self.on_error, self.stage = aligned(table), on_error, stage
        self._options = storage_options
        self._lost: dict[str, list[Row]] = {}
        self._schema = self.table.schema

    def samples(self, fetch: bool = True) -> Iterator[Sample]:
        """Yield the samples whose images can be had.

        Raises:
            DataError: an image cannot be had, and that is an error.
        """
        waiting = list(samples_of(numbered(self.table)))
        wanted = [row[NUMBER] for sample in waiting for row in sample.images if row["binary_content"] is None]
        fetched_images = (
            bytes_of(self.table, np.array(wanted, np.int64), storage_options=self._options) if fetch else iter(())
        )
        for sample in waiting:
            yield from self._filled(sample, fetched_images, fetch)
            for row in sample.rows:
                row["binary_content"] = None

    def _filled(
        self, sample: Sample, fetched_images: Iterator[tuple[int, bytes | MediaFault]], fetch: bool
    ) -> Iterator[Sample]:
        gone: list[tuple[Row, MediaFault]] = []
        for row in sample.images if fetch else ():
            if row["binary_content"] is not None:
                continue
            number, data = next(fetched_images)
            assert number == row[NUMBER], "images are fetched in the order of their samples"
            if isinstance(data, bytes):
                row["binary_content"], row["materialize_error"] = data, None
            else:
                row["materialize_error"] = f"{data.reason}: {data.detail}" if data.detail else data.reason
                gone.append((row, data))
        yield from self._left(sample, gone)

    def _left(self, sample: Sample, gone: Sequence[tuple[Row, MediaFault]]) -> Iterator[Sample]:
        """Yield what is left of a sample without some of its images, if anything."""
        if not gone or self.on_error == "keep":
            yield sample
            return
        row, fault = gone[0]
        if self.on_error == "error":
            raise DataError(
                f"{self.stage}: an image of sample {sample.name!r} cannot be had ({row['materialize_error']}); "
                "on_materialize_error='drop_sample' sends such samples to quarantine"
            )
        if self.on_error == "drop_sample":
            self.lose(sample.rows, f"{_REASON}: {fault.reason}")
            return
        self.lose([row for row, _ in gone], f"{_REASON}: {fault.reason}")
        numbers = {row[NUMBER] for row, _ in gone}
        remaining = [row for row in sample.rows if row[NUMBER] not in numbers]
        yield replace(sample, rows=remaining)

    def kept(self) -> list[int]:
        """Return the numbers of the rows that stay where no image is fetched: one with an error counts as missing.

        Raises:
            DataError: an image has an error, and that is an error.
        """
        numbers: list[int] = []
        for sample in samples_of(numbered(self.table)):
            gone = [(row, MediaFault("missing", row["materialize_error"])) for row in sample.rows if _is_lost(row)]
            numbers += [row[NUMBER] for remaining in self._left(sample, gone) for row in remaining.rows]
        return sorted(numbers)

    def lose(self, rows: Sequence[Row], reason: str) -> None:
        """Send rows to quarantine."""
        self._lost.setdefault(reason, []).extend(rows)

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """What went to quarantine so far."""
        made = []
        for reason, rows in self._lost.items():
            data = self.table.take(pa.array([row[NUMBER] for row in rows], pa.int64()))
            errors = pa.array([row["materialize_error"] for row in rows], pa.string())
            data = data.set_column(data.schema.get_field_index("materialize_error"), "materialize_error", errors)
            made.append(Rejection(self.stage, reason, data.num_rows, data.nbytes, data, fault=True))
        return tuple(made)


def _is_lost(row: Row) -> bool:
    return row["materialize_error"] is not None


class _InterleavedWriter(FileWriter):
    """What writers of interleaved documents share."""

    on_materialize_error: OnError
    materialize_on_write: bool
    takes_label: ClassVar[bool] = True

    def _check(self) -> None:
        check_on_error(self.name, self.on_materialize_error)
        for name in ("max_rows_per_file", "max_bytes_per_file", "separate_by"):
            if getattr(self, name) is not None:
                hint = "give the reader max_batch_bytes= for smaller files"
                raise PipelineError(f"{self.name}: {name} would cut samples; leave it out; {hint}")

    def _together(self, table: pa.Table, rows: set[int]) -> set[int]:
        """All rows of the samples: a URL or text is in one row of them."""
        samples = table["sample_id"].to_pylist()
        gone = {samples[row] for row in rows}
        return {row for row, sample in enumerate(samples) if sample in gone}

    def _images(self, table: pa.Table) -> Materialised:
        return Materialised(table, self.on_materialize_error, self.storage_options, self.name)


@dataclass
class InterleavedWebDatasetWriter(_InterleavedWriter):
    """Write interleaved documents as WebDataset tars: a JSON file for each sample, and its images beside it.

    The JSON has the lists ``texts`` and ``images``, the values that the sample was read with, and those of its columns
    that a stage has changed or added. Images are written byte for byte, under their name where it begins with the
    sample's id, else as ``{id}.{position}.{ending}``. `InterleavedWebDatasetReader` and NeMo Curator's
    (``sample_id_field="sample_id"``) read them back. The same rows make the same bytes.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches.
        on_materialize_error: what to do about an image that cannot be had: ``"drop_sample"`` sends its sample to
            quarantine, ``"drop_row"`` the image, ``"keep"`` writes the sample without its bytes, ``"error"`` ends the
            run.
        materialize_on_write: whether images are fetched; if not, their addresses are written.
        texts_field, images_field: the names of the lists.
        position_fields: columns that are written as lists with a value for each place of these two.
        per_image_fields: columns that are written as lists with a value for each image.
        per_text_fields: columns that are written as lists with a value for each text. Other columns with values for
            texts or images are written as lists, too: with a value for each image, each text, or each place of both
            lists, depending on which rows have values.
        write_kwargs, fields, mode, label, storage_options: same settings as in `JsonlWriter`.
        compression: None: pictures do not get smaller.
        max_rows_per_file, max_bytes_per_file, separate_by: refused, as they would cut samples; a batch is a file.

    Raises:
        PipelineError: settings that cannot be.

    Examples:
        >>> InterleavedWebDatasetWriter("out", on_materialize_error="drop_row").materialize_on_write
        True
    """

    on_materialize_error: OnError = "drop_sample"
    materialize_on_write: bool = True
    texts_field: str = "texts"
    images_field: str = "images"
    position_fields: list[str] = field(default_factory=lambda: ["metadata"])
    per_image_fields: list[str] = field(default_factory=list)
    per_text_fields: list[str] = field(default_factory=list)
    name: str = "interleaved_webdataset_writer"
    endings: ClassVar[tuple[str, ...]] = (".tar",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check()
        if self.compression is not None:
            raise PipelineError(f"{self.name}: compression={self.compression!r} must be None: tars are written plain")

    @property
    def _layout(self) -> SampleColumns:
        names = (tuple(self.position_fields), tuple(self.per_image_fields), tuple(self.per_text_fields))
        return SampleColumns(self.texts_field, self.images_field, *names)

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the samples; what cannot be written goes to quarantine.

        Raises:
            DataError: they cannot be written, or an image cannot be had and that is an error.
        """
        if task.key is None:
            raise PipelineError(f"{self.name}: the batch has no key; give it one: DocumentBatch(key=BatchKey('name'))")
        rows, removed = self._without_removed(task.to_arrow())
        images = self._images(self._chosen(rows))
        parts = tuple(self._write_samples(images, task.key, ""))
        return FileGroup(key=task.key, parts=parts, rejections=(*removed, *images.rejections))

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield from self._write_samples(self._images(table), key, folder)

    def _write_samples(self, images: Materialised, key: BatchKey, folder: str) -> Iterator[FilePart]:
        samples = images.samples(self.materialize_on_write)
        first = next(samples, None)
        if first is None:
            return
        name = folder + self._name(key, ".tar", 0)
        layout = self._layout.with_unnamed(images.table)
        with self.directory.writing(name) as file:
            write_tar(file, itertools.chain([first], samples), layout, images)
            size = file.tell()
        yield FilePart(self.directory.path(name), size=size)


def write_tar(file: BinaryIO, samples: Iterable[Sample], layout: SampleColumns, images: Materialised) -> None:
    """Write samples as a tar; those that cannot be written are lost to `images`."""
    used: set[str] = set()
    at = 0
    for sample in samples:
        try:
            members = list(_members(sample, layout, used))
        except MediaError as error:
            images.lose(sample.rows, error.fault.reason)
            continue
        for member, data in members:
            for part in (header_of(member, len(data)), data, bytes(-len(data) % BLOCK)):
                file.write(part)
                at += len(part)
    file.write(bytes(2 * BLOCK + -(at + 2 * BLOCK) % (20 * BLOCK)))


def key_of(sample: str) -> str:
    """Return the key of a sample in a WebDataset: its id, in which no character has a meaning in names.

    Examples:
        >>> key_of("a/b.c d"), key_of("é")
        ('a%2Fb%2Ec%20d', '%C3%A9')
    """
    return quote(sample, safe="").replace(".", "%2E")


def _members(sample: Sample, layout: SampleColumns, used: set[str]) -> Iterator[tuple[str, bytes]]:
    key = key_of(sample.name)
    if f"{key}.json" in used:
        raise MediaError("two samples with one id", sample.name)
    used.add(f"{key}.json")
    names: dict[int, Any] = {}
    files: list[tuple[str, bytes]] = []
    for row in sample.images:
        data = row["binary_content"]
        ref = source_of(row["source_ref"])
        if data is None:
            names[id(row)] = ref.member or ref.path or ""
            continue
        name = _own_name(ref, key)
        if name is None or name in used:
            name = f"{key}.{row['position']}.{ending_of(row['content_type'])}"
        if name in used:
            raise MediaError("two images with one name", name)
        used.add(name)
        names[id(row)] = name
        files.append((name, data))
    record = {"sample_id": sample.name, **sample.record(layout, lambda row, _: names[id(row)])}
    yield f"{key}.json", json.dumps(record, ensure_ascii=False).encode()
    yield from files


def _own_name(ref: SourceRef, key: str) -> str | None:
    """The name that the image had, if it is one of the sample; None for a page of a file of several."""
    name = (ref.member or ref.path or "").rpartition("/")[2]
    suffix = name.removeprefix(f"{key}.")
    return name if ref.frame_index is None and suffix != name and suffix not in ("", "json") else None


def ending_of(kind: str | None) -> str:
    """Return the ending for a media type, without its dot.

    Examples:
        >>> ending_of("image/jpeg"), ending_of(None)
        ('jpg', 'bin')
    """
    return _ENDINGS.get(kind or "", "bin")


@dataclass
class InterleavedParquetWriter(ParquetWriter, _InterleavedWriter):
    """Write interleaved rows as Parquet files with the bytes of their images, as NeMo Curator does.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches.
        on_materialize_error: same setting as in `InterleavedWebDatasetWriter`.
        materialize_on_write: whether images are fetched; if not, they stay where ``source_ref`` says.
        write_kwargs, fields, mode, label, compression, storage_options: same settings as in `ParquetWriter`.
        max_rows_per_file, max_bytes_per_file, separate_by, partition_cols: refused, as they would cut samples.

    Raises:
        PipelineError: settings that cannot be.

    Examples:
        >>> InterleavedParquetWriter("out").compression
        'zstd'
    """

    on_materialize_error: OnError = "drop_sample"
    materialize_on_write: bool = True
    name: str = "interleaved_parquet_writer"
    writes_without_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check()
        if self.partition_cols:
            raise PipelineError(f"{self.name}: partition_cols would cut samples; leave it out")

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; samples whose images cannot be had go to quarantine.

        Raises:
            DataError: they cannot be written, or an image cannot be had and that is an error.
        """
        table = aligned(task.to_arrow())
        if not self.materialize_on_write:
            return super().process(task.with_data(table))
        images = self._images(table)
        rows = [row for sample in images.samples() for row in _plain(sample.rows)]
        order = [row[NUMBER] for row in rows]
        filled = table.take(pa.array(order, pa.int64()))
        for name, kind in (("binary_content", table.schema.field("binary_content").type), ("materialize_error", None)):
            column = pa.array([row[name] for row in rows], kind or pa.string())
            filled = filled.set_column(filled.schema.get_field_index(name), name, column)
        made = super().process(task.with_data(filled))
        return replace(made, rejections=(*made.rejections, *images.rejections))


def _plain(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows in the order in which they came, as values that stay when the sample is released."""
    for row in sorted(rows, key=lambda row: int(row[NUMBER])):
        yield dict(row)
