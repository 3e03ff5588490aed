"""Read interleaved documents from WebDataset tars, as MINT-1T, OBELICS and NeMo Curator lay them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import orjson
import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.fs.errors import storage_errors
from dcurate.images.interleaved.samples import NamedPicture, Row, SampleColumns, rows_of_record, with_types
from dcurate.io.files import Format, is_names
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media import tar
from dcurate.media.containers import LostPart, lost_in_tar
from dcurate.media.interleaved.schema import IMAGE, SCHEMA, SourceRef, rows_of
from dcurate.media.names import sample_of
from dcurate.media.refs import Ref
from dcurate.media.source import BATCH_BYTES, AnyOf, MediaSource, SourceRow, rejected

_LARGEST_JSON = 2**28
_ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".avif")
_ADDRESS = ("http://", "https://")


class _Whole(NamedTuple):
    """A sample with its rows, and the bytes of its images."""

    name: str
    rows: list[Row]
    nbytes: int


@dataclass
class InterleavedWebDatasetReader(MediaSource):
    """Read interleaved documents from tars of JSON files and pictures: MINT-1T, OBELICS in tars, and our own.

    A JSON member is a sample. It has two lists, ``texts`` and ``images``, with null in one where the other has a value;
    an image is named as its member is, or by what follows the sample's key in that name (``0.png`` for
    ``doc-7.0.png``), or by an address. It becomes a row of metadata at position -1, which holds the sample's other
    values as JSON, and a row for each text and image, in order. Images stay where they are: ``source_ref`` says where.

    A sample is never split over batches, and a batch refers to about 64 MiB of images. JSON files that cannot be read,
    and members that are cut, go to quarantine.

    Args:
        file_paths: tars, also compressed, directories and globs, local or URLs.
        files_per_partition: files of one split.
        blocksize: split size on disk; larger tars are cut between samples.
        fields: values of a sample that become columns of its metadata row, besides their place in its JSON: text as it
            is, anything else as JSON.
        read_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        storage_options: for fsspec.
        limit: number of rows to read, at most: the first ones in the order of the files.
        sample_id_field: the value that is the sample's id. By default ``sample_id``, where there is one, else the
            name of the JSON member without its ending.
        texts_field: the list of texts.
        images_field: the list of images.
        image_member_field: a value that names the member for images whose own name is none, such as a TIFF that has
            all of them as its pages. By default the picture that is called as the sample, or its id, is.
        position_fields: lists with a value for each place of ``texts`` and ``images``, such as OBELICS' ``metadata``:
            each value becomes one of its row, as JSON.
        per_image_fields: lists with a value for each image: each value becomes one of its row. The column is of the
            type of the values of a batch where one holds all of them; else it has text as it is, anything else as
            JSON. A list of another length stays with the sample.
        per_text_fields: the same for each text.
        json_extensions: the endings of members that are samples.
        max_batch_bytes: bytes of images that a batch refers to, about.
        schema, frames: same settings as in all readers; types are fixed here.

    Raises:
        PipelineError: settings that cannot be.

    Examples:
        >>> InterleavedWebDatasetReader("shards/", fields=["url"]).columns()[-2:]
        ['url', 'metadata']
    """

    sample_id_field: str | None = None
    texts_field: str = "texts"
    images_field: str = "images"
    image_member_field: str | None = None
    position_fields: list[str] = field(default_factory=lambda: ["metadata"])
    per_image_fields: list[str] = field(default_factory=list)
    per_text_fields: list[str] = field(default_factory=list)
    json_extensions: list[str] = field(default_factory=lambda: [".json"])
    max_batch_bytes: int | str = BATCH_BYTES
    name: str = "interleaved_webdataset_reader"

    kind: ClassVar[Format] = AnyOf("tar", (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz"), False)

    def __post_init__(self) -> None:
        for name in ("position_fields", "per_image_fields", "per_text_fields", "json_extensions"):
            names = getattr(self, name)
            if isinstance(names, str) or (len(names) and not is_names(list(names))):
                raise PipelineError(f"{self.name}: {name}={names!r} must be a list of text")
        parse_bytes(self.max_batch_bytes, f"{self.name}: max_batch_bytes")
        super().__post_init__()
        self.layout  # noqa: B018 - so that a wrong one is refused here

    @property
    def layout(self) -> SampleColumns:
        """The names of the lists of a sample."""
        return SampleColumns(
            self.texts_field,
            self.images_field,
            tuple(self.position_fields),
            tuple(self.per_image_fields),
            tuple(self.per_text_fields),
            tuple(self.fields or ()),
        )

    def columns(self) -> list[str]:
        return list(self._rows_schema.names)

    @property
    def _rows_schema(self) -> pa.Schema:
        return pa.schema([*SCHEMA, *(pa.field(name, pa.string()) for name in self.layout.columns)])

    def _schema_of(self, part: FilePart) -> pa.Schema:
        return self._rows_schema

    def _sniff(self, files: Any) -> Any:  # the columns do not depend on the files
        return self._heads([])

    def process(self, task: FileGroup) -> Any:
        """The samples of a split, whole, in batches; None if there are none.

        Raises:
            DataError: a tar cannot be read.
        """
        batches: list[list[Row]] = []
        seen: set[str] = set()
        lost: list[tuple[LostPart, str]] = []
        size, most = 0, parse_bytes(self.max_batch_bytes, self.name)
        for part in task.parts:
            name = self._named(part)
            for sample in self._samples(part):
                if isinstance(sample, LostPart):
                    lost.append((sample, name))
                    continue
                if not batches or sample.name in seen or size + sample.nbytes > most:
                    batches.append([])
                    seen, size = set(), 0
                batches[-1] += sample.rows
                seen.add(sample.name)
                size += sample.nbytes
        if not batches and not lost:
            return None
        made = [DocumentBatch(data=self._table(rows), key=task.key) for rows in batches or [[]]]
        made[0].rejections = tuple(rejected(self.name, lost))
        return made if len(made) > 1 else made[0]

    def _table(self, rows: list[Row]) -> pa.Table:
        typed = {field.name: field for field in with_types(rows, [*self.per_image_fields, *self.per_text_fields])}
        extra = list(self._rows_schema)[len(SCHEMA) :]
        return rows_of(rows, [typed.get(field.name, field) for field in extra])

    def _items(self, part: FilePart, name: str) -> Iterator[SourceRow | LostPart | str]:
        for sample in self._samples(part):
            yield sample if isinstance(sample, LostPart) else SourceRow({}, sample.nbytes)

    def _samples(self, part: FilePart) -> Iterator[_Whole | LostPart]:
        with storage_errors("read", part.path):
            samples = self._all_samples(part)
            yield from samples if part.rows is None else islice(samples, *part.rows)

    def _all_samples(self, part: FilePart) -> Iterator[_Whole | LostPart]:
        store, path = self._store(part.path)
        with tar.opened(store, path, part.size) as window:
            walked = list(tar.walk(window, part.start, part.stop, self._is_sample))
        members: dict[str, tar.Member] = {}
        damaged: dict[str, LostPart] = {}
        documents: list[tar.Member] = []
        doubled: list[LostPart] = []
        for member in walked:
            lost = lost_in_tar(member, part.path)
            if isinstance(member, tar.TarDamage) or member.kind == "folder" or (lost is not None and not lost.is_fault):
                if lost is not None:
                    yield lost
            elif lost is not None:
                damaged.setdefault(member.name, lost)
            elif self._is_sample(member.name, member.size):
                documents.append(member)
            elif members.setdefault(member.name, member) is not member:
                ref = Ref(part.path, member.name, member.offset, member.size)
                doubled.append(LostPart(member.name, ref, MediaFault("member twice", member.name)))
        archive = _Archive(part, members, damaged, self._elsewhere(part))
        for document in documents:
            yield self._sample(document, archive)
        yield from doubled
        yield from (lost_member for name, lost_member in damaged.items() if name not in archive.named)

    def _is_sample(self, name: str, size: int) -> bool:
        return name.endswith(tuple(self.json_extensions)) and size <= _LARGEST_JSON

    def _elsewhere(self, part: FilePart) -> Callable[[], dict[str, tar.Member]]:
        """The members of the whole tar, of which the part is one: listed when one is missing in the part."""
        listed: list[dict[str, tar.Member]] = []

        def members() -> dict[str, tar.Member]:
            if not listed and not part.start and part.stop is None:
                listed.append({})
            if not listed:
                store, path = self._store(part.path)
                with tar.opened(store, path, part.size) as window:
                    files = [
                        member
                        for member in tar.walk(window)
                        if isinstance(member, tar.Member) and member.kind == "file"
                    ]
                listed.append({member.name: member for member in reversed(files) if member.held == member.size})
            return listed[0]

        return members

    def _sample(self, document: tar.Member, archive: _Archive) -> _Whole | LostPart:
        part = archive.part
        ref = SourceRef(part.path, document.name, document.offset, document.size)
        ending = next(ending for ending in self.json_extensions if document.name.endswith(ending))
        key = document.name.removesuffix(ending)
        try:
            record = _record(document.content)
            name = self._id(record, key)
            default = record.get(self.image_member_field) if self.image_member_field else None
            named = key.rpartition("/")[0]
            locate = archive.locator(
                key, default if isinstance(default, str) else None, f"{named}/{name}" if named else name
            )
            rows = rows_of_record(name, record, locate, self.layout, ref)
        except MediaError as error:
            return LostPart(document.name, Ref(part.path, document.name, document.offset, document.size), error.fault)
        sizes = [SourceRef.of(row["source_ref"]).byte_size or 0 for row in rows if row["modality"] == IMAGE]
        return _Whole(name, rows, sum(sizes))

    def _id(self, record: dict[str, Any], key: str) -> str:
        sample_id = record.get(self.sample_id_field or "sample_id")
        return key.rpartition("/")[2] if sample_id is None else str(sample_id)

    def _sample_of(self, name: str) -> str:
        return sample_of(name)[0]


def _record(content: bytes | None) -> dict[str, Any]:
    try:
        record = orjson.loads(content or b"")
    except orjson.JSONDecodeError as error:
        raise MediaError("malformed JSON", str(error)) from error
    if not isinstance(record, dict):
        raise MediaError("malformed JSON", f"it holds {type(record).__name__}, not an object")
    return record


class _Archive:
    """The members of a tar, by which samples name their images."""

    def __init__(
        self,
        part: FilePart,
        members: dict[str, tar.Member],
        damaged: dict[str, LostPart],
        elsewhere: Callable[[], dict[str, tar.Member]],
    ) -> None:
        self.part = part
        self._members, self._damaged, self._elsewhere = members, damaged, elsewhere
        #: The damaged members that samples name.
        self.named: set[str] = set()

    def locator(self, key: str, default: str | None, sample: str) -> Callable[[Any], NamedPicture]:
        """Return a function that finds an image of a sample.

        Args:
            key: the name of the sample's JSON member, without its ending.
            default: the member for images that name none.
            sample: the id of the sample, in the folder of its member.
        """
        folder = key.rpartition("/")[0]
        defaults = [default, *(start + ending for start in dict.fromkeys([key, sample]) for ending in _ENDINGS)]

        def locate(value: Any) -> NamedPicture:
            name = value if isinstance(value, str) else None
            if name is not None:
                for candidate in (name, f"{key}.{name}", f"{folder}/{name}"):
                    picture = self._found(candidate)
                    if picture is not None:
                        return picture
                if name.lower().startswith(_ADDRESS):
                    return NamedPicture(SourceRef(name))
            for candidate in filter(None, defaults):
                picture = self._found(candidate)
                if picture is not None:
                    return picture
            label = name if name is not None else orjson.dumps(value).decode()
            return NamedPicture(SourceRef(None, label), error=f"the tar has no member {label!r}")

        return locate

    def _found(self, name: str) -> NamedPicture | None:
        member = self._members.get(name)
        if member is None and name not in self._damaged:
            member = self._elsewhere().get(name)
        if member is not None:
            return NamedPicture(SourceRef(self.part.path, name, member.offset, member.size))
        lost = self._damaged.get(name)
        if lost is None:
            return None
        self.named.add(name)
        return NamedPicture(SourceRef(None, name), error=f"{lost.fault.reason}: {lost.fault.detail}")
