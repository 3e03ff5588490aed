"""`CutAudio`: the sound of segments as files of their own."""

from __future__ import annotations

import io
import math
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.loudness import loudness_gain
from dcurate.audio.mute import apart
from dcurate.audio.stage import Listener, SoundStage
from dcurate.core.extras import needed
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.cuts import SOURCE, with_cut_names
from dcurate.media.parts import parts_of, type_of_parts
from dcurate.media.refs import BYTES, REF, has_segments, refs_of

Format = Literal["flac", "wav", "ogg"]
Channels = Literal["keep", "mono"]

#: Columns of `AudioSignals` that the gain follows from.
_LOUDNESS, _PEAK = "audio_loudness_lufs", "audio_true_peak_db"
_SUBTYPES = {"flac": "PCM_", "wav": "PCM_", "ogg": "VORBIS"}
_OGG, _HEADER = b"OggS", 27
#: Seconds of the ramps before and after what is muted.
_RAMP_S = 0.005
#: A sample behind all others.
_FAR = 2**52
#: Each byte with its bits in reverse, for the checksum of Ogg.
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass
class CutAudio(SoundStage):
    """Cut the segments that rows mean out of their recordings, as files in the column ``bytes``.

    `media_ref` is renamed to ``source_ref``, and ``file_name`` becomes the name of the recording with the times of the
    segment, ``talk-1.5-4.flac``. Any writer of media writes the rows: `WebDatasetWriter`, `AudioFolderWriter`,
    `LhotseSharWriter`, `NemoTarWriter`, or `PackMedia` for Parquet. Put it last before the writer: the sound is decoded
    once for all segments of a recording in a batch, in windows, and the files of a batch are in memory.

    Nothing is resampled or mixed unless it is asked for: what is cut out of a recording of 16 bits as FLAC or WAV has
    its samples, bit for bit. With `mute_field`, all samples in its intervals are 0, at the rate of the file, and 5 ms
    before and after one fade; Vorbis keeps that as well as it keeps other sound. Equal segments give equal bytes.

    Rows go to quarantine as with `SoundStage`, if the format cannot hold their sound (``cannot be encoded``), such as
    more than 8 channels in FLAC, and if an interval to mute has no start or end (``bad segments``).

    Args:
        audio_format: ``"flac"``, ``"wav"``, or ``"ogg"`` with Vorbis.
        sample_rate: samples a second, resampled by soxr (quality HQ); those of the recording if None.
        channels: ``"keep"``, or ``"mono"`` for the mean of all channels.
        bits: bits of a sample of FLAC and WAV, 16 or 24.
        loudness_lufs: loudness that every file is brought to, in LUFS, or as near as a true peak of -1 dBTP allows; as
            it is if None. It needs the columns ``audio_loudness_lufs`` and ``audio_true_peak_db``, which `AudioSignals`
            makes of the same segments (ITU-R BS.1770).
        mute_field: the column of intervals that are muted, lists of structures with ``start`` and ``end`` in seconds of
            the recording, as `MuteWords` makes it; None for none. Where it is null, nothing is muted.
        name: name of the stage.
        reading: limits.

    Raises:
        PipelineError: no such format, rate, rule or number of bits.

    Examples:
        >>> import numpy as np, soundfile
        >>> from dcurate.media import Ref, ref_array
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.zeros(16000), 8000, format="WAV")
        >>> refs = ref_array([Ref("talk.wav", start_s=0.5, stop_s=1.25)])
        >>> rows = pa.table({"bytes": [file.getvalue()], "media_ref": refs})
        >>> [row] = CutAudio().process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        >>> row["file_name"], soundfile.info(io.BytesIO(row["bytes"])).frames
        ('talk-0.5-1.25.flac', 6000)
    """

    audio_format: Format = "flac"
    sample_rate: int | None = None
    channels: Channels = "keep"
    bits: Literal[16, 24] = 16
    loudness_lufs: float | None = None
    mute_field: str | None = None
    name: str = "cut_audio"

    columns: ClassVar[Mapping[str, pa.DataType]] = {BYTES: pa.large_binary()}

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting, kind in (("audio_format", Format), ("channels", Channels)):
            if getattr(self, setting) not in get_args(kind):
                raise PipelineError(
                    f"{self.name}: {setting}={getattr(self, setting)!r} is not one of {listed(get_args(kind))}"
                )
        if self.bits not in (16, 24):
            raise PipelineError(f"{self.name}: bits={self.bits!r} must be 16 or 24")
        if self.audio_format == "ogg" and self.bits != 16:
            raise PipelineError(f"{self.name}: bits={self.bits!r} has no effect on Vorbis; leave it out")
        rate = self.sample_rate
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or not 1000 <= rate <= 384_000):
            raise PipelineError(f"{self.name}: sample_rate={rate!r} must be from 1,000 to 384,000 samples a second")

        if self.loudness_lufs is not None and not -70 < self.loudness_lufs <= 0:
            raise PipelineError(f"{self.name}: loudness_lufs={self.loudness_lufs!r} must be above -70 and at most 0")

    def requires(self) -> dict[str, str]:
        return {**super().requires(), **({} if self.sample_rate is None else {"soxr": "audio"})}

    def inputs(self) -> tuple[list[str], list[str]]:
        levels = [] if self.loudness_lufs is None else [_LOUDNESS, _PEAK]
        return ["data"], levels if self.mute_field is None else [*levels, self.mute_field]

    def optional_inputs(self) -> list[str]:
        return [BYTES, REF, "file_name"]

    def outputs(self) -> tuple[list[str], list[str]]:
        return ["data"], [BYTES, "file_name", SOURCE]

    def dropped_columns(self) -> list[str]:
        return [REF]

    def answers(self, rows: pa.Table) -> list[Any]:
        self.check_media(rows.column_names)
        gains, muted = self._gains_of(rows), self._muted_of(rows)
        starts = [(ref.start_s if ref else None) or 0.0 for ref in refs_of(rows)] if has_segments(rows) else []

        def encoder(sound: Sound, row: int) -> Listener:
            start_s = round(starts[row] * sound.rate) / sound.rate if starts else 0.0
            parts = apart([(part["start"], part["end"]) for part in muted[row] or []])
            silent = [(part["start"] - start_s, part["end"] - start_s) for part in parts]
            return _Encoder(self, sound.rate, sound.channels, gains[row], silent)

        faults = {row: parts for row, parts in enumerate(muted) if isinstance(parts, MediaFault)}
        return self.hear(rows, encoder, faults)

    def _muted_of(self, rows: pa.Table) -> list[Any]:
        """The intervals of each row that are muted, in seconds of the recording."""
        if self.mute_field is None:
            return [None] * rows.num_rows
        type_of_parts(rows, self.mute_field)
        return parts_of(rows, self.mute_field)

    def _gains_of(self, rows: pa.Table) -> list[float]:
        """The factor by which the samples of each row are multiplied."""
        if self.loudness_lufs is None:
            return [1.0] * rows.num_rows
        levels = zip(rows[_LOUDNESS].to_pylist(), rows[_PEAK].to_pylist(), strict=True)
        return [
            1.0 if peak is None else 10 ** (loudness_gain(loudness, peak, self.loudness_lufs) / 20)
            for loudness, peak in levels
        ]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows with their files; those whose sound cannot be cut go to quarantine."""
        cut = super().process(task)
        rows = cut.to_arrow()
        cut.data = with_cut_names(rows, [self.audio_format] * rows.num_rows, "sound")
        return cut


class _Encoder:
    """Encodes what it hears."""

    def __init__(
        self, form: CutAudio, rate: int, channels: int, gain: float, mute: Sequence[tuple[float, float]]
    ) -> None:
        self._gain = np.float32(gain)
        self._library = needed("soundfile", "encoding sound", "audio")
        self._is_mono = form.channels == "mono"
        self._is_ogg, self._bits = form.audio_format == "ogg", form.bits
        to, count = form.sample_rate or rate, 1 if self._is_mono else channels
        self._stream: Any = None
        if to != rate:
            library = needed("soxr", f"resampling from {rate} to {to} Hz", "audio")
            self._stream = library.ResampleStream(rate, to, count, dtype="float32", quality="HQ")
        self._count, self._silence, self._at = count, Silence(mute, to), 0
        self._file = io.BytesIO()
        subtype = _SUBTYPES[form.audio_format] + ("" if self._is_ogg else str(form.bits))
        settings = {"samplerate": to, "channels": count, "subtype": subtype, "format": form.audio_format.upper()}
        try:
            self._sound = self._library.SoundFile(self._file, "w", **settings)
        except self._library.LibsndfileError as error:
            raise _fault(error) from error

    def hear(self, samples: Samples) -> None:
        self._write(samples, last=False)

    def values(self, truncated: bool) -> Sequence[Any]:
        if self._stream is not None:
            self._write(np.empty((0, self._count), np.float32), last=True)
        self._sound.close()
        data = self._file.getvalue()
        return [with_serial(data, 1) if self._is_ogg else data]

    def _write(self, samples: Samples, *, last: bool) -> None:
        if self._is_mono and samples.shape[1] > 1:
            samples = samples.mean(axis=1, dtype=np.float32, keepdims=True)
        if self._gain != 1:
            samples = samples * self._gain
        if self._stream is not None:
            samples = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        samples, self._at = self._silence.within(samples, self._at), self._at + len(samples)
        try:
            self._sound.write(samples if self._is_ogg else quantised(samples, self._bits))
        except self._library.LibsndfileError as error:
            raise _fault(error) from error


class Silence:
    """Makes intervals of sound silent.

    Args:
        times: starts and ends in seconds, sorted, and apart.
        rate: samples a second of a channel.

    Examples:
        >>> Silence([(0.25, 0.5)], 8).within(np.ones((6, 1), np.float32), 0)[:, 0].tolist()
        [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    """

    def __init__(self, times: Sequence[tuple[float, float]], rate: int) -> None:
        self._ramp = round(_RAMP_S * rate)
        self._starts = [math.floor(min(max(start * rate, -_FAR), _FAR)) for start, _ in times]
        self._stops = [math.ceil(min(max(stop * rate, -_FAR), _FAR)) for _, stop in times]

    def within(self, samples: Samples, first: int) -> Samples:
        """Return samples of which the first has this number, those in an interval 0; others are the same."""
        last, copied = first + len(samples), False
        for number in range(bisect_right(self._stops, first - self._ramp), len(self._starts)):
            start, stop = self._starts[number], self._stops[number]
            begin, end = max(first, start - self._ramp), min(last, stop + self._ramp)
            if start - self._ramp >= last:
                break
            if not copied:
                samples, copied = samples.copy(), True
            places = np.arange(begin, end)
            distance = np.maximum(np.maximum(start - places, places - stop + 1), 0)
            samples[begin - first : end - first] *= (distance / (self._ramp + 1)).astype(np.float32)[:, None]
        return samples


def _fault(error: Exception) -> MediaError:
    return MediaError("cannot be encoded", str(error).rpartition(": ")[2])


def quantised(samples: Samples, bits: int) -> npt.NDArray[Any]:
    """Return samples as whole numbers: those that were decoded from as many bits as they were.

    libsndfile would divide by 32,768 as it reads, and multiply by 32,767 as it writes.

    Examples:
        >>> quantised(np.array([0.5, -1.0, 1.0], np.float32), 16).tolist()
        [16384, -32768, 32767]
    """
    scale = 2 ** (bits - 1)
    whole: npt.NDArray[np.float64] = np.clip(np.rint(samples.astype(np.float64) * scale), -scale, scale - 1)
    if bits == 16:
        return whole.astype(np.int16)
    return np.left_shift(whole.astype(np.int32), 8)


def with_serial(data: bytes, serial: int) -> bytes:
    """Return an Ogg file with a serial number in all of its pages, as libsndfile draws one by the clock.

    Args:
        data: whole pages.
        serial: the number.
    """
    made, at = bytearray(data), 0
    while made[at : at + 4] == _OGG:
        count = made[at + 26]
        end = at + _HEADER + count + sum(made[at + _HEADER : at + _HEADER + count])
        made[at + 14 : at + 18] = serial.to_bytes(4, "little")
        made[at + 22 : at + 26] = bytes(4)
        made[at + 22 : at + 26] = checksum(bytes(made[at:end])).to_bytes(4, "little")
        at = end
    return bytes(made)


def checksum(page: bytes) -> int:
    """The checksum of a page of Ogg: CRC-32 with the bits in the other order than zlib's, from 0.

    Examples:
        >>> hex(checksum(b"123456789"))
        '0x89a1897f'
    """
    crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)
