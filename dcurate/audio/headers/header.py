"""`AudioHeader`: properties from a header, equal for all formats."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate.isolate.errors import MediaError

#: The highest sample rate that is believed, in samples a second.
_HIGHEST_RATE = 2**24


@dataclass(frozen=True)
class AudioHeader:
    """What the header of a recording says.

    Args:
        container: format of the file: ``wav``, ``flac``, ``mp3``, ``ogg`` or ``mp4``.
        codec: how samples are encoded.
        sample_rate: samples of a channel a second.
        channels: number of channels.
        bits: bits of a sample; None where the codec has no such number.
        frames: samples of a channel; None if it is not known exactly.
        duration_s: duration in seconds; None if it is not known.

    Raises:
        MediaError: numbers that no recording has.

    Examples:
        >>> AudioHeader("wav", "pcm", 8000, 1, 16, 4000).duration_s
        0.5
    """

    container: str
    codec: str
    sample_rate: int
    channels: int
    bits: int | None = None
    frames: int | None = None
    duration_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.sample_rate <= _HIGHEST_RATE or not self.channels:
            raise MediaError("damaged", f"{self.channels} channels, {self.sample_rate} samples a second")
        if self.duration_s is None and self.frames is not None:
            object.__setattr__(self, "duration_s", self.frames / self.sample_rate)


def cut_short(why: str = "it ends within its header") -> MediaError:
    """The error for a file, or a head of one, that ends too early."""
    return MediaError("truncated", why)
