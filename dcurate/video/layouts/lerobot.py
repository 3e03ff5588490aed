"""`LeRobotReader`: episodes of robots, several to a film."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import orjson
import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart
from dcurate.core.stage import RowNeeds
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.fs.errors import storage_errors
from dcurate.io import files
from dcurate.io.parquet_reader import ParquetReader
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.names import within
from dcurate.media.places import Place, looked_up, ref_at, segment_at
from dcurate.media.refs import REF, Ref, ref_array

#: Folder of the metadata of episodes, in that of the dataset.
_EPISODES = "/meta/episodes/"
#: Columns of an episode that are read, if they are there, and those that all have.
_ABOUT = ("tasks", "length", "dataset_from_index", "dataset_to_index", "data/chunk_index", "data/file_index")
_COLUMNS = {
    "episode_index": pa.int64(),
    "camera": pa.string(),
    "tasks": pa.list_(pa.string()),
    "length": pa.int64(),
    "fps": pa.float64(),
    "dataset_from_index": pa.int64(),
    "dataset_to_index": pa.int64(),
    "data_path": pa.string(),
}
_OF_CAMERA = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
#: Templates of paths, where a dataset has none.
_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
#: Fields of templates of paths; nothing else is put in.
_FIELD = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}")


@dataclass(frozen=True)
class EpisodeFiles(files.Format):
    """Parquet files of the metadata of episodes."""

    def matches(self, path: str) -> bool:
        return _EPISODES in path and super().matches(path)


@dataclass
class LeRobotReader(ParquetReader):
    """Read datasets of LeRobot, version 3: a row for each episode and camera, which refers to its clip of a film.

    Many episodes share an MP4 file; `media_ref` has the start and end of the episode in it. The columns are
    ``episode_index``, ``camera`` (the feature, such as ``observation.images.front``), ``tasks`` (a list of texts),
    ``length`` in frames, ``fps``, ``dataset_from_index`` and ``dataset_to_index`` (rows of the dataset), and
    ``data_path`` (the Parquet file with states and actions; its rows with this ``episode_index`` are those of the
    episode). Films are not read.

    Rows go to quarantine whose film is not there (``missing``) or lies outside of the dataset (``outside of root``), or
    whose times none can have (``bad segment``).

    Args:
        file_paths: folders of datasets, which have ``meta/info.json``, local or URLs.
        files_per_partition: files of metadata of one split.
        blocksize: split size, as bytes or ``"128MiB"``.
        read_kwargs: as for `ParquetReader`.
        storage_options: for fsspec.
        limit: number of rows to read, at most: the first ones in the order of the files.
        cameras: features that are read; all by default.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow.parquet as pq
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> (root := Path(folder.name)).joinpath("meta/episodes/chunk-000").mkdir(parents=True)
        >>> info = {"codebase_version": "v3.0", "fps": 10, "features": {"front": {"dtype": "video"}}}
        >>> _ = root.joinpath("meta/info.json").write_bytes(orjson.dumps(info))
        >>> episodes = {"episode_index": [0, 1], "tasks": [["Lift the cube."], ["Push it."]], "length": [20, 15]}
        >>> times = {"videos/front/from_timestamp": [0.0, 2.0], "videos/front/to_timestamp": [2.0, 3.5]}
        >>> places = {"videos/front/chunk_index": [0, 0], "videos/front/file_index": [0, 0]}
        >>> pq.write_table(pa.table(episodes | times | places), root / "meta/episodes/chunk-000/file-000.parquet")
        >>> (film := root.joinpath("videos/front/chunk-000/file-000.mp4")).parent.mkdir(parents=True)
        >>> _ = film.write_bytes(b"not really a film")
        >>> [batch] = Pipeline("read", stages=[LeRobotReader(folder.name)]).run(InlineExecutor(), observers=[])
        >>> for row in batch.to_arrow().to_pylist():
        ...     print(row["episode_index"], row["tasks"], row["media_ref"]["start_s"], row["media_ref"]["stop_s"])
        0 ['Lift the cube.'] 0.0 2.0
        1 ['Push it.'] 2.0 3.5
        >>> folder.cleanup()
    """

    name: str = "lerobot_reader"
    cameras: list[str] | None = field(default=None, kw_only=True)

    filters_rows: ClassVar[bool] = False
    kind: ClassVar[files.Format] = EpisodeFiles("LeRobot metadata", (".parquet",), compressed=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting in ("fields", "schema"):
            if getattr(self, setting) is not None:
                raise PipelineError(f"{self.name}: {setting} has no effect on its columns; leave it out")
        if self.frames != "arrow":
            raise PipelineError(f"{self.name}: frames={self.frames!r} must be 'arrow'")
        if self.cameras is not None and not files.is_names(self.cameras):
            raise PipelineError(f"{self.name}: cameras={self.cameras!r} must be a list of features, or None for all")

    def columns(self) -> list[str] | None:
        """Columns of the rows.

        Raises:
            DataError: nothing to read.
        """
        self._files()
        return [*_COLUMNS, REF]

    def adapted(self, needs: RowNeeds) -> LeRobotReader | None:
        """None: rows keep neither lines nor where they were read, as each is only a part of one in a file."""
        return None

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it holds none.

        Raises:
            DataError: a file cannot be read, or the dataset is of another version.
        """
        batches = [batch for part in task.parts if (batch := self._episodes(task, part)) is not None]
        if len(batches) < 2:
            return batches[0] if batches else None
        joined = DocumentBatch.joined(batches)
        assert joined is not None  # all have the same columns
        return replace(joined, rejections=tuple(lost for batch in batches for lost in batch.rejections))

    def _episodes(self, task: FileGroup, part: FilePart) -> DocumentBatch | None:
        root = part.path[: part.path.rindex(_EPISODES)]
        dataset = _Dataset(root, self._json(f"{root}/meta/info.json"), self.name)
        cameras = dataset.chosen(self.cameras)
        reader = copy.copy(self)
        reader.fields = [name for name in dataset.columns(cameras) if name in self._known().types]
        if "episode_index" not in reader.fields:
            raise DataError(
                f"{self.name}: {self._named(part)} has no column 'episode_index', as metadata of episodes has"
            )
        read = super(LeRobotReader, reader).process(replace(task, parts=(part,)))
        if read is None:
            return None
        rows = [(episode, camera) for episode in read.to_arrow().to_pylist() for camera in cameras]
        places = looked_up([dataset.place(*row) for row in rows], self._options())
        values = [dataset.about(*row) for row in rows]
        columns = {name: pa.array([value[name] for value in values], kind) for name, kind in _COLUMNS.items()}
        refs = ref_array([place if isinstance(place, Ref) else None for place in places], segments=True)
        batch = DocumentBatch(data=pa.table({**columns, REF: refs}), key=task.key)
        return quarantined(batch, places, self.name)

    def _json(self, path: str) -> Any:
        store, inner = self._store(path)
        try:
            with storage_errors("read", path):
                return orjson.loads(store.cat_file(inner))
        except (orjson.JSONDecodeError, FileNotFoundError) as error:
            raise DataError(f"{self.name}: {path!r} is missing or not JSON; name the folder of a dataset") from error


