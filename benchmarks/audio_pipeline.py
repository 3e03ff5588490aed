"""The Emilia recipe without ASR, from files to files. Part ``pipeline`` of ``benchmarks.audio``.

The bundled recipe ``speech-emilia`` runs in one process, without its stages for transcripts: it reads headers, finds
speech and speakers, makes a row of each turn, measures and scores it, filters, and writes FLAC files of 24,000 samples
a second.
Recordings are the first of ``vad.tar``, as files in a folder. ``ratio`` is the CPU time of the recipe over that of the
bare inference of its models, on one thread and inputs in memory: Silero VAD on the windows of all recordings,
Resemblyzer's network on those of all segments, and both models of DNSMOS on those of all turns. Recipe and models are
measured in alternation; figures are medians of `ROUNDS`.
"""

from __future__ import annotations

import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from dcurate import InlineExecutor, Pipeline, RunResult
from dcurate.audio import Dnsmos, FindSpeech, speakers
from dcurate.audio.voice_encoder import voice_encoder
from dcurate.recipe import load_recipe

#: Recordings of `vad.tar`, the first by name; DNSMOS takes about its own time on each.
RECORDINGS = 3
#: Times that the recipe and its models run.
ROUNDS = 3
#: Stages for transcripts.
_ASR = ("transcribe", "language_id", "hallucinations")


class _RecordedSession:
    """A model whose calls are kept, to be made again; it answers with a constant where it is given one."""

    def __init__(self, model: Any, answer: Any = None) -> None:
        self.model, self.answer, self.calls = model, answer, list[dict[str, Any]]()

    def run(self, names: Any, inputs: dict[str, Any]) -> Any:
        self.calls.append({name: np.array(value) for name, value in inputs.items()})
        return self.model.run(names, inputs) if self.answer is None else self.answer

    def replay(self) -> float:
        """CPU-seconds of all calls."""
        begin = time.process_time()
        for inputs in self.calls:
            self.model.run(None, inputs)
        return time.process_time() - begin


class _RecordedVoices:
    """A network of voices whose calls are kept, to be made again."""

    def __init__(self, network: Any) -> None:
        self.network, self.calls = network, list[np.ndarray]()

    def embeddings(self, windows: np.ndarray) -> np.ndarray:
        """Embeddings of windows."""
        self.calls.append(windows.copy())
        return self.network.embeddings(windows)

    def replay(self) -> float:
        """CPU-seconds of all calls."""
        begin = time.process_time()
        for windows in self.calls:
            self.network.embeddings(windows)
        return time.process_time() - begin


def run(folder: Path) -> dict[str, Any]:
    """Run the recipe and its models in turn."""
    vad = _RecordedSession(FindSpeech().loaded())
    p835, p808 = (_RecordedSession(model, np.zeros((1, 1, 3), np.float32)) for model in Dnsmos().loaded())
    voices = _RecordedVoices(voice_encoder(None))
    with tempfile.TemporaryDirectory() as scratch:
        recordings = Path(scratch, "recordings")
        with tarfile.open(folder / "vad.tar") as archive:
            members = sorted(
                (member for member in archive if member.name.startswith("vad-")), key=lambda member: member.name
            )
            archive.extractall(recordings, members[:RECORDINGS], filter="data")
        with (
            patch.object(FindSpeech, "loaded", lambda _: vad),
            patch.object(speakers, "voice_encoder", lambda _: voices),
            patch.object(Dnsmos, "loaded", lambda _: (p835, p808)),
        ):
            _emilia(recordings, Path(scratch, "recorded"))
        rounds = []
        for number in range(ROUNDS):
            begin = time.process_time()
            result = _emilia(recordings, Path(scratch, f"output-{number}"))
            whole = time.process_time() - begin
            rounds.append((whole, *(model.replay() for model in (vad, voices, p835, p808))))
    rows = {stage.name: stage.rows_out for stage in result.report.stages}
    seconds = float(sum(len(call["input"]) for call in vad.calls) * 0.032)
    whole, *models = map(median, zip(*rounds, strict=True))
    ratios = [recipe / sum(bare) for recipe, *bare in rounds]
    return {
        "recordings": RECORDINGS,
        "seconds": round(seconds, 1),
        "segments": rows["segment_rows"],
        "kept": result.report.stages[-1].rows_out,
        "windows": len(p835.calls),
        "seconds_per_cpu_s": round(seconds / whole, 2),
        "bare_seconds_per_cpu_s": round(seconds / sum(models), 2),
        "ratio": round(median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "cpu_s": dict(
            zip(
                ("recipe", "silero", "voices", "p835", "p808"),
                (round(cpu_s, 2) for cpu_s in (whole, *models)),
                strict=True,
            )
        ),
    }


def _emilia(recordings: Path, output: Path) -> RunResult:
    recipe = load_recipe("speech-emilia", {"input": str(recordings), "output": str(output), "model": "none is loaded"})
    stages = [stage for stage in recipe.pipeline.stages if stage.name not in _ASR]
    assert len(stages) == len(recipe.pipeline.stages) - len(_ASR)
    return Pipeline("emilia", stages=stages).run(InlineExecutor(), observers=[])
