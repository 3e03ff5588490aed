"""Windows in which two speakers speak at once: a rule for one recording, learned from mixtures of its own speakers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.audio.speaker_clusters import Floats
from dcurate.audio.voice_encoder import VoiceEncoder

#: Windows of a recording that are kept to be mixed, at most: 26 MB.
KEPT = 1_024
#: Mixtures of a recording, at least and at most, and how many windows of speech there are for each.
_LEAST, _MOST, _WINDOWS_EACH = 24, 192, 4
#: By how much the level of a mixed window is changed, in dB, at most.
_GAIN_DB = 6.0
#: Frames of the first speaker in a window where the speaker changes, at least and at most.
_CUT = 20, 140
#: The ridge, as a multiple of the mean variance; and the score from which on two speak, where mixtures have 1 on
#: average, and windows of one speaker -1.
_RIDGE, _SCORE = 3.0, 0.2
#: A speaker with less than this share of speech, whose windows mostly look like mixtures of others, is none.
_RARE, _MOSTLY = 1 / 8, 0.6

Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class KeptWindows:
    """Windows of a recording with their embeddings, evenly spread over it: all, or every second, fourth and so on.

    Args:
        most: windows that are kept at most.

    Examples:
        >>> kept = KeptWindows(most=3)
        >>> kept.add(np.zeros((7, 160, 40), np.float32), np.arange(7, dtype=np.float32)[:, None])
        >>> kept.embeddings[:, 0].tolist(), kept.heard
        ([0.0, 4.0], 7)
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most, self._step, self.heard = most, 1, 0
        self._held: list[tuple[Floats, Floats]] = []

    @property
    def embeddings(self) -> Doubles:
        """Those of the windows that are kept: shape (windows, size)."""
        return np.array([embedding for _, embedding in self._held], np.float64)

    def window(self, number: int) -> Floats:
        """Return a window that is kept: shape (frames, bands)."""
        return self._held[number][0]

    def add(self, windows: Floats, embeddings: Floats) -> None:
        """Take windows, in order: shape (windows, frames, bands), and their embeddings: shape (windows, size)."""
        for window, embedding in zip(windows, embeddings, strict=True):
            if self.heard % self._step == 0:
                self._held.append((window.copy(), embedding))
            if len(self._held) > self._most:
                self._held, self._step = self._held[::2], 2 * self._step
            self.heard += 1


