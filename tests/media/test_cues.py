"""Cues of subtitles come out as they went in, and times that lie never become those of a segment."""

import itertools
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.media.cues import BEYOND_S, FORMATS, CheckedCues, TextSegment, fault_of
from dcurate.media.languages import language_key

#: Words without what the formats mean something by.
WORDS = st.lists(st.text("abcé漢 ,.!?'\"-:0123", min_size=1, max_size=8), min_size=1, max_size=4).map(
    lambda words: "a" + " ".join(" ".join(words).split()).replace("--", "-")
)
#: Milliseconds of start and duration.
TIMES = st.tuples(st.integers(0, 359_999_999), st.integers(1, 100_000))
CUES = st.lists(st.tuples(TIMES, WORDS), min_size=1, max_size=8)


def clock(milliseconds, mark=",", hours=2, digits=3):
    seconds, fraction = divmod(milliseconds, 1000)
    text = f"{seconds // 3600:0{hours}}:{seconds // 60 % 60:02}:{seconds % 60:02}{mark}"
    return text + f"{fraction:03}"[:digits]


def srt(cues):
    blocks = (
        f"{number}\n{clock(start)} --> {clock(start + length)}\n{words}\n"
        for number, ((start, length), words) in enumerate(cues, 1)
    )
    return "\n".join(blocks)


def vtt(cues):
    blocks = (
        f"{clock(start, '.')} --> {clock(start + length, '.')} align:start\n{words}\n"
        for (start, length), words in cues
    )
    return "WEBVTT\n\n" + "\n".join(blocks)


def ass(cues):
    lines = (
        f"Dialogue: 0,{clock(start, '.', 1)},{clock(start + length, '.', 1)},Default,Ann,0,0,0,,{{\\i1}}{words}"
        for (start, length), words in cues
    )
    return "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n" + "\n".join(
        lines
    )


@given(CUES)
def test_cues_of_files_come_out_as_they_went_in(cues):
    wanted = [(start / 1000, (start + length) / 1000, words) for (start, length), words in cues]
    for suffix, write in (("srt", srt), ("vtt", vtt), ("ass", ass)):
        read = FORMATS[suffix](write(cues))
        assert [cue.text for cue in read] == [words for *_, words in wanted]
        times = [time for cue in read for time in (cue.start_s, cue.stop_s)]
        assert times == pytest.approx([time for start, stop, _ in wanted for time in (start, stop)], abs=1e-9)
        assert {cue.speaker for cue in read} == {"Ann" if suffix == "ass" else None}


@given(st.lists(st.sampled_from(["1", "-->", "00:00:01,000", "-00:00:02,000", "99:99:99,9", "NaN", "a", "", " --> "])))
def test_every_line_of_times_is_a_cue_however_it_lies(parts):
    content = "\n".join(f"{number}\n{part} --> 00:00:09,000\nwords\n" for number, part in enumerate(parts, 1))
    if content:
        read = FORMATS["srt"](content)
        assert len(read) == len(parts)
        assert [cue.text for cue in read] == ["words"] * len(parts)


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ("00:00:01,000 --> 00:00:02,000", None),
        ("00:00:59,000 --> 00:01:00,900", None),
        ("99:99:99,999 --> 99:99:99,999", "not a time"),
        ("00:00:01,000 --> NaN", "not a time"),
        ("00:00:61,000 --> 00:01:02,000", "not a time"),
        ("-00:00:01,000 --> 00:00:02,000", "before the start"),
        ("00:00:02,000 --> 00:00:01,000", "backwards"),
        ("00:00:02,000 --> 00:00:02,000", "no duration"),
        ("00:00:59,000 --> 00:01:01,100", "beyond the end"),
        ("00:01:00,000 --> 00:01:00,500", "beyond the end"),
        ("99:59:59,000 --> 99:59:59,900", "beyond the end"),
    ],
)
def test_each_lie_has_its_reason(times, reason):
    [cue] = FORMATS["srt"](f"1\n{times}\nwords\n")
    assert fault_of(cue, 60.0) == reason


ANY_TIME = st.one_of(st.floats(), st.floats(-2, 70), st.sampled_from([0.0, 60.0, 60.0 + BEYOND_S]))
ANY_CUES = st.lists(st.builds(TextSegment, ANY_TIME, ANY_TIME, st.just("words")), max_size=30)