class _Dataset:
    """What ``meta/info.json`` says of a dataset."""

    def __init__(self, root: str, info: Any, stage: str) -> None:
        version = info.get("codebase_version") if isinstance(info, dict) else None
        if not str(version).startswith("v3"):
            raise DataError(
                f"{stage}: the dataset in {root!r} is of version {version!r}, not v3; convert it with LeRobot's "
                "convert_dataset_v21_to_v30"
            )
        self._root, self._info, self._stage = root, info, stage
        features = info.get("features")
        self._cameras = [
            name
            for name, feature in (features if isinstance(features, dict) else {}).items()
            if isinstance(feature, dict) and feature.get("dtype") == "video"
        ]

    def chosen(self, cameras: Sequence[str] | None) -> list[str]:
        """The cameras of the dataset, or those of them that are wanted."""
        missing = [name for name in cameras or () if name not in self._cameras]
        if missing:
            raise DataError(
                f"{self._stage}: the dataset in {self._root!r} has no cameras {listed(missing)}; "
                f"there are {listed(self._cameras) or 'none'}"
            )
        return self._cameras if cameras is None else list(cameras)

    def columns(self, cameras: Sequence[str]) -> list[str]:
        """Columns of the metadata of episodes that are read."""
        return ["episode_index", *_ABOUT, *(f"videos/{camera}/{name}" for camera in cameras for name in _OF_CAMERA)]

    def about(self, episode: dict[str, Any], camera: str) -> dict[str, Any]:
        """Values of the columns of a row."""
        fps, tasks = self._info.get("fps"), episode.get("tasks")
        tasks = [tasks] if isinstance(tasks, str) else tasks
        indices = {name: episode.get(f"data/{name}") for name in ("chunk_index", "file_index")}
        path = _filled(self._info.get("data_path") or _DATA, indices)
        return {
            **{name: episode.get(name) for name in ("episode_index", "length")},
            **{name: episode.get(name) for name in ("dataset_from_index", "dataset_to_index")},
            "camera": camera,
            "tasks": None
            if tasks is None
            else [str(text) for text in tasks]
            if isinstance(tasks, list)
            else [str(tasks)],
            "fps": float(fps) if isinstance(fps, int | float) else None,
            "data_path": None if path is None else within(self._root, path),
        }

    def place(self, episode: dict[str, Any], camera: str) -> Place:
        """The clip of an episode, or why there is none."""
        chunk, file, start, stop = (episode.get(f"videos/{camera}/{name}") for name in _OF_CAMERA)
        path = _filled(
            self._info.get("video_path") or _VIDEO, {"video_key": camera, "chunk_index": chunk, "file_index": file}
        )
        ref = ref_at(path, self._root)
        times = segment_at(start, None)
        end = segment_at(stop, None)
        if isinstance(ref, MediaFault):
            return ref
        if isinstance(times, MediaFault) or isinstance(end, MediaFault) or end[0] <= times[0]:
            return MediaFault("bad segment", f"the episode is from {start!r} to {stop!r} s")
        return ref._replace(start_s=times[0], stop_s=end[0])


def _filled(template: Any, values: dict[str, Any]) -> str | None:
    """A path by its template; None if a value is missing. It runs nothing that a template may hold.

    Examples:
        >>> _filled("videos/{video_key}/file-{file_index:03d}.mp4", {"video_key": "front", "file_index": 7})
        'videos/front/file-007.mp4'
        >>> _filled("{file_index.__class__}", {"file_index": 7})
        '{file_index.__class__}'
    """
    if not isinstance(template, str) or any(values.get(name) is None for name, _ in _FIELD.findall(template)):
        return None
    return _FIELD.sub(lambda match: str(values[match[1]]).zfill(int(match[2] or 0)), template)
