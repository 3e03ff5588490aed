"""`MediaReader`: files of media in directories and containers, as rows that refer to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pyarrow as pa

from dcurate.core.batch import FilePart
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.schema import ColumnTypes, without_null
from dcurate.fs.compression import ending_of, head, salvage
from dcurate.io.files import Format, SourceFile, is_names
from dcurate.io.json_parse import BadLine, Wanted, each_line, parse_lines, row_of
from dcurate.io.lines import read_lines_of_range, read_whole
from dcurate.isolate.errors import MediaFault
from dcurate.media.containers import ContainerFile, LostPart, WantedFiles, of_tar, of_warc, of_zip
from dcurate.media.names import KINDS, LINES, container_endings, container_of
from dcurate.media.refs import MEDIA_REF, Ref
from dcurate.media.source import AnyOf, MediaSource, SourceRow

_BASE = [
    ("file_name", pa.string()),
    ("media_ref", MEDIA_REF),
    ("size", pa.int64()),
    ("container", pa.string()),
]
_WEB = [
    ("url", pa.string()),
    ("date", pa.string()),
    ("status", pa.int32()),
    ("mime_type", pa.string()),
    ("truncated", pa.string()),
]
_TAKEN = frozenset(name for name, _ in _BASE)
#: Bytes of a file of JSON Lines from which its columns are known.
_HEAD = 2**22


@dataclass
class MediaReader(MediaSource):
    """Read files of any kind as rows that refer to them: pictures, PDF files, recordings.

    A row is a file, in a directory or in a container: tar (``.tar``, also compressed), zip, WARC (also ``.warc.gz``),
    or JSON Lines with the bytes of a file in base64 in each row. The bytes stay where they are: `media_ref` says where,
    and a stage that needs them fetches them. Rows have ``file_name``, ``media_ref``, ``size`` in bytes, and
    ``container`` (null for a file of its own); those of web archives also ``url``, ``date``, ``status``, ``mime_type``
    and ``truncated`` (why the crawler cut the file off), those of JSON Lines the other columns of their lines.

    A batch refers to about 64 MiB of media. Small files are read together; a plain tar archive of more than 1 GiB, or
    than ``blocksize``, is cut. Compressed tar archives are unpacked in turn, so prefer plain ones: pictures do not get
    smaller. What is no file goes to quarantine, with its place and reason: members that are cut, links, names that lead
    out of the archive, damaged headers and records, members of zip archives with a password, bad lines. Hidden members
    (``.DS_Store``, ``__MACOSX``) count as rejected.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs.
        files_per_partition: files of one split.
        blocksize: split size on disk, as bytes or ``"64MiB"``: larger archives are cut, smaller files packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        storage_options: for fsspec.
        schema: types of columns by name, to override those found.
        limit: number of rows to read, at most: the first ones in the order of the files.
        frames: ``"cudf"`` to have the rows on a GPU. Untested on a GPU.
        kinds: the files that are wanted: ``"image"``, ``"pdf"``, ``"office"``, ``"audio"``, ``"video"``, or endings
            such as ``".djvu"``; all by default. In web archives the type that the server gave decides.
        bytes_field: the column of JSON Lines that holds the bytes in base64; without it, files of JSON Lines are no
            containers.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.png").write_bytes(b"not really a picture")
        >>> _ = Path(folder.name, "notes.txt").write_text("not wanted")
        >>> reader = MediaReader(folder.name, kinds=["image"])
        >>> [batch] = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[])
        >>> batch.to_arrow().select(["file_name", "size"]).to_pylist()
        [{'file_name': 'a.png', 'size': 20}]
        >>> folder.cleanup()
    """

    kinds: list[str] | None = None
    bytes_field: str | None = None
    name: str = "media_reader"

    def __post_init__(self) -> None:
        if self.kinds is not None:
            if not is_names(self.kinds):
                raise PipelineError(
                    f"{self.name}: kinds={self.kinds!r} must be a list such as ['image'], or None for all"
                )
            unknown = [kind for kind in self.kinds if kind not in KINDS and not kind.startswith(".")]
            if unknown:
                raise PipelineError(
                    f"{self.name}: no kind {listed(unknown)}; there are {listed(KINDS)}, and endings such as '.djvu'"
                )
        super().__post_init__()

    @property
    def kind(self) -> Format:  # type: ignore[override]
        """The files of a directory that are read."""
        if self.kinds is None:
            return AnyOf("media", (), compressed=False)
        lines = () if self.bytes_field is None else LINES
        endings = (*(WantedFiles.of(self.kinds).endings or ()), *container_endings(lines))
        return AnyOf("media", endings, compressed=False)

    def _container(self, path: str) -> str:
        kind = super()._container(path)
        return "" if kind == "lines" and self.bytes_field is None else kind

    def _files(self) -> list[SourceFile]:
        files = super()._files()
        if self.bytes_field is None and all(container_of(file.path) == "lines" for file in files):
            raise DataError(
                f"{self.name}: {files[0].name} is JSON Lines; name the column that holds the bytes in base64: "
                "bytes_field='content'"
            )
        return files

    def _schema_of(self, part: FilePart) -> pa.Schema:
        match self._container(part.path):
            case "warc":
                return pa.schema([*_BASE, *_WEB])
            case "lines":
                return pa.schema([*pa.schema(_BASE), *self._columns_of_lines(part)])
        return pa.schema(_BASE)

    def _items(self, part: FilePart, name: str) -> Iterator[SourceRow | LostPart | str]:
        store, path = self._store(part.path)
        wanted = WantedFiles.of(self.kinds)
        members: Iterator[ContainerFile | LostPart]
        match self._container(part.path):
            case "":
                ref = Ref(part.path, None, 0, part.size)
                yield SourceRow(_values(ContainerFile(name, ref, part.size), None), part.size)
                return
            case "tar":
                members = of_tar(store, path, part, name)
            case "zip":
                members = of_zip(store, path, part, name)
            case "warc":
                for member in of_warc(store, path, part, name, wanted):
                    yield member if isinstance(member, LostPart) else SourceRow(_values(member, name), member.size or 0)
                return
            case _:
                yield from self._lines(part, name)[1]
                return
        for member in members:
            if isinstance(member, LostPart):
                yield member
            elif not wanted.named(member.name):
                yield "members of other kinds were left out"
            else:
                yield SourceRow(_values(member, name), member.size or 0)

    def _tables(
        self, part: FilePart, name: str, lost: list[tuple[LostPart, str]], left_out: Counter[str]
    ) -> Iterator[tuple[pa.Table, list[SourceRow]]]:
        if self._container(part.path) != "lines":
            yield from super()._tables(part, name, lost, left_out)
            return
        table, items = self._lines(part, name)
        first, last = part.rows or (0, len(items))
        chosen = items[first:last]
        before = sum(isinstance(row, SourceRow) for row in items[:first])
        rows = [row for row in chosen if isinstance(row, SourceRow)]
        lost += [(row, name) for row in chosen if isinstance(row, LostPart)]
        if rows:
            yield table.slice(before, len(rows)), rows

    def _lines(self, part: FilePart, name: str) -> tuple[pa.Table, list[SourceRow | LostPart]]:
        """The rows of a file of JSON Lines as a table, and an item for each of its lines."""
        store, path = self._store(part.path)
        ending, damage = ending_of(path), ""
        if part.stop is not None:
            data, start = read_lines_of_range(store, path, part)
        else:
            data, start = read_whole(store, path, part, name), 0
            data, broken = salvage(data, ending)
            damage = broken.reason if broken is not None else ""
        lines: list[bytes] = []
        items: list[SourceRow | LostPart] = []
        sizes: list[tuple[Ref, int]] = []
        for _, offset, line in each_line(data):
            stripped, size, fault = self._stripped(line)
            ref = Ref(part.path, self.bytes_field, start + offset, len(line))
            if fault is None:
                lines.append(stripped)
                sizes.append((ref, size))
                items.append(SourceRow({}, size))
            else:
                items.append(LostPart("", ref, fault))
        if damage:
            ref = Ref(part.path, self.bytes_field, len(data), 0)
            items.append(LostPart("", ref, MediaFault("damaged stream", damage)))
        wanted = Wanted(self._known_of_lines(), self._declared())
        table, bad = parse_lines(b"\n".join(lines), wanted, name) if lines else (pa.table({}), [])
        items = _with_bad(items, sizes, bad)
        refused = {line.number for line in bad}
        good = [position for number, position in enumerate(sizes) if number not in refused]
        base = [
            {"file_name": f"{name}@{ref.offset}", "media_ref": ref.value, "size": size, "container": name}
            for ref, size in good
        ]
        rows = pa.Table.from_pylist(base, pa.schema(_BASE))
        for column in table.column_names:
            if column not in _TAKEN and len(rows):
                rows = rows.append_column(column, table[column])
        return rows, items

    def _stripped(self, line: bytes) -> tuple[bytes, int, MediaFault | None]:
        """A line without the bytes, and how many there are."""
        try:
            row = row_of(line)
        except ValueError as error:
            return b"", 0, MediaFault("malformed line", str(error))
        value = row.pop(str(self.bytes_field), None)
        if not isinstance(value, str):
            return b"", 0, MediaFault("no bytes", f"the line has no text in {self.bytes_field!r}")
        return orjson.dumps(row), len(value) * 3 // 4 - value[-2:].count("="), None

    def _known_of_lines(self) -> ColumnTypes:
        known = self._known()
        return ColumnTypes({name: kind for name, kind in known.types.items() if name not in _TAKEN}, known.origins)

    def _columns_of_lines(self, part: FilePart) -> pa.Schema:
        store, path = self._store(part.path)
        with store.open(path, "rb") as file:
            data = head(file, ending_of(path), _HEAD, part.path)
        data = data[: data.rfind(b"\n") + 1] or data
        lines = [self._stripped(line) for _, _, line in each_line(data)]
        good = b"\n".join(line for line, _, fault in lines if fault is None)
        table, _ = parse_lines(good, Wanted(ColumnTypes(), self._declared()), part.path)
        return without_null(pa.schema([column for column in table.schema if column.name not in _TAKEN]))


def _values(file: ContainerFile, container: str | None) -> dict[str, object]:
    base = {"file_name": file.name, "media_ref": file.ref.value, "size": file.size, "container": container}
    return {**base, **file.about}


def _with_bad(
    items: list[SourceRow | LostPart], refs: list[tuple[Ref, int]], bad: list[BadLine]
) -> list[SourceRow | LostPart]:
    """The items of lines, with those that do not fit the types of the columns as lost."""
    by_number = {line.number: line.error for line in bad}
    made: list[SourceRow | LostPart] = []
    number = 0
    for row in items:
        error = by_number.get(number) if isinstance(row, SourceRow) else None
        made.append(row if error is None else LostPart("", refs[number][0], MediaFault("malformed line", error)))
        number += isinstance(row, SourceRow)
    return made
