"""Clips and films in the layouts of others come out as they went in."""

from __future__ import annotations

import io
import json
import pickle
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcurate import BatchKey, DataError, DocumentBatch, InlineExecutor, MediaReader, Pipeline, PipelineError
from dcurate.media.refs import Ref, fetch, ref_array, refs_of
from dcurate.video import MakePreviews, VideoInfo
from dcurate.video.clips.stage import CutVideo
from dcurate.video.layouts.folder import VideoFolderReader, VideoFolderWriter
from dcurate.video.layouts.lerobot import LeRobotReader
from dcurate.video.layouts.nemo_clips import NemoClipWriter, clip_uuid
from tests.video.clips.made import Made, frames, video

FILM = video(Made(options={"g": "20"}))


def run(*stages: Any, rows: pa.Table | None = None) -> list[Any]:
    tasks = None if rows is None else [DocumentBatch(data=rows, key=BatchKey("rows"))]
    return list(Pipeline("layouts", stages=list(stages)).run(InlineExecutor(), initial_tasks=tasks, observers=[]))


def clips(path: str = "film.mp4") -> pa.Table:
    refs = ref_array([Ref(path, start_s=0.5, stop_s=1.0), Ref(path, start_s=1.0, stop_s=2.0)])
    return pa.table({"media_ref": refs, "bytes": pa.array([FILM] * 2, pa.large_binary()), "text": ["one", "two"]})


def test_a_video_folder_is_read_as_it_was_written(tmp_path):
    run(CutVideo(), VideoFolderWriter(str(tmp_path / "out")), rows=clips())
    [metadata] = (tmp_path / "out").rglob("metadata.jsonl")
    lines = [json.loads(line) for line in metadata.read_text().splitlines()]
    assert [(line["file_name"], line["text"], line["clip_frames"]) for line in lines] == [
        ("film-0.5-1.mp4", "one", 12),
        ("film-1-2.mp4", "two", 25),
    ]
    [batch] = run(VideoFolderReader(str(tmp_path / "out")))
    films = [data for data in fetch(batch.to_arrow()) if isinstance(data, bytes)]
    assert [len(frames(film)) for film in films] == [12, 25]


