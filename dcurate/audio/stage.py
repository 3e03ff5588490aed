"""`SoundStage`: the base of stages that hear the sound of each row."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.core.extras import needed
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.heads import File
from dcurate.media.refs import has_segments, refs_of, track_of
from dcurate.media.stage import FileStage
from dcurate.media.streams import open_files


class Listener(Protocol):
    """What hears one recording, or one segment of it."""

    def hear(self, samples: Samples) -> None:
        """Take the next window of samples: shape (frames, channels), float32 in -1 to 1, valid until it returns."""

    def values(self, truncated: bool) -> Sequence[Any]:
        """Return the values of the stage's columns, after the last window.

        Args:
            truncated: whether the file ended, or was damaged, before the end that its header or its row gives.

        Raises:
            MediaError: the row goes to quarantine.
        """


class Segment(NamedTuple):
    """A part of a recording that a row means, in frames.

    Args:
        row: number of the row.
        start: first frame.
        stop: frame behind the last; None for the end of the recording.
    """

    row: int
    start: int
    stop: int | None


@dataclass
class SoundStage(FileStage):
    """Hear the sound of each row, and add columns; the base of stages for speech and other sound.

    A recording is decoded in windows of 65,536 frames, so that memory does not grow with its length, and once for all
    its segments in a batch, unless they overlap. A row whose file cannot be decoded goes to quarantine with the reason,
    as with `AudioInfo`; so do samples that are NaN or infinite, ``not a number``, and a segment that begins behind the
    end, ``bad segment``. What is left of a recording that was cut or is damaged is heard.

    A subclass lists its `columns` and gives a `listener` for each row.

    Args:
        reading: limits; files above 4 MiB in folders and plain tar archives are read in ranges, without a limit.

    Examples:
        >>> import io, soundfile
        >>> from dcurate import DocumentBatch
        >>> class Peak:
        ...     def __init__(self):
        ...         self.peak = 0.0
        ...     def hear(self, samples):
        ...         self.peak = max(self.peak, float(abs(samples).max()))
        ...     def values(self, truncated):
        ...         return [self.peak]
        >>> @dataclass
        ... class Peaks(SoundStage):
        ...     name: str = "peaks"
        ...     columns = {"peak": pa.float64()}
        ...
        ...     def listener(self, sound):
        ...         return Peak()
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.array([0.25, -0.5, 0.0]), 8000, format="WAV")
        >>> Peaks().process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))).to_arrow()["peak"].to_pylist()
        [0.5]
    """

    readers: ClassVar[str] = "MediaReader, WebDatasetReader or a reader of dcurate.audio"

    def listener(self, sound: Sound) -> Listener:
        """Return a new listener for a row.

        Args:
            sound: recording, with its `rate` in samples a second and its number of `channels`.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method listener(sound)")

    def requires(self) -> dict[str, str]:
        return {"soundfile": "audio"}

    def answers(self, rows: pa.Table) -> list[Any]:
        self.check_media(rows.column_names)
        return self.hear(rows, lambda sound, _: self.listener(sound), {})

    def hear(
        self, rows: pa.Table, listener_of: Callable[[Sound, int], Listener], known: Mapping[int, Any]
    ) -> list[Any]:
        """Return what listeners say of each row, or why it cannot be heard.

        Args:
            rows: a table of rows with files.
            listener_of: makes the listener of a recording and the number of a row.
            known: answers of rows that need not be heard, by their numbers; a file that cannot be opened comes first.
        """
        answers: list[Any] = [None] * rows.num_rows
        for numbers, sound in self.sounds(rows):
            if isinstance(sound, MediaFault):
                for row in numbers:
                    answers[row] = sound
                continue
            segments, faults = segments_of(rows, [row for row in numbers if row not in known], sound.rate)
            for row in numbers:
                answers[row] = known.get(row, faults.get(row))
            for segment in passes(segments):
                answers[segment.row] = self._heard(sound, segment, listener_of)
        return answers

    def sounds(self, rows: pa.Table) -> Iterator[tuple[list[int], Sound | MediaFault]]:
        """Yield each recording of rows once, open, with the numbers of its rows; the order is not that of the rows."""
        limit, options = parse_bytes(self.reading.max_file_bytes), self.reading.storage_options
        for numbers, file, _ in open_files(rows, limit=limit, storage_options=options):
            if isinstance(file, MediaFault):
                yield numbers, file
                continue
            try:
                sound: Sound | MediaFault = Sound(file, track_of(rows, numbers))
            except MediaError as error:
                sound = error.fault
            yield numbers, sound

    def _heard(
        self, sound: Sound, segment: Segment, listener_of: Callable[[Sound, int], Listener]
    ) -> Sequence[Any] | MediaFault:
        frames = 0
        try:
            listener = listener_of(sound, segment.row)
            for samples in sound.windows(segment.start, segment.stop):
                listener.hear(samples)
                frames += len(samples)
            if not frames:
                raise MediaError("bad segment", f"it begins at frame {segment.start}, behind the end of the recording")
            short = segment.stop is None or frames < segment.stop - segment.start
            return listener.values(sound.truncated and short)
        except MediaError as error:
            return error.fault


