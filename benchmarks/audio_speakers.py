"""Speakers: `FindSpeakers` on made conversations. Part ``speakers`` of ``benchmarks.audio``.

A conversation is made of prompts of equal level, none of which comes twice before all did; a quarter of the changes of
speaker overlap by 1 to 3 s. Voices are those in ``voices/PACKAGE`` in the folder, a package of recordings each (such as
Debian's ``asterisk-core-sounds-{en,es,fr,it,ru}-wav``). Without that folder they are made of the prompts in
``speech-*.tar``, which are of one person, at three speeds: another speed has another pitch and other resonances, and so
is another voice. `FindSpeakers` was not tuned on these speeds and conversations, but on others made of a half of the
same prompts. All is of telephone quality, and without noise or echo: people in one room are harder.

``der`` is the diarisation error rate without a collar, overlaps included: speech that is missed (of overlaps always the
second voice), sound that is none, and speech of another speaker (``confusion``), by the seconds of speech.
``purity`` is the part of the time with one voice whose speaker is, most of the time, that voice. ``overlap_recall`` and
``overlap_precision`` are of frames of 10 ms. Segments are those of the truth, or of `FindSpeech`. ``overlaps`` has both
over all conversations of two or more voices, and ``seconds`` of overlap.
"""

from __future__ import annotations

import io
import itertools
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import soundfile
import soxr
from scipy.optimize import linear_sum_assignment

from dcurate import DocumentBatch
from dcurate.audio import FindSpeakers, FindSpeech

RATE, FRAMES = 16_000, 100
#: Speeds of the prompts that make voices.
SPEEDS = 0.75, 1.0, 1.33
_PROMPTS, _OVERLAPS = 40, 0.25


class Turn(NamedTuple):
    """What one voice says, in samples."""

    start: int
    stop: int
    voice: str


def run(folder: Path) -> dict[str, Any]:
    voices = _voices(folder / "voices") if (folder / "voices").is_dir() else _made_voices(folder)
    names = sorted(voices)
    casts = {
        "one": [[name] for name in names],
        "two": [[first, second] for first, second in itertools.combinations(names, 2)][:8],
        "three": [names[start : start + 3] for start in range(len(names) - 2)] * (2 if len(names) == 3 else 1),
    }
    found: dict[str, Any] = {"voices": {name: len(prompts) for name, prompts in voices.items()}}
    cpu_s = seconds = 0.0
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for seed, (name, cast) in enumerate(((name, cast) for name, groups in casts.items() for cast in groups), 101):
        samples, turns = conversation({voice: voices[voice] for voice in cast}, seed)
        for kind, parts in (("truth", _segments(turns)), ("find_speech", _heard(samples))):
            rows = pa.table({"bytes": [_wav(samples)], "segments": [parts]})
            begin = time.process_time()
            answer = FindSpeakers().process(DocumentBatch(data=rows)).to_arrow().to_pylist()[0]
            cpu_s += time.process_time() - begin
            seconds += sum(part["end"] - part["start"] for part in parts)
            values, frames = scores(turns, answer["turns"], len(samples))
            found.setdefault(name, {}).setdefault(kind, []).append(values)
            if len(cast) > 1:
                counts[kind].update(frames)
    for name in casts:
        found[name] = {kind: _mean(values) for kind, values in found[name].items()}
    found["overlaps"] = {
        kind: {
            "recall": round(frames["both"] / frames["overlap"], 3),
            "precision": round(frames["both"] / max(frames["flagged"], 1), 3),
            "seconds": round(frames["overlap"] / FRAMES, 1),
        }
        for kind, frames in counts.items()
    }
    found["seconds_of_speech_per_cpu_s"] = round(seconds / cpu_s, 1)
    return found


