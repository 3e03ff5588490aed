"""Build the profiles of languages that `dcurate.text.declaration` reads, from translations of the declaration.

    python -m benchmarks.make_languages --input udhr2.jsonl.zst --output dcurate/bundled/languages.npz

The input is JSONL with ``text`` and ``lang``, a code perhaps with ``_`` and a variant; the text is in the public
domain. The beginning of each translation (``--spare`` characters) is not learned from, so that it can test what was
learned. The same input gives the same profiles.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.langid import shortest
from benchmarks.measure import called
from benchmarks.rows import read_rows
from dcurate.text.declaration import FLOOR, LONGEST, Declaration, spelt
from dcurate.text.identifier import LABELS

#: Sequences of a translation that are kept, the most frequent.
MOST = 1500


def code_of(label: str) -> str:
    """The code that `Identifier` gives for a label of the input, or '' if that is none."""
    code = shortest(label)
    return {"fil": "tl", **LABELS}.get(code, code) if code.isalpha() else ""


def frequencies(text: str) -> dict[str, float]:
    """The most frequent sequences, and the logarithm of how frequent each is among those of its length."""
    text = spelt(text)
    counts = Counter(text[at : at + length] for length in range(1, LONGEST + 1) for at in range(len(text) - length + 1))
    return {sequence: float(np.log(count / (len(text) - len(sequence) + 1))) for sequence, count in _most(counts)}


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST]


def arrays(languages: Sequence[str], learned: Sequence[Mapping[str, float]]) -> dict[str, npt.NDArray[Any]]:
    """What the file holds, but for the usual score of a profile's own text."""
    entries = sorted(
        (sequence, place, value) for place, found in enumerate(learned) for sequence, value in found.items()
    )
    sizes = Counter(sequence for sequence, _, _ in entries)
    values = np.array([value for _, _, value in entries])
    return {
        "languages": _bytes(" ".join(languages)),
        "sequences": _bytes("\n".join(sizes)),
        "sizes": np.array(list(sizes.values()), np.uint16),
        "profile": np.array([place for _, place, _ in entries], np.uint16),
        "weight": np.rint(np.maximum(values - FLOOR, 0) * (255 / -FLOOR)).astype(np.uint8),
        "usual": np.ones(len(languages), np.float32),
    }


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSONL with text and lang, compressed or not")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("--spare", type=int, default=1500, help="characters at the beginning that are left out")
    given = parser.parse_args()
    rows = read_rows(given.input, {"text": str, "lang": str}).rows
    known = [(code, row["text"][given.spare :]) for row in rows if (code := code_of(row["lang"]))]
    made = arrays([code for code, _ in known], [frequencies(text) for _, text in known])
    np.savez_compressed(given.output, allow_pickle=False, **made)
    declaration = Declaration(given.output)
    made["usual"] = np.array([declaration.scores(text)[place] for place, (_, text) in enumerate(known)], np.float32)
    np.savez_compressed(given.output, allow_pickle=False, **made)
    size = given.output.stat().st_size
    print(f"{len(declaration.languages)} languages, {len(made['sizes']):,} sequences, {size:,} bytes")


if __name__ == "__main__":
    called(main)
