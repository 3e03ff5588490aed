"""Makes any amount of text with known duplicates from real documents, the same for the same seed.

``python -m benchmarks.near_duplicates_data --input DIR --output DIR [--times 4] [--seed 0]``. See README.md here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.measure import MB, called
from benchmarks.rows import all_rows
from dcurate.io.files import JSONL, list_files

#: Of 100 documents, so many are byte for byte an earlier one, and so many an edit of an earlier one.
COPIES, EDITS = 20, 15

#: Jaccard similarity of an edit to what it was made of, in sets of shingles of five words: drawn evenly from here.
SIMILARITIES = (0.7, 0.95)

#: Words in a shingle, of which an edited word spoils as many.
_SHINGLE = 5

Generator = np.random.Generator
Words = list[str]


@dataclass(frozen=True)
class Made:
    """How a document was made.

    Attributes:
        kind: ``unique``, ``copy``, or the name of an edit.
        parent: number of the earlier document that it was made of; its own if unique.
    """

    kind: str
    parent: int


class Corpus:
    """An endless sequence of documents, made of real ones; its beginning does not depend on how far it is read.

    65 % of the documents are unique: the words of a real document in random order, so that no two share shingles. 20 %
    are exact copies and 15 % edits of an earlier document of the sequence, any with the same chance, so that the sizes
    of groups follow a power law (Simon, 1955), and edits of edits make chains. Very short documents may come out less
    similar or more similar than was drawn.

    Args:
        documents: the real ones, with a ``text`` of which the words are taken; other fields are passed on.
        seed: another seed, other documents.

    Examples:
        >>> corpus = Corpus([{"text": "one two three"}], seed=1)
        >>> sorted(corpus.document(0)["text"].split())
        ['one', 'three', 'two']
    """

    def __init__(self, documents: Sequence[dict[str, Any]], seed: int = 0) -> None:
        self._documents = documents
        once: dict[str, str] = {}  # the same word is one object, or 100 MB of text would take 2 GB
        self._words = [[once.setdefault(word, word) for word in document["text"].split(" ")] for document in documents]
        self._seed = seed

    def __len__(self) -> int:
        return len(self._documents)

    def _generator(self, number: int) -> Generator:
        return np.random.default_rng((self._seed, number))

    def made(self, number: int) -> Made:
        """How the document of this number is made."""
        draw = self._generator(number)
        percent, parent = draw.integers(100), draw.random()
        if number == 0 or percent >= COPIES + EDITS:
            return Made("unique", number)
        kind = "copy" if percent < COPIES else list(_EDITS)[percent % len(_EDITS)]
        return Made(kind, int(parent * number))

    def words(self, number: int) -> Words:
        """The words of the document of this number."""
        made = self.made(number)
        draw = self._generator(number)
        draw.random(2)  # those that `made` took
        if made.kind == "unique":
            words = self._words[number % len(self._words)]
            return [words[place] for place in draw.permutation(len(words)).tolist()]
        words = self.words(made.parent)
        if made.kind == "copy":
            return words
        other = self._words[int(draw.integers(len(self._words)))]
        return _EDITS[made.kind](words, draw.uniform(*SIMILARITIES), other, draw)

    def document(self, number: int) -> dict[str, Any]:
        """The document of this number, with the fields ``made`` and ``parent`` that say how it was made."""
        made = self.made(number)
        return {
            **self._documents[number % len(self._documents)],
            "id": f"made-{number}",
            "text": " ".join(self.words(number)),
            "made": made.kind,
            "parent": made.parent,
        }


# Edits: words, the similarity that is to be left, words of another document, a generator of random numbers


def _substituted(words: Words, similarity: float, other: Words, draw: Generator) -> Words:
    """Some words, here and there, changed for others."""
    spoilt = (1 - similarity) / (1 + similarity)  # of the shingles, those of each side that are missing in the other
    count = min(len(words), max(1, round(len(words) * (1 - (1 - spoilt) ** (1 / _SHINGLE)))))
    edited = list(words)
    for place, new in zip(draw.permutation(len(words))[:count], draw.integers(len(other), size=count), strict=True):
        edited[place] = other[new]
    return edited


def _beheaded(words: Words, similarity: float, other: Words, draw: Generator) -> Words:
    """The beginning left out."""
    return words[round((1 - similarity) * len(words)) :]


def _cut_short(words: Words, similarity: float, other: Words, draw: Generator) -> Words:
    """The end left out."""
    return words[: round(similarity * len(words))]


def _inserted(words: Words, similarity: float, other: Words, draw: Generator) -> Words:
    """A paragraph put in between."""
    place = int(draw.integers(len(words) + 1))
    wanted = round((1 / similarity - 1) * len(words))
    paragraph = [other[int(at)] for at in draw.integers(len(other), size=wanted)]
    return [*words[:place], *paragraph, *words[place:]]


_EDITS: dict[str, Callable[[Words, float, Words, Generator], Words]] = {
    "substituted": _substituted,
    "beheaded": _beheaded,
    "cut_short": _cut_short,
    "inserted": _inserted,
}


# Files


def corpus_of(source: str | list[str], seed: int = 0) -> Corpus:
    """The sequence that is made of the documents of JSONL files, plain or compressed."""
    documents = [row for file in list_files(source, JSONL, {}) for row in all_rows(Path(file.path))]
    with_words = [row for row in documents if isinstance(row.get("text"), str) and row["text"].strip()]
    if not with_words:
        raise SystemExit(f"{source}: none of {len(documents):,} rows has a column 'text' with words")
    return Corpus(with_words, seed)


def write(corpus: Corpus, times: float, folder: Path, a_file: int = 4000) -> float:
    """Write so many times as many documents as the corpus was made of; how many MB of JSONL they are.

    Args:
        a_file: documents in one file.
    """
    folder.mkdir(parents=True)
    documents: Iterator[dict[str, Any]] = map(corpus.document, range(round(times * len(corpus))))
    mb = 0.0
    number = 0
    while some := b"".join(orjson.dumps(document) + b"\n" for document in islice(documents, a_file)):
        (folder / f"{number:05}.jsonl").write_bytes(some)
        number, mb = number + 1, mb + len(some) / MB
    return mb


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.near_duplicates_data", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--input", required=True, nargs="+", metavar="PATH", help="JSONL, plain or compressed")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="is made; must not be there")
    parser.add_argument("--times", type=float, default=4, help="as many documents as this times those of the input")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    mb = write(corpus_of(options.input, options.seed), options.times, options.output)
    print(f"{mb:,.1f} MB in {options.output}")


if __name__ == "__main__":
    called(main)
