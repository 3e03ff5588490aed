"""Subtitles: cues in SubRip, WebVTT and ASS as plain words with times, and what is wrong with times that lie."""

from __future__ import annotations

import html
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

_TIME = r"(-?)(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,9}))?"
_CLOCK = re.compile(rf"\s*{_TIME}\s*$")
_CUE = re.compile(rf"\s*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![\d.,:])")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s([^<>]+)>")
_TAG = re.compile(r"<[^<>]*>")
#: Instructions of ASS within a text, which players of SubRip know, too; one of them begins or ends a drawing.
_OVERRIDE = re.compile(r"(\{[^{}]*\})")
_INSTRUCTION = re.compile(r"\{\\[^{}]*\}")
_DRAWING = re.compile(r"\\p(\d)")
#: Seconds that a cue may go on after the end of its film: players end it with the film.
BEYOND_S = 1.0


class TextSegment(NamedTuple):
    """A text with its times.

    Args:
        start_s: where it begins, in seconds.
        stop_s: where it ends, in seconds.
        text: what is said; None where that is not known.
        speaker: who says it; None where that is not known.
    """

    start_s: float
    stop_s: float
    text: str | None = None
    speaker: str | None = None


def cues_of_srt(content: str) -> list[TextSegment]:
    r"""Return the subtitles of an SRT file; lines of one are joined by a space, also over blank lines.

    Times that cannot be read are NaN.

    Raises:
        ValueError: it has text but no subtitle.

    Examples:
        >>> cues_of_srt("1\n00:00:01,500 --> 00:00:02,000\nGood\n<i>day</i>.\n")
        [TextSegment(start_s=1.5, stop_s=2.0, text='Good day.', speaker=None)]
    """
    cues = [
        TextSegment(start, stop, plain_srt(" ".join(lines))) for start, stop, lines in _cues(content, blank_ends=False)
    ]
    if not cues and content.strip():
        raise ValueError("it has no line of times such as 00:00:01,500 --> 00:00:02,000")
    return cues


def cues_of_vtt(content: str) -> list[TextSegment]:
    r"""Return the cues of a WebVTT file, without their tags; the speaker is that of ``<v NAME>``.

    Raises:
        ValueError: it does not begin with ``WEBVTT``.

    Examples:
        >>> cues_of_vtt("WEBVTT\n\n00:01.500 --> 99:99.999 align:start\n<v Ann>Good <i>day</i> &amp; night\n")
        [TextSegment(start_s=1.5, stop_s=nan, text='Good day & night', speaker='Ann')]
    """
    if not content.startswith("WEBVTT"):
        raise ValueError("it does not begin with WEBVTT")
    return [
        TextSegment(start, stop, *plain_vtt(" ".join(lines))) for start, stop, lines in _cues(content, blank_ends=True)
    ]


def cues_of_ass(content: str) -> list[TextSegment]:
    r"""Return the dialogue of an ASS or SSA file, without instructions and drawings; the speaker is that of ``Name``.

    Raises:
        ValueError: it has no list of fields of its events.

    Examples:
        >>> head = "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
        >>> cues_of_ass(head + r"Dialogue: 0,0:00:01.50,0:00:02.00,Default,Ann,0,0,0,,{\i1}Good\Nday, all")
        [TextSegment(start_s=1.5, stop_s=2.0, text='Good day, all', speaker='Ann')]
    """
    fields: list[str] = []
    cues = []
    for line in content.splitlines():
        kind, _, rest = line.partition(":")
        if kind.strip() == "Format":
            fields = [field.strip().lower() for field in rest.split(",")]
        elif kind.strip() == "Dialogue" and "text" in fields:
            values = dict(zip(fields, rest.split(",", len(fields) - 1), strict=False))
            speaker = values.get("name", values.get("actor", "")).strip() or None
            start, stop = (_read_clock(values.get(name, "")) for name in ("start", "end"))
            cues.append(TextSegment(start, stop, plain_ass(values.get("text", "")), speaker))
    if "text" not in fields:
        raise ValueError("it has no line of fields such as Format: Layer, Start, End, Style, Name, Text")
    return cues


