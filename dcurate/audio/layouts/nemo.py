"""`NemoManifestReader`: manifests of NeMo, plain, tarred and sharded, as rows that refer to recordings."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa

from dcurate.audio.layouts.shards import Shards, expanded
from dcurate.core.batch import FileGroup, FilePart
from dcurate.core.stage import RowNeeds
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.fs.paths import is_address
from dcurate.io.files import is_names
from dcurate.io.jsonl_reader import JsonlReader
from dcurate.isolate.errors import MediaFault
from dcurate.media.places import Place, folder_of, looked_up, ref_at, segment_at, with_refs, with_times
from dcurate.media.refs import REF, Ref
from dcurate.media.rows import values_of


@dataclass
class ManifestSource(JsonlReader):
    """A source of rows of JSON Lines that name recordings; see the readers made of it."""

    root: str | None = None
    on_missing: Literal["quarantine", "keep"] = "quarantine"
    name: str = "manifest_source"

    _root: str | None = field(default=None, init=False, repr=False, compare=False)
    #: Columns that say where the recording is.
    about: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.root is not None and (not isinstance(self.root, str) or not self.root):
            raise PipelineError(f"{self.name}: root={self.root!r} must be a folder or an address, or None")
        if self.on_missing not in ("quarantine", "keep"):
            raise PipelineError(f"{self.name}: on_missing={self.on_missing!r} must be 'quarantine' or 'keep'")
        super().__post_init__()

    def splits(self) -> Iterator[FileGroup]:
        """The splits of the manifests, in path order.

        Raises:
            DataError: nothing to read, or it cannot be listed.
        """
        self._root = self._full_root()  # workers may run in another directory
        return super().splits()

    def _full_root(self) -> str | None:
        if self.root is None or is_address(self.root):
            return self.root
        return os.path.abspath(self.root)

    def columns(self) -> list[str] | None:
        """Columns of the manifests, and that of the references.

        Raises:
            DataError: nothing to read, or a field that no head has.
        """
        names = super().columns()
        return None if names is None else [*names, REF]

    def adapted(self, needs: RowNeeds) -> Self | None:
        """Return the reader of rows with their lines, which parses what it needs itself in any case."""
        if needs.columns is not None:
            needs = replace(needs, columns=tuple(dict.fromkeys((*needs.columns, *self.about))))
        return super().adapted(needs)

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split with references; None if it holds none.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        rows = with_refs(task, self._read, self._places, self.name, segments=self._has_segments())
        if rows is None:
            return None
        table = rows.to_arrow()
        if self.fields is not None:
            table = table.drop_columns([name for name in self._added() if name in table.column_names])
        return replace(rows, data=self._held(table))

    def _read(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split, with the columns that references are made of."""
        reader = copy.copy(self)
        reader.frames = "arrow"
        if self.fields is not None:
            reader.fields = [*self.fields, *self._added()]
        return JsonlReader.process(reader, task)

    def _added(self) -> list[str]:
        """Columns that references are made of and rows are not to have."""
        known = self._known().types
        return [name for name in self.about if name in known and name not in (self.fields or ())]

    def _has_segments(self) -> bool:
        return True

    def _places(self, part: FilePart, rows: pa.Table) -> list[Place]:
        """What the rows of a manifest refer to."""
        named = self._named_places(part, rows, self._root or self._full_root() or folder_of(part.path))
        return named if self.on_missing == "keep" else looked_up(named, self._options())

    def _named_places(self, part: FilePart, rows: pa.Table, root: str) -> list[Place]:
        """What the rows of a manifest refer to, by their columns alone."""
        raise NotImplementedError


