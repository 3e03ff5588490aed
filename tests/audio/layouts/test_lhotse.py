"""Cuts of Lhotse come back as they were, mean the same to Lhotse, and none is lost."""

import json

import lhotse
import numpy as np
import pytest
import soundfile

from dcurate import InlineExecutor, JsonlReader, MediaReader, Pipeline, PipelineError
from dcurate.audio import LhotseCutReader, LhotseCutWriter, NemoManifestReader
from dcurate.media.refs import refs_of
from tests.audio.layouts.test_nemo import FirstHalf, reasons, run, written


@pytest.fixture
def sounds(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(("a.wav", "b.flac")):
        samples = np.random.default_rng(number).uniform(-0.5, 0.5, 40_000)
        soundfile.write(folder / name, samples, 8000)
    return folder


def cut(source="a.wav", **changes):
    recording = {
        "id": "a",
        "sources": [{"type": "file", "channels": [0], "source": source}],
        "sampling_rate": 8000,
        "num_samples": 40_000,
        "duration": 5.0,
    }
    whole = {"id": "a-1", "start": 1.0, "duration": 2.50, "channel": 0, "type": "MonoCut", "recording": recording}
    return {**whole, **changes}


def put(folder, *cuts):
    (folder / "cuts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in cuts))
    return LhotseCutReader(str(folder / "cuts.jsonl"))


def places(reader):
    return [ref for batch in run(reader) for ref in refs_of(batch.to_arrow())]


def test_cuts_that_lhotse_wrote_come_back_byte_for_byte(sounds, tmp_path):
    recordings = [lhotse.Recording.from_file(sounds / name) for name in ("a.wav", "b.flac")]
    cuts = [recording.to_cut() for recording in recordings]
    pieces = [*cuts, cuts[0].truncate(offset=1, duration=2), cuts[0].resample(16_000), cuts[1].append(cuts[0])]
    pieces += [cuts[0].pad(duration=9), cuts[0].perturb_speed(1.1)]
    lhotse.CutSet.from_cuts(pieces).to_file(sounds / "cuts.jsonl.gz")
    reader = LhotseCutReader(str(sounds / "cuts.jsonl.gz"))
    run(reader, LhotseCutWriter(str(tmp_path / "out")))
    lhotse.CutSet.from_cuts(pieces).to_file(sounds / "plain.jsonl")
    assert written(tmp_path / "out") == (sounds / "plain.jsonl").read_bytes()
    [path] = (tmp_path / "out").glob("*.jsonl")
    assert list(lhotse.CutSet.from_file(path)) == pieces
    refs = places(reader)
    assert [None if ref is None else (ref.path.rpartition("/")[2], ref.start_s, ref.stop_s) for ref in refs] == [
        ("a.wav", None, None),
        ("b.flac", None, None),
        ("a.wav", 1.0, 3.0),
        ("a.wav", None, None),
        None,
        None,
        None,
    ]
    [split] = reader.splits()
    assert "2 cuts have no reference, as they pad or mix recordings" in reader.remarks(reader.process(split).found)


BAD = {
    "missing": cut("none.wav"),
    "outside of root": cut("/etc/passwd"),
    "no path": cut(""),
    "command": cut(recording={**cut()["recording"], "sources": [{"type": "command", "source": "rm -r /"}]}),
    "shar": cut(recording={**cut()["recording"], "sources": [{"type": "shar", "channels": [0], "source": ""}]}),
    "bad segment": cut(start=-1.0),
}


@pytest.mark.parametrize(
    ("reason", "bad"),
    [
        *BAD.items(),
        ("bad segment", cut(start=5.0)),
        ("bad segment", cut(duration=0)),
        ("bad segment", cut(duration=-2)),
    ],
)
def test_a_cut_of_no_recording_is_in_quarantine_with_its_reason(sounds, tmp_path, reason, bad):
    good = cut(id="good")
    run(put(sounds, good, bad), LhotseCutWriter(str(tmp_path / "out")))
    assert [json.loads(line) for line in written(tmp_path / "out").splitlines()] == [good]
    assert reasons(tmp_path) == {reason: 1}


@pytest.mark.parametrize(
    "odd",
    [
        {"recording": None},
        {"recording": "lost"},
        {"channel": [[1]], "recording": {**cut()["recording"], "sources": [1, {}, {"channels": 3}, {"channels": [2]}]}},
        {"recording": {**cut()["recording"], "transforms": 3}},
        {"recording": {**cut()["recording"], "sources": None}},
        {"type": "MixedCut", "tracks": [{}]},
    ],
)
def test_a_cut_that_no_reference_means_is_kept_as_it_is(sounds, tmp_path, odd):
    cuts = [cut(), cut(id="odd", **odd)]
    run(put(sounds, *cuts), LhotseCutWriter(str(tmp_path / "out")))
    assert [json.loads(line) for line in written(tmp_path / "out").splitlines()] == cuts
    assert reasons(tmp_path) == {}


def test_the_source_with_the_channel_of_a_cut_is_meant(sounds):
    sources = [
        {"type": "file", "channels": [0], "source": "a.wav"},
        {"type": "file", "channels": [1], "source": "b.flac"},
    ]
    recording = {**cut()["recording"], "sources": sources}
    refs = places(put(sounds, *(cut(recording=recording, channel=channel) for channel in (0, 1, [0, 1]))))
    assert [ref and ref.path.rpartition("/")[2] for ref in refs] == ["a.wav", "b.flac", None]


def test_duplicate_and_overlapping_cuts_are_rows_like_others(sounds):
    assert len(places(put(sounds, cut(), cut(), cut(start=1.5)))) == 3


def test_another_segment_moves_the_supervisions_with_it(sounds, tmp_path):
    supervisions = [
        {"id": "s1", "recording_id": "a", "start": 0.25, "duration": 0.5, "channel": 0, "text": "early"},
        {"id": "s2", "recording_id": "a", "start": 1.5, "duration": 0.5, "channel": 0, "text": "late"},
    ]
    reader = put(sounds, cut(text="cut", supervisions=supervisions), cut(text="as it was", supervisions=supervisions))
    run(reader, FirstHalf(), LhotseCutWriter(str(tmp_path / "out")))
    changed, same = map(json.loads, written(tmp_path / "out").splitlines())
    assert (changed["start"], changed["duration"]) == (1.0, 1.0)
    assert changed["supervisions"] == supervisions[:1]
    assert same["supervisions"] == supervisions


def test_rows_of_other_readers_become_cuts_that_lhotse_loads(sounds, tmp_path):
    lines = [
        {"audio_filepath": "a.wav", "text": "all of it", "language": "en", "n": 1},
        {"audio_filepath": "b.flac", "text": "part", "offset": 1.0, "duration": 2.0, "n": 2},
    ]
    (sounds / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(NemoManifestReader(str(sounds / "m.json")), LhotseCutWriter(str(tmp_path / "out")))
    [path] = (tmp_path / "out").glob("*.jsonl")
    first, second = lhotse.CutSet.from_file(path)
    assert (first.supervisions[0].text, first.supervisions[0].language, first.custom["n"]) == ("all of it", "en", 1)
    assert (first.num_samples, second.num_samples, second.start) == (40_000, 16_000, 1.0)
    expected, _ = soundfile.read(sounds / "b.flac", start=8000, stop=24_000, dtype="float32")
    assert np.array_equal(second.load_audio()[0], expected)
    again = places(LhotseCutReader(str(path), root=str(sounds)))
    assert [(ref.start_s, ref.stop_s) for ref in again] == [(None, None), (1.0, 3.0)]


def test_a_file_that_is_no_recording_is_in_quarantine(sounds, tmp_path):
    (sounds / "c.wav").write_bytes(b"<html></html>")
    run(MediaReader(str(sounds)), LhotseCutWriter(str(tmp_path / "out")))
    assert reasons(tmp_path) == {"not a recording: HTML or XML": 1}
    assert {json.loads(line)["id"] for line in written(tmp_path / "out").splitlines()} == {"a.wav", "b.flac"}


def test_a_part_of_the_columns_cannot_be_written(sounds):
    with pytest.raises(PipelineError, match="a cut is written whole"):
        LhotseCutWriter("out", fields=["id"])
    (sounds / "m.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(PipelineError, match="needs a column 'media_ref'"):
        Pipeline("x", stages=[JsonlReader(str(sounds / "m.jsonl")), LhotseCutWriter("out")]).run(InlineExecutor())
