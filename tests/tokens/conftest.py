"""A small tokenizer, and documents for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dcurate.tokens import stored
from dcurate_testing.token_files import train_bpe

WORDS = ["the", "of", "and", "a", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "with", "his"]


def texts(count: int, seed: int = 0, most: int = 60) -> list[str]:
    """Documents of words, some with accents, of uneven lengths."""
    draw = random.Random(seed)
    return [" ".join(draw.choices([*WORDS, "café", "naïve"], k=1 + draw.randrange(most))) for _ in range(count)]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BPE of bytes with an EOS."""
    return train_bpe(Path(tmp_path_factory.mktemp("tokenizer")) / "tokenizer.json", texts(200))


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a few documents at a time."""
    monkeypatch.setattr(stored, "_READ", 90)