@dataclass
class NemoManifestReader(ManifestSource):
    """Read manifests of NeMo: JSON Lines with the path of a recording in ``audio_filepath``, plain, tarred or sharded.

    A row is a line, with its columns as they are and `media_ref`, which refers to the recording, or to a segment of it
    where the row has an ``offset``: from there on for ``duration`` seconds. Without an ``offset`` the row means all of
    the recording. Nothing of the recordings is read but the headers of archives. `NemoManifestWriter` writes the rows
    back, byte for byte where no stage changed them.

    Paths are relative to the folder of the manifest, or to `root`, and must lie in it; ``shard.tar/a.wav`` means a
    member. With `tar_paths`, ``audio_filepath`` names a member of an archive: of that whose name has the row's
    ``shard_id`` as its last number (or whose place it is, if the names have none), or the number in the name of the
    manifest, if the row has no ``shard_id``. A name that ends with ``-sub1`` or the like means the member without it,
    as NeMo names segments of one recording.

    Lines whose recording is not there (``missing``, ``no shard``, ``no path``), that lead elsewhere (``outside of
    root``) or have a negative ``offset`` or no positive ``duration`` behind it (``bad segment``) go to quarantine.
    Overlapping segments and lines that are there twice are rows like others. A segment that begins behind the end of
    its recording goes to quarantine in the stage that looks at the recording, such as `AudioInfo`.

    Args:
        file_paths: manifests, directories and globs, local or URLs; patterns such as ``manifest__OP_0..7_CL_.json``.
        files_per_partition: manifests of one split.
        blocksize: split size, as bytes or ``"128MiB"``: larger manifests are cut, smaller ones packed.
        fields: the columns to keep, in this order, besides `media_ref`; all by default.
        read_kwargs: arguments as for `JsonlReader`.
        storage_options: for fsspec.
        schema: types of columns by name, instead of guessing.
        limit: number of rows to read, at most: the first ones in the order of the files.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines that cannot be read.
        frames: ``"cudf"`` to have the rows on a GPU. Untested on a GPU.
        root: folder or address that recordings must lie in, and are relative to; the folder of the manifest if None.
            Name another only for manifests that you trust: ``"/"`` allows any path.
        on_missing: ``"quarantine"`` for lines whose recording is not there, or ``"keep"`` to look for none: to work on
            manifests alone. Files of their own on other stores than disks are never looked for.
        tar_paths: archives of a tarred manifest, with patterns such as ``audio__OP_0..7_CL_.tar``.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.wav").write_bytes(b"not really a recording")
        >>> _ = Path(folder.name, "manifest.json").write_text('{"audio_filepath": "a.wav", "offset": 1, "duration": 2}')
        >>> reader = NemoManifestReader(f"{folder.name}/manifest.json")
        >>> [batch] = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[])
        >>> [row] = batch.to_arrow().to_pylist()
        >>> row["audio_filepath"], row["media_ref"]["start_s"], row["media_ref"]["stop_s"]
        ('a.wav', 1.0, 3.0)
        >>> folder.cleanup()
    """

    tar_paths: str | list[str] | None = None
    name: str = "nemo_manifest_reader"
    about: ClassVar[tuple[str, ...]] = ("audio_filepath", "offset", "duration", "shard_id")

    _shards: Shards | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tar_paths is not None and not (isinstance(self.tar_paths, str) or is_names(self.tar_paths)):
            raise PipelineError(
                f"{self.name}: tar_paths={self.tar_paths!r} must be archives, such as 'audio__OP_0..7_CL_.tar'"
            )
        given = [self.file_paths] if isinstance(self.file_paths, str) else list(self.file_paths)
        paths = [name for path in given for name in (expanded(path) if isinstance(path, str) else [path])]
        if paths != given:
            self.file_paths = paths
        if self.tar_paths is not None:
            self._shards = Shards.of(self.tar_paths)

    def _has_segments(self) -> bool:
        return "offset" in self._known().types

    def _named_places(self, part: FilePart, rows: pa.Table, root: str) -> list[Place]:
        places: list[Place] = []
        for path, offset, duration, shard_id in zip(*(values_of(rows, name) for name in self.about), strict=True):
            ref = _named(path, shard_id, part.path, root, self._shards)
            places.append(ref if offset is None else with_times(ref, segment_at(offset, duration)))
        return places


def _named(path: Any, shard_id: Any, manifest: str, root: str, shards: Shards | None) -> Ref | MediaFault:
    """The recording that a row names."""
    if shards is None or not isinstance(path, str) or not path:
        return ref_at(path, root)
    archive = shards.find(shard_id, manifest)
    if archive is None:
        return MediaFault("no shard", f"shard_id is {shard_id!r}, and none of {len(shards.paths)} archives is its")
    return Ref(archive, path)
