"""Subtitles are segments with words, on the clock of their film."""

import io
import math
import time

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, MediaReader, Pipeline, PipelineError, ScoreFilter
from dcurate.audio import CutAudio, SegmentRows
from dcurate.core.stage import Stage
from dcurate.media import Ref, ref_array
from dcurate.text import WordCountFilter
from dcurate.video import CutVideo, Subtitles, TrackRows, VideoInfo
from dcurate.video.tracks import read_cues
from dcurate.video.wvtt import cues_of_sample
from tests.media.test_cues import WORDS
from tests.video.films import film, mp4_box, vtt_cue, with_tracks, with_wvtt

CUES = [(0.5, 1.0, "Good day."), (1.2, 1.9, "And night.")]
FILM = film()
SRT = "1\n00:00:00,500 --> 00:00:01,000\n{\\an8}<i>Good</i>\nday.\n\n2\n00:00:01,200 --> 00:00:01,900\nAnd night.\n"


@pytest.fixture(scope="module")
def stage():
    stage = Subtitles()
    yield stage
    stage.teardown()


@pytest.fixture(scope="module")
def lenient():
    stage = Subtitles(max_fault_ratio=1.0)
    yield stage
    stage.teardown()


def films(folder, *datas, name="film"):
    refs = []
    for number, data in enumerate(datas):
        path = folder / f"{name}{number}"
        path.write_bytes(data)
        refs.append(Ref(str(path)))
    return DocumentBatch(data=pa.table({"media_ref": ref_array(refs)}))


def values(stage, batch):
    return stage.process(batch).to_arrow().to_pylist()


def times_of(row):
    return [(cue["start"], cue["end"]) for cue in row["cues"]]


@pytest.mark.parametrize(
    ("container", "codec", "texts", "speaker"),
    [
        ("mp4", "mov_text", ["Good\nday.", "And night."], None),
        ("matroska", "subrip", ["{\\an8}<i>Good</i>\nday.", '<font color="#fff">And</font> night.'], None),
        ("matroska", "ass", ["{\\i1}Good\\Nday.{\\i0}", "And {\\p1}m 0 0{\\p0}night."], "Ann"),
        ("matroska", "webvtt", ["<v Ann>Good <b>day</b>.", "<v Ann><c.red>And</c> night."], "Ann"),
        ("webm", "webvtt", ["Good\nday.", "And night."], None),
    ],
)
def test_tracks_of_text_are_cues_of_plain_words(tmp_path, stage, container, codec, texts, speaker):
    cues = [(start, stop, text, "Ann") for (start, stop, _), text in zip(CUES, texts, strict=True)]
    data = film("vp9") if container == "webm" else FILM
    [row] = values(stage, films(tmp_path, with_tracks([data], [(codec, cues, "eng")], container=container)))
    assert [cue["text"] for cue in row["cues"]] == ["Good day.", "And night."]
    assert times_of(row) == [(0.5, 1.0), (1.2, 1.9)]
    assert {cue["speaker"] for cue in row["cues"]} == {speaker}
    assert row["transcript"] == "Good day. And night."
    assert (row["subtitle_kind"], row["subtitle_codec"], row["subtitle_language"]) == ("text", codec, "eng")
    assert (row["subtitle_stream"], row["subtitle_path"], row["subtitle_faults"]) == (1, None, [])


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(0, 1900), st.integers(1, 3000), WORDS), min_size=1, max_size=6, unique_by=lambda c: c[0]
    )
)
def test_cues_of_tracks_come_out_as_they_went_in(cues):
    cues = sorted(cues)
    wanted = [[start / 1000, (start + length) / 1000, words] for start, length, words in cues]
    for codec in ("subrip", "ass", "webvtt"):
        data = with_tracks([FILM], [(codec, wanted)])
        answers = [answer for answer in read_cues(io.BytesIO(data), {"clips": [(0, None)]}, {}) if answer is not None]
        read = [cue[:3] for value, _ in answers for cue in value["cues"]]
        assert read == wanted


def test_words_beside_damaged_pictures_are_read(tmp_path, stage):
    """Nothing is decoded."""
    data = bytearray(with_tracks([FILM], [("subrip", CUES)]))
    packet = data.index(b"\x00\x00\x01\xb6")  # a picture of MPEG-4
    data[packet : packet + 40] = bytes(40)
    [row] = values(stage, films(tmp_path, bytes(data)))
    assert row["transcript"] == "Good day. And night."


LIES = [
    ("backwards", "00:00:01,000 --> 00:00:00,500"),
    ("before the start", "-00:00:01,000 --> 00:00:00,500"),
    ("beyond the end", "00:00:01,000 --> 01:00:00,000"),
    ("not a time", "99:99:99,999 --> 99:99:99,999"),
    ("not a time", "NaN --> 00:00:01,000"),
    ("no duration", "00:00:01,000 --> 00:00:01,000"),
]