class OverlapRule(NamedTuple):
    """A direction of embeddings that separates windows of two speakers from those of one.

    Args:
        direction: shape (size,).
        offset: the score of an embedding without a part in it.
    """

    direction: Doubles
    offset: float

    def flags(self, embeddings: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """Return whether two seem to speak, for each embedding: shape (embeddings, size)."""
        flags: npt.NDArray[np.bool_] = embeddings @ self.direction + self.offset >= _SCORE
        return flags


class OverlapExamples(NamedTuple):
    """Embeddings of windows of which it is known who speaks in them.

    Args:
        embeddings: shape (windows, size).
        speakers: the two speakers of each, the same one twice where it speaks alone: shape (windows, 2).
        mixed: whether they speak at once.
    """

    embeddings: Doubles
    speakers: Numbers
    mixed: npt.NDArray[np.bool_]

    def without(self, speaker: int) -> OverlapExamples:
        """Return the examples in which a speaker has no part."""
        kept = (self.speakers != speaker).all(axis=1)
        return OverlapExamples(self.embeddings[kept], self.speakers[kept], self.mixed[kept])

    def alone(self, speaker: int) -> Doubles:
        """Return the embeddings of windows in which only this speaker speaks."""
        alone: Doubles = self.embeddings[(self.speakers == speaker).all(axis=1)]
        return alone

    def rule(self) -> OverlapRule:
        """Return the rule by ridge regression; both kinds of examples have the same weight.

        Examples:
            >>> points = np.array([[1, 0], [0, 1], [0.7, 0.7], [0.6, 0.8]])
            >>> speakers, mixed = np.array([[0, 0], [1, 1], [0, 1], [0, 1]]), np.array([False, False, True, True])
            >>> OverlapExamples(points, speakers, mixed).rule().flags(points).tolist()
            [False, False, True, True]
        """
        weights = np.where(self.mixed, 0.5 / self.mixed.sum(), 0.5 / (~self.mixed).sum())
        centred = self.embeddings - weights @ self.embeddings
        weighted = centred * weights[:, None]
        spread = weighted.T @ centred
        ridge = _RIDGE * np.trace(spread) / len(spread)
        direction = np.linalg.solve(
            spread + (ridge + 1e-12) * np.eye(len(spread)), weighted.sum(axis=0, where=self.mixed[:, None])
        )
        scores = self.embeddings @ direction
        high, low = scores[self.mixed].mean(), scores[~self.mixed].mean()
        scale = 2 / max(high - low, 1e-12)
        return OverlapRule(direction * scale, float(1 - high * scale))


def overlap_rule(encoder: VoiceEncoder, kept: KeptWindows, voices: Doubles) -> tuple[OverlapRule | None, Doubles]:
    """Return what separates windows of two speakers from those of one, and the voices that are not themselves mixtures.

    Windows of two speakers are added up at several levels, as sound is, and go through the network: embeddings of
    these mixtures, and those of windows in which one speaks or the speaker changes, make the rule of this recording.
    There is none where there are fewer than two speakers.

    Args:
        encoder: the network.
        kept: windows of the recording.
        voices: mean embeddings of its speakers, of unit length: shape (speakers, size).
    """
    if len(voices) < 2:
        return None, voices
    examples = _examples(encoder, kept, voices)
    if examples is None:
        return None, voices
    counts = np.bincount((kept.embeddings @ voices.T).argmax(axis=1), minlength=len(voices))
    left = list(range(len(voices)))
    for speaker in np.argsort(counts, kind="stable").tolist():
        if len(left) < 3 or counts[speaker] >= _RARE * counts.sum():
            break
        others, alone = examples.without(speaker), examples.alone(speaker)
        if others.mixed.any() and len(alone) and others.rule().flags(alone).mean() > _MOSTLY:
            examples = others
            left.remove(speaker)
    return examples.rule(), voices[left]


def _examples(encoder: VoiceEncoder, kept: KeptWindows, voices: Doubles) -> OverlapExamples | None:
    """Examples of all speakers; None if only one has windows that are kept."""
    embeddings = kept.embeddings
    similar = embeddings @ voices.T
    speakers, nearness = similar.argmax(axis=1), similar.max(axis=1)
    alone = {}
    for speaker in range(len(voices)):
        numbers = np.flatnonzero(speakers == speaker)
        if len(numbers):
            alone[speaker] = numbers[nearness[numbers] >= np.median(nearness[numbers])]
    if len(alone) < 2:
        return None
    draw = np.random.default_rng(0)
    count = min(max(kept.heard // _WINDOWS_EACH, _LEAST), _MOST)
    windows, pairs = [], []
    for number in range(count + count // 2):
        pair = draw.choice(sorted(alone), 2, replace=False)
        first, second = (kept.window(draw.choice(alone[speaker])) for speaker in pair)
        if number < count:
            windows.append(first + np.float32(10 ** (draw.uniform(-_GAIN_DB, _GAIN_DB) / 10)) * second)
        else:
            cut = draw.integers(*_CUT)
            windows.append(np.concatenate([first[:cut], second[cut:]]))
        pairs.append(pair)
    made = encoder.embeddings(np.stack(windows))
    single = np.concatenate(list(alone.values()))
    return OverlapExamples(
        np.concatenate([made, embeddings[single]]),
        np.concatenate([pairs, np.stack([speakers[single]] * 2, axis=1)]),
        np.arange(len(made) + len(single)) < count,
    )
