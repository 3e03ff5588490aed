"""The Emilia recipe without speakers and ASR, from files to rows. Part ``pipeline`` of ``benchmarks.audio``.

It finds speech, makes a row of each segment, scores it and filters. Recordings are the first of ``vad.tar``, as files
in a folder. ``ratio`` is the CPU time of the pipeline over that of the bare inference of its models, on one thread and
inputs in memory: Silero VAD on the windows of all recordings, and both models of DNSMOS on those of all segments.
"""

from __future__ import annotations

import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate import DocumentBatch, ScoreFilter
from dcurate.audio import Dnsmos, FindSpeech, SegmentRows
from dcurate.media.refs import Ref, ref_array
from dcurate.text import NumberRangeFilter

#: Recordings of `vad.tar`, the first by name; DNSMOS takes about its own time on each.
RECORDINGS = 3


class _TimedSession:
    """A model whose calls are kept, to be made again; it answers with a constant where it is given one."""

    def __init__(self, model: Any, answer: Any = None) -> None:
        self.model, self.answer, self.calls = model, answer, list[dict[str, Any]]()

    def run(self, names: Any, given: dict[str, Any]) -> Any:
        self.calls.append({name: np.array(value) for name, value in given.items()})
        return self.model.run(names, given) if self.answer is None else self.answer

    def again(self) -> float:
        """CPU-seconds of all calls."""
        begin = time.process_time()
        for given in self.calls:
            self.model.run(None, given)
        return time.process_time() - begin


def run(folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place, tarfile.open(folder / "vad.tar") as archive:
        archive.extractall(place, filter="data")
        refs = ref_array([Ref(str(path)) for path in sorted(Path(place).glob("vad-*"))[:RECORDINGS]])
        batch = DocumentBatch(data=pa.table({"media_ref": refs}))
        speech, scoring = FindSpeech(), Dnsmos()
        vad = _TimedSession(speech.loaded())
        p835, p808 = (_TimedSession(model, np.zeros((1, 1, 3), np.float32)) for model in scoring.loaded())
        _through(batch, _Speech(vad), _Scoring((p835, p808)))
        for stage in (speech, scoring):
            stage.setup()
        begin = time.process_time()
        kept, segments = _through(batch, speech, scoring)
        whole = time.process_time() - begin
    bare = [model.again() for model in (vad, p835, p808)]
    seconds = float(sum(len(call["input"]) for call in vad.calls) * 0.032)
    return {
        "seconds": round(seconds, 1),
        "segments": segments,
        "kept": kept,
        "windows": len(p835.calls),
        "seconds_per_cpu_s": round(seconds / whole, 2),
        "bare_seconds_per_cpu_s": round(seconds / sum(bare), 2),
        "ratio": round(whole / sum(bare), 3),
        "cpu_s": {
            "pipeline": round(whole, 2),
            "silero": round(bare[0], 2),
            "p835": round(bare[1], 2),
            "p808": round(bare[2], 2),
        },
    }


class _Speech(FindSpeech):
    def __init__(self, model: _TimedSession) -> None:
        super().__init__()
        self._own = model

    def loaded(self) -> Any:
        return self._own


class _Scoring(Dnsmos):
    def __init__(self, models: tuple[_TimedSession, _TimedSession]) -> None:
        super().__init__()
        self._own = models

    def loaded(self) -> Any:
        return self._own


def _through(batch: DocumentBatch, speech: FindSpeech, scoring: Dnsmos) -> tuple[int, int]:
    """Rows that are kept, and segments."""
    segments = SegmentRows().process(speech.process(batch))
    scored = scoring.process(segments)
    rule = NumberRangeFilter("dnsmos_ovrl", min_value=2.4, made_by="Dnsmos()")
    return ScoreFilter(rule).process(scored).num_items, segments.num_items
