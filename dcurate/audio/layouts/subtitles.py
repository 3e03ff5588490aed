"""Texts with times that lie beside recordings: TextGrid, RTTM, SRT, WebVTT, ASS and JSON as segments."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from dcurate.media.cues import FORMATS as SUBTITLES
from dcurate.media.cues import TextSegment

_TOKEN = re.compile(r'"(?:[^"]|"")*"|[^\s"]+')
#: Segments of a file, at most.
_MOST = 1_000_000


def segments_of_subtitles(content: str, text_format: str) -> list[TextSegment]:
    r"""Return the subtitles of a file, as `dcurate.media.cues` reads them.

    Args:
        content: text of the file.
        text_format: ``"ass"``, ``"srt"``, ``"ssa"`` or ``"vtt"``.

    Raises:
        ValueError: it is none, or one begins before 0, ends before it begins, or has a time that is none.

    Examples:
        >>> segments_of_subtitles("1\n00:00:01,500 --> 00:00:02,000\nGood\nday.\n", "srt")
        [TextSegment(start_s=1.5, stop_s=2.0, text='Good day.', speaker=None)]
    """
    return [_checked(*cue) for cue in SUBTITLES[text_format](content)]


def segments_of_rttm(content: str) -> list[TextSegment]:
    r"""Return the turns of an RTTM file, which has no texts.

    Raises:
        ValueError: a turn has no times, or a duration below zero.

    Examples:
        >>> segments_of_rttm("SPEAKER talk 1 1.50 0.50 <NA> <NA> ann <NA> <NA>\n")
        [TextSegment(start_s=1.5, stop_s=2.0, text=None, speaker='ann')]
    """
    segments = []
    for number, line in enumerate(content.splitlines(), 1):
        words = line.split()
        if not words or words[0] != "SPEAKER":
            continue
        if len(words) < 8:
            raise ValueError(f"line {number} has {len(words)} words, and a turn has at least 8")
        start = _number(words[3])
        segments.append(_checked(start, start + _number(words[4]), None, None if words[7] == "<NA>" else words[7]))
    return segments


def segments_of_textgrid(content: str) -> list[TextSegment]:
    r"""Return the intervals of a TextGrid of Praat, long or short, that have a text; the speaker is the tier's name.

    Tiers follow each other; those of points are left out.

    Raises:
        ValueError: it is none, or ends too soon.

    Examples:
        >>> head = '"ooTextFile"\n"TextGrid"\n0 2 <exists> 1\n"IntervalTier" "ann" 0 2 2\n'
        >>> segments_of_textgrid(head + '0 1.5 "" 1.5 2 "say ""hi"" twice"')
        [TextSegment(start_s=1.5, stop_s=2.0, text='say "hi" twice', speaker='ann')]
    """
    tokens = iter([token for token in _TOKEN.findall(content) if token[0] == '"' or _is_number(token)])
    if "TextGrid" not in (_text(_next(tokens)), _text(_next(tokens))):
        raise ValueError("it is not a TextGrid")
    _number(_next(tokens)), _number(_next(tokens))
    return [segment for _ in range(_count(_next(tokens))) for segment in _tier(tokens)]


def segments_of_json(content: str) -> list[TextSegment]:
    """Return the segments of a JSON file: a list of objects, or one that an object has as ``segments``.

    Each has ``start`` and ``end`` (or ``stop``, or ``duration``) in seconds; ``start_s`` and the like are the same.
    ``text`` and ``speaker`` may be left out.

    Raises:
        ValueError: it is no such JSON.

    Examples:
        >>> segments_of_json('{"segments": [{"start": 1.5, "end": 2, "text": "Good day."}]}')
        [TextSegment(start_s=1.5, stop_s=2.0, text='Good day.', speaker=None)]
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    rows = value.get("segments") if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of segments, and has none")
    return [_of_object(row) for row in rows]


#: The formats, and their functions.
FORMATS: Mapping[str, Callable[[str], list[TextSegment]]] = {
    **{name: partial(segments_of_subtitles, text_format=name) for name in SUBTITLES},
    "json": segments_of_json,
    "rttm": segments_of_rttm,
    "textgrid": segments_of_textgrid,
}


def _tier(tokens: Iterator[str]) -> Iterator[TextSegment]:
    kind, name = _text(_next(tokens)), _text(_next(tokens))
    _number(_next(tokens)), _number(_next(tokens))
    for _ in range(_count(_next(tokens))):
        start = _number(_next(tokens))
        stop = _number(_next(tokens)) if kind == "IntervalTier" else start
        text = _text(_next(tokens)).strip()
        if kind == "IntervalTier" and text:
            yield _checked(start, stop, text, name or None)


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise ValueError("it ends too soon")
    return token


def _text(token: str) -> str:
    if token[0] != '"':
        raise ValueError(f"there is {token!r} where a text should be")
    return token[1:-1].replace('""', '"')


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _number(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(f"{token} is not a time")
    return number


def _count(token: str) -> int:
    number = _number(token)
    if number != int(number) or not 0 <= number <= _MOST:
        raise ValueError(f"{token} is not a number of tiers or intervals")
    return int(number)


def _checked(start: float, stop: float, text: str | None, speaker: str | None = None) -> TextSegment:
    if not 0 <= start <= stop:
        raise ValueError(f"a segment is from {start} to {stop} s")
    return TextSegment(start, stop, text, speaker)


def _of_object(row: Mapping[str, Any]) -> TextSegment:
    times = {name.removesuffix("_s"): value for name, value in row.items() if isinstance(value, int | float)}
    if "start" not in times:
        raise ValueError(f"a segment has no start: {sorted(row)}")
    start = _number(str(times["start"]))
    if "end" in times or "stop" in times:
        stop = _number(str(times.get("end", times.get("stop"))))
    elif "duration" in times:
        stop = start + _number(str(times["duration"]))
    else:
        raise ValueError(f"a segment has no end: {sorted(row)}")
    text, speaker = row.get("text"), row.get("speaker")
    return _checked(start, stop, None if text is None else str(text), None if speaker is None else str(speaker))
