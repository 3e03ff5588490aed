"""The tracks of a film are rows with one clock, and stages read the track that a row means."""

import io

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from dcurate import DocumentBatch, InlineExecutor, MediaReader, Pipeline, PipelineError
from dcurate.audio import AudioInfo, AudioSignals, CutAudio
from dcurate.core.stage import Stage
from dcurate.media import Ref, ref_array
from dcurate.testing import check_stage
from dcurate.video import CutVideo, Subtitles, TrackRows, VideoInfo, VideoSignals
from tests.video.films import film, picture, with_tracks

CUES = [(0.5, 1.0, "Good day."), (1.2, 1.9, "And night.")]


def grey(number, width=64, height=48):
    return np.full((height, width, 3), 200, np.uint8)


def rows_of(*paths):
    return DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(str(path)) for path in paths])}))


def processed(stage, batch):
    answer = stage.process(batch)
    stage.teardown()
    return answer


@pytest.fixture(scope="module", params=["matroska", "mp4"])
def container(request):
    return request.param


@pytest.fixture(scope="module")
def path(tmp_path_factory, container):
    """A film with two tracks of pictures, of sound and of subtitles each; only some begin at 0 s."""
    path = tmp_path_factory.mktemp("films") / "film"
    codec = "mov_text" if container == "mp4" else "subrip"
    subtitles = [(codec, CUES, "eng"), (codec, [(0.1, 0.4, "Guten Tag.")], "ger")]
    films = [film(), film(pictures=lambda number: grey(number, 32, 32))]
    path.write_bytes(with_tracks(films, subtitles, [(0.5, 0.25), (0.1, 0.75)], container))
    return path


@pytest.fixture(scope="module")
def tracks(path):
    return processed(TrackRows(), rows_of(path))


def only(tracks, kind):
    table = tracks.to_arrow()
    return DocumentBatch(data=table.filter(pa.compute.equal(table["track_kind"], kind)))


def test_each_track_is_a_row(tracks):
    rows = tracks.to_arrow().to_pylist()
    assert [row["track_kind"] for row in rows] == ["video", "video", "audio", "audio", "subtitle", "subtitle"]
    assert [row["media_ref"]["stream"] for row in rows] == [row["track_stream"] for row in rows] == list(range(6))
    assert [row["track_language"] for row in rows[4:]] == ["eng", "ger"]
    assert [row["track_subtitle_kind"] for row in rows] == [None] * 4 + ["text"] * 2


def test_the_clock_of_tracks_is_that_of_stages(path, tracks):
    films = only(tracks, "video")
    sounds = only(tracks, "audio")
    info = processed(VideoInfo(), films).to_arrow().to_pylist()
    assert [row["track_start_s"] for row in info] == [row["video_first_frame_s"] for row in info]
    assert [row["track_duration_s"] for row in info] == [2.0, 2.0] == [row["video_duration_s"] for row in info]
    cut = processed(CutAudio(audio_format="wav"), sounds).to_arrow().to_pylist()
    for row in cut:
        samples, rate = soundfile.read(io.BytesIO(row["bytes"]))
        assert np.flatnonzero(samples)[0] == round(row["track_start_s"] * rate)
        assert len(samples) == round((row["track_start_s"] + row["track_duration_s"]) * rate)
    assert [row["track_start_s"] for row in cut] == [0.25, 0.75]


def test_the_duration_of_sound_is_that_of_its_header(path, tracks, container):
    if container == "mp4":  # of Matroska files, AudioInfo reads no header
        [row] = processed(AudioInfo(), rows_of(path)).to_arrow().to_pylist()
        assert row["audio_duration_s"] == tracks.to_arrow()["track_duration_s"].to_pylist()[2]
    else:
        assert processed(AudioInfo(), rows_of(path)).rejections[0].rows == 1


def test_stages_of_sound_hear_the_track_that_a_row_means(tracks):
    heard = processed(AudioSignals(), only(tracks, "audio")).to_arrow()
    assert heard["audio_peak_db"].to_pylist() == pytest.approx([20 * np.log10(0.5), 20 * np.log10(0.1)], abs=0.01)
    names = processed(CutAudio(), only(tracks, "audio")).to_arrow()["file_name"].to_pylist()
    assert names == ["film-track2.flac", "film-track3.flac"]


def test_stages_of_films_look_at_the_track_that_a_row_means(path, tracks):
    films = only(tracks, "video")
    info = processed(VideoInfo(), films).to_arrow().to_pylist()
    assert [(row["video_width"], row["video_height"]) for row in info] == [(64, 48), (32, 32)]
    seen = processed(VideoSignals(), films).to_arrow()
    assert seen["video_brightness"][0].as_py() < 0.5 < seen["video_brightness"][1].as_py()
    refs = ref_array([Ref(str(path), start_s=0.2, stop_s=1.0, stream=stream) for stream in (0, 1)])
    clips = processed(CutVideo(), DocumentBatch(data=pa.table({"media_ref": refs}))).to_arrow()
    data = pa.table({"bytes": clips["bytes"]})
    info = processed(VideoInfo(), DocumentBatch(data=data)).to_arrow().to_pylist()
    assert [(row["video_width"], row["video_frames"], row["video_sounds"]) for row in info] == [
        (64, 20, 0),
        (32, 20, 0),
    ]