def segments_of(rows: pa.Table, numbers: Sequence[int], rate: int) -> tuple[list[Segment], dict[int, MediaFault]]:
    """Return the segments that rows mean, and the rows whose segment no recording has.

    Args:
        rows: a table of rows with files.
        numbers: numbers of the rows of a recording.
        rate: its samples a second.

    Examples:
        >>> from dcurate.media.refs import Ref, ref_array
        >>> refs = [Ref("a.wav", start_s=0.5, stop_s=2.0), Ref("a.wav", start_s=3.0, stop_s=1.0), Ref("a.wav")]
        >>> segments, faults = segments_of(pa.table({"media_ref": ref_array(refs)}), [0, 1, 2], 8000)
        >>> segments, faults[1].reason
        ([Segment(row=0, start=4000, stop=16000), Segment(row=2, start=0, stop=None)], 'bad segment')
    """
    if not has_segments(rows):
        return [Segment(row, 0, None) for row in numbers], {}
    segments, faults = [], {}
    refs = refs_of(rows.select(["media_ref"]).take(pa.array(numbers, pa.int64())))
    for row, ref in zip(numbers, refs, strict=True):
        file = File(b"", 0) if ref is None else File(b"", 0, ref.start_s, ref.stop_s)
        start_s, stop_s = file.start_s or 0.0, file.stop_s
        if not 0 <= start_s < 2**40 or (stop_s is not None and not start_s < stop_s < 2**40):
            faults[row] = MediaFault("bad segment", f"from {file.start_s} to {stop_s} s")
        else:
            segments.append(Segment(row, round(start_s * rate), None if stop_s is None else round(stop_s * rate)))
    return segments, faults


def passes(segments: Sequence[Segment]) -> list[Segment]:
    """Return segments in an order in which a recording is decoded as seldom as they overlap.

    Examples:
        >>> segments = [Segment(0, 0, None), Segment(1, 30, 50), Segment(2, 0, 10), Segment(3, 5, 20)]
        >>> [segment.row for segment in passes(segments)]
        [2, 1, 0, 3]
    """
    forever = float("inf")
    by_pass: list[list[Segment]] = []
    free: list[tuple[float, int]] = []  # where each pass has come to
    for segment in sorted(
        segments, key=lambda part: (part.start, forever if part.stop is None else part.stop, part.row)
    ):
        stop = forever if segment.stop is None else segment.stop
        if free and free[0][0] <= segment.start:
            number = heapq.heapreplace(free, (stop, free[0][1]))[1]
        else:
            number = len(by_pass)
            by_pass.append([])
            heapq.heappush(free, (stop, number))
        by_pass[number].append(segment)
    return [segment for segments in by_pass for segment in segments]


class Mono:
    """Windows of a recording as one channel at another rate: the mean of its channels, resampled by soxr.

    Args:
        rate: samples of a channel a second of the recording.
        to: samples a second that are wanted.

    Examples:
        >>> mono = Mono(8000, 16000)
        >>> len(mono.take(np.zeros((8000, 2), np.float32))) + len(mono.rest())
        16000
    """

    def __init__(self, rate: int, to: int) -> None:
        self._stream: Any = None
        if rate != to:
            library = needed("soxr", f"resampling from {rate} to {to} Hz", "audio")
            self._stream = library.ResampleStream(rate, to, 1, dtype="float32", quality="HQ")

    def take(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Return the samples, of shape (frames,), that a window gives."""
        channel = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
        return channel if self._stream is None else self._stream.resample_chunk(channel)

    def rest(self) -> npt.NDArray[np.float32]:
        """Return the last samples, after the last window."""
        empty = np.empty(0, np.float32)
        return empty if self._stream is None else self._stream.resample_chunk(empty, last=True)
