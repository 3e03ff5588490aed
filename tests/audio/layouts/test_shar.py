"""Shar folders of Lhotse come back as they were, and Lhotse reads them."""

import gzip
import json
import tarfile

import lhotse
import numpy as np
import pytest
import soundfile

from dcurate import PipelineError
from dcurate.audio import LhotseSharReader, LhotseSharWriter, NemoManifestReader
from dcurate.media.refs import fetch, refs_of
from tests.audio.layouts.test_nemo import reasons, run

# Lhotse does not close the archives that it reads.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def members(archive):
    with tarfile.open(archive) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar]


def lines(folder):
    return b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("cuts.*.jsonl.gz")))


@pytest.fixture
def sounds(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        samples = np.random.default_rng(number).uniform(-0.5, 0.5, 8000 + 100 * number)
        soundfile.write(folder / f"{number}.wav", samples, 8000)
    return folder


@pytest.fixture
def shar(sounds, tmp_path):
    folder = tmp_path / "shar"
    folder.mkdir()
    cuts = [lhotse.Recording.from_file(sounds / f"{number}.wav").to_cut() for number in range(5)]
    for number, cut in enumerate(cuts):
        cut.supervisions = [
            lhotse.SupervisionSegment(f"s{number}", cut.recording.id, 0, cut.duration, text=f"é{number}")
        ]
        cut.custom = {"n": number}
    cuts[3] = cuts[3].truncate(offset=0.25, duration=0.5)
    lhotse.CutSet.from_cuts(cuts).to_shar(folder, fields={"recording": "flac"}, shard_size=2)
    return folder


def test_a_folder_that_lhotse_wrote_comes_back_with_all_bytes(shar, tmp_path):
    out = tmp_path / "out"
    run(LhotseSharReader(str(shar)), LhotseSharWriter(str(out)))
    assert lines(out) == lines(shar)
    before = [member for path in sorted(shar.glob("*.tar")) for member in members(path)]
    assert [member for path in sorted(out.glob("*.tar")) for member in members(path)] == before
    first, second = (lhotse.CutSet.from_shar(in_dir=folder) for folder in (shar, out))
    for left, right in zip(first, second, strict=True):
        assert np.array_equal(left.load_audio(), right.load_audio())


def test_references_mean_the_members(shar):
    [data] = [[file for batch in run(LhotseSharReader(str(shar))) for file in fetch(batch.to_arrow())]]
    stored = [
        content for path in sorted(shar.glob("*.tar")) for name, content in members(path) if name.endswith("flac")
    ]
    assert data == stored


def test_recordings_of_another_layout_become_a_folder_that_lhotse_reads(sounds, tmp_path):
    rows = [{"audio_filepath": f"{number}.wav", "text": str(number), "duration": 1} for number in range(3)]
    rows[1] |= {"offset": 0.25, "duration": 0.5}
    (sounds / "m.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(NemoManifestReader(str(sounds / "m.json")), LhotseSharWriter(str(tmp_path / "out"), max_rows_per_file=2))
    cuts = list(lhotse.CutSet.from_shar(in_dir=tmp_path / "out"))
    assert [cut.supervisions[0].text for cut in cuts] == ["0", "1", "2"]
    whole, part, _ = (cut.load_audio()[0] for cut in cuts)
    assert np.array_equal(whole, soundfile.read(sounds / "0.wav", dtype="float32")[0])
    assert np.array_equal(part, soundfile.read(sounds / "1.wav", start=2000, stop=6000, dtype="float32")[0])
    refs = [ref for batch in run(LhotseSharReader(str(tmp_path / "out"))) for ref in refs_of(batch.to_arrow())]
    assert [(ref.start_s, ref.stop_s) for ref in refs] == [(None, None), (0.25, 0.75), (None, None)]


def test_a_cut_whose_member_is_gone_or_cut_off_is_in_quarantine(shar, tmp_path):
    first, second, third = sorted(shar.glob("*.tar"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:1000])
    run(LhotseSharReader(str(shar)), LhotseSharWriter(str(tmp_path / "out")))
    assert len(lines(tmp_path / "out").splitlines()) == 1
    assert reasons(tmp_path) == {"missing": 3, "truncated": 1}
    assert third.exists()


def test_cuts_without_a_recording_keep_their_place(shar, tmp_path):
    cuts = list(lhotse.CutSet.from_shar(in_dir=shar))
    for cut in cuts:
        cut.custom = None  # where Lhotse notes the shard that it read
    cuts[1] = lhotse.cut.MonoCut("none", 0, 1, 0)
    folder = tmp_path / "gaps"
    folder.mkdir()
    lhotse.CutSet.from_cuts(cuts).to_shar(folder, fields={"recording": "wav"}, shard_size=9)
    run(LhotseSharReader(str(folder)), LhotseSharWriter(str(tmp_path / "out")))
    [before], [after] = folder.glob("*.tar"), (tmp_path / "out").glob("*.tar")
    assert members(after) == members(before)
    assert lines(tmp_path / "out") == lines(folder)


def test_settings_without_effect_are_refused():
    for setting in ({"compression": "zstd"}, {"max_bytes_per_file": 3}, {"separate_by": "lang"}):
        with pytest.raises(PipelineError, match="cannot be set"):
            LhotseSharWriter("out", **setting)
    with pytest.raises(PipelineError, match="root and on_missing have no effect"):
        LhotseSharReader("in", root="/")