def test_subtitles_are_those_of_the_track_that_a_row_means(tracks):
    read = processed(Subtitles(), only(tracks, "subtitle")).to_arrow().to_pylist()
    assert [row["transcript"] for row in read] == ["Good day. And night.", "Guten Tag."]
    assert [[(cue["start"], cue["end"]) for cue in row["cues"]] for row in read] == [
        [(0.5, 1), (1.2, 1.9)],
        [(0.1, 0.4)],
    ]


@pytest.mark.parametrize(
    ("stage", "kind", "reason"),
    [
        (AudioSignals, "video", "no sound"),
        (VideoInfo, "audio", "no pictures"),
        (Subtitles, "audio", "no subtitles"),
        (AudioInfo, "audio", "a track"),
    ],
)
def test_a_stage_answers_for_no_other_track_than_the_row_means(tracks, stage, kind, reason):
    rows = only(tracks, kind)
    answer = processed(stage(), rows)
    assert answer.to_arrow().num_rows == 0
    assert [(gone.reason, gone.rows) for gone in answer.rejections] == [(reason, rows.to_arrow().num_rows)]


def test_no_row_is_lost(tmp_path, path):
    names = {"page": b"<html></html>", "empty": b"", "cut": path.read_bytes()[:300]}
    for name, data in names.items():
        (tmp_path / name).write_bytes(data)
    batch = rows_of(path, *[tmp_path / name for name in names], tmp_path / "gone")
    for stage in (TrackRows(), Subtitles(max_fault_ratio=1.0)):
        answer = processed(stage, batch)
        paths = {ref["path"] for ref in answer.to_arrow()["media_ref"].to_pylist()}
        gone = [ref["path"] for lost in answer.rejections for ref in lost.data["media_ref"].to_pylist()]
        assert len(gone) == 4
        assert paths == {str(path)}
        assert {lost.reason for lost in answer.rejections} >= {"not a film: HTML or XML", "empty", "missing"}


def test_a_film_without_such_tracks_is_dropped_with_the_reason(path):
    answer = processed(TrackRows(kinds=["cover"]), rows_of(path))
    assert [(lost.reason, lost.rows) for lost in answer.rejections] == [("no tracks", 1)]
    assert answer.to_arrow().schema.field("media_ref").type.get_field_index("stream") >= 0


def test_clips_keep_their_times_in_their_tracks(path):
    refs = ref_array([Ref(str(path), start_s=0.5, stop_s=1.5)])
    rows = processed(TrackRows(kinds=["subtitle"]), DocumentBatch(data=pa.table({"media_ref": refs})))
    assert [ref["start_s"] for ref in rows.to_arrow()["media_ref"].to_pylist()] == [0.5, 0.5]
    assert processed(Subtitles(), rows).to_arrow()["cues"].to_pylist()[0] == [
        {"start": 0.0, "end": 0.5, "text": "Good day.", "speaker": None, "overlaps": False},
        {"start": 0.7, "end": 1.0, "text": "And night.", "speaker": None, "overlaps": False},
    ]


def test_subtitles_that_are_pictures_are_said_to_be(tmp_path):
    drawn = with_tracks([film()], [("dvd_subtitle", CUES)])
    blu_ray = with_tracks([film()], [("ass", CUES)]).replace(b"S_TEXT/ASS", b"S_HDMV/PGS")
    for name, data in (("a.mkv", drawn), ("b.mkv", blu_ray)):
        (tmp_path / name).write_bytes(data)
    batch = rows_of(tmp_path / "a.mkv", tmp_path / "b.mkv")
    rows = processed(Subtitles(), batch).to_arrow().to_pylist()
    assert [(row["subtitle_kind"], row["subtitle_codec"], row["cues"]) for row in rows] == [
        ("images", "dvd_subtitle", None),
        ("images", "hdmv_pgs_subtitle", None),
    ]
    tracks = processed(TrackRows(kinds=["subtitle"]), batch).to_arrow()
    assert tracks["track_subtitle_kind"].to_pylist() == ["images", "images"]


def test_unknown_kinds_and_rows_without_references_are_refused(path):
    with pytest.raises(PipelineError, match="kinds="):
        TrackRows(kinds=["sound"])
    with pytest.raises(PipelineError, match="media_ref"):
        TrackRows().process(DocumentBatch(data=pa.table({"bytes": [path.read_bytes()]})))


def test_bytes_that_are_not_utf_8_in_what_a_container_says_are_replaced(tmp_path):
    path = tmp_path / "a.mkv"
    data = with_tracks([film(frames=2)], [("subrip", CUES, "qqz")])
    path.write_bytes(data.replace(b"qqz", b"\xe9\xffz"))
    tracks = processed(TrackRows(kinds=["subtitle"]), rows_of(path)).to_arrow()
    assert tracks["track_language"].to_pylist() == ["\ufffd\ufffdz"]


def test_they_are_stages(tmp_path):
    path = tmp_path / "a.mkv"
    path.write_bytes(with_tracks([film(frames=2)], [("subrip", CUES)]))
    for stage in (TrackRows(), Subtitles(max_fault_ratio=1.0)):
        check_stage(stage, rows_of(path, "/no/such/film", path))


def test_readers_find_films_whose_tracks_become_rows(tmp_path):
    (tmp_path / "a.mkv").write_bytes(with_tracks([film(pictures=picture)], [("subrip", CUES)]))
    stages: list[Stage] = [MediaReader(str(tmp_path)), TrackRows(kinds=["subtitle"]), Subtitles()]
    [batch] = Pipeline("tracks", stages=stages).run(InlineExecutor(), observers=[])
    assert isinstance(batch, DocumentBatch)
    assert batch.to_arrow()["transcript"].to_pylist() == ["Good day. And night."]
