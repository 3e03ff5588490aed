"""What is personal in a transcript is silent in the sound, and all else is as it was."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, Modify, PipelineError
from dcurate.audio import CutAudio, MuteWords, SegmentRows
from dcurate.audio.mute import numbers_of
from dcurate.media import Ref, ref_array
from dcurate.testing import check_stage
from dcurate.text import FindPii, PiiModifier

RATE, RAMP = 8000, 40
WORDS = pa.list_(pa.struct([("word", pa.string()), ("start", pa.float64()), ("end", pa.float64())]))
SPANS = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("kind", pa.string())]))
PLAIN = ["so", "Call", "me,", "Zoë", "ΟΔΟΣ", "-", "it's", "fine."]
PERSONAL = ["jo@example.org", "jo@example.org,", "+1 415 555 2671", "ann.lee@example.com."]


def recording(frames: int = 80_000, channels: int = 1, form: str = "WAV") -> tuple[bytes, Any]:
    samples = np.random.default_rng(7).integers(1, 2**15, (frames, channels), dtype=np.int16)
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format=form)
    return file.getvalue(), samples


def spoken(words: list[str], length_s: float = 0.5) -> list[dict[str, Any]]:
    """Words one after another, with gaps between them."""
    return [
        {"word": word, "start": number * length_s, "end": (number + 0.5) * length_s}
        for number, word in enumerate(words)
    ]


def rows_of(text: str | None, words: Any, data: bytes, *segments: tuple[Any, Any]) -> DocumentBatch:
    refs = [Ref("a.wav", None, None, None, *segment) for segment in segments or [(None, None)]]
    columns = {
        "pred_text": pa.array([text] * len(refs), pa.string()),
        "words": pa.array([words] * len(refs), WORDS),
        "bytes": pa.array([data] * len(refs), pa.large_binary()),
        "media_ref": ref_array(refs, segments=True),
    }
    return DocumentBatch(data=pa.table(columns))


def redacted(rows: DocumentBatch, pad_s: float = 0.0, **cut: Any) -> list[dict[str, Any]]:
    stages: list[Any] = [
        FindPii("pred_text"),
        MuteWords(pad_s=pad_s),
        Modify(PiiModifier(anonymize_action="replace", new_value="*"), input_fields="pred_text"),
        CutAudio(mute_field="muted", **cut),
    ]
    for stage in stages:
        made = stage.process(rows)
        assert isinstance(made, DocumentBatch)
        assert made.rejections == ()
        rows = made
    found: list[dict[str, Any]] = rows.to_arrow().to_pylist()
    return found


def heard(data: bytes) -> Any:
    return soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)[0]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([*PLAIN, *PERSONAL]), min_size=1, max_size=16),
    st.sampled_from(["wav", "flac"]),
    st.sampled_from([0.0, 0.03, 0.4]),
    st.sampled_from([1, 2]),
)
@example(["so", *PERSONAL], "flac", 0.4, 1)
@example(["so"] * 15 + ["jo@example.org"], "wav", 0.03, 1)  # across two windows of 65,536 samples, which is 8.192 s
def test_text_and_sound_agree(words: list[str], form: str, pad_s: float, channels: int) -> None:
    data, samples = recording(channels=channels)
    parts = [part for word in words for part in word.split()]
    times = spoken(parts, 9.0 / len(parts))
    [row] = redacted(rows_of(" ".join(words), times, data), pad_s, audio_format=form)
    made = heard(row["bytes"])
    assert made.shape == samples.shape
    silent, faded = np.zeros(len(made), bool), np.zeros(len(made), bool)
    for part in row["muted"]:
        first, last = int(np.floor(part["start"] * RATE)), int(np.ceil(part["end"] * RATE))
        silent[first:last], faded[max(0, first - RAMP) : last + RAMP] = True, True
    assert not made[silent].any()
    assert np.array_equal(made[~faded], samples[~faded])
    for word, before in zip(row["words"], times, strict=True):
        first, last = round(before["start"] * RATE), round(before["end"] * RATE)
        if word["word"] == "<muted>":
            assert silent[max(0, first - int(pad_s * RATE)) : last + int(pad_s * RATE)].all()
        else:
            assert word == before
            assert pad_s == 0.4 or not silent[first + RAMP : last - RAMP].all()
    kept = " ".join(word["word"] for word in row["words"] if word["word"] != "<muted>")
    assert not any(secret.strip(",.") in kept for secret in PERSONAL)
    personal = [part for word in words if word in PERSONAL for part in word.split()]
    assert [word["word"] for word in row["words"]].count("<muted>") == len(personal)
    assert row["pred_text"].count("*") == sum(word in PERSONAL for word in words)


def test_segments_are_muted_where_they_are_and_so_are_segments_of_segments() -> None:
    data, samples = recording()
    words = [{"word": "jo@example.org", "start": 1.0, "end": 1.5}, {"word": "so", "start": 2.0, "end": 2.5}]
    [whole, part] = redacted(rows_of("jo@example.org so", words, data, (None, None), (2.0, 6.0)))
    assert (whole["muted"], part["muted"]) == ([{"start": 1.0, "end": 1.5}], [{"start": 3.0, "end": 3.5}])
    assert np.flatnonzero(heard(whole["bytes"]) == 0).tolist() == list(range(8000, 12_000))
    assert np.flatnonzero(heard(part["bytes"]) == 0).tolist() == list(range(8000, 12_000))
    rows = MuteWords(pad_s=0).process(
        FindPii("pred_text").process(rows_of("jo@example.org so", words, data, (2.0, 6.0)))
    )
    cuts = pa.array([[{"start": 0.75, "end": 1.25}, {"start": 1.25, "end": 4.0}]])
    table = rows.to_arrow().append_column("segments", cuts)
    views = CutAudio(mute_field="muted").process(SegmentRows().process(DocumentBatch(data=table))).to_arrow()
    zeros = [np.flatnonzero(heard(file) == 0) for file in views["bytes"].to_pylist()]
    assert [(found.min(), found.max()) for found in zeros] == [(2000, 3999), (0, 1999)]
    assert np.array_equal(heard(views["bytes"][1].as_py())[2040:], samples[28_040:48_000])


def test_samples_are_silent_at_the_rate_of_the_file() -> None:
    data, _ = recording(channels=2)
    words = [{"word": "jo@example.org", "start": 1.0001, "end": 1.5}]
    [row] = redacted(rows_of("jo@example.org", words, data), sample_rate=22_050, channels="mono", audio_format="wav")
    assert not heard(row["bytes"])[int(1.0001 * 22_050) : int(1.5 * 22_050)].any()
    assert heard(row["bytes"])[: int(0.99 * 22_050)].any(axis=1).mean() > 0.99


def test_what_is_muted_of_one_row_is_whole_in_another() -> None:
    data, samples = recording(20_000)
    rows = rows_of("so", None, data, (0.0, 2.0), (0.0, 2.0), (0.0, 2.0)).to_arrow()
    muted = pa.array([[{"start": 0.5, "end": 1.0}], [], None])
    made = CutAudio(mute_field="muted").process(DocumentBatch(data=rows.append_column("muted", muted))).to_arrow()
    files = [heard(file) for file in made["bytes"].to_pylist()]
    assert not files[0][4000:8000].any()
    assert np.array_equal(files[1], samples[:16_000])
    assert np.array_equal(files[2], samples[:16_000])


def test_an_interval_without_times_is_a_fault_and_one_out_of_range_is_not() -> None:
    rows = rows_of("so", None, recording(8000)[0], (0.0, 0.5), (0.0, 0.5)).to_arrow()
    muted = pa.array([[{"start": 0.5, "end": None}], [{"start": -1e300, "end": 1e300}, {"start": 0.1, "end": 0.2}]])
    made = CutAudio(mute_field="muted").process(DocumentBatch(data=rows.append_column("muted", muted)))
    assert [(rejection.reason, rejection.rows) for rejection in made.rejections] == [("bad segments", 1)]
    assert not heard(made.to_arrow()["bytes"][0].as_py()).any()
    with pytest.raises(DataError, match="no column 'quiet'"):
        CutAudio(mute_field="quiet").process(DocumentBatch(data=rows))


SPAN = {"start": 0, "end": 2, "kind": "PERSON"}


@pytest.mark.parametrize(
    ("text", "words", "spans", "reason"),
    [
        ("Jo is", spoken(["Jo", "was"]), [SPAN], "words do not match"),
        ("Jo is", spoken(["Jo"]), [SPAN], "words do not match"),
        ("Jo is", None, [SPAN], "no words"),
        ("Jo is", [{"word": "Jo", "start": None, "end": 1.0}], [SPAN], "bad segments"),
        ("Jo is", spoken(["Jo", "is"]), [{**SPAN, "start": 2, "end": 3}], "bad spans"),
        ("Jo is", spoken(["Jo", "is"]), [{**SPAN, "end": 6}], "bad spans"),
        ("Jo is", spoken(["Jo", "is"]), [{**SPAN, "start": -1}], "bad spans"),
        (None, spoken(["Jo", "is"]), [SPAN], "words do not match"),
    ],
)
def test_a_row_whose_sound_would_not_be_muted_goes_to_quarantine(
    text: Any, words: Any, spans: Any, reason: str
) -> None:
    rows = {
        "pred_text": [text, "x"],
        "words": pa.array([words, None], WORDS),
        "pii_spans": pa.array([spans, None], SPANS),
    }
    made = MuteWords().process(DocumentBatch(data=pa.table(rows)))
    assert [(rejection.reason, rejection.rows, rejection.fault) for rejection in made.rejections] == [(reason, 1, True)]
    assert made.to_arrow().select(["pred_text", "muted"]).to_pylist() == [{"pred_text": "x", "muted": None}]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), min_size=1, max_size=8), st.data())
@example(["Σ", "straße"], None)
def test_words_are_found_however_they_are_written(words: list[str], data: st.DataObject | None) -> None:
    words = [word for word in words if any(map(str.isalnum, word))] or ["word"]
    text = ", ".join(word.upper() if word.upper().casefold() == word.casefold() else word for word in words)
    starts = np.cumsum([0, *(len(part) + 2 for part in text.split(", "))]) if "," not in "".join(words) else None
    number = 0 if data is None else data.draw(st.integers(0, len(words) - 1))
    if starts is None or len(starts) != len(words) + 1:
        return
    first = next(place for place in range(int(starts[number]), len(text)) if text[place].isalnum())
    span = {"start": first, "end": first + 1}
    assert numbers_of(text, [{"word": word} for word in words], [span]) == [range(number, number + 1)]


def test_a_field_of_words_is_needed() -> None:
    rows = {"pred_text": ["x"], "words": [[{"start": 0.0, "end": 1.0}]], "pii_spans": pa.array([[]], SPANS)}
    with pytest.raises(DataError, match="not words with their text in the field 'word'"):
        MuteWords().process(DocumentBatch(data=pa.table(rows)))


@pytest.mark.parametrize("pad_s", [-0.1, 11, True, "1", float("nan")])
def test_a_pad_is_a_number_of_seconds(pad_s: Any) -> None:
    with pytest.raises(PipelineError, match="must be from 0 to 10 seconds"):
        MuteWords(pad_s=pad_s)


def test_the_stages_are_what_the_engine_relies_on() -> None:
    rows = rows_of("jo@example.org so", spoken(["jo@example.org", "so"]), recording(8000)[0], (0.0, 0.5), (0.1, 0.5))
    check_stage(FindPii("pred_text"), rows)
    check_stage(MuteWords(), FindPii("pred_text").process(rows))
