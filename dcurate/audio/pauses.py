"""Segments of speech from its probability in each window of a recording, as Silero VAD makes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dcurate.errors import PipelineError

#: How much less the probability must be for speech to end than to begin, and its least.
_LOWER, _LEAST = 0.15, 0.01
#: Pauses above this are places where a segment that is too long may be cut, in seconds.
_CUTTABLE_S = 0.098


@dataclass(frozen=True)
class SpeechRules:
    """What counts as a segment of speech.

    Args:
        min_duration_s: segments that are not longer are left out, in seconds.
        max_duration_s: longer segments are cut, in seconds; infinite for never.
        min_pause_s: shorter pauses do not end a segment, in seconds.
        threshold: probability of speech from which on a segment begins; it ends where it is 0.15 less.
        padding_s: what is added before and after each segment, in seconds; neighbours share what is between them.

    Raises:
        PipelineError: a number is out of its range.
    """

    min_duration_s: float = 2.0
    max_duration_s: float = 60.0
    min_pause_s: float = 0.5
    threshold: float = 0.5
    padding_s: float = 0.3

    def __post_init__(self) -> None:
        for name in ("min_duration_s", "min_pause_s", "padding_s"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < float("inf"):
                raise PipelineError(f"{name}={value!r} must be a number of seconds, 0 or more")
        if not _is_number(self.max_duration_s) or not self.max_duration_s > 2 * self.padding_s + 0.1:
            raise PipelineError(
                f"max_duration_s={self.max_duration_s!r} must be a number of seconds above twice padding_s and 0.1"
            )
        if self.min_duration_s > self.max_duration_s:
            raise PipelineError(f"min_duration_s={self.min_duration_s} is above max_duration_s={self.max_duration_s}")
        if not _is_number(self.threshold) or not 0 < self.threshold < 1:
            raise PipelineError(f"threshold={self.threshold!r} must be a number between 0 and 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def speech_segments(
    probabilities: Iterable[float], rules: SpeechRules, samples: int, *, rate: int = 16_000, window: int = 512
) -> list[tuple[int, int]]:
    """Return the segments of speech of a recording, each by its first sample and the one behind its last.

    Args:
        probabilities: probability of speech in each window.
        rules: what counts as a segment.
        samples: length of the recording.
        rate: samples a second.
        window: samples of a window.

    Examples:
        >>> rules = SpeechRules(min_duration_s=0.1, min_pause_s=0.1, padding_s=0.0)
        >>> speech_segments([0.1] * 10 + [0.9] * 20 + [0.1] * 10 + [0.4] * 10, rules, 25_600)
        [(5120, 15360)]
    """
    voice = _Voice(rules, rate, window)
    for place, probability in enumerate(probabilities):
        voice.hear(place * window, probability)
    voice.end(samples)
    return _padded(voice.segments, rate * rules.padding_s, samples)


class _Voice:
    """What is known of the speech up to a window."""

    def __init__(self, rules: SpeechRules, rate: int, window: int) -> None:
        self._begins, self._ends = rules.threshold, max(rules.threshold - _LOWER, _LEAST)
        self._pause, self._cuttable = rate * rules.min_pause_s, rate * _CUTTABLE_S
        self._shortest = rate * rules.min_duration_s
        self._longest = rate * rules.max_duration_s - window - 2 * rate * rules.padding_s
        self._start: int | None = None  # of the segment that goes on
        self._quiet: int | None = None  # where the pause that goes on began
        self._pauses: list[tuple[int, int]] = []  # in the segment, from and to
        self.segments: list[tuple[int, int]] = []

    def hear(self, place: int, probability: float) -> None:
        if self._start is None:
            if probability >= self._begins:
                self._start = place
            return
        if probability >= self._begins and self._quiet is not None:
            if place - self._quiet > self._cuttable:
                self._pauses.append((self._quiet, place))
            self._quiet = None
        if place - self._start > self._longest and not self._cut(place):
            return
        if probability < self._ends:
            self._quiet = place if self._quiet is None else self._quiet
            if place - self._quiet >= self._pause:
                self._finish(self._quiet)

    def end(self, samples: int) -> None:
        if self._start is not None:
            self._finish(samples)

    def _cut(self, place: int) -> bool:
        """End a segment that is too long, at its first longest pause or else here; whether another has begun."""
        assert self._start is not None
        quiet, loud = max(self._pauses, key=lambda pause: pause[1] - pause[0], default=(place, None))
        self.segments.append((self._start, quiet))
        self._start, self._quiet, self._pauses = loud, None, []
        return loud is not None

    def _finish(self, stop: int) -> None:
        assert self._start is not None
        if stop - self._start > self._shortest:
            self.segments.append((self._start, stop))
        self._start, self._quiet, self._pauses = None, None, []


def _padded(segments: list[tuple[int, int]], padding: float, samples: int) -> list[tuple[int, int]]:
    starts, stops = [start for start, _ in segments], [stop for _, stop in segments]
    for number in range(len(segments)):
        if number == 0:
            starts[0] = int(max(0, starts[0] - padding))
        if number + 1 == len(segments):
            stops[number] = int(min(samples, stops[number] + padding))
            continue
        pause = starts[number + 1] - stops[number]
        if pause < 2 * padding:
            stops[number] += pause // 2
            starts[number + 1] -= pause // 2
        else:
            stops[number] = int(min(samples, stops[number] + padding))
            starts[number + 1] = int(max(0, starts[number + 1] - padding))
    return list(zip(starts, stops, strict=True))