@given(ANY_CUES, st.one_of(st.none(), st.just(60.0)))
def test_each_cue_is_a_segment_or_has_a_fault(cues, end_s):
    checked = CheckedCues(cues, end_s)
    parts = checked.between(0.0, None)
    assert len(parts) + len(checked.faults) == len(cues) == checked.count
    assert all(0 <= part["start"] <= part["end"] < math.inf for part in parts)
    assert [part["start"] for part in parts] == sorted(part["start"] for part in parts)


@given(ANY_CUES, st.floats(0, 60), st.floats(0.001, 30))
def test_the_cues_of_a_clip_are_those_that_share_time_with_it(cues, start_s, length_s):
    checked = CheckedCues(cues, None)
    stop_s = start_s + length_s
    good = sorted((cue for cue in cues if fault_of(cue, None) is None), key=lambda cue: cue[:2])
    wanted = [
        (round(max(cue.start_s - start_s, 0.0), 6), round(min(cue.stop_s, stop_s) - start_s, 6))
        for cue in good
        if cue.start_s < stop_s and cue.stop_s > start_s
    ]
    assert [(part["start"], part["end"]) for part in checked.between(start_s, stop_s)] == wanted


@given(ANY_CUES)
def test_a_cue_overlaps_if_an_earlier_one_has_not_ended(cues):
    good = sorted((cue for cue in cues if fault_of(cue, None) is None), key=lambda cue: cue[:2])
    wanted = [any(before.stop_s > cue.start_s for before in good[:number]) for number, cue in enumerate(good)]
    assert [part["overlaps"] for part in CheckedCues(cues, None).between(0.0, None)] == wanted


def _seconds(function, *arguments):
    best = math.inf
    for _ in range(3):
        begin = time.process_time()
        function(*arguments)
        best = min(best, time.process_time() - begin)
    return best


HOSTILE = {
    "arrows": lambda count: "-->" * count,
    "numbers": lambda count: "1\n" * count,
    "tags": lambda count: "00:00:01,000 --> 00:00:02,000\n" + "<" * count + "{\\" * count,
    "drawings": lambda count: "00:00:01,000 --> 00:00:02,000\n" + "{\\p1" * count,
    "voices": lambda count: "00:00:01.000 --> 00:00:02.000\n" + "<v.a " * count,
    "cues": lambda count: "00:00:01.000 --> 00:00:02.000\na\n\n" * (count // 16),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("suffix", ["srt", "vtt", "ass"])
def test_the_time_grows_with_the_text(kind, suffix):
    heads = {"srt": "", "vtt": "WEBVTT\n\n", "ass": "Format: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,"}

    def read(count):
        try:
            return FORMATS[suffix](heads[suffix] + HOSTILE[kind](count))
        except ValueError:
            return []

    assert _seconds(read, 400_000) < 16 * max(_seconds(read, 50_000), 0.002)


def test_clips_are_found_without_a_look_at_all_cues():
    def clips(count):
        checked = CheckedCues([TextSegment(0.0, count + 1.0), *(TextSegment(n, n + 1.0) for n in range(count))], None)
        return [len(checked.between(float(n), n + 0.5)) for n in range(count)]

    assert set(clips(1000)) == {2}
    assert _seconds(clips, 16_000) < 16 * max(_seconds(clips, 2_000), 0.01)


def test_codes_of_one_language_are_one():
    groups = ["en eng en-US EN_gb", "de ger deu", "fr fre fra", "cs cze ces", "zh chi zho zh-Hans", "he heb", "nb nob"]
    keys = [{language_key(code) for code in group.split()} for group in groups]
    assert all(len(found) == 1 for found in keys)
    assert len(set(itertools.chain(*keys))) == len(groups)


def test_blank_lines_within_a_subtitle_lose_no_words():
    blocks = ["1\n00:00:01,000 --> 00:00:02,000\nGood\n\n\nday\n\n", "2\n00:00:03,000 --> 00:00:04,000\n\nAt\n \n7\n\n"]
    for end in ("3\n", "3\n00:00:05,000 --> 00:00:06,000\n\n", ""):
        read = FORMATS["srt"]("".join(blocks) + end)
        assert [cue.text for cue in read[:2]] == ["Good day", "At" if end == "" else "At 7"]
    lying = FORMATS["srt"](blocks[0] + "2\nno --> time\nLate\n\nno --> time\nLater\n")
    assert [(cue.text, math.isnan(cue.start_s)) for cue in lying] == [
        ("Good day", False),
        ("Late", True),
        ("Later", True),
    ]
    assert [cue.text for cue in FORMATS["vtt"]("WEBVTT\n\n00:01.000 --> 00:02.000\nGood\n\nNOTE a remark\n")] == [
        "Good"
    ]