def conversation(voices: dict[str, list[np.ndarray]], seed: int) -> tuple[np.ndarray, list[Turn]]:
    """Prompts of some voices one after the other, and who says what when."""
    draw = np.random.default_rng(seed)
    names, turns, behind = sorted(voices), [], RATE // 2
    sound, left = np.zeros(RATE * 16 * (_PROMPTS + 1), np.float32), list[int]()
    for _ in range(_PROMPTS):
        before = turns[-1] if turns else None
        others = [name for name in names if before is None or name != before.voice]
        changes = before is None or (others and draw.random() < 0.7)
        name = others[draw.integers(len(others))] if before is None or changes else before.voice
        left = left or draw.permutation(min(map(len, voices.values()))).tolist()
        prompt = voices[name][left.pop()]
        start = behind + int(draw.uniform(0.05, 0.9) * RATE)
        if before is not None and name != before.voice and draw.random() < _OVERLAPS:
            shared = min(int(draw.uniform(1, 3) * RATE), len(prompt) // 2, before.stop - before.start)
            start = max(before.stop - shared, 0)
        sound[start : start + len(prompt)] += prompt
        turns.append(Turn(start, start + len(prompt), name))
        behind = max(behind, start + len(prompt))
    return sound[: behind + RATE // 2], turns


def scores(
    turns: Sequence[Turn], answer: Sequence[dict[str, Any]], samples: int
) -> tuple[dict[str, float], dict[str, int]]:
    """What of an answer is right, and how many frames have an overlap, are flagged, or both."""
    count = samples * FRAMES // RATE + 1
    voices = sorted({turn.voice for turn in turns})
    speakers = sorted({turn["speaker"] for turn in answer})
    truth, heard = np.zeros((len(voices), count), np.bool_), np.zeros((len(speakers), count), np.bool_)
    flagged = np.zeros(count, np.bool_)
    for turn in turns:
        truth[voices.index(turn.voice), turn.start * FRAMES // RATE : turn.stop * FRAMES // RATE] = True
    for part in answer:
        frames = slice(round(part["start"] * FRAMES), round(part["end"] * FRAMES))
        heard[speakers.index(part["speaker"]), frames] = True
        flagged[frames] |= part["overlap"]
    together = truth.astype(np.int64) @ heard.T.astype(np.int64)
    matched = together[linear_sum_assignment(-together)].sum()
    spoken, answered = truth.sum(axis=0), heard.sum(axis=0)
    confusion, single = np.minimum(spoken, answered).sum() - matched, spoken == 1
    alone = (truth & single).astype(np.int64) @ heard.T.astype(np.int64)
    overlap, total = spoken > 1, spoken.sum()
    counts = {"overlap": overlap.sum(), "flagged": flagged.sum(), "both": (overlap & flagged).sum()}
    values = {
        "speakers": len(speakers),
        "of": len(voices),
        "der": (np.abs(spoken - answered).sum() + confusion) / total,
        "confusion": confusion / total,
        "purity": alone.max(axis=0).sum() / max(alone.sum(), 1),
        "overlap_recall": counts["both"] / max(counts["overlap"], 1),
        "overlap_precision": counts["both"] / max(counts["flagged"], 1),
        "flagged": flagged.mean(),
    }
    return values, {name: int(count) for name, count in counts.items()}


def _mean(values: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([value[name] for value in values])), 3) for name in values[0]}


def _voices(folder: Path) -> dict[str, list[np.ndarray]]:
    """The prompts of 2 to 12 s of each set, at 16 kHz and of one level, without the silence around them."""
    voices = {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(path for path in place.rglob("*") if path.suffix in (".wav", ".gsm"))
        prompts = [prompt for path in paths for prompt in _read(path)]
        voices[place.name.removeprefix("asterisk-")] = prompts[:60]
    return voices


def _made_voices(folder: Path) -> dict[str, list[np.ndarray]]:
    """The prompts of ``speech-*.tar`` at each of the speeds; a number is the same prompt in each."""
    prompts: dict[str, list[np.ndarray]] = {f"speed_{speed}": [] for speed in SPEEDS}
    for samples, rate in recordings(folder):
        made = [_prompt(samples, rate * speed) for speed in SPEEDS]
        if all(len(prompt) >= 2 * RATE for prompt in made):
            for voice, prompt in zip(prompts.values(), made, strict=True):
                voice.append(prompt)
    return prompts


def recordings(folder: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the samples of each recording in ``speech-*.tar``, in one channel, and their rate."""
    for path in sorted(folder.glob("speech-*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file and Path(member.name).suffix in (".wav", ".flac", ".mp3", ".ogg", ".opus"):
                    samples, rate = soundfile.read(io.BytesIO(file.read()), dtype="float32", always_2d=True)
                    yield samples.mean(axis=1), rate


def _read(path: Path) -> list[np.ndarray]:
    raw = {"format": "RAW", "subtype": "GSM610", "samplerate": 8000, "channels": 1} if path.suffix == ".gsm" else {}
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True, **raw)
    prompt = _prompt(samples.mean(axis=1), rate)
    return [prompt] if len(prompt) >= 2 * RATE and len(samples) <= 12 * rate else []


def _prompt(samples: np.ndarray, rate: float) -> np.ndarray:
    """A prompt at 16 kHz and a level that is the same for all, without the silence around it."""
    sound = soxr.resample(samples, rate, RATE)
    level = np.convolve(sound**2, np.ones(400) / 400, "same")
    loud = np.flatnonzero(level > level.max() * 1e-3)
    sound = sound[loud[0] : loud[-1] + 1]
    return (sound * (0.05 / np.sqrt(np.square(sound).mean()))).astype(np.float32)


def _segments(turns: Sequence[Turn]) -> list[dict[str, float]]:
    parts: list[dict[str, float]] = []
    for turn in sorted(turns):
        start, stop = turn.start / RATE, turn.stop / RATE
        if parts and start <= parts[-1]["end"] + 0.3:
            parts[-1]["end"] = max(parts[-1]["end"], stop)
        else:
            parts.append({"start": start, "end": stop})
    return parts


def _heard(samples: np.ndarray) -> list[dict[str, float]]:
    rows = DocumentBatch(data=pa.table({"bytes": [_wav(samples)]}))
    parts: list[dict[str, float]] = FindSpeech(min_duration_s=0.25).process(rows).to_arrow()["segments"][0].as_py()
    return parts


def _wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
    return file.getvalue()
