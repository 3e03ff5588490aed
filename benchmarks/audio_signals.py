"""Signals of recordings: seconds of sound per CPU-second, decode included, by format. Part ``signals``.

One recording of 10 minutes, of the speech in ``vad.tar`` at 16 kHz, is written as WAV, FLAC, MP3, OGG (Vorbis) and
Opus. ``decode`` reads it by `soundfile` in blocks of 65,536 frames and does nothing; ``dcurate`` is `AudioSignals`. The
peer ``librosa + pyloudnorm`` reads WAV by `soundfile`, and measures what they and scipy have: peak, true peak (4 times
oversampled by `scipy.signal.resample_poly`), clipping, offset, integrated loudness and range (pyloudnorm), levels of
frames (`librosa.feature.rms`), WADA, NeMo Curator's bandwidth, flatness and roll-off of one spectrogram. Each figure is
the best of three, taken by turns.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import pyarrow as pa
import pyloudnorm
import scipy.signal
import soundfile

from dcurate import DocumentBatch
from dcurate.audio import AudioSignals
from dcurate.audio.levels import WADA, WADA_DB
from dcurate.media.refs import Ref, ref_array

RATE, SECONDS = 16_000, 600
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
}
TIMES = 3


def run(folder: Path) -> dict[str, Any]:
    samples = _speech(folder)
    stage = AudioSignals()
    stage.setup_on_node()
    rates: dict[str, Any] = {}
    peer = f"librosa {version('librosa')} + pyloudnorm {version('pyloudnorm')}"
    with tempfile.TemporaryDirectory() as place:
        for name, (kind, subtype) in FORMATS.items():
            path = str(Path(place) / f"speech.{name}")
            with soundfile.SoundFile(path, "w", RATE, 1, subtype, format=kind) as file:
                for start in range(0, len(samples), RATE):  # libsndfile's Vorbis encoder dies of more at once
                    file.write(samples[start : start + RATE])
            tools: dict[str, Callable[[], Any]] = {
                "dcurate": partial(_signals, stage, path),
                "decode": partial(_decoded, path),
            }
            if name == "wav":
                tools[peer] = partial(_peer, path)
                ours, theirs = _signals(stage, path), _peer(path)
            rates[name] = _rates(tools)
            rates[name]["share_of_decode"] = round(rates[name]["dcurate"] / rates[name]["decode"], 3)
    return {
        "seconds": SECONDS,
        "sample_rate": RATE,
        "seconds_per_cpu_s": rates,
        "times_as_fast": round(rates["wav"]["dcurate"] / rates["wav"][peer], 1),
        "values": {name: [round(ours[f"audio_{name}"], 4), round(value, 4)] for name, value in theirs.items()},
    }


def _speech(folder: Path) -> Any:
    with tarfile.open(folder / "vad.tar") as archive:
        files = [archive.extractfile(member) for member in archive if member.isfile()]
        pieces = [soundfile.read(io.BytesIO(file.read()), dtype="float32") for file in files if file]
    speech = np.concatenate([samples for samples, rate in pieces if rate == RATE])
    return np.resize(speech, SECONDS * RATE)


def _rates(tools: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of sound per CPU-second, of each tool."""
    times = dict.fromkeys(tools, float("inf"))
    for _ in range(TIMES):
        for name, work in tools.items():
            begin = time.process_time()
            work()
            times[name] = min(times[name], time.process_time() - begin)
    return {name: round(SECONDS / seconds, 1) for name, seconds in times.items()}


def _signals(stage: AudioSignals, path: str) -> dict[str, Any]:
    rows = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(path)])}))).to_arrow().to_pylist()
    row: dict[str, Any] = rows[0]
    return row


def _decoded(path: str) -> None:
    with soundfile.SoundFile(path) as file:
        while len(file.read(65_536, dtype="float32")):
            pass


def _peer(path: str) -> dict[str, float]:
    samples, rate = soundfile.read(path, dtype="float32")
    spectrogram = np.abs(librosa.stft(y=samples, n_fft=512, hop_length=rate // 100, window="blackmanharris"))
    levels = librosa.power_to_db(np.mean(spectrogram**2, axis=1), ref=512, top_db=100.0)
    meter = pyloudnorm.Meter(rate, filter_class="DeMan")
    wide = samples.astype(np.float64)
    frames = librosa.feature.rms(y=samples, frame_length=rate // 50, hop_length=rate // 50, center=False)[0]
    sizes = np.abs(samples)
    sounding = sizes[sizes > 0]
    between = np.abs(scipy.signal.resample_poly(samples, 4, 1)).max()
    return {
        "peak_db": float(20 * np.log10(sizes.max())),
        "true_peak_db": float(20 * np.log10(between)),
        "clipped": float((sizes >= 0.9999).mean()),
        "dc_offset": float(abs(wide.mean())),
        "loudness_lufs": float(meter.integrated_loudness(wide)),
        "loudness_range_lu": float(meter.loudness_range(wide)),
        "silence": float((frames < 10 ** (-50 / 20)).mean()),
        "wada_snr_db": _wada(sounding),
        "bandwidth_hz": float(int(np.flatnonzero(levels - levels.max() > -50)[-1] * rate / 512)),
        "rolloff_hz": float(librosa.feature.spectral_rolloff(S=spectrogram, sr=rate, n_fft=512).mean()),
        "flatness": float(librosa.feature.spectral_flatness(S=spectrogram).mean()),
    }


def _wada(sizes: Any) -> float:
    return float(np.interp(np.log(sizes.mean()) - np.log(sizes).mean(), WADA, WADA_DB))
