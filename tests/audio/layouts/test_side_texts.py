"""Texts beside recordings become columns, and segments of the formats that have times."""

import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, MediaReader, PipelineError
from dcurate.audio import ParseSegments, SegmentRows, SideTexts
from dcurate.audio.layouts.subtitles import FORMATS
from dcurate.media.cues import TextSegment
from dcurate.testing import check_stage
from tests.audio.layouts.test_nemo import run
from tests.media.archives import tar_of

SRT = """\ufeff1
00:00:00,500 --> 00:00:01,250
<i>Good</i>
day.
2
00:00:01,000 --> 01:00:02.000
overlaps

"""
VTT = """WEBVTT - a title

NOTE this is no cue

STYLE
::cue { color: red }

intro
00:00.500 --> 00:01.250 line:0
<v.loud Ann Lee>Good day &lt;3</v>

100:00:01.000 --> 100:00:02.000
second
"""
RTTM = (
    ";; comment\nSPKR-INFO a 1 <NA> <NA> <NA> unknown ann <NA> <NA>\nSPEAKER a 1 0.5 0.75 <NA> <NA> ann <NA> <NA>\n\n"
)
LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2.5
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "ann"
        xmin = 0
        xmax = 2.5
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 0.5
            text = ""
        intervals [2]:
            xmin = 0.5
            xmax = 1.25
            text = "say ""3 4"" = [5]"
    item [2]:
        class = "TextTier"
        name = "points"
        xmin = 0
        xmax = 2.5
        points: size = 1
        points [1]:
            number = 1.0
            mark = "x"
"""


@pytest.mark.parametrize(
    ("kind", "content", "wanted"),
    [
        ("srt", SRT, [(0.5, 1.25, "Good day.", None), (1.0, 3602.0, "overlaps", None)]),
        ("vtt", VTT, [(0.5, 1.25, "Good day <3", "Ann Lee"), (360_001.0, 360_002.0, "second", None)]),
        ("rttm", RTTM, [(0.5, 1.25, None, "ann")]),
        ("textgrid", LONG, [(0.5, 1.25, 'say "3 4" = [5]', "ann")]),
        ("json", '[{"start_s": 1, "duration": 0.5, "speaker": 7}]', [(1.0, 1.5, None, "7")]),
        ("json", '{"segments": [{"start": 1, "end": 2, "text": "x"}], "language": "en"}', [(1.0, 2.0, "x", None)]),
        ("srt", "", []),
        ("rttm", "", []),
        ("json", "[]", []),
        ("vtt", "WEBVTT\n", []),
    ],
)
def test_segments_have_the_times_texts_and_speakers_of_the_format(kind, content, wanted):
    assert FORMATS[kind](content.removeprefix("\ufeff")) == [TextSegment(*segment) for segment in wanted]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("srt", "no times at all"),
        ("srt", "00:00:02,000 --> 00:00:01,000\nbackwards\n"),
        ("vtt", "00:00.500 --> 00:01.250\nno head\n"),
        ("rttm", "SPEAKER a 1 0.5\n"),
        ("rttm", "SPEAKER a 1 0.5 -1 <NA> <NA> ann <NA> <NA>\n"),
        ("rttm", "SPEAKER a 1 -0.5 1 <NA> <NA> ann <NA> <NA>\n"),
        ("rttm", "SPEAKER a 1 nan 1 <NA> <NA> ann <NA> <NA>\n"),
        ("textgrid", LONG[:300]),
        ("textgrid", "words"),
        ("textgrid", '"ooTextFile" "TextGrid" 0 1 999999999'),
        ("json", "{"),
        ("json", "[" * 100_000),
        ("json", "3"),
        ("json", "[3]"),
        ("json", '[{"start": 1}]'),
        ("json", '[{"end": 1}]'),
        ("json", '[{"start": true, "end": 2}]'),
        ("json", '[{"start": 2, "end": 1}]'),
    ],
)
def test_a_text_of_another_kind_is_in_quarantine(kind, content):
    rows = pa.table({"text": [content, None]})
    made = ParseSegments("text", kind).process(DocumentBatch(data=rows))
    assert made.to_arrow()["segments"].to_pylist() == [None]
    assert [(rejection.reason, rejection.rows) for rejection in made.rejections] == [(f"bad {kind}", 1)]


@given(
    kind=st.sampled_from(sorted(FORMATS)),
    content=st.text() | st.text('0123456789:,.->\n<v "[]{}').map("WEBVTT\n".__add__),
)
def test_any_text_is_segments_or_refused(kind, content):
    try:
        segments = FORMATS[kind](content)
    except ValueError:
        return
    assert all(0 <= segment.start_s <= segment.stop_s < math.inf for segment in segments)


def test_rows_are_made_of_parsed_segments(tmp_path):
    """A text with times, a list of segments and a row for each are stages that follow each other."""
    (tmp_path / "a.wav").write_bytes(b"1")
    (tmp_path / "a.srt").write_text("00:00:01,500 --> 00:00:02,000\nGood day.\n\n00:00:03,000 --> 00:00:04,000\nBye.\n")
    stages = [MediaReader(str(tmp_path), kinds=["audio"]), SideTexts(["srt"]), ParseSegments("srt"), SegmentRows()]
    [batch] = run(*stages)
    rows = batch.to_arrow().to_pylist()
    assert [(row["media_ref"]["start_s"], row["media_ref"]["stop_s"]) for row in rows] == [(1.5, 2.0), (3.0, 4.0)]
    assert [row["segment"]["text"] for row in rows] == ["Good day.", "Bye."]


def test_texts_beside_files_and_members_become_columns(tmp_path):
    (tmp_path / "a.b.wav").write_bytes(b"1")
    (tmp_path / "a.b.txt").write_bytes("é".encode("utf-16"))
    (tmp_path / "c.wav").write_bytes(b"2")
    (tmp_path / "c.SRT").write_text("1")
    (tmp_path / "d.tar").write_bytes(tar_of([("x/e.wav", b"3"), ("x/e.txt", b"t\xff"), ("x/e.SRT", b"2")]))
    [batch] = run(MediaReader(str(tmp_path), kinds=["audio"]), SideTexts(["txt", "SRT"]))
    rows = batch.to_arrow().sort_by("size").sort_by("file_name").to_pylist()
    assert {row["file_name"]: (row["txt"], row["srt"]) for row in rows} == {
        "a.b.wav": ("é", None),
        "c.wav": (None, "1"),
        "x/e.wav": ("t\ufffd", "2"),
    }


def test_the_stages_are_what_the_engine_relies_on(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"1")
    (tmp_path / "b.wav").write_bytes(b"2")
    (tmp_path / "a.json").write_text(json.dumps([{"start": 0, "end": 1}]))
    [batch] = run(MediaReader(str(tmp_path), kinds=["audio"]))
    check_stage(SideTexts(["json"]), batch)
    check_stage(ParseSegments("json"), SideTexts(["json"]).process(batch))


def test_wrong_settings_are_refused():
    with pytest.raises(PipelineError, match="must be endings without a dot"):
        SideTexts([".txt"])
    with pytest.raises(PipelineError, match="say what 'text' holds"):
        ParseSegments("text")