def test_datasets_reads_a_video_folder(tmp_path):
    datasets = pytest.importorskip("datasets")
    run(CutVideo(), VideoFolderWriter(str(tmp_path / "out")), rows=clips())
    found = datasets.load_dataset("videofolder", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    rows = found["train"].cast_column("video", datasets.Video(decode=False))
    assert rows["text"][:] == ["one", "two"]
    assert [Path(cell["path"]).name for cell in rows["video"][:]] == ["film-0.5-1.mp4", "film-1-2.mp4"]


def test_clips_of_a_film_are_times_of_it_in_a_video_folder(tmp_path):
    run(
        VideoFolderWriter(str(tmp_path / "out")),
        rows=clips().drop_columns(["bytes"]).set_column(0, "media_ref", _refs(tmp_path)),
    )
    [batch] = run(VideoFolderReader(str(tmp_path / "out")))
    assert [(ref.start_s, ref.stop_s) for ref in refs_of(batch.to_arrow())] == [(0.5, 1.0), (1.0, 2.0)]
    assert len(list((tmp_path / "out").rglob("*.mp4"))) == 1


def _refs(folder: Path) -> pa.Array:
    (folder / "film.mp4").write_bytes(FILM)
    path = str(folder / "film.mp4")
    return ref_array([Ref(path, start_s=0.5, stop_s=1.0), Ref(path, start_s=1.0, stop_s=2.0)])


def test_clips_have_the_ids_and_places_of_nemo_curator(tmp_path):
    (tmp_path / "films").mkdir()
    film = tmp_path / "films" / "film.mp4"
    film.write_bytes(FILM)
    table = clips(str(film)).drop_columns(["bytes"])
    run(VideoInfo(), CutVideo(), NemoClipWriter(str(tmp_path / "out")), rows=table)
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{film}_{span}")) for span in ("12_25", "25_50")]
    for clip_id, span, count in zip(ids, ([0.5, 1.0], [1.0, 2.0]), (12, 25), strict=True):
        clip = tmp_path / "out" / "clips" / f"{clip_id}.mp4"
        assert len(frames(clip.read_bytes())) == count
        about = json.loads((tmp_path / "out" / "metas" / "v0" / f"{clip_id}.json").read_text())
        assert about["span_uuid"] == clip_id
        assert about["source_video"] == str(film)
        assert about["duration_span"] == span
        assert (about["width_source"], about["height_source"], about["framerate_source"]) == (96, 64, 25.0)
        assert about["clip_location"] == str(clip)
        assert about["num_bytes"] == clip.stat().st_size
        assert (about["windows"], about["valid"], about["clip_frames"]) == ([], True, count)
    assert len(list((tmp_path / "out" / "clips").iterdir())) == 2


def test_previews_and_embeddings_are_where_nemo_curator_has_them(tmp_path):
    (tmp_path / "films").mkdir()
    film = tmp_path / "films" / "film.mp4"
    film.write_bytes(FILM)
    vectors = pa.array([[0.5, 1.5], None], pa.list_(pa.float32()))
    table = clips(str(film)).drop_columns(["bytes"]).append_column("embeddings", vectors)
    made: dict[str, Any] = {"preview_field": "preview", "embedding_field": "embeddings", "fields": ["text"]}
    writer = NemoClipWriter(str(tmp_path / "out"), **made)
    run(VideoInfo(), CutVideo(), MakePreviews(fps=5, height=32), writer, rows=table)
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{film}_{span}")) for span in ("12_25", "25_50")]
    for clip_id, last, pictures in zip(ids, (11, 24), (3, 5), strict=True):
        [preview] = (tmp_path / "out" / "previews" / clip_id).iterdir()
        assert preview.name == f"0_{last}.webp"
        with Image.open(preview) as image:
            assert (image.format, image.size, getattr(image, "n_frames", 1)) == ("WEBP", (48, 32), pictures)
        about = json.loads((tmp_path / "out" / "metas" / "v0" / f"{clip_id}.json").read_text())
        assert about["windows"] == [{"start_frame": 0, "end_frame": last}]
        assert {"preview", "embeddings", "clip_frames"}.isdisjoint(about)
    [held] = (tmp_path / "out" / "ce1_embd").iterdir()
    array = pickle.loads(held.read_bytes())
    assert (held.name, array.tolist(), array.dtype) == (f"{ids[0]}.pickle", [[0.5, 1.5]], np.float32)
    [embeddings] = (tmp_path / "out" / "ce1_embd_parquet").iterdir()
    assert pq.read_table(embeddings).to_pylist() == [{"id": ids[0], "embedding": [0.5, 1.5]}]


def test_a_preview_without_a_place_and_columns_of_other_types_are_refused(tmp_path):
    refs = ref_array([Ref("a.mp4", start_s=0.5, stop_s=stop) for stop in (1.0, 2.0)])
    rows = {"bytes": [b"clip"] * 2, "source_ref": refs, "video_fps": [25.0] * 2, "clip_frames": [12, None]}
    stage = NemoClipWriter(str(tmp_path), preview_field="preview", embedding_field="vector")

    def written(**columns: Any) -> Any:
        return stage.process(DocumentBatch(data=pa.table({**rows, **columns}), key=BatchKey("rows")))

    files = written(preview=[b"webp"] * 2, vector=[[1.0], [2.0]])
    assert [(rejection.reason, rejection.rows) for rejection in files.rejections] == [("no frames", 1)]
    assert len(files.data) == 5
    with pytest.raises(DataError, match="holds string, not bytes; make previews with MakePreviews"):
        written(preview=["webp"] * 2, vector=[[1.0], [2.0]])
    with pytest.raises(DataError, match="holds double, not lists of numbers"):
        written(preview=[None] * 2, vector=[1.0, 2.0])
    settings: list[dict[str, Any]] = [{"fps": 0}, {"height": 0}, {"quality": 101}, {"effort": -1}]
    for setting in settings:
        with pytest.raises(PipelineError, match=f"{next(iter(setting))}=.* must be"):
            MakePreviews(**setting)


def test_rows_without_a_film_or_with_the_id_of_another_go_to_quarantine(tmp_path):
    refs = [Ref("a.mp4", start_s=0.5, stop_s=1.0), Ref("a.mp4", start_s=0.501, stop_s=1.0), None, Ref("a.mp4")]
    rows = pa.table({"bytes": [b"clip"] * 4, "source_ref": ref_array(refs), "video_fps": [25.0] * 4})
    stage = NemoClipWriter(str(tmp_path))
    files = stage.process(DocumentBatch(data=rows, key=BatchKey("rows")))
    assert [(rejection.reason, rejection.rows) for rejection in files.rejections] == [
        ("duplicate id", 1),
        ("no reference", 2),
    ]
    assert [Path(path).name for path in files.data] == [
        f"{clip_uuid(Ref('a.mp4', start_s=0.5, stop_s=1.0), 25.0)}{end}" for end in (".mp4", ".json")
    ]
    with pytest.raises(PipelineError, match="video_fps"):
        run(NemoClipWriter(str(tmp_path / "other")), rows=rows.drop_columns(["video_fps"]))


def dataset(folder: Path, **info: Any) -> Path:
    """A dataset of LeRobot, version 3: three episodes of two cameras, two of them in one film."""
    (folder / "meta/episodes/chunk-000").mkdir(parents=True)
    (folder / "data/chunk-000").mkdir(parents=True)
    features = {
        "observation.images.front": {"dtype": "video", "shape": [64, 96, 3]},
        "observation.images.wrist": {"dtype": "video", "shape": [64, 96, 3]},
        "action": {"dtype": "float32", "shape": [2]},
    }
    about = {
        "codebase_version": "v3.0",
        "fps": 25,
        "features": features,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        **info,
    }
    (folder / "meta/info.json").write_bytes(orjson.dumps(about))
    episodes: dict[str, Any] = {
        "episode_index": [0, 1, 2],
        "tasks": [["Lift."], ["Push."], ["Lift.", "Turn."]],
        "length": [20, 40, 15],
        "dataset_from_index": [0, 20, 60],
        "dataset_to_index": [20, 60, 75],
        "data/chunk_index": [0, 0, 0],
        "data/file_index": [0, 0, 0],
        "stats/action/mean": [[0.1], [0.2], [0.3]],
    }
    for camera in ("front", "wrist"):
        at = f"videos/observation.images.{camera}/"
        episodes |= {f"{at}chunk_index": [0, 0, 0], f"{at}file_index": [0, 0, 1]}
        episodes |= {f"{at}from_timestamp": [0.0, 0.8, 0.0], f"{at}to_timestamp": [0.8, 2.4, 0.6]}
        films = folder / at / "chunk-000"
        films.mkdir(parents=True)
        (films / "file-000.mp4").write_bytes(FILM)
        (films / "file-001.mp4").write_bytes(FILM)
    pq.write_table(pa.table(episodes), folder / "meta/episodes/chunk-000/file-000.parquet")
    steps = {"episode_index": [0] * 20 + [1] * 40 + [2] * 15, "action": [[0.0, 1.0]] * 75}
    pq.write_table(pa.table(steps), folder / "data/chunk-000/file-000.parquet")
    return folder


def test_episodes_of_lerobot_are_clips(tmp_path):
    [batch] = run(LeRobotReader(str(dataset(tmp_path))))
    rows = batch.to_arrow().to_pylist()
    assert [(row["episode_index"], row["camera"].rpartition(".")[2]) for row in rows] == [
        (episode, camera) for episode in range(3) for camera in ("front", "wrist")
    ]
    assert rows[5]["tasks"] == ["Lift.", "Turn."]
    assert (rows[5]["length"], rows[5]["fps"], rows[5]["dataset_from_index"]) == (15, 25.0, 60)
    assert rows[5]["data_path"] == str(tmp_path / "data/chunk-000/file-000.parquet")
    places = [(Path(ref.path).name, ref.start_s, ref.stop_s) for ref in refs_of(batch.to_arrow())[::2]]
    assert places == [("file-000.mp4", 0.0, 0.8), ("file-000.mp4", 0.8, 2.4), ("file-001.mp4", 0.0, 0.6)]


def test_cut_episodes_have_the_frames_of_their_length(tmp_path):
    [batch] = run(LeRobotReader(str(dataset(tmp_path)), cameras=["observation.images.wrist"]), CutVideo())
    assert [len(frames(row["bytes"])) for row in batch.to_arrow().to_pylist()] == [20, 40, 15]


def test_episodes_whose_films_are_not_there_or_elsewhere_go_to_quarantine(tmp_path):
    folder = dataset(tmp_path / "one")
    (folder / "videos/observation.images.front/chunk-000/file-001.mp4").unlink()
    reader = LeRobotReader(str(folder))
    [split] = reader.splits()
    made = reader.process(split)
    assert [rejection.reason for rejection in made.rejections] == ["missing"]
    assert len(made.to_arrow()) == 5
    for number, (path, reason) in enumerate(
        [("../{video_key}.mp4", "outside of root"), ("{video_key.__class__}", "missing")]
    ):
        reader = LeRobotReader(str(dataset(tmp_path / str(number), video_path=path)))
        [split] = reader.splits()
        assert {rejection.reason for rejection in reader.process(split).rejections} == {reason}


def test_what_is_not_a_dataset_of_version_3_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"is of version 'v2.1', not v3; convert it"):
        run(LeRobotReader(str(dataset(tmp_path, codebase_version="v2.1"))))
    with pytest.raises(DataError, match="has no cameras 'left'"):
        run(LeRobotReader(str(dataset(tmp_path / "b")), cameras=["left"]))


def test_the_films_of_a_folder_are_cut(tmp_path):
    (tmp_path / "film.mp4").write_bytes(FILM)
    [batch] = run(MediaReader(str(tmp_path)), CutVideo())
    [row] = batch.to_arrow().to_pylist()
    assert row["file_name"] == "film.mp4"
    assert [time for time, _ in frames(row["bytes"])] == [time for time, _ in frames(FILM)]
    assert io.BytesIO(row["bytes"]).read(8)[4:] == b"ftyp"
