"""`LhotseCutReader`: manifests of Lhotse as rows that refer to recordings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.layouts.nemo import ManifestSource
from dcurate.core.batch import FileGroup, FilePart
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.places import SAME_S, Place, ref_at, segment_at, with_times
from dcurate.media.refs import Ref

#: Columns that say where the sound of a cut is.
ABOUT = ("start", "duration", "channel", "type", "tracks", "recording")
#: What is counted of cuts that no reference can mean.
UNREFERRED = "cuts have no reference, as "
#: Changes of recordings that leave times as they are.
_SAME_TIMES = ("Resample", "resample")


@dataclass
class LhotseCutReader(ManifestSource):
    """Read cuts of Lhotse: JSON Lines, plain or compressed, with the recording in each.

    A row is a cut, with its columns as they are (``id``, ``start``, ``duration``, ``channel``, ``supervisions``,
    ``recording``, ``custom`` and others) and `media_ref`, which refers to the recording from ``start`` on for
    ``duration`` seconds; or to all of it, if the cut is all of it. Nothing of the recordings is read but the headers of
    archives. `LhotseCutWriter` writes the rows back, byte for byte where no stage changed them.

    The file is that of ``recording.sources`` which has the channel of the cut. Its path is relative to the folder of
    the manifest, or to `root`, and must lie in it; ``shard.tar/a.wav`` means a member. Cuts that no one file can mean
    are rows without a reference, and the report counts them: cuts that mix several recordings or pad them, cuts of
    features only, with channels from several files, or of a recording that Lhotse would change as it is loaded.

    Cuts go to quarantine that begin before their recording or behind its end, or last no time (``bad segment``), whose
    recording is not there (``missing``, ``no path``), lies elsewhere (``outside of root``), is the output of a command
    (``command``: nothing is run), or in a Shar folder (``shar``; read it with `LhotseSharReader`). Overlapping cuts and
    ids that are there twice are rows like others.

    Args:
        file_paths: manifests, directories and globs, local or URLs.
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
        on_missing: ``"quarantine"`` for cuts whose recording is not there, or ``"keep"`` to look for none.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.wav").write_bytes(b"not really a recording")
        >>> sources = [{"type": "file", "channels": [0], "source": "a.wav"}]
        >>> recording = {"id": "a", "sources": sources, "sampling_rate": 8000, "num_samples": 80000, "duration": 10}
        >>> cut = {"id": "a-1", "start": 2.0, "duration": 3.0, "channel": 0, "type": "MonoCut", "recording": recording}
        >>> _ = Path(folder.name, "cuts.jsonl").write_text(json.dumps(cut))
        >>> reader = LhotseCutReader(f"{folder.name}/cuts.jsonl")
        >>> [batch] = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[])
        >>> [row] = batch.to_arrow().to_pylist()
        >>> row["id"], row["media_ref"]["start_s"], row["media_ref"]["stop_s"]
        ('a-1', 2.0, 5.0)
        >>> folder.cleanup()
    """

    name: str = "lhotse_cut_reader"
    about: ClassVar[tuple[str, ...]] = ABOUT

    _unreferred: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split with references; None if it holds none.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        self._unreferred = Counter[str]()
        rows = super().process(task)
        return None if rows is None else replace(rows, found={**rows.found, **self._unreferred})

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about cuts without a reference, and whole numbers that lost digits."""
        cuts = [f"{count:,} {kind}" for kind, count in found.items() if kind.startswith(UNREFERRED)]
        return [*super().remarks(found), *cuts]

    def _named_places(self, part: FilePart, rows: pa.Table, root: str) -> list[Place]:
        return [self._place(cut, root) for cut in self._cuts(rows)]

    def _cuts(self, rows: pa.Table) -> list[dict[str, Any]]:
        """What cuts say of where their sound is."""
        return (
            rows.select([name for name in self.about if name in rows.column_names]).to_pylist() or [{}] * rows.num_rows
        )

    def _place(self, cut: Mapping[str, Any], root: str) -> Place:
        """What a cut refers to; what no reference can mean is counted."""
        place = place_of(cut, root)
        if isinstance(place, str):
            self._unreferred[UNREFERRED + place] += 1
            return None
        return place


def place_of(cut: Mapping[str, Any], root: str) -> Ref | MediaFault | str:
    """What a cut refers to; why no reference can mean it, if that is so.

    Examples:
        >>> place_of({"type": "PaddingCut"}, "/data"), place_of({"type": "MonoCut", "recording": None}, "/data")
        ('they pad or mix recordings', 'they have no recording')
    """
    if cut.get("tracks") or cut.get("type") in ("MixedCut", "PaddingCut"):
        return "they pad or mix recordings"
    recording = parsed(cut.get("recording"))
    if not isinstance(recording, dict):
        return "they have no recording"
    changes = parsed(recording.get("transforms"))
    if changes and not (isinstance(changes, list) and all(_name_of(change) in _SAME_TIMES for change in changes)):
        return "their recordings are to be changed as they are loaded"
    source = source_of(recording, parsed(cut.get("channel")))
    if source is None:
        return "their channels are in several files"
    times = times_of(cut, recording)
    return times if isinstance(times, MediaFault) else with_times(_ref_of(source, root), times)


def parsed(value: Any) -> Any:
    """A value, or what the JSON means as which values of several types were read."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def source_of(recording: Mapping[str, Any], channel: Any) -> Mapping[str, Any] | None:
    """The source of a recording that has the channels of a cut; None if no single one has."""
    listed = recording.get("sources")
    sources: list[Mapping[str, Any]] = [
        source for source in (listed if isinstance(listed, list) else []) if isinstance(source, dict)
    ]
    if len(sources) == 1:
        return sources[0]
    wanted = channel if isinstance(channel, list) else [channel]
    return next((source for source in sources if _has_channels(source, wanted)), None)


def _has_channels(source: Mapping[str, Any], wanted: list[Any]) -> bool:
    channels = source.get("channels")
    return isinstance(channels, list) and all(channel in channels for channel in wanted)


def times_of(cut: Mapping[str, Any], recording: Mapping[str, Any]) -> tuple[float | None, float | None] | MediaFault:
    """When a cut begins and ends in its recording, in seconds; two times None if it is all of it."""
    times = segment_at(cut.get("start") or 0.0, cut.get("duration"))
    length = recording.get("duration")
    if isinstance(times, MediaFault) or not isinstance(length, int | float) or isinstance(length, bool):
        return times
    start_s, stop_s = times
    if start_s >= length:
        return MediaFault("bad segment", f"it begins at {start_s} s, and the recording lasts {length} s")
    rate = recording.get("sampling_rate")
    half_a_sample = 0.5 / rate if isinstance(rate, int) and rate > 0 else SAME_S
    if start_s == 0 and (stop_s is None or stop_s >= length - half_a_sample):
        return None, None
    return start_s, stop_s


def _ref_of(source: Mapping[str, Any], root: str) -> Ref | MediaFault:
    kind = source.get("type")
    if kind in ("file", "url"):
        return ref_at(source.get("source"), root)
    if kind == "command":
        return MediaFault("command", f"the recording is the output of {source.get('source')!r}, which is not run")
    if kind == "shar":
        return MediaFault("shar", "the recording is in an archive of a Shar folder; read it with LhotseSharReader")
    return MediaFault("no path", f"sources of type {kind!r} name no file")


def _name_of(change: Any) -> str:
    return str(change.get("name")) if isinstance(change, dict) else ""
