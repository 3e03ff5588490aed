"""ARPA files of n-grams that texts hold, with drawn probabilities: what matters is that two readers agree on them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path


def write_arpa(texts: Iterable[str], path: Path, order: int, seed: int = 1, least: int = 1) -> Path:
    """Write a model whose n-grams of two and more words occur at least that often; their first words are there, too."""
    draw = random.Random(seed)
    counts: list[dict[tuple[str, ...], int]] = [{} for _ in range(order)]
    for text in texts:
        for line in text.split("\n"):
            words = ["<s>", *line.split(), "</s>"]
            for size in range(1, order + 1):
                for start in range(len(words) - size + 1):
                    ngram = tuple(words[start : start + size])
                    counts[size - 1][ngram] = counts[size - 1].get(ngram, 0) + 1
    kept = [
        {ngram for ngram, count in found.items() if size == 0 or count >= least} for size, found in enumerate(counts)
    ]
    for size in range(order - 1, 1, -1):
        kept[size - 1] |= {ngram[:-1] for ngram in kept[size]}
    kept[0].add(("<unk>",))
    with path.open("w", encoding="utf-8") as file:
        file.write("\\data\\\n" + "".join(f"ngram {size}={len(found)}\n" for size, found in enumerate(kept, 1)))
        for size, found in enumerate(kept, 1):
            file.write(f"\n\\{size}-grams:\n")
            for ngram in sorted(found):
                backoff = f"\t{-2 * draw.random():.7g}" if size < order and draw.random() < 0.7 else ""
                file.write(f"{-6 * draw.random():.7g}\t{' '.join(ngram)}{backoff}\n")
        file.write("\n\\end\\\n")
    return path
