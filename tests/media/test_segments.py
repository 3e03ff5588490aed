"""References to segments of files: views that every reader and writer keeps; whole files are written as before."""

from __future__ import annotations

import io
import tarfile
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from dcurate import (
    BatchKey,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    MediaReader,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    RunResult,
    WebDatasetReader,
    WebDatasetWriter,
)
from dcurate.audio import (
    AudioFolderReader,
    AudioFolderWriter,
    LhotseCutWriter,
    LhotseSharWriter,
    NemoManifestWriter,
    NemoTarWriter,
)
from dcurate.core.pipeline import AnyStage
from dcurate.media import File, FileStage, PackMedia, Ref, UnpackMedia, fetch, ref_array
from dcurate.media.refs import REF, refs_of
from dcurate.video import VideoFolderReader, VideoFolderWriter

SEGMENTS = [(None, None), (0.0, 1.5), (1.5, None), (None, 2.0)]


def rows(folder: Path) -> pa.Table:
    (folder / "talk.wav").write_bytes(b"a whole recording")
    refs = [Ref(str(folder / "talk.wav"), None, 0, 17, *segment) for segment in SEGMENTS]
    return pa.table({"id": range(4), "file_name": [f"{n}.wav" for n in range(4)], REF: ref_array(refs)})


def run(*stages: AnyStage, tables: list[pa.Table] | None = None) -> RunResult:
    first = None if tables is None else [DocumentBatch(data=table) for table in tables]
    return Pipeline("run", stages=list(stages)).run(InlineExecutor(), observers=[], initial_tasks=first)


def read(*stages: AnyStage, tables: list[pa.Table] | None = None) -> pa.Table:
    return run(*stages, tables=tables).to_arrow()


def segments(table: pa.Table) -> list[tuple[float | None, float | None]]:
    return [(ref.start_s, ref.stop_s) for ref in refs_of(table) if ref is not None]


@dataclass
class Seconds(FileStage):
    """Says which part of its file a row means."""

    name: str = "seconds"
    columns: ClassVar[Mapping[str, pa.DataType]] = {"from_s": pa.float64(), "to_s": pa.float64(), "n": pa.int64()}

    def read(self, file: File) -> tuple[Any, ...]:
        return file.start_s, file.stop_s, len(file.data)


def test_the_bytes_of_a_segment_are_those_of_the_file_and_a_stage_sees_the_times(tmp_path: Path) -> None:
    table = rows(tmp_path)
    assert fetch(table) == [b"a whole recording"] * 4
    seen = Seconds().process(DocumentBatch(data=table)).to_arrow()
    assert list(zip(seen["from_s"].to_pylist(), seen["to_s"].to_pylist(), strict=True)) == SEGMENTS
    assert seen["n"].to_pylist() == [17] * 4
    whole = Seconds().process(
        DocumentBatch(data=table.slice(0, 1).drop_columns([REF]).append_column("bytes", [[b"x"]]))
    )
    assert whole.to_arrow()["from_s"].to_pylist() == [None]


def test_references_to_whole_files_have_the_type_that_they_had() -> None:
    assert ref_array([Ref("a.wav", None, 0, 5), None]).type.names == ["path", "member", "offset", "size"]
    assert Ref("a.wav", "x").value == {"path": "a.wav", "member": "x", "offset": None, "size": None}
    assert ref_array([Ref("a.wav")], segments=True).type == ref_array([Ref("a.wav", stop_s=1.0)]).type


@pytest.mark.parametrize(("reader", "writer"), [(JsonlReader, JsonlWriter), (ParquetReader, ParquetWriter)])
def test_segments_are_as_before_after_writing_and_reading(tmp_path: Path, reader: Any, writer: Any) -> None:
    table = rows(tmp_path)
    run(writer(str(tmp_path / "out")), tables=[table])
    again = read(reader(str(tmp_path / "out")))
    assert segments(again) == SEGMENTS
    assert fetch(again) == fetch(table)


def test_shards_keep_segments_and_stages_may_change_them(tmp_path: Path) -> None:
    table = rows(tmp_path)
    run(WebDatasetWriter(str(tmp_path / "out")), tables=[table])
    [shard] = (tmp_path / "out").glob("*.tar")
    with tarfile.open(shard) as tar:
        assert [tar.extractfile(member).read() for member in tar] == [b"a whole recording"] * 4
    for reader in (WebDatasetReader(str(shard)), MediaReader(str(shard))):
        assert segments(read(reader)) == SEGMENTS
    run(WebDatasetReader(str(tmp_path / "out")), WebDatasetWriter(str(tmp_path / "twice")))
    assert segments(read(WebDatasetReader(str(tmp_path / "twice")))) == SEGMENTS
    [twice] = (tmp_path / "twice").glob("*.tar")
    assert twice.read_bytes() == shard.read_bytes()


def test_a_segment_that_comes_late_in_a_shard_is_not_lost(tmp_path: Path) -> None:
    """The types of columns are taken from the first members."""
    (tmp_path / "a.wav").write_bytes(b"sound")
    refs = [Ref(str(tmp_path / "a.wav"), None, 0, 5, *((1.0, 2.0) if number == 699 else ())) for number in range(700)]
    table = pa.table({"file_name": [f"{number:03d}.wav" for number in range(700)], REF: ref_array(refs)})
    run(WebDatasetWriter(str(tmp_path / "out")), tables=[table])
    again = segments(read(WebDatasetReader(str(tmp_path / "out"))))
    assert again == [(None, None)] * 699 + [(1.0, 2.0)]


