"""Speakers: `FindSpeakers` on conversations of real voices, and on 24 hours. Part ``speakers`` of ``benchmarks.audio``.

Conversations are made of prompts of eight sets, each read by one person (two of the sets by the same one, in two
languages): Debian's ``asterisk-core-sounds-{en,es,fr,it,ru}-wav``, ``asterisk-prompt-es-co``,
``asterisk-prompt-fr-armelle`` and ``asterisk-prompt-it-menardi-wav``, unpacked into ``voices/PACKAGE`` in the folder;
``voices`` says how many are there. Each has 40 prompts of equal level by some of them; a quarter of the changes of
speaker overlap by 1 to 3 s. All are of telephone quality, and each set has its own studio, so that they are told apart
more easily than people in one room. The default similarity of `FindSpeakers` was chosen on other conversations of the
same sets (of another script, and with other seeds), so that these figures are not those of unknown voices.

``der`` is the diarisation error rate without a collar, overlaps included: speech that is missed (of overlaps always the
second voice), sound that is none, and speech of another speaker (``confusion``), by the seconds of speech.
``purity`` is the part of the time with one voice whose speaker is, most of the time, that voice. ``overlap_recall`` and
``overlap_precision`` are of frames of 10 ms. Segments are those of the truth, or of `FindSpeech`.

``long`` is a recording of 24 hours, such a conversation again and again, of which every twelfth is given as speech, to
save time, in a process of its own: an hour of speech more is 9,000 embeddings of 512 bytes, 4.6 MB. ``peak_rss_mb`` is
the most memory it held, with Python, Torch and all libraries; ``started_mb`` that before the first sample.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import soundfile
import soxr
from scipy.optimize import linear_sum_assignment

from benchmarks.measure import job, measure, peak_mb
from dcurate import DocumentBatch
from dcurate.audio import FindSpeakers, FindSpeech
from dcurate.media.refs import Ref, ref_array

RATE, FRAMES, HOURS = 16_000, 100, 24
#: Conversations of the long recording of which one is speech.
EVERY = 12
_PROMPTS, _OVERLAPS = 40, 0.25


class Turn(NamedTuple):
    """What one voice says, in samples."""

    start: int
    stop: int
    voice: str


def run(folder: Path) -> dict[str, Any]:
    voices = _voices(folder / "voices")
    english, mexican, french, italian, russian, *others = voices
    casts = {
        "one": [[name] for name in voices],
        "two": [[english, italian], [russian, french], others[:2], others[1:]],
        "three": [others, [english, italian, russian]],
        "two_of_one_person": [[english, mexican]],
        "all_eight": [list(voices)],
    }
    found: dict[str, Any] = {"voices": {name: len(prompts) for name, prompts in voices.items()}}
    cpu_s = seconds = 0.0
    for name, groups in casts.items():
        by_vad: dict[str, list[dict[str, float]]] = defaultdict(list)
        for seed, cast in enumerate(groups, 101):
            samples, turns = conversation({voice: voices[voice] for voice in cast}, seed)
            for kind, parts in (("truth", _segments(turns)), ("find_speech", _heard(samples))):
                rows = pa.table({"bytes": [_wav(samples)], "segments": [parts]})
                begin = time.process_time()
                answer = FindSpeakers().process(DocumentBatch(data=rows)).to_arrow().to_pylist()[0]
                cpu_s += time.process_time() - begin
                seconds += sum(part["end"] - part["start"] for part in parts)
                by_vad[kind].append(scores(turns, answer["turns"], len(samples)))
        found[name] = {kind: _mean(values) for kind, values in by_vad.items()}
    found["seconds_of_speech_per_cpu_s"] = round(seconds / cpu_s, 1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "long.flac"
        samples, turns = conversation(voices, 1)
        speech = Path(place) / "speech.json"
        speech.write_text(json.dumps(_write(path, samples)))
        hear = job(f"{__name__}:long", path=str(path), speech=str(speech))
        found["long"] = {"hours": HOURS, **measure(hear).result}
    return found


def conversation(voices: dict[str, list[np.ndarray]], seed: int) -> tuple[np.ndarray, list[Turn]]:
    """Prompts of some voices one after the other, and who says what when."""
    draw = np.random.default_rng(seed)
    names, turns, behind = sorted(voices), [], RATE // 2
    sound = np.zeros(RATE * 12 * (_PROMPTS + 1), np.float32)
    for _ in range(_PROMPTS):
        before = turns[-1] if turns else None
        others = [name for name in names if before is None or name != before.voice]
        changes = before is None or (others and draw.random() < 0.7)
        name = others[draw.integers(len(others))] if before is None or changes else before.voice
        prompt = voices[name][draw.integers(len(voices[name]))]
        start = behind + int(draw.uniform(0.05, 0.9) * RATE)
        if before is not None and name != before.voice and draw.random() < _OVERLAPS:
            shared = min(int(draw.uniform(1, 3) * RATE), len(prompt) // 2, before.stop - before.start)
            start = max(before.stop - shared, 0)
        sound[start : start + len(prompt)] += prompt
        turns.append(Turn(start, start + len(prompt), name))
        behind = max(behind, start + len(prompt))
    return sound[: behind + RATE // 2], turns


def scores(turns: Sequence[Turn], answer: Sequence[dict[str, Any]], samples: int) -> dict[str, float]:
    """What of an answer is right."""
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
    return {
        "speakers": len(speakers),
        "of": len(voices),
        "der": (np.abs(spoken - answered).sum() + confusion) / total,
        "confusion": confusion / total,
        "purity": alone.max(axis=0).sum() / max(alone.sum(), 1),
        "overlap_recall": (overlap & flagged).sum() / max(overlap.sum(), 1),
        "overlap_precision": (overlap & flagged).sum() / max(flagged.sum(), 1),
        "flagged": flagged.mean(),
    }


def _mean(values: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([value[name] for value in values])), 3) for name in values[0]}


def _voices(folder: Path) -> dict[str, list[np.ndarray]]:
    """The prompts of 2 to 12 s of each set, at 16 kHz and of one level, without the silence around them."""
    voices = {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(path for path in place.rglob("*") if path.suffix in (".wav", ".gsm"))
        prompts = [prompt for path in paths for prompt in _prompt(path)]
        voices[place.name.removeprefix("asterisk-")] = prompts[:60]
    return voices


def _prompt(path: Path) -> list[np.ndarray]:
    raw = {"format": "RAW", "subtype": "GSM610", "samplerate": 8000, "channels": 1} if path.suffix == ".gsm" else {}
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True, **raw)
    if not 2 * rate <= len(samples) <= 12 * rate:
        return []
    sound = soxr.resample(samples.mean(axis=1), rate, RATE)
    level = np.convolve(sound**2, np.ones(400) / 400, "same")
    loud = np.flatnonzero(level > level.max() * 1e-3)
    sound = sound[loud[0] : loud[-1] + 1]
    return [(sound * (0.05 / np.sqrt(np.square(sound).mean()))).astype(np.float32)] if len(sound) >= 2 * RATE else []


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


def _write(path: Path, samples: np.ndarray) -> list[dict[str, float]]:
    """Write the long recording, and return its segments of speech."""
    once, parts, place = np.round(samples * 32_767).clip(-32_768, 32_767).astype(np.int16), _heard(samples), 0
    segments = []
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16", format="FLAC") as file:
        while place < HOURS * 3600 * RATE:
            if place // len(once) % EVERY == 0:
                segments += [{name: value + place / RATE for name, value in part.items()} for part in parts]
            file.write(once)
            place += len(once)
    return segments


def long(path: str, speech: str) -> dict[str, float]:
    """Hear a long recording in this process; its segments of speech are in a file."""
    segments = json.loads(Path(speech).read_text())
    stage = FindSpeakers()
    stage.setup()
    started, begin = peak_mb(), time.process_time()
    rows = pa.table({"media_ref": ref_array([Ref(path)]), "segments": [segments]})
    answer = stage.process(DocumentBatch(data=rows)).to_arrow().to_pylist()[0]
    spoken_s = sum(part["end"] - part["start"] for part in segments)
    return {
        "hours_of_speech": round(spoken_s / 3600, 2),
        "turns": len(answer["turns"]),
        "speakers": answer["speakers"],
        "started_mb": round(started, 1),
        "peak_rss_mb": round(peak_mb(), 1),
        "seconds_of_speech_per_cpu_s": round(spoken_s / (time.process_time() - begin), 1),
    }
