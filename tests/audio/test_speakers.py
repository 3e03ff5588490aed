"""Speakers: the embeddings are Resemblyzer's, clusters those of average linkage, and turns cover the segments."""

import importlib
import io
import itertools
import pickle
import sys
import tracemalloc
import types
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import soxr
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError
from dcurate.audio import FindSpeakers, SegmentRows
from dcurate.audio.speaker_clusters import SmallClusters, joined, unit
from dcurate.audio.speaker_overlaps import KEPT, KeptWindows, overlap_rule
from dcurate.audio.speakers import SpeakerListener, SpeakerRules, piece_turns
from dcurate.audio.stage import Mono
from dcurate.audio.voice_encoder import SIZE, powers, voice_encoder, window_starts, windows_of
from dcurate.media.onnx import packaged
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage
from tests.audio.test_speech import voice

RATE = 16_000


#: Made-up voices vary more than those of people.
MADE = FindSpeakers(min_similarity=0.58)


def wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
    return file.getvalue()


def deep(seconds: float, seed: int = 1) -> np.ndarray:
    """A voice with a longer throat than that of `voice`."""
    return soxr.resample(voice(0.65 * seconds, seed), RATE * 0.65, RATE).astype(np.float32)[: round(seconds * RATE)]


def spoken(stage: FindSpeakers, samples: np.ndarray, *segments: tuple[float, float]) -> list[dict[str, Any]]:
    parts = [{"start": start, "end": end} for start, end in segments]
    rows = pa.table({"bytes": [wav(samples)], "segments": [parts]})
    turns: list[dict[str, Any]] = stage.process(DocumentBatch(data=rows)).to_arrow()["turns"][0].as_py()
    return turns


@pytest.fixture(scope="module")
def resemblyzer() -> Any:
    """The package itself. It imports webrtcvad, of which what is called here uses nothing."""
    before = sys.modules.get("webrtcvad")
    sys.modules["webrtcvad"] = types.ModuleType("webrtcvad")
    try:
        with pytest.warns(DeprecationWarning, match="scipy.ndimage"):
            return importlib.import_module("resemblyzer")
    finally:
        if before is None:
            del sys.modules["webrtcvad"]
        else:
            sys.modules["webrtcvad"] = before


@pytest.mark.parametrize("gain", [1.0, 0.01])
@pytest.mark.parametrize("frames", [100, 160, 400])
def test_embeddings_are_those_of_resemblyzer(resemblyzer: Any, frames: int, gain: float) -> None:
    samples = voice(8.0)[20_000 : 20_000 + frames * 160] * np.float32(gain)
    loud = resemblyzer.normalize_volume(samples, -30, increase_only=True)
    _, theirs, slices = resemblyzer.VoiceEncoder("cpu", verbose=False).embed_utterance(
        loud.astype(np.float32), return_partials=True, rate=2.5, min_coverage=1.0
    )
    ours = voice_encoder(None).embeddings(windows_of(powers(samples)))
    assert [part.start for part in slices] == (window_starts(max(frames, 160)) * 160).tolist()
    assert np.abs(ours - theirs).max() < 1e-4
    assert theirs.std() > 0.01


vectors = st.integers(1, 24).flatmap(
    lambda count: st.integers(0, 10_000).map(lambda seed: np.random.default_rng(seed).random((count, 4)) + 0.05)
)


@given(vectors, st.sampled_from([0.7, 0.85, 0.97]))
def test_clusters_are_those_of_average_linkage(points: np.ndarray, similarity: float) -> None:
    points = unit(points)
    ours = joined(points, np.ones(len(points), np.int64), similarity=similarity)
    if len(points) > 1:
        distances = 1 - (points @ points.T)[np.triu_indices(len(points), 1)]
        tree = hierarchy.linkage(np.maximum(distances, 0), "average")
        theirs = hierarchy.fcluster(tree, 1 - similarity, "distance")
        assert ((ours[:, None] == ours) == (theirs[:, None] == theirs)).all()
    assert ours[0] == 0
    assert set(ours.tolist()) == set(range(ours.max() + 1))


def test_no_more_clusters_are_left_than_are_wanted() -> None:
    assert joined(np.eye(6), np.ones(6, np.int64), similarity=0.9, most=2).max() == 1
    assert joined(np.eye(6), np.ones(6, np.int64), similarity=0.9).max() == 5