def test_a_shard_of_whole_files_has_the_headers_that_it_had(tmp_path: Path) -> None:
    table = rows(tmp_path).slice(0, 1)
    table = table.set_column(2, REF, ref_array([Ref(str(tmp_path / "talk.wav"), None, 0, 17)]))
    run(WebDatasetWriter(str(tmp_path / "out")), tables=[table])
    [shard] = (tmp_path / "out").glob("*.tar")
    info = tarfile.TarInfo("0.wav")
    info.size, info.mode = 17, 0o644
    assert shard.read_bytes()[:512] == info.tobuf(tarfile.PAX_FORMAT)
    assert read(WebDatasetReader(str(shard))).schema.field(REF).type.names == ["path", "member", "offset", "size"]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e999", "x", ""])
def test_a_time_in_a_header_that_is_none_is_left_out(tmp_path: Path, value: str) -> None:
    info = tarfile.TarInfo("a.wav")
    info.size, info.pax_headers = 5, {"DCURATE.start_s": value}
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(info, io.BytesIO(b"sound"))
    assert segments(read(MediaReader(str(tmp_path / "a.tar")))) == [(None, None)]


def test_packed_media_keep_segments_beside_the_struct(tmp_path: Path) -> None:
    packed = read(PackMedia("audio", feature="Audio"), tables=[rows(tmp_path)])
    assert packed.schema.field("audio").type.names == ["bytes", "path"]
    assert packed["audio_stop_s"].to_pylist() == [None, 1.5, None, 2.0]
    again = UnpackMedia("audio").process(DocumentBatch(data=packed)).to_arrow()
    assert again.column_names == ["id", "file_name", "bytes", REF]
    assert segments(again) == SEGMENTS[1:]
    assert [ref is None for ref in refs_of(again)] == [True, False, False, False]
    assert fetch(again) == [b"a whole recording"] * 4


TRACKS = [(None, None, 2), (0.5, 1.5, 0), (None, None, None)]


def track_rows(folder: Path) -> pa.Table:
    (folder / "film.mkv").write_bytes(b"a film with tracks")
    refs = [Ref(str(folder / "film.mkv"), None, 0, 18, *part) for part in TRACKS]
    return pa.table({"id": range(3), "file_name": [f"{n}.mkv" for n in range(3)], REF: ref_array(refs)})


def parts(table: pa.Table) -> list[tuple[float | None, float | None, int | None] | None]:
    refs = refs_of(table.sort_by("id")) if "id" in table.column_names else refs_of(table)
    return [ref and (ref.start_s, ref.stop_s, ref.stream) for ref in refs]


@pytest.mark.parametrize("kind", ["video", "audio"])
def test_folders_keep_tracks(tmp_path: Path, kind: str) -> None:
    writer, reader = (
        (VideoFolderWriter, VideoFolderReader) if kind == "video" else (AudioFolderWriter, AudioFolderReader)
    )
    run(writer(str(tmp_path / "out")), tables=[track_rows(tmp_path)])
    assert parts(read(reader(str(tmp_path / "out")))) == TRACKS
    assert [path.read_bytes() for path in (tmp_path / "out").rglob("*.mkv")] == [b"a film with tracks"]
    run(reader(str(tmp_path / "out")), writer(str(tmp_path / "twice")))
    assert parts(read(reader(str(tmp_path / "twice")))) == TRACKS


@pytest.mark.parametrize("value", ["-1", "1.5", "true", '"x"', "1e99"])
def test_a_track_that_is_none_goes_to_quarantine(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.mp4").write_bytes(b"film")
    (tmp_path / "metadata.jsonl").write_text(f'{{"file_name": "a.mp4", "video_stream": {value}}}\n')
    [stage] = run(VideoFolderReader(str(tmp_path))).report.stages
    assert (stage.faulty, stage.rows_out) == ({"bad track": 1}, 0)


def test_shards_keep_tracks(tmp_path: Path) -> None:
    run(WebDatasetWriter(str(tmp_path / "out")), tables=[track_rows(tmp_path)])
    [shard] = (tmp_path / "out").glob("*.tar")
    for reader in (WebDatasetReader(str(shard)), MediaReader(str(shard))):
        assert parts(read(reader)) == TRACKS


def test_packed_media_keep_tracks(tmp_path: Path) -> None:
    packed = read(PackMedia("video", feature="Video"), tables=[track_rows(tmp_path)])
    assert packed["video_stream"].to_pylist() == [2, 0, None]
    again = UnpackMedia("video").process(DocumentBatch(data=packed)).to_arrow()
    assert parts(again) == [*TRACKS[:2], None]
    table = track_rows(tmp_path).slice(2)
    whole = table.set_column(2, REF, ref_array([Ref(str(tmp_path / "film.mkv"), None, 0, 18, 0.0, 1.0)]))
    assert "video_stream" not in read(PackMedia("video", feature="Video"), tables=[whole]).column_names


@pytest.mark.parametrize("writer", [NemoManifestWriter, NemoTarWriter, LhotseCutWriter, LhotseSharWriter])
def test_layouts_that_cannot_say_tracks_refuse_them(tmp_path: Path, writer: Any) -> None:
    with wave.open(str(tmp_path / "talk.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(32000))
    refs = ref_array([Ref(str(tmp_path / "talk.wav")), Ref(str(tmp_path / "talk.wav"), stream=1)])
    table = pa.table({"file_name": ["a.wav", "b.wav"], "duration": [2.0, 2.0], REF: refs})
    batch = DocumentBatch(data=table, key=BatchKey("rows"))
    written = writer(str(tmp_path / "out")).process(batch)
    [rejection] = written.rejections
    assert (rejection.reason, rejection.rows) == ("a track", 1)
    assert len(written.data) >= 1