#: The formats of files, by their endings, and their functions.
FORMATS: Mapping[str, Callable[[str], list[TextSegment]]] = {
    "ass": cues_of_ass,
    "srt": cues_of_srt,
    "ssa": cues_of_ass,
    "vtt": cues_of_vtt,
}


def decoded(data: bytes) -> str:
    r"""Return the text of a file, in UTF-8, or in UTF-16 if its first bytes say so; other bytes become U+FFFD.

    Examples:
        >>> decoded("é".encode("utf-16")), decoded(b"\xef\xbb\xbfa"), decoded(b"a\xff")
        ('é', 'a', 'a\ufffd')
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def plain_srt(text: str) -> str:
    r"""Return the words of a subtitle of SRT, without tags and instructions.

    Examples:
        >>> plain_srt(r"{\an8}<b>Good</b>" + "\nday")
        'Good day'
    """
    return " ".join(_INSTRUCTION.sub("", _TAG.sub("", text)).split())


def plain_vtt(text: str) -> tuple[str, str | None]:
    """Return the words of a cue of WebVTT, and who says them."""
    voice = _VOICE.search(text)
    speaker = html.unescape(voice[1].strip()) if voice else None
    return " ".join(html.unescape(_TAG.sub("", text)).split()), speaker


def plain_ass(text: str) -> str:
    r"""Return the words of an event of ASS, without instructions and drawings.

    Examples:
        >>> plain_ass(r"{\b1}Good\Nday{\p1}m 0 0 l 9 9{\p0}!")
        'Good day!'
    """
    words, is_drawing = [], False
    for part in _OVERRIDE.split(text):
        if part.startswith("{") and part.endswith("}"):
            scales = _DRAWING.findall(part)
            is_drawing = scales[-1] != "0" if scales else is_drawing
        elif not is_drawing:
            words.append(part)
    return " ".join("".join(words).replace("\\N", " ").replace("\\n", " ").replace("\\h", " ").split())


def fault_of(cue: TextSegment, end_s: float | None) -> str | None:
    """Return what is wrong with the times of a cue; None if nothing is.

    Args:
        cue: times and text.
        end_s: end of the film, in seconds; None if it is not known.

    Examples:
        >>> [fault_of(TextSegment(*times), 60.0) for times in ((1.0, 2.0), (-1.0, 2.0), (3.0, 2.0), (50.0, 99.0))]
        [None, 'before the start', 'backwards', 'beyond the end']
    """
    start_s, stop_s = cue.start_s, cue.stop_s
    if not (math.isfinite(start_s) and math.isfinite(stop_s)):
        return "not a time"
    if min(start_s, stop_s) < 0:
        return "before the start"
    if stop_s <= start_s:
        return "backwards" if stop_s < start_s else "no duration"
    if end_s is not None and (start_s >= end_s or stop_s > end_s + BEYOND_S):
        return "beyond the end"
    return None


class CheckedCues:
    """The cues of a film: those whose times can be, in order, and the others with what is wrong.

    Args:
        cues: all cues.
        end_s: end of the film, in seconds; None if it is not known.

    Examples:
        >>> checked = CheckedCues([TextSegment(3.0, 5.0, "b"), TextSegment(1.0, 4.0, "a"), TextSegment(2.0, 1.0)], 60.0)
        >>> checked.faults
        [('backwards', TextSegment(start_s=2.0, stop_s=1.0, text=None, speaker=None))]
        >>> [(part["start"], part["end"], part["text"], part["overlaps"]) for part in checked.between(0.0, None)]
        [(1.0, 4.0, 'a', False), (3.0, 5.0, 'b', True)]
        >>> checked.between(4.0, 4.5)
        [{'start': 0.0, 'end': 0.5, 'text': 'b', 'speaker': None, 'overlaps': True}]
    """

    def __init__(self, cues: Sequence[TextSegment], end_s: float | None) -> None:
        reasons = [fault_of(cue, end_s) for cue in cues]
        self.count = len(cues)
        self.faults = [(reason, cue) for reason, cue in zip(reasons, cues, strict=True) if reason is not None]
        good = [cue for reason, cue in zip(reasons, cues, strict=True) if reason is None]
        self._cues = sorted(good, key=lambda cue: (cue.start_s, cue.stop_s))
        self._starts = [cue.start_s for cue in self._cues]
        self._ends = list(accumulate((cue.stop_s for cue in self._cues), max))
        #: A binary tree of the latest ends: node n has the nodes 2 n and 2 n + 1, and the cues are its leaves.
        self._size = 1 << max(len(good) - 1, 0).bit_length()
        leaves = [cue.stop_s for cue in self._cues]
        self._latest = [-math.inf] * self._size + leaves + [-math.inf] * (self._size - len(leaves))
        for node in range(self._size - 1, 0, -1):
            self._latest[node] = max(self._latest[2 * node : 2 * node + 2])

    def between(self, start_s: float, stop_s: float | None) -> list[dict[str, Any]]:
        """Return the cues of a clip, in seconds from its start and cut to it; all cues as they are without a clip."""
        last = len(self._cues) if stop_s is None else bisect_left(self._starts, stop_s)
        parts = []
        for number in self._ending_after(start_s, last):
            cue = self._cues[number]
            end = cue.stop_s if stop_s is None else min(cue.stop_s, stop_s)
            parts.append(
                {
                    "start": round(max(cue.start_s - start_s, 0.0), 6),
                    "end": round(end - start_s, 6),
                    "text": cue.text,
                    "speaker": cue.speaker,
                    "overlaps": number > 0 and cue.start_s < self._ends[number - 1],
                }
            )
        return parts

    def _ending_after(self, start_s: float, last: int) -> Iterator[int]:
        """Yield the numbers, below one, of the cues that end after a time, without a look at all others."""
        nodes = [1]
        while nodes:
            node = nodes.pop()
            if self._latest[node] > start_s:
                if node < self._size:
                    nodes += (2 * node + 1, 2 * node)
                elif node - self._size < last:
                    yield node - self._size
                else:
                    return


def _cues(content: str, *, blank_ends: bool) -> Iterator[tuple[float, float, list[str]]]:
    """The times and lines of subtitles.

    Args:
        content: text of the file.
        blank_ends: whether a blank line ends a cue, as in WebVTT; in SubRip only the times of the next one do.
    """
    times: tuple[float, float] | None = None
    lines: list[str] = []
    for line in content.splitlines():
        match = _CUE.match(line) if "-->" in line else None
        is_new = times is None or (bool(lines) and (not lines[-1] or lines[-1].isdecimal()))
        if match is not None or ("-->" in line and is_new):
            if times is not None:
                yield *times, _without_number(lines, is_followed=True)
            times = (math.nan, math.nan) if match is None else (_clock(match.groups()[:5]), _clock(match.groups()[5:]))
            lines = []
        elif line.strip() or not blank_ends:
            lines.append(line.strip())
        elif times is not None:
            yield *times, lines
            times = None
    if times is not None:
        yield *times, _without_number(lines, is_followed=False)


def _without_number(lines: list[str], *, is_followed: bool) -> list[str]:
    """The lines of a cue, without the number of the next one: above its times, or at the end of a file that is cut."""
    while lines and not lines[-1] and not is_followed:
        lines = lines[:-1]
    is_number = bool(lines) and lines[-1].isdecimal() and (is_followed or lines[-2:-1] == [""])
    return lines[:-1] if is_number else lines


def _read_clock(text: str) -> float:
    match = _CLOCK.match(text)
    return math.nan if match is None else _clock(match.groups())


def _clock(parts: Sequence[str | None]) -> float:
    """Seconds; NaN where minutes or seconds are above 59."""
    sign, hours, minutes, seconds, fraction = parts
    if int(seconds or 0) > 59 or (hours is not None and int(minutes or 0) > 59):
        return math.nan
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return (-1 if sign else 1) * (whole + float(f"0.{fraction or 0}"))