@given(st.integers(0, 1_000), st.integers(0, 300))
def test_small_clusters_hold_all_embeddings_and_are_bounded(seed: int, count: int) -> None:
    points = unit(np.random.default_rng(seed).normal(0, 1, (count, 8))).astype(np.float32)
    small, blocks = SmallClusters(8, capacity=16), SmallClusters(8, capacity=16)
    small.add(points)
    for block in np.array_split(points, 7):
        blocks.add(block)
    assert len(small.counts) <= 16
    assert small.counts.sum() == count
    assert np.allclose(small.sums.sum(axis=0), points.sum(axis=0, dtype=np.float64))
    assert (small.sums == blocks.sums).all()


def test_voices_are_told_apart_and_known_again() -> None:
    parts = [voice(8.0), deep(9.0), voice(7.0, 2), deep(6.0, 2)]
    bounds = np.cumsum([0, *(len(part) / RATE for part in parts)])
    apart = spoken(MADE, np.concatenate(parts), *zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    assert [turn["speaker"] for turn in apart] == ["speaker_0", "speaker_1", "speaker_0", "speaker_1"]
    together = spoken(MADE, np.concatenate(parts), (0.0, 30.0))
    assert [turn["speaker"] for turn in together if turn["end"] - turn["start"] > 3] == [
        *("speaker_0", "speaker_1", "speaker_0", "speaker_1")
    ]
    changes = [turn["start"] for turn in together[1:] if turn["end"] - turn["start"] > 3]
    assert np.abs(np.array(changes) - bounds[1:-1]).max() <= 1.2


def without_pauses(samples: np.ndarray, seconds: float) -> np.ndarray:
    blocks = samples[: len(samples) // 4_000 * 4_000].reshape(-1, 4_000)
    return blocks[np.abs(blocks).max(axis=1) > 0.02].ravel()[: round(seconds * RATE)]


def test_two_voices_at_once_are_flagged_and_one_is_not() -> None:
    both = without_pauses(voice(24.0, 4), 8.0) + without_pauses(deep(24.0, 5), 8.0)
    samples = np.concatenate([voice(12.0), deep(12.0), both])
    turns = spoken(MADE, samples, (0.0, 12.0), (12.0, 24.0), (24.0, 32.0))
    flagged = np.zeros(320, np.bool_)
    for turn in turns:
        flagged[round(turn["start"] * 10) : round(turn["end"] * 10)] = turn["overlap"]
    assert flagged[240:].mean() > 0.6
    assert flagged[:240].mean() < 0.05
    assert {turn["speaker"] for turn in turns} == {"speaker_0", "speaker_1"}


def test_a_change_of_speakers_is_no_overlap() -> None:
    parts = [make(3.0, seed) for seed in range(1, 7) for make in (voice, deep)]
    assert not any(turn["overlap"] for turn in spoken(MADE, np.concatenate(parts), (0.0, 36.0)))


def test_mixtures_that_form_a_cluster_are_no_speaker_but_a_third_voice_is() -> None:
    draw = np.random.default_rng(1)

    class Sums:
        """Embeddings of windows that hold their embedding, but for its length, in the first frame."""

        def embeddings(self, windows: np.ndarray) -> np.ndarray:
            return unit(windows.mean(axis=1)).astype(np.float32)

    def left(rare: np.ndarray) -> int:
        points = np.repeat(np.stack([np.eye(4)[0], np.eye(4)[1], rare]), [60, 60, 12], axis=0)
        points = unit(points + 0.05 * draw.random(points.shape)).astype(np.float32)
        kept = KeptWindows()
        kept.add(np.repeat(points[:, None], 160, axis=1), points)
        encoder: Any = Sums()
        return len(overlap_rule(encoder, kept, unit(np.stack([np.eye(4)[0], np.eye(4)[1], rare])))[1])

    assert left(np.array([0.7, 0.7, 0.0, 0.0])) == 2
    assert left(np.array([0.1, 0.0, 1.0, 0.0])) == 3


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 8))
def test_kept_windows_are_spread_evenly_however_they_come(sizes: list[int], most: int) -> None:
    kept, numbers = KeptWindows(most), np.arange(sum(sizes), dtype=np.float32)
    for block in np.split(numbers, np.cumsum(sizes)):
        kept.add(block[:, None, None], block[:, None])
    held = kept.embeddings[:, 0] if len(numbers) else np.zeros(0)
    assert kept.heard == len(numbers)
    assert min(len(numbers), most / 2) <= len(held) <= most
    assert len(set(np.diff(held))) <= 1
    assert all(kept.window(number)[0, 0] == value for number, value in enumerate(held))


