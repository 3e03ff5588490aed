"""Make labels of people from a corpus: passages of books, labelled with what a library says about them.

``python -m benchmarks.make_labels CORPUS LABELS TEST``; CORPUS holds ``*.jsonl.zst`` with text, url and source.
``--task author``: the author of a book of Project Gutenberg, among those with the most books. No book is in both files.
``--task source``: ``prose`` that was published as a book or article, or ``other``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

#: Characters of a passage.
CHARS = {"author": 600, "source": 2000}
AUTHORS, OF_BOOK = 12, 40


def rows(corpus: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(corpus.glob("*.jsonl.zst")):
        with path.open("rb") as file:
            stream = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(file)
            yield from map(json.loads, io.TextIOWrapper(stream, encoding="utf-8"))


def passages(text: str, chars: int) -> Iterator[str]:
    words = re.sub(r"\s+", " ", text)
    for start in range(0, len(words) - chars + 1, chars):
        yield words[start : start + chars]


def of_authors(corpus: Path) -> Iterator[tuple[str, str, str]]:
    """Book, label, text."""
    books = [
        (*match.groups(), row["text"])
        for row in rows(corpus)
        if row["source"] == "gutenberg" and (match := re.search(r"Gutenberg_Text:([^/]+)/([^#]+)", row["url"]))
    ]
    most = Counter(author for author, _ in {(author, book) for author, book, _ in books}).most_common(AUTHORS)
    wanted = {author for author, _ in most}
    seen: Counter[str] = Counter()
    for author, book, text in books:
        for passage in passages(text, CHARS["author"]) if author in wanted else ():
            if seen[book] < OF_BOOK:
                seen[book] += 1
                yield book, author, passage


def of_sources(corpus: Path) -> Iterator[tuple[str, str, str]]:
    prose = {"gutenberg", "openstax-us-history", "wikitext-2", "rust-blog", "opensource-guide"}
    for row in rows(corpus):
        for passage in passages(row["text"], CHARS["source"]):
            yield re.sub("#.*", "", row["url"]), "prose" if row["source"] in prose else "other", passage


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--task", choices=sorted(CHARS), default="author")
    parser.add_argument("--most", type=int, default=10**9, help="documents of both files")
    options = parser.parse_args()
    made = list((of_authors if options.task == "author" else of_sources)(options.corpus))
    random.Random(0).shuffle(made)
    with options.labels.open("w") as labels, options.test.open("w") as test:
        for number, (book, label, text) in enumerate(made):
            if number == options.most:
                break
            kept_back = hashlib.sha256(book.encode()).digest()[0] < 64
            row = {"id": number, "url": f"https://{hashlib.sha256(book.encode()).hexdigest()[:12]}.example/"}
            print(json.dumps({**row, "text": text, "label": label}), file=test if kept_back else labels)


if __name__ == "__main__":
    main()