@pytest.mark.parametrize("fragmented", [False, True])
def test_webvtt_in_mp4_is_read_as_other_subtitles(tmp_path, stage, fragmented):
    """Also cues that samples cut where another begins or ends, and those of one sample."""
    long, short = vtt_cue("<v Ann>Good\n<b>day</b>.", 3), vtt_cue("And &amp; night.")
    samples = [(0.5, 0.8, long), (0.8, 1.0, long + short), (1.2, 1.9, vtt_cue("Bye.", 3) + mp4_box(b"vtta", b"note"))]
    batch = films(tmp_path, with_wvtt(FILM, samples, fragmented))
    [row] = values(stage, batch)
    cues = [(cue["start"], cue["end"], cue["text"], cue["speaker"]) for cue in row["cues"]]
    assert cues == [(0.5, 1.0, "Good day.", "Ann"), (0.8, 1.0, "And & night.", None), (1.2, 1.9, "Bye.", None)]
    assert (row["subtitle_kind"], row["subtitle_codec"], row["subtitle_language"]) == ("text", "wvtt", "eng")
    tracks = TrackRows()
    [_, track] = values(tracks, batch)
    tracks.teardown()
    assert (track["track_kind"], track["track_codec"], track["track_subtitle_kind"]) == ("subtitle", "wvtt", "text")
    assert track["media_ref"]["stream"] == 1
    assert (track["track_start_s"], track["track_duration_s"]) == (0.0, 1.9)
    info = VideoInfo()
    [row] = values(info, batch)
    info.teardown()
    assert row["video_subtitles"] == 1


@given(st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from("ab")), max_size=6).map(tuple), st.data())
@settings(max_examples=20, deadline=None)
def test_no_cue_of_a_damaged_sample_of_webvtt_is_made_up_or_counted_twice(cues, data):
    sample = b"".join(vtt_cue(text, source) for source, text in cues)
    cut = sample[: data.draw(st.integers(0, len(sample)))]
    read = [(cue.source, cue.text) for cue in cues_of_sample(cut)]
    assert read == list(cues[: len(read)])
    assert len(cues_of_sample(sample)) == len(cues)


@pytest.mark.parametrize(("reason", "times"), LIES)
def test_a_film_whose_times_lie_goes_to_quarantine_or_is_marked(tmp_path, stage, lenient, reason, times):
    batch = films(tmp_path, FILM)
    (tmp_path / "film0.srt").write_text(f"{SRT}\n3\n{times}\nLie.\n")
    answer = stage.process(batch)
    assert answer.to_arrow().num_rows == 0
    assert [(gone.reason, gone.rows) for gone in answer.rejections] == [(f"bad times: {reason}", 1)]
    [row] = values(lenient, batch)
    assert times_of(row) == [(0.5, 1.0), (1.2, 1.9)]
    assert [(fault["reason"], fault["text"]) for fault in row["subtitle_faults"]] == [(reason, "Lie.")]
    assert row["transcript"] == "Good day. And night."


def test_the_times_of_tracks_can_lie_too(tmp_path, stage):
    cues = [*CUES, (1.9, 60.0, "Long.")]
    answer = stage.process(films(tmp_path, with_tracks([FILM], [("subrip", cues)])))
    assert [gone.reason for gone in answer.rejections] == ["bad times: beyond the end"]


def test_cues_at_one_time_are_marked(tmp_path, stage):
    cues = [(0.2, 1.0, "One."), (0.5, 0.8, "Two."), (1.0, 1.5, "Three.")]
    [row] = values(stage, films(tmp_path, with_tracks([FILM], [("subrip", cues)])))
    assert [cue["overlaps"] for cue in row["cues"]] == [False, True, False]


def test_a_share_of_lies_can_be_borne(tmp_path):
    batch = films(tmp_path, FILM)
    (tmp_path / "film0.srt").write_text(f"{SRT}\n3\n99:99:99,000 --> 99:99:99,000\nLie.\n")
    for ratio, kept in ((0.32, 0), (0.34, 1)):
        stage = Subtitles(max_fault_ratio=ratio)
        assert len(values(stage, batch)) == kept
        stage.teardown()


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("srt", SRT),
        ("vtt", "WEBVTT\n\n00:00.500 --> 00:01.000\nGood\nday.\n\n00:01.200 --> 00:01.900\nAnd night.\n"),
        (
            "ass",
            "[Events]\nFormat: Start, End, Name, Text\nDialogue: 0:00:00.50,0:00:01.00,,Good\\Nday.\n"
            "Dialogue: 0:00:01.20,0:00:01.90,,And night.\n",
        ),
    ],
)
def test_files_beside_films_are_subtitles_of_those_without_a_track(tmp_path, stage, suffix, text):
    batch = films(tmp_path, FILM, with_tracks([FILM], [("subrip", [(0.1, 0.2, "Track.")])]), FILM)
    for number in (0, 1):
        (tmp_path / f"film{number}.{suffix}").write_text(text)
    beside, track, without = values(stage, batch)
    assert beside["transcript"] == "Good day. And night."
    assert times_of(beside) == [(0.5, 1.0), (1.2, 1.9)]
    assert (beside["subtitle_path"], beside["subtitle_codec"]) == (str(tmp_path / f"film0.{suffix}"), suffix)
    assert track["transcript"] == "Track."
    assert {name: value for name, value in without.items() if name != "media_ref"} == dict.fromkeys(
        [name for name in without if name != "media_ref"]
    )


