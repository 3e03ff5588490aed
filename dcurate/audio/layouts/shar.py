"""`LhotseSharReader` and `LhotseSharWriter`: Shar folders of Lhotse, with cuts beside archives of their recordings."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.headers.header import AudioHeader
from dcurate.audio.layouts.cuts import ABOUT, UNREFERRED, LhotseCutReader, parsed, times_of
from dcurate.audio.layouts.cuts_writer import Cut, LhotseCutWriter, is_cut
from dcurate.audio.layouts.tars import write_tar
from dcurate.core.batch import BatchKey, FilePart
from dcurate.errors import PipelineError, listed
from dcurate.fs.compression import ending_of, packing
from dcurate.fs.errors import storage_errors
from dcurate.io.files import JSONL, Format
from dcurate.isolate.errors import MediaFault
from dcurate.media.containers import LostPart, of_tar
from dcurate.media.contents import contents
from dcurate.media.places import Place, folder_of, with_times
from dcurate.media.ranges import version_of
from dcurate.media.refs import Ref, fetch, has_bytes, ref_array
from dcurate.media.rows import row_refs, values_of
from dcurate.rows.lines import LINE, parsed_line

#: Members that are no recordings: manifests of recordings, and marks of cuts without one.
_META, _NONE = (".json", ".nometa"), ".nodata"


@dataclass(frozen=True)
class CutsFormat(Format):
    """Files of JSON Lines whose names begin with ``cuts.``."""

    def matches(self, path: str) -> bool:
        return path.rpartition("/")[2].startswith("cuts.") and super().matches(path)


@dataclass
class LhotseSharReader(LhotseCutReader):
    """Read Shar folders of Lhotse: ``cuts.000000.jsonl.gz`` beside ``recording.000000.tar``.

    A row is a cut, as for `LhotseCutReader`; `media_ref` refers to its member of the archive, which has the name of the
    cut's id. `LhotseSharWriter` writes the rows back. A cut whose member is not there or is cut off goes to quarantine,
    a cut without a recording is a row without a reference. Archives of other fields, such as features, are not read.

    Args:
        file_paths: Shar folders, or their files of cuts, local or URLs.
        files_per_partition: files of cuts of one split.
        blocksize: split size, as bytes or ``"128MiB"``: larger plain files are cut, smaller ones packed.
        fields: the columns to keep, in this order, besides `media_ref`; all by default.
        read_kwargs: arguments as for `JsonlReader`.
        storage_options: for fsspec.
        schema: types of columns by name, instead of guessing.
        limit: number of rows to read, at most: the first ones in the order of the files.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines that cannot be read.
        frames: ``"cudf"`` to have the rows on a GPU. Untested on a GPU.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> reader = LhotseSharReader("/data/shar")
        >>> reader.reads("/data/shar/cuts.000000.jsonl.gz"), reader.reads("/data/shar/text.000000.jsonl.gz")
        (True, False)
    """

    name: str = "lhotse_shar_reader"
    kind: ClassVar[Format] = CutsFormat("cuts", JSONL.suffixes, compressed=True)
    about: ClassVar[tuple[str, ...]] = ("id", *ABOUT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.root is not None or self.on_missing != "quarantine":
            raise PipelineError(f"{self.name}: root and on_missing have no effect here; leave them out")

    def _places(self, part: FilePart, rows: pa.Table) -> list[Place]:
        archive = archive_of(part.path)
        members = self._members(archive)
        return [self._member(cut, members.get(str(cut.get("id"))), archive) for cut in self._cuts(rows)]

    def _member(self, cut: Mapping[str, Any], members: deque[Place] | None, archive: str) -> Place:
        """The member of a cut."""
        if not members:
            return MediaFault("missing", f"{archive!r} has no member for cut {cut.get('id')!r}")
        place = members.popleft() if len(members) > 1 else members[0]
        recording = parsed(cut.get("recording"))
        if place is None:
            self._unreferred[UNREFERRED + "they have no recording"] += 1
        if not isinstance(place, Ref) or not isinstance(recording, dict):
            return place
        return with_times(place, times_of(cut, recording))

    def _members(self, archive: str) -> dict[str, deque[Place]]:
        """The members of an archive by the ids of cuts, in order; None for a cut without a recording."""
        members: dict[str, deque[Place]] = defaultdict(deque)
        store, path = self._store(archive)
        with storage_errors("read", archive):
            try:
                size = version_of(store, path).size
            except FileNotFoundError:
                return members
            for member in of_tar(store, path, FilePart(archive, size=size), archive):
                name = member.name
                cut_id, _, suffix = name.rpartition(".")
                if f".{suffix}" in _META:
                    continue
                fault = member.fault if isinstance(member, LostPart) else None
                members[cut_id].append(fault or (None if f".{suffix}" == _NONE else member.ref))
        return members


def archive_of(cuts: str) -> str:
    """The archive of the recordings of a file of cuts.

    Examples:
        >>> archive_of("/data/shar/cuts.000007.jsonl.gz"), archive_of("s3://b/cuts.jsonl")
        ('/data/shar/recording.000007.tar', 's3://b/recording.tar')
    """
    name = cuts.rpartition("/")[2]
    stem = name.removesuffix(ending_of(name)).rpartition(".")[0]
    return f"{folder_of(cuts).rstrip('/')}/recording{stem.removeprefix('cuts')}.tar"


@dataclass
class LhotseSharWriter(LhotseCutWriter):
    """Write Shar folders of Lhotse: cuts in ``cuts.NAME.jsonl.gz``, their recordings in ``recording.NAME.tar``.

    The members of the archive are the bytes of the recordings as they are, one for each cut, in their order, each
    followed by its manifest; Lhotse reads the folder with ``CutSet.from_shar(in_dir=...)``. What is in the cuts, and
    how rows of other readers become cuts, is as for `LhotseCutWriter`. A cut that is a segment of a recording comes
    with all of it: put `CutAudio` before, where recordings are long. A row whose bytes cannot be fetched goes to
    quarantine; a cut without a recording is written without a member.

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: arguments as for `JsonlWriter`.
        mode: what to do about existing files, as for `JsonlWriter`.
        max_rows_per_file: split larger batches into several archives.
        storage_options: for fsspec, also of the recordings.
        text_field: column with the text of rows that are no cuts yet.
        language_field: column with their language.
        speaker_field: column with their speaker.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import io, tempfile, wave
        >>> from dcurate import BatchKey, DocumentBatch
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as sound:
        ...     sound.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     sound.writeframes(bytes(16000))
        >>> rows = pa.table({"file_name": ["a.wav"], "bytes": [file.getvalue()], "text": ["hello"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> files = LhotseSharWriter(folder.name).process(DocumentBatch(data=rows, key=BatchKey("rows")))
        >>> [path.rpartition("/")[2] for path in files.data]
        ['recording.rows-a818bd818689-000000.tar', 'cuts.rows-a818bd818689-000000.jsonl.gz']
        >>> folder.cleanup()
    """

    name: str = "lhotse_shar_writer"
    endings: ClassVar[tuple[str, ...]] = (".jsonl.gz", ".tar")

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = ("compression", "max_bytes_per_file", "separate_by")
        idle = [name for name in settings if getattr(self, name) is not None]
        if idle:
            raise PipelineError(f"{self.name}: {listed(idle)} cannot be set, as it has no effect here; leave it out")

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        for number, rows in enumerate(self._slices(table)):
            lines, faults = self._cuts(rows)
            good = [row for row in range(rows.num_rows) if row not in faults]
            cuts = [parsed_line(line) for line in lines[LINE].to_pylist()]
            name = f"{self._name(key, '', 0)}-{number:06d}"
            with self.directory.writing(f"recording.{name}.tar") as file:
                lost: dict[int, MediaFault] = {}
                write_tar(file, self._members(rows, good, cuts, lost))
                size = file.tell()
            yield FilePart(self.directory.path(f"recording.{name}.tar"), size=size)
            faults |= lost
            self._bad += [(rows, faults)] if faults else []
            kept = lines.filter(pa.array([row not in lost for row in good], pa.bool_()))
            with self.directory.writing(f"cuts.{name}.jsonl.gz") as file:
                with packing(file, ".gz") as packed:
                    for piece in self._form.pieces(kept) if len(kept) else ():
                        packed.write(piece)
                size = file.tell()
            yield FilePart(self.directory.path(f"cuts.{name}.jsonl.gz"), size=size)

    def _cut(self, cut: Cut, ref: Ref | None, header: AudioHeader | None, added: Cut) -> Cut:
        made = super()._cut(cut, ref, header, added)
        if header is None or not isinstance(made.get("recording"), dict):
            return made
        recording = {**made["recording"]}
        channels = [channel for source in recording["sources"] for channel in source["channels"]]
        return {**made, "recording": {**recording, "sources": [{"type": "shar", "channels": channels, "source": ""}]}}

    def _needs_recording(self, cut: Cut, ref: Ref | None) -> bool:
        """Whether a row has no recording yet that can be in a Shar archive."""
        if ref is None and is_cut(cut):
            return False
        sources = (cut.get("recording") or {}).get("sources") or []
        return not is_cut(cut) or not any(source.get("type") == "shar" for source in sources)

    def _members(
        self, rows: pa.Table, good: Sequence[int], cuts: Sequence[Cut], lost: dict[int, MediaFault]
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the members of cuts; the faults of rows whose bytes cannot be fetched are added."""
        refs = row_refs(rows)
        here = has_bytes(rows)
        with_sound = [row for row in good if refs[row] is not None or here[row]]
        sounds = contents(rows, with_sound, self.storage_options) if with_sound else iter(())
        names = values_of(rows, "file_name")
        metas = self._metas([refs[row] for row in good])
        for row, cut, meta in zip(good, cuts, metas, strict=True):
            ref, cut_id = refs[row], str(cut.get("id"))
            if ref is None and not here[row]:
                yield from ((f"{cut_id}{suffix}", b"") for suffix in (_NONE, _META[1]))
                continue
            data = next(sounds)
            if isinstance(data, MediaFault):
                lost[row] = data
                continue
            yield f"{cut_id}{_suffix(ref, names[row])}", data
            kept = meta is not None and ref is not None and _is_placeholder(cut)
            yield f"{cut_id}{_META[0]}", meta if kept and meta is not None else _manifest(cut)

    def _metas(self, refs: Sequence[Ref | None]) -> list[bytes | None]:
        """The manifests beside recordings that lie in a Shar archive already."""
        beside = [_beside(ref) for ref in refs]
        table = pa.table({"media_ref": ref_array([ref for ref in beside if ref is not None])})
        found = iter(fetch(table, storage_options=self.storage_options) if table.num_rows else [])
        answers = [None if ref is None else next(found) for ref in beside]
        return [answer if isinstance(answer, bytes) else None for answer in answers]


def _beside(ref: Ref | None) -> Ref | None:
    """The manifest beside a member of a Shar archive."""
    if ref is None or ref.member is None or not ref.path.rpartition("/")[2].startswith("recording."):
        return None
    return Ref(ref.path, ref.member.rpartition(".")[0] + _META[0])


def _is_placeholder(cut: Cut) -> bool:
    sources = (cut.get("recording") or {}).get("sources") or []
    return len(sources) == 1 and sources[0].get("type") == "shar"


def _manifest(cut: Cut) -> bytes:
    """The manifest of a member, as Lhotse writes it."""
    return json.dumps(cut["recording"]).encode() + b"\n"


def _suffix(ref: Ref | None, name: str | None) -> str:
    """The ending of a recording's name, with its dot."""
    path = name or (ref.member or ref.path if ref is not None else "")
    suffix = path.rpartition("/")[2].rpartition(".")[2]
    return f".{suffix}" if suffix and suffix != path else ".audio"
