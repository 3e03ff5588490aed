"""`VideoStage`: the base of stages that look at the pictures of films and clips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, BinaryIO, ClassVar, Protocol

import pyarrow as pa

from dcurate.errors import PipelineError
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.isolate.sandbox import ChildAnswer, ChildDiedError
from dcurate.media.refs import has_segments, refs_of, track_of
from dcurate.media.stage import FileReading, FileStage
from dcurate.media.streams import open_files


@dataclass(frozen=True)
class VideoReading(FileReading):
    """How a stage reads and decodes the films of rows.

    Args:
        max_file_bytes, storage_options: same settings as in `FileReading`. Files above 4 MiB in folders and plain tar
            archives are read in ranges, without a limit.
        sandbox: always a child process; leave it out.
        timeout_s: seconds of CPU time that the child process may take for 16 frames, 60 unless given, and ten times as
            many by the clock.
        memory: memory of the child process, ``"2GiB"`` unless given.
        max_pixels: pixels of the largest frame; a film with larger ones goes to quarantine as ``too many pixels``.

    Raises:
        PipelineError: a limit that is not above zero.

    Examples:
        >>> VideoReading(timeout_s=10).max_pixels
        67108864
    """

    max_pixels: int = 2**26

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_pixels < 1:
            raise PipelineError(f"max_pixels={self.max_pixels!r} must be above zero")


class Collector(Protocol):
    """Takes what the child process says of a clip."""

    def take(self, answer: ChildAnswer) -> None:
        """Take what a watcher returned for a frame."""

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        """Return the values of the columns, in order, from what the watcher returned at the end."""


@dataclass
class VideoStage(FileStage):
    """Look at the pictures of each film or clip, and add columns; the base of stages over films.

    A row refers to a film, or by its `media_ref` to a clip or a track of it. Each film is decoded once for all its
    clips in a batch, whatever frames they want, in a child process that reads the file through this one. A row whose
    film cannot be decoded goes to quarantine with the reason, such as ``not a film: HTML or XML``, ``damaged``, ``no
    pictures``, ``too many pixels`` or ``timed out``; so does a clip that begins behind the end, ``bad segment``. What
    is left of a film that was cut or is damaged is looked at.

    A subclass lists its `columns` and names a `function` of a module that needs little else, which
    `dcurate.video.watch.watching` makes of a class: that of its watchers.

    Args:
        reading: limits.

    Examples:
        A module of watchers:

        >>> from dcurate.video.policy import FramePolicy
        >>> from dcurate.video.watch import watching
        >>> class BrightnessWatcher:
        ...     policy = FramePolicy("per_second", 1)
        ...     def __init__(self, clip, options):
        ...         self.means = []
        ...     def see(self, frame):
        ...         self.means.append(float(frame.pixels(width=32, height=18).mean()))
        ...     def end(self):
        ...         return {"brightness": max(self.means)}, []
        >>> watch = watching(BrightnessWatcher)

        and the stage, whose `function` names it:

        >>> @dataclass
        ... class Brightness(VideoStage):
        ...     name: str = "brightness"
        ...     columns = {"brightness": pa.float64()}
        ...     function = "my_package.watchers:watch"
        >>> Brightness().outputs()
        (['data'], ['brightness'])
    """

    _: KW_ONLY
    reading: FileReading = VideoReading()

    takes: ClassVar[type[FileReading]] = VideoReading
    serves_files: ClassVar[bool] = True
    recycle_items: ClassVar[int] = 1_000

    @property
    def watch_options(self) -> Mapping[str, Any]:
        """What the watchers get; JSON must be able to hold it."""
        return {}

    @property
    def options(self) -> Mapping[str, Any]:
        assert isinstance(self.reading, VideoReading)
        return {**self.watch_options, "max_pixels": self.reading.max_pixels}

    def collector(self) -> Collector:
        """Return a new collector for a clip: by default one for watchers that answer at the end alone."""
        return _AtEnd(self)

    def requires(self) -> dict[str, str]:
        return {"av": "video"}

    def answers(self, rows: pa.Table) -> list[Any]:
        self.check_media(rows.column_names)
        answers: list[Any] = [None] * rows.num_rows
        limit, options = parse_bytes(self.reading.max_file_bytes), self.reading.storage_options
        for numbers, file, size in open_files(rows, limit=limit, storage_options=options):
            clips, faults = (
                ({}, dict.fromkeys(numbers, file)) if isinstance(file, MediaFault) else clips_of(rows, numbers)
            )
            for row, fault in faults.items():
                answers[row] = fault
            if clips:
                assert not isinstance(file, MediaFault)
                watched = self.watched(file, size, list(clips.values()), track_of(rows, numbers))
                for row, answer in zip(clips, watched, strict=True):
                    answers[row] = answer
        return answers

    def watched(
        self, file: BinaryIO, size: int, clips: Sequence[tuple[float, float | None]], track: int | None = None
    ) -> list[Any]:
        """Return the values of the columns for each clip of a film, or its fault.

        Args:
            file: the open file.
            size: size of it in bytes.
            clips: start and end of each clip, in seconds.
            track: number of the track that is meant; None for the first that suits.
        """
        request = {"clips": clips} if track is None else {"clips": clips, "track": track}
        try:
            return self._watched(file, size, request)
        except ChildDiedError:  # which may have had other causes than the film
            try:
                return self._watched(file, size, request)
            except ChildDiedError as error:
                return [error.fault] * len(clips)

    def _watched(self, file: BinaryIO, size: int, request: Mapping[str, Any]) -> list[Any]:
        clips = request["clips"]
        if self._sandbox is None:
            self.setup()
        assert self._sandbox is not None
        collectors = [self.collector() for _ in clips]
        answers: list[Any] = [MediaFault("crashed: bad answer", "no answer for the clip")] * len(clips)
        try:
            for answer in self._sandbox.stream(file, size, request):
                number = answer.value.get("clip")
                if not isinstance(number, int) or not 0 <= number < len(clips):
                    continue
                if "fault" in answer.value:
                    answers[number] = MediaFault(*map(str, answer.value["fault"]))
                elif answer.value.get("last"):
                    answers[number] = collectors[number].row(answer)
                else:
                    collectors[number].take(answer)
        except ChildDiedError:
            raise
        except MediaError as error:
            return [error.fault] * len(clips)
        return answers


@dataclass
class _AtEnd:
    stage: VideoStage

    def take(self, answer: ChildAnswer) -> None:
        """Nothing is sent for single frames."""

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return self.stage.row(answer)


def clips_of(
    rows: pa.Table, numbers: Sequence[int]
) -> tuple[dict[int, tuple[float, float | None]], dict[int, MediaFault]]:
    """Return the clips that rows mean, as start and end in seconds, and the rows whose clip no film has.

    Args:
        rows: a table of rows with files.
        numbers: numbers of the rows of a film.

    Examples:
        >>> from dcurate.media.refs import Ref, ref_array
        >>> refs = [Ref("a.mp4", start_s=0.5, stop_s=2.0), Ref("a.mp4", start_s=3.0, stop_s=1.0), Ref("a.mp4")]
        >>> clips, faults = clips_of(pa.table({"media_ref": ref_array(refs)}), [0, 1, 2])
        >>> clips, faults[1].reason
        ({0: (0.5, 2.0), 2: (0.0, None)}, 'bad segment')
    """
    if not has_segments(rows):
        return dict.fromkeys(numbers, (0.0, None)), {}
    clips: dict[int, tuple[float, float | None]] = {}
    faults: dict[int, MediaFault] = {}
    refs = refs_of(rows.select(["media_ref"]).take(pa.array(numbers, pa.int64())))
    for row, ref in zip(numbers, refs, strict=True):
        start_s, stop_s = (0.0, None) if ref is None else (ref.start_s or 0.0, ref.stop_s)
        if not 0 <= start_s < 2**40 or (stop_s is not None and not start_s < stop_s < 2**40):
            faults[row] = MediaFault("bad segment", f"from {start_s} to {stop_s} s")
        else:
            clips[row] = start_s, stop_s
    return clips, faults