def test_a_file_beside_a_film_that_is_none_is_a_fault(tmp_path, stage):
    batch = films(tmp_path, FILM, FILM)
    (tmp_path / "film0.srt").write_text("<html>")
    answer = stage.process(batch)
    assert answer.to_arrow().num_rows == 1
    assert [(gone.reason, gone.rows) for gone in answer.rejections] == [("bad srt", 1)]


def test_the_language_and_flags_of_tracks_decide(tmp_path):
    subtitles = [
        ("subrip", [(0.1, 0.2, "Forced.")], "eng", 0x40),
        ("subrip", [(0.1, 0.2, "English.")], "eng"),
        ("subrip", [(0.1, 0.2, "Deutsch.")], "ger", 0x1),
    ]
    batch = films(tmp_path, with_tracks([FILM], subtitles), FILM, FILM)
    (tmp_path / "film1.en.srt").write_text(SRT)
    (tmp_path / "film1.srt").write_text("no subtitle")
    for language, wanted in ((None, "Deutsch."), ("en", "English."), ("deu", "Deutsch."), ("fr", None)):
        stage = Subtitles(language=language)
        rows = values(stage, batch)
        assert rows[0]["transcript"] == wanted
        if language == "en":
            assert rows[1]["transcript"] == "Good day. And night."
            assert rows[1]["subtitle_language"] == "en"
        stage.teardown()


def test_clips_have_their_cues_in_their_own_time(tmp_path, stage):
    path = str(tmp_path / "film0")
    films(tmp_path, with_tracks([FILM], [("subrip", CUES)]))
    refs = [Ref(path, start_s=0.8, stop_s=1.3), Ref(path), Ref(path, start_s=1.0, stop_s=1.2), Ref(path, start_s=1.5)]
    rows = values(stage, DocumentBatch(data=pa.table({"media_ref": ref_array(refs)})))
    assert [times_of(row) for row in rows] == [[(0, 0.2), (0.4, 0.5)], [(0.5, 1), (1.2, 1.9)], [], [(0, 0.4)]]
    assert [row["transcript"] for row in rows] == ["Good day. And night."] * 2 + ["", "And night."]


def test_cues_become_files_of_sound_and_pictures(tmp_path):
    """Free transcripts: rules of text choose the cues, and only these are cut."""
    folder = tmp_path / "films"
    folder.mkdir()
    cues = [(0.3, 0.8, "Too short."), (0.9, 1.25, "These are enough words."), (1.3, 1.7, "So are these, are they?")]
    (folder / "a.mkv").write_bytes(with_tracks([FILM], [("subrip", cues)], [(0.5, 1.0)]))
    (folder / "b.mkv").write_bytes(with_tracks([FILM], [], [(0.5, 0.0)]))
    begin: list[Stage] = [
        MediaReader(str(folder)),
        Subtitles(),
        SegmentRows("cues", text_field="text"),
        ScoreFilter(WordCountFilter(min_words=3)),
    ]
    [batch] = Pipeline("cues", stages=[*begin, CutAudio(audio_format="wav")]).run(InlineExecutor(), observers=[])
    assert isinstance(batch, DocumentBatch)
    rows = batch.to_arrow().to_pylist()
    assert [row["text"] for row in rows] == [text for *_, text in cues[1:]]
    lengths = [soundfile.info(io.BytesIO(row["bytes"])).frames for row in rows]
    sounding = [np.count_nonzero(soundfile.read(io.BytesIO(row["bytes"]))[0]) for row in rows]
    assert lengths == [2800, 3200]
    assert sounding == [2000, 3200]  # it begins at 1 s
    [batch] = Pipeline("clips", stages=[*begin, CutVideo(), VideoInfo()]).run(InlineExecutor(), observers=[])
    assert isinstance(batch, DocumentBatch)
    assert batch.to_arrow()["video_frames"].to_pylist() == [9, 10]


def test_the_time_of_cues_grows_with_their_number():
    def data(count):
        cues = [(number * 0.1, number * 0.1 + 0.05, f"Words of number {number}.") for number in range(count)]
        return with_tracks([film(frames=2, times=[0.0, count * 0.1])], [("subrip", cues)])

    def seconds(content):
        best = math.inf
        for _ in range(2):
            begin = time.process_time()
            read = [a for a in read_cues(io.BytesIO(content), {"clips": [(0, None)]}, {}) if a is not None]
            best = min(best, time.process_time() - begin)
        return best, sum(len(value["cues"]) for value, _ in read)

    few_s, few = seconds(data(12_500))
    many_s, many = seconds(data(100_000))
    assert (few, many) == (12_500, 100_000)
    assert many_s < 16 * few_s


@pytest.mark.parametrize("settings", [{"suffixes": ["doc"]}, {"max_fault_ratio": 1.5}, {"language": ""}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(PipelineError, match=next(iter(settings))):
        Subtitles(**settings)
