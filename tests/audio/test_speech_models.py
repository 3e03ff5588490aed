"""SQUIM and UTMOS with made weights score as the public references do with the same ones.

`SQUIM` and `UTMOS` are what torchaudio 2.11.1 (``squim_objective_model``) and utmos-pytorch 0.1.0 (``UTMOSModel``, of
these sizes) gave for the weights and sounds of `made_speech_models`, with torch 2.13. Neither can be installed beside
this torch and what the other tests need: torchaudio's library does not load with it.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError
from dcurate.audio import Squim, Utmos
from dcurate.audio.speech_models import SpeechModelStage
from dcurate.audio.squim import SquimNetwork
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage
from tests.audio.made_speech_models import made, sounds, squim_shapes, utmos_shapes

#: STOI, PESQ and SI-SDR, and the score of UTMOS, of each sound.
SQUIM = [
    (0.5187589526176453, 2.167001962661743, -0.29403695464134216),
    (0.5226746201515198, 2.228828191757202, -0.42929160594940186),
    (0.5366134643554688, 2.2462387084960938, -0.4833953380584717),
    (0.5227375030517578, 2.416715145111084, -0.4913035035133362),
]
UTMOS = [4.857536315917969, 4.917710781097412, 4.857689380645752, 5.143337249755859]

#: Names of UTMOS in the file of SpeechMOS, and in that of utmos-pytorch.
SPEECHMOS = {
    "wav2vec2.": "feature_extractors.0.ssl_model.",
    "blstm.": "output_layers.0.decoder_rnn.",
    "projection.0.": "output_layers.1.net.0.",
    "projection.2.": "output_layers.1.net.3.",
}


def tensors(kind: type[SpeechModelStage]) -> dict[str, torch.Tensor]:
    shapes = squim_shapes() if kind is Squim else utmos_shapes()
    return {name: torch.from_numpy(values) for name, values in made(shapes).items()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[type[SpeechModelStage], str]:
    folder = tmp_path_factory.mktemp("weights")
    kinds: tuple[type[SpeechModelStage], ...] = (Squim, Utmos)
    for kind in kinds:
        torch.save(tensors(kind), folder / f"{kind.__name__}.pt")
    return {kind: str(folder / f"{kind.__name__}.pt") for kind in kinds}


def wav(samples: np.ndarray, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def scored(stage: SpeechModelStage, *recordings: bytes) -> list[tuple[Any, ...]]:
    table = stage.process(DocumentBatch(data=pa.table({"bytes": list(recordings)}))).to_arrow()
    stage.teardown()
    return [tuple(row[name] for name in stage.columns) for row in table.to_pylist()]


def test_scores_are_those_of_torchaudio_and_of_utmos_pytorch(files) -> None:
    recordings = [wav(sound) for sound in sounds()]
    for scores, reference in zip(scored(Squim(files[Squim]), *recordings), SQUIM, strict=True):
        assert scores == pytest.approx(reference, abs=2e-5)
    assert [score for (score,) in scored(Utmos(files[Utmos]), *recordings)] == pytest.approx(UTMOS, abs=2e-5)


@pytest.mark.parametrize("kind", [Squim, Utmos])
def test_scores_do_not_depend_on_other_rows_or_on_the_form_of_the_file(files, tmp_path: Path, kind) -> None:
    recordings = [wav(sound) for sound in sounds()]
    together = scored(kind(files[kind], device="cpu"), *recordings)
    assert together == [scored(kind(files[kind]), recording)[0] for recording in recordings]
    save_file(tensors(kind), tmp_path / "a.safetensors")
    assert scored(kind(str(tmp_path / "a.safetensors")), *recordings) == together
    assert len(set(together)) == len(recordings)


def test_both_published_forms_of_utmos_are_read(files, tmp_path: Path) -> None:
    known = tensors(Utmos)
    other = {
        new + name.removeprefix(old): value
        for name, value in known.items()
        for new, old in SPEECHMOS.items()
        if name.startswith(old)
    }
    other["domain_emb"] = known["feature_extractors.1.embedding.weight"][:1].clone()
    other["judge_emb"] = known["output_layers.0.judge_embedding.weight"][288:289].clone()
    torch.save(other, tmp_path / "speechmos.pt")
    recording = wav(sounds()[1])
    assert scored(Utmos(str(tmp_path / "speechmos.pt")), recording) == scored(Utmos(files[Utmos]), recording)


@pytest.mark.parametrize("kind", [Squim, Utmos])
def test_a_long_recording_has_the_mean_of_its_windows_by_their_lengths(files, kind) -> None:
    random = np.random.default_rng(5)
    sound = (random.standard_normal(56_000) * np.linspace(0.01, 0.5, 56_000)).astype(np.float32)  # 3.5 s
    windows = [sound[start : start + 16_000] for start in (0, 16_000, 32_000)]  # half a second is left out
    expected = np.mean([scored(kind(files[kind]), wav(window))[0] for window in windows], axis=0)
    assert scored(kind(files[kind], window_s=1), wav(sound))[0] == pytest.approx(expected, abs=1e-6)
    halves = [scored(kind(files[kind]), wav(part))[0] for part in (sound[:32_000], sound[32_000:])]
    expected = np.average(halves, axis=0, weights=[32, 24])
    assert scored(kind(files[kind], window_s=2), wav(sound))[0] == pytest.approx(expected, abs=1e-6)


def test_what_has_no_score_is_null_and_what_is_no_recording_goes_to_quarantine(files) -> None:
    silent, short, bad = wav(np.zeros(16_000)), wav(sounds()[0][:60]), wav(np.array([0.1, np.nan] * 500))
    assert scored(Squim(files[Squim]), silent, short) == [(None,) * 3] * 2
    assert scored(Utmos(files[Utmos]), short) == [(None,)]
    rows = DocumentBatch(data=pa.table({"bytes": [bad, silent, b"<!DOCTYPE html>"]}))
    reason = "not a recording: HTML or XML"
    for stage in (Squim(files[Squim]), Utmos(files[Utmos])):
        made_of = stage.process(rows)
        stage.teardown()
        assert made_of.num_items == 1
        assert {rejection.reason: rejection.rows for rejection in made_of.rejections} == {"not a number": 1, reason: 1}


def test_segments_are_scored_as_recordings_of_their_own(files, tmp_path: Path) -> None:
    sound = sounds()[3]
    (tmp_path / "a.wav").write_bytes(wav(sound))
    refs = [Ref(str(tmp_path / "a.wav"), start_s=1.0, stop_s=3.0), Ref(str(tmp_path / "a.wav"))]
    stage = Squim(files[Squim])
    table = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array(refs)}))).to_arrow()
    stage.teardown()
    alone = scored(Squim(files[Squim]), wav(sound[16_000:48_000]), wav(sound))
    assert [tuple(row[name] for name in stage.columns) for row in table.to_pylist()] == alone


@pytest.mark.parametrize("frames", [1, 2, 35, 36, 37, 70, 71, 72, 106, 142])
def test_chunks_of_any_number_of_frames_come_together_again(frames: int) -> None:
    network = SquimNetwork(tensors(Squim))
    network._paths = []  # without what is between, chunks are joined to twice what they were
    weight, bias, slope = network._mix
    heard = torch.from_numpy(np.random.default_rng(frames).standard_normal((frames, 16)).astype(np.float32))
    mixed = torch.nn.functional.prelu(torch.nn.functional.linear(heard, weight[:, :, 0, 0], bias), slope)
    assert torch.allclose(network._dual_path(heard), 2 * mixed, atol=1e-5)


class Loud:
    """What a hostile file runs when it is read by `pickle`."""

    def __reduce__(self) -> Any:
        return (print, ("ran",))


@pytest.mark.parametrize("kind", [Squim, Utmos])
def test_files_that_hold_something_else_are_refused_and_run_no_code(tmp_path: Path, kind, capsys) -> None:
    path = tmp_path / "weights.pt"
    with pytest.raises(ResourceError, match="file '.*' does not exist"):
        kind(str(path)).setup()
    for content in (b"", b"text", pickle.dumps(Loud())):
        path.write_bytes(content)
        with pytest.raises(DataError, match="does not hold the weights"):
            kind(str(path)).setup()
    damaged = tensors(kind)
    others = tensors(Utmos if kind is Squim else Squim)
    damaged.pop("branches.0.0.norm1.bias" if kind is Squim else "output_layers.1.net.3.bias")
    for wrong in ({"x": Loud()}, {"x": 1}, [1], {"a": torch.ones(2)}, damaged, others):
        torch.save(wrong, path)
        with pytest.raises(DataError, match="does not hold the weights"):
            kind(str(path)).setup()
    (tmp_path / "a.safetensors").write_bytes(b"12345678")
    with pytest.raises(DataError, match="does not hold the weights"):
        kind(str(tmp_path / "a.safetensors")).setup()
    assert "ran" not in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"window_s": 0.5}, {"window_s": "10"}, {"window_s": True}, {"device": "gpu"}])
@pytest.mark.parametrize("kind", [Squim, Utmos])
def test_wrong_settings_are_refused(kind, wrong: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=next(iter(wrong))):
        kind("weights.pt", **wrong)
    with pytest.raises(PipelineError, match="must be the path of a file"):
        kind("")


@pytest.mark.parametrize("kind", [Squim, Utmos])
def test_they_are_stages_as_the_engine_wants_them(files, kind) -> None:
    check_stage(kind(files[kind]), DocumentBatch(data=pa.table({"bytes": [wav(sound) for sound in sounds()]})))
