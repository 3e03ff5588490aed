"""A chain of runs from a web archive to tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcurate import (
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    ScoreFilter,
    TokenWriter,
    WarcReader,
)
from dcurate.core.stage import Stage
from dcurate.text import HtmlExtractor, WordCountFilter
from dcurate_testing.token_files import train_bpe
from tests.archives import PACK, page, warc_record

#: A terminal in which addresses are not broken.
WIDE = {"COLUMNS": "300"}
WORDS = ["river", "stone", "bread", "lamp", "cloud", "paper", "tree", "glass", "road", "bell"]


def body(number: int) -> str:
    """The text of a page; every fifth is short, and those of 19 and 39 are the same."""
    count = 3 if number % 5 == 0 else 12 + number % 4
    first = 18 if number % 20 == 19 else number
    return " ".join(WORDS[(first * 3 + place * (1 + first % 3)) % len(WORDS)] + str(first) for place in range(count))


def write_archives(folder: Path, archives: int = 2, pages: int = 20) -> None:
    """Write archives with a member for each page."""
    folder.mkdir()
    for archive in range(archives):
        numbers = range(archive * pages, (archive + 1) * pages)
        records = [
            warc_record(page(f"<html><body><p>{body(number)}</p></body></html>"), f"http://example.org/{number}")
            for number in numbers
        ]
        (folder / f"crawl-{archive}.warc.gz").write_bytes(b"".join(map(PACK["gzip"], records)))


def run(name: str, *stages: Stage, resume: bool = False) -> None:
    Pipeline(name, stages=list(stages)).run(InlineExecutor(), observers=[], resume=resume)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``crawl``, ``pages``, ``filtered``, ``unique`` and ``tokens``, each made of the one before."""
    folder = tmp_path_factory.mktemp("chain")
    write_archives(folder / "crawl")
    tokenizer = train_bpe(folder / "tokenizer.json", list(map(body, range(40))))
    run(
        "extract",
        WarcReader(str(folder / "crawl")),
        HtmlExtractor("resiliparse"),
        JsonlWriter(str(folder / "pages")),
    )
    words = ScoreFilter(WordCountFilter(min_words=5))
    run("filter", JsonlReader(str(folder / "pages")), words, JsonlWriter(str(folder / "filtered")))
    unique = ExactDuplicates(id_field="url")
    run("dedup", JsonlReader(str(folder / "filtered")), unique, JsonlWriter(str(folder / "unique")))
    run("tokens", JsonlReader(str(folder / "unique")), TokenWriter(str(folder / "tokens"), tokenizer, shard_tokens=900))
    return folder