def test_fewer_speakers_are_told_apart_where_fewer_are_wanted() -> None:
    samples = np.concatenate([voice(8.0), deep(8.0)])
    segments = ((0.0, 8.0), (8.0, 16.0))
    assert len({turn["speaker"] for turn in spoken(MADE, samples, *segments)}) == 2
    for stage in (FindSpeakers(min_similarity=0.58, max_speakers=1), FindSpeakers(min_similarity=0.2)):
        assert {turn["speaker"] for turn in spoken(stage, samples, *segments)} == {"speaker_0"}


@given(st.integers(1, 400_000), st.integers(1, 4), st.integers(0, 1_000))
def test_turns_of_a_piece_cover_it(samples: int, speakers: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    windows = len(window_starts(-(-samples // 160)))
    turns = list(piece_turns(samples, draw.random((windows, speakers)), draw.random(windows) < 0.5))
    assert [turn[0] for turn in turns] == [0, *(turn[1] for turn in turns[:-1])]
    assert turns[-1][1] == samples
    assert all(start < stop and 0 <= speaker < speakers for start, stop, speaker, _ in turns)
    assert all(before[2:] != after[2:] for before, after in itertools.pairwise(turns))


def test_turns_cover_the_segments_whatever_these_are() -> None:
    samples = voice(10.0)
    turns = spoken(FindSpeakers(), samples, (3.0, 5.0), (-1.0, 0.5), (4.0, 4.5), (4.0, 6.5), (7.0, 7.0), (9.5, 99.0))
    assert [(turn["start"], turn["end"]) for turn in turns] == [(0.0, 0.5), (3.0, 5.0), (5.0, 6.5), (9.5, 10.0)]
    assert spoken(FindSpeakers(), samples, (11.0, 12.0), (1e300, 1.1e300)) == []


def test_silence_has_a_speaker_as_everything_has() -> None:
    assert [turn["speaker"] for turn in spoken(FindSpeakers(), np.zeros(32_000, np.float32), (0.0, 2.0))] == [
        "speaker_0"
    ]


def test_speakers_do_not_depend_on_other_rows_or_on_the_windows_of_the_decoder() -> None:
    samples = np.concatenate([voice(3.0), deep(70.0), voice(5.0, 2)])
    parts = [{"start": 0.2, "end": 70.0}, {"start": 71.3, "end": 77.7}]
    rows = pa.table({"bytes": [wav(samples), wav(voice(4.0))], "segments": [parts, parts[:1]]})
    stage = FindSpeakers()
    both = stage.process(DocumentBatch(data=rows)).to_arrow()
    apart = [stage.process(DocumentBatch(data=rows.slice(row, 1))).to_arrow() for row in (0, 1)]
    assert both.equals(pa.concat_tables(apart))
    for step in (1_000, 1_200_000):
        rules = SpeakerRules(0.66, 10, None)
        listener = SpeakerListener(voice_encoder(None), Mono(RATE, RATE), parts, rules)
        for start in range(0, len(samples), step):
            listener.hear(samples[start : start + step, None])
        assert listener.values(False)[0] == both["turns"][0].as_py()


def test_a_segment_is_heard_as_if_it_were_a_recording(tmp_path) -> None:
    samples = np.concatenate([voice(6.0), deep(6.0)])
    (tmp_path / "a.wav").write_bytes(wav(samples))
    parts = [[{"start": 0.0, "end": 5.0}]]
    ref = ref_array([Ref(str(tmp_path / "a.wav"), start_s=4.0, stop_s=9.0)])
    stage = FindSpeakers()
    view = stage.process(DocumentBatch(data=pa.table({"media_ref": ref, "segments": parts}))).to_arrow()
    assert view["turns"][0].as_py() == spoken(stage, samples[4 * RATE : 9 * RATE], (0.0, 5.0))


def test_turns_become_rows() -> None:
    ref = ref_array([Ref("a.wav")])
    turns = [{"start": 1.0, "end": 2.0, "speaker": "speaker_0", "overlap": False}]
    rows = SegmentRows(segments_field="turns").process(
        DocumentBatch(data=pa.table({"media_ref": ref, "turns": [turns]}))
    )
    assert rows.to_arrow()["segment"].to_pylist() == turns


def test_rows_without_speech_have_no_turns_and_bad_ones_go_to_quarantine() -> None:
    kind = pa.list_(pa.struct([("start", pa.float64()), ("end", pa.float64())]))
    segments = [None, [], [{"start": 2.0, "end": 1.0}], [{"start": 0.0, "end": 1.0}], []]
    files = [wav(voice(1.0))] * 3 + [b"<html></html>"] * 2
    rows = pa.table({"n": range(5), "bytes": files, "segments": pa.array(segments, kind)})
    batch = FindSpeakers().process(DocumentBatch(data=rows))
    kept = batch.to_arrow()
    assert kept.select(["n", "turns", "speakers"]).to_pylist() == [
        {"n": 0, "turns": None, "speakers": None},
        {"n": 1, "turns": [], "speakers": 0},
    ]
    assert {part.reason: part.rows for part in batch.rejections} == {
        "bad segments": 1,
        "not a recording: HTML or XML": 2,
    }


class Noise:
    """Embeddings of nobody, by chance: the worst for clusters."""

    def __init__(self) -> None:
        self.draw = np.random.default_rng(1)

    def embeddings(self, windows: np.ndarray) -> np.ndarray:
        return unit(self.draw.random((len(windows), SIZE))).astype(np.float32)


def test_memory_grows_by_what_embeddings_need() -> None:
    def peak(minutes: int) -> int:
        parts = [{"start": 0.0, "end": 60.0 * minutes}]
        encoder: Any = Noise()
        listener = SpeakerListener(encoder, Mono(RATE, RATE), parts, SpeakerRules(0.66, 10, None))
        second = np.full((RATE, 1), 0.1, np.float32)
        tracemalloc.start()
        for _ in range(60 * minutes):
            listener.hear(second)
        listener.values(False)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    short, long = peak(5), peak(25)
    held = KEPT * 160 * 40 * 4  # windows that are kept to be mixed; fewer in the short one
    assert long - short < 20 * 150 * 512 * 2 + held + 2_000_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_similarity": 1.5}, "min_similarity=1.5 must be a number, 0 to 1"),
        ({"min_speaker_s": -1}, "min_speaker_s=-1 must be seconds, 0 or more"),
        ({"max_speakers": 0}, "max_speakers=0 must be a whole number from 1, or None"),
        ({"max_speakers": True}, "max_speakers=True must be a whole number from 1, or None"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=f"^find_speakers: {message}"):
        FindSpeakers(**settings)


class Evil:
    def __reduce__(self) -> Any:
        return print, ("code of a file ran",)


def test_other_models_are_refused_and_run_no_code(tmp_path, capsys) -> None:
    with pytest.raises(ResourceError, match=r"model 'no\.pt' does not exist"):
        FindSpeakers(model="no.pt").setup()
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"model_state": Evil()}, protocol=2))
    torch.save({"model_state": Evil()}, tmp_path / "zip.pt")
    torch.save({"model_state": {"lstm.weight": torch.zeros(2)}}, tmp_path / "other.pt")
    torch.save([1], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_bytes(b"<html></html>")
    own = packaged("resemblyzer", "resemblyzer/pretrained.pt").read_bytes()[:100_000]
    for number in range(40):  # cut, or with a byte changed: Torch raises what it likes
        changed = own[: 5 * number] if number % 2 else own[: 3 * number] + b"\xb8" + own[3 * number + 1 :]
        (tmp_path / f"damaged-{number}.pt").write_bytes(changed)
    for name in ("evil.pt", "zip.pt", "other.pt", "list.pt", "text.pt", *(f"damaged-{n}.pt" for n in range(40))):
        with pytest.raises(DataError, match="does not hold the weights of a voice encoder"):
            FindSpeakers(model=str(tmp_path / name)).setup()
    assert "code of a file" not in capsys.readouterr().out


def test_segments_of_another_type_are_refused() -> None:
    rows = pa.table({"bytes": [wav(voice(1.0))], "segments": ["speech"]})
    with pytest.raises(DataError, match="column 'segments' holds string"):
        FindSpeakers().process(DocumentBatch(data=rows))


def test_finding_speakers_keeps_the_laws_of_stages() -> None:
    parts = [[{"start": 0.0, "end": 1.0}], [{"start": 0.5, "end": 3.0}]]
    rows = pa.table({"bytes": [wav(voice(2.0)), wav(deep(3.0))], "segments": parts})
    batch = DocumentBatch(data=rows)
    check_stage(FindSpeakers(), batch, skip=["cluster"])
    assert FindSpeakers().process(batch).get_columns() == ["bytes", "segments", "turns", "speakers"]
