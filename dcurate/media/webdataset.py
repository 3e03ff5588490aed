"""`WebDatasetReader`: the samples of WebDataset shards as rows that refer to their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

import pyarrow as pa

from dcurate.core.batch import FilePart
from dcurate.errors import PipelineError
from dcurate.io.files import Format, is_names
from dcurate.media import tar
from dcurate.media.containers import LostPart
from dcurate.media.names import container_endings, container_of, sample_of
from dcurate.media.refs import MEDIA_REF, Ref
from dcurate.media.samples import (
    KEY,
    LARGEST_TEXT,
    MEMBERS,
    MEMBERS_TYPE,
    TEXTS,
    ShardSample,
    fault_of,
    problem_of,
    samples_of,
    value_of,
)
from dcurate.media.source import AnyOf, MediaSource, SourceRow

_BASE = [
    (KEY, pa.string()),
    ("file_name", pa.string()),
    ("media_ref", MEDIA_REF),
    ("size", pa.int64()),
    ("container", pa.string()),
]
#: Members from which the columns of a shard are known.
_HEAD = 256


@dataclass
class WebDatasetReader(MediaSource):
    """Read WebDataset shards: tar archives in which the members of a sample have one name and different suffixes.

    A row is a sample. It has its name in ``__key__``; ``file_name``, ``media_ref`` and ``size`` of its picture, PDF or
    recording; the shard in ``container``; its texts in ``txt``, ``json`` (as text) and ``cls`` (a whole number), where
    shards have such; and references to all of its members in ``members``, under their own names. Nothing but headers
    and texts is read: a stage that needs a picture fetches it. `WebDatasetWriter` writes the members back, byte for
    byte.

    A key is a name up to the first dot after the last slash, as in the library ``webdataset``. What differs:

    * Members of a sample may lie apart in the shard; ``webdataset`` makes a sample of each run of equal keys.
    * Of a member that is there twice the last counts, as in tar; ``webdataset`` raises.
    * Suffixes keep their case in names; columns and kinds of media go by their lower case.
    * Names without a suffix are samples of their own; ``webdataset`` leaves them out.

    Archives may be compressed; these are unpacked in turn. Plain ones of more than 1 GiB, or than ``blocksize``, are
    cut between two samples. What cannot be read goes to quarantine with its place and a reason: samples with a member
    that is cut or whose picture has no bytes, links, names that lead out of the archive, damaged headers. Hidden
    members (``.DS_Store``, ``__MACOSX``) count as rejected.

    Args:
        file_paths: shards, directories (searched recursively) and globs, local or URLs.
        files_per_partition: shards of one split.
        blocksize: split size on disk, as bytes or ``"64MiB"``: larger shards are cut, smaller ones packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        storage_options: for fsspec.
        schema: types of columns by name, to override those found.
        limit: number of rows to read, at most: the first ones in the order of the files.
        frames: ``"cudf"`` to have the rows on a GPU. Untested on a GPU.
        texts: further suffixes of text that become columns, such as ``["caption.txt"]``.
        on_bad_text: ``"keep"`` samples whose texts are not UTF-8, not JSON or not a whole number, with U+FFFD or null
            in the column; or ``"quarantine"`` them.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import io, tarfile, tempfile
        >>> from dcurate import InlineExecutor, Pipeline
        >>> with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        ...     with tarfile.open(fileobj=file, mode="w") as shard:
        ...         for name, data in (("0.jpg", b"not really a picture"), ("0.txt", b"A gull.")):
        ...             info = tarfile.TarInfo(name)
        ...             info.size = len(data)
        ...             shard.addfile(info, io.BytesIO(data))
        ...     file.flush()
        ...     [batch] = Pipeline("read", stages=[WebDatasetReader(file.name)]).run(InlineExecutor(), observers=[])
        >>> batch.to_arrow().select(["__key__", "file_name", "size", "txt"]).to_pylist()
        [{'__key__': '0', 'file_name': '0.jpg', 'size': 20, 'txt': 'A gull.'}]
    """

    texts: list[str] | None = None
    on_bad_text: Literal["keep", "quarantine"] = "keep"
    name: str = "webdataset_reader"

    kind: ClassVar[Format] = AnyOf("WebDataset", container_endings(()), compressed=False)

    def __post_init__(self) -> None:
        if self.texts is not None and not is_names(self.texts):
            raise PipelineError(
                f"{self.name}: texts={self.texts!r} must be a list of suffixes, such as ['caption.txt']"
            )
        if self.on_bad_text not in ("keep", "quarantine"):
            raise PipelineError(f"{self.name}: on_bad_text={self.on_bad_text!r} must be 'keep' or 'quarantine'")
        super().__post_init__()

    def _container(self, path: str) -> str:
        return container_of(path) or "tar"  # a shard that is named itself may have any name

    def _sample_of(self, name: str) -> str:
        return sample_of(name)[0]

    def _columns(self) -> dict[str, pa.DataType]:
        """The suffixes that become columns, with their types."""
        return {**TEXTS, **{suffix.lower(): pa.string() for suffix in self.texts or ()}}

    def _schema_of(self, part: FilePart) -> pa.Schema:
        return pa.schema([*_BASE, *self._columns().items(), (MEMBERS, MEMBERS_TYPE)])

    def _head(self, file: Any) -> pa.Schema | None:
        store, path = self._store(file.path)
        with tar.opened(store, path, file.size) as window:
            names = [member.name for member in islice(tar.walk(window), _HEAD) if isinstance(member, tar.Member)]
        seen = {sample_of(name)[1].lower() for name in names}
        texts = [(suffix, kind) for suffix, kind in self._columns().items() if suffix in seen]
        return pa.schema([*_BASE, *texts, (MEMBERS, MEMBERS_TYPE)])

    def _tables(
        self, part: FilePart, name: str, lost: list[tuple[LostPart, str]], left_out: Counter[str]
    ) -> Iterator[tuple[pa.Table, list[SourceRow]]]:
        known = self._known().types
        for table, rows in super()._tables(part, name, lost, left_out):
            problems = (row.values.pop("", ()) for row in rows)
            left_out.update(
                f"members were kept that are not such text ({problem})"
                for row_problems in problems
                for problem in row_problems
            )
            absent = [
                column
                for column in self._columns()
                if column not in known and table[column].null_count == table.num_rows
            ]
            yield table.drop_columns(absent), rows

    def _items(self, part: FilePart, name: str) -> Iterator[SourceRow | LostPart | str]:
        store, path = self._store(part.path)
        columns = self._columns()

        def wanted(member: str, size: int) -> bool:
            return size <= LARGEST_TEXT and sample_of(member)[1].lower() in columns

        with tar.opened(store, path, part.size, part.version, name) as window:
            for sample in samples_of(tar.walk(window, part.start, part.stop, wanted), part.path):
                yield sample if isinstance(sample, LostPart) else self._row(sample, part.path, name, columns)

    def _row(self, sample: ShardSample, path: str, name: str, columns: Mapping[str, pa.DataType]) -> SourceRow:
        media, texts = sample.media, sample.texts()
        refs = sample.refs(path)
        place = None if media is None else next(ref for ref in refs if ref.offset == media.offset)
        values: dict[str, Any] = {
            KEY: sample.key,
            "file_name": None if media is None else media.name,
            "media_ref": None if place is None or media is None else Ref(*place[:4], *media.segment).value,
            "size": None if media is None else media.size,
            "container": name,
            MEMBERS: [ref.value for ref in refs],
            **{suffix: value_of(data, columns[suffix]) for suffix, data in texts.items()},
        }
        reason, detail = fault_of(sample)
        problems = [problem for suffix, data in texts.items() if (problem := problem_of(suffix, data, columns[suffix]))]
        if problems and self.on_bad_text == "quarantine" and not reason:
            reason, detail = problems[0], f"sample {sample.key!r}"
        if problems and not reason:
            values[""] = problems
        return SourceRow(values, sum(member.size for member in sample.members), reason, detail)
