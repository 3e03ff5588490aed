"""`AudioSignals`: levels, loudness and spectra of recordings, from one decode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.levels import Levels
from dcurate.audio.loudness import Loudness
from dcurate.audio.spectrum import Spectrum
from dcurate.audio.stage import SoundStage
from dcurate.core.stage import NodeInfo, WorkerMetadata
from dcurate.errors import PipelineError

_COLUMNS: dict[str, pa.DataType] = {
    "decoded_s": pa.float64(),
    "peak_db": pa.float64(),
    "true_peak_db": pa.float64(),
    "clipped": pa.float64(),
    "dc_offset": pa.float64(),
    "loudness_lufs": pa.float64(),
    "loudness_range_lu": pa.float64(),
    "silence": pa.float64(),
    "zeros": pa.float64(),
    "longest_zeros_s": pa.float64(),
    "snr_db": pa.float64(),
    "wada_snr_db": pa.float64(),
    "bandwidth_hz": pa.int64(),
    "cutoff_hz": pa.float64(),
    "rolloff_hz": pa.float64(),
    "flatness": pa.float64(),
    "correlation": pa.float64(),
    "opposite_phase": pa.bool_(),
    "silent_channels": pa.int64(),
    "truncated": pa.bool_(),
}
#: Samples beyond this are taken for it: powers of larger ones are infinite.
_MOST = np.float32(1e9)
#: Kind in the report for recordings that are cut or damaged.
_TRUNCATED = "truncated recordings"


@dataclass
class AudioSignals(SoundStage):
    """Add signals of each recording, or of the segment that its row refers to; it is decoded once.

    The columns, after ``audio_``:

    * ``decoded_s``: seconds of sound. ``truncated``: the file ends early or is damaged, and what is left was measured.
      An Ogg file also ends early without the flag of its last page, as a live stream that was stopped may: one that was
      cut between two pages is the same. Recordings one after the other in an Ogg or MP3 file are heard as one, up to
      the first with another rate or number of channels, where it ends early.
    * ``peak_db``: level of the largest sample, in dB of full scale; ``true_peak_db``: also of those between samples, by
      4 times oversampling (ITU-R BS.1770-4, annex 2), in dBTP. Silence has -120.
    * ``clipped``: share of samples at full scale or beyond, or in flat tops: three or more equal samples in a row at
      the highest or lowest value of a channel.
    * ``dc_offset``: largest mean of a channel, 0 to 1.
    * ``loudness_lufs``: integrated loudness (BS.1770-4); silence has -70. ``loudness_range_lu``: by EBU Tech 3342; null
      for less than 3 seconds of sound. Both are null at sample rates below 4,000 Hz.
    * ``silence``: share of frames of 20 ms below `silence_db`. ``zeros``: share of time in stretches of 10 ms or more
      that are exactly 0; ``longest_zeros_s``: the longest such stretch, in seconds.
    * ``snr_db``: level of loud frames above that of quiet ones, -20 to 100 dB: right for speech with pauses over steady
      noise. ``wada_snr_db``: by the distribution of amplitudes (Kim and Stern, 2008), of the loudest channel; it needs
      no pauses. Both are null for digital silence.
    * ``bandwidth_hz``: highest frequency with a mean power of at most 50 dB below the peak, the figure of NeMo
      Curator's ``BandwidthEstimationStage``; of silence it is half of the sample rate. ``cutoff_hz``: where the
      spectrum falls by 20 dB at once and stays low, as codecs and resampling leave it, else half of the sample rate.
    * ``rolloff_hz`` and ``flatness``: means over frames of the frequency below which 85 % of the magnitudes are, and of
      the flatness of the power spectrum, 0 (a tone) to 1, as librosa has them. These spectra are of the mean of
      channels, with a Blackman-Harris window of 512 samples every 10 ms.
    * ``correlation``: lowest correlation of neighbouring channels, -1 to 1; null for one channel, or where no two have
      sound. ``opposite_phase``: it is -0.9 or less, and a mix of the channels loses the sound. ``silent_channels``: how
      many have one value throughout.

    Memory does not grow with the length of a recording, but for 288 kB an hour. The values do not depend on the other
    rows of a batch. A row whose file cannot be decoded goes to quarantine with the reason, as with `SoundStage`.

    Args:
        prefix: comes before the name of every column.
        silence_db: level below which a frame is silent, in dB of full scale.
        reading: limits; there is no child process.
        name: name of the stage.

    Raises:
        PipelineError: `silence_db` is no number below 0.

    Examples:
        >>> import io, soundfile
        >>> from dcurate import DocumentBatch
        >>> file, time = io.BytesIO(), np.arange(32_000) / 16_000
        >>> soundfile.write(file, 0.1 * np.sin(2 * np.pi * 1000 * time), 16_000, format="FLAC")
        >>> row = AudioSignals().process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))).to_arrow()
        >>> {name: round(row[f"audio_{name}"][0].as_py(), 2) for name in ("decoded_s", "peak_db", "loudness_lufs")}
        {'decoded_s': 2.0, 'peak_db': -20.0, 'loudness_lufs': -22.96}
    """

    prefix: str = "audio_"
    silence_db: float = -50.0
    name: str = "audio_signals"

    def __post_init__(self) -> None:
        super().__post_init__()
        level = self.silence_db
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not -math.inf < level < 0:
            raise PipelineError(f"{self.name}: silence_db={level!r} must be a number below 0, the level of full scale")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: kind for name, kind in _COLUMNS.items()}

    def requires(self) -> dict[str, str]:
        return super().requires() | {"scipy": "audio"}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        warm_up()

    def listener(self, sound: Sound) -> _Signals:
        return _Signals(sound.rate, sound.channels, self.silence_db)

    def counted(self, rows: Sequence[Any]) -> dict[str, int]:
        truncated = sum(bool(row[-1]) for row in rows)
        return {_TRUNCATED: truncated} if truncated else {}

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        remarks = super().remarks(found)
        count = found.get(_TRUNCATED, 0)
        if not count:
            return remarks
        some = "1 recording ends early or is" if count == 1 else f"{count:,} recordings end early or are"
        which = f"what is left was measured; the column {self.prefix}truncated says which"
        return [*remarks, f"{self.name}: {some} damaged, and {which}"]


class _Signals:
    """What is measured of a recording."""

    def __init__(self, rate: int, channels: int, silence_db: float) -> None:
        self._rate = rate
        self._levels = Levels(rate, channels, silence_db)
        self._loudness = Loudness(rate, channels)
        self._spectrum = Spectrum(rate)

    def hear(self, samples: Samples) -> None:
        if max(samples.max(), -samples.min()) > _MOST:
            samples = np.clip(samples, -_MOST, _MOST)
        channels = np.ascontiguousarray(samples.T)
        self._levels.take(channels)
        self._loudness.take(channels)
        self._spectrum.take(channels[0] if len(channels) == 1 else samples.mean(axis=1, dtype=np.float32))

    def values(self, truncated: bool) -> Sequence[Any]:
        levels, loudness, spectrum = self._levels, self._loudness, self._spectrum
        levels.end()
        spectrum.end()
        return [
            levels.frames / self._rate,
            levels.peak(),
            levels.true_peak(),
            levels.clipped(),
            levels.offset(),
            loudness.integrated(),
            loudness.range(),
            levels.silence(),
            levels.zeros(),
            levels.longest_zeros(),
            levels.snr(),
            levels.wada(),
            spectrum.bandwidth(),
            spectrum.cutoff(),
            spectrum.rolloff(),
            spectrum.flatness(),
            levels.correlation(),
            levels.is_opposite(),
            levels.silent_channels(),
            truncated,
        ]


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache on disk."""
    signals = _Signals(16_000, 2, -50.0)
    signals.hear(np.zeros((2_000, 2), np.float32))
    signals.values(False)
