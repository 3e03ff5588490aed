"""Build the documents that ``make demo`` curates: real public-domain and CC0 text, with noise planted in it.

``python -m benchmarks.make_sample --corpus DIR --output DIR`` reads ``*.jsonl.zst`` files of
``{"id", "url", "text", "source"}`` and writes ten small files and a README that says what is in them.
The same corpus and seed give the same files, byte for byte (compressed ones with the same zlib and zstd).
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import zstandard
from PIL import Image

SEED = 20261121

#: Documents to take of each source: 800 in all.
QUOTA = {
    "gutenberg": 270,
    "dc-law": 140,
    "digitalgov": 110,
    "peps": 100,
    "18f": 60,
    "eips": 50,
    "nltk-state_union": 40,
    "nltk-inaugural": 30,
}

LICENCES = {
    "gutenberg": ("books, from Project Gutenberg", "public domain in the USA"),
    "dc-law": ("Code of the District of Columbia", "government edict, public domain"),
    "digitalgov": ("digital.gov articles, US General Services Administration", "CC0 1.0"),
    "peps": ("Python Enhancement Proposals that say so of themselves", "public domain or CC0 1.0"),
    "18f": ("18F blog, US General Services Administration", "CC0 1.0"),
    "eips": ("Ethereum Improvement Proposals that say so of themselves", "CC0 1.0"),
    "nltk-state_union": ("State of the Union addresses", "US government work, public domain"),
    "nltk-inaugural": ("Inaugural addresses", "US government work, public domain"),
}

AUTHORS = (
    "Alcott",
    "Austen",
    "Barrie",
    "Baum",
    "Burnett",
    "Carroll",
    "Chekhov",
    "Chesterton",
    "Collins",
    "Darwin",
    "Defoe",
    "Dickens",
    "Doyle",
    "Franklin",
    "Gibbon",
    "Hawthorne",
    "Irving",
    "James",
    "Melville",
    "Montgomery",
    "Potter",
    "Russell",
    "Scott",
    "Shakespeare",
    "Stevenson",
    "Swift",
    "Thoreau",
    "Trollope",
    "Verne",
    "Wells",
    "Wharton",
    "Wilde",
    "Wodehouse",
)

#: Pieces with an address, a telephone number, a trademark or a slur are left out.
UNFIT = re.compile(
    r"[\w.+-]+(@| at )[\w-]+(\.| dot )\w|\(?\b\d{3}\)?[-. ]\d{3}[-. ]\d{4}\b|gutenberg|\bn.gg(er|a)", re.IGNORECASE
)

NAVIGATION = ["Home", "About us", "Products", "Sign in", "Register", "Search", "Menu", "Skip to main content"]
COOKIES = [
    "We use cookies to give you the best experience on our website.",
    "By continuing to use this site you agree to our cookie policy.",
    "Accept all cookies",
]
LEGAL = [
    "All rights reserved.",
    "Terms of use | Privacy policy | Contact",
    "Please read our terms of use and our privacy policy.",
    "Subscribe to our newsletter",
    "Share this on social media",
    "Enable JavaScript to view this page.",
]
BULLETS = "•‣●◦"


@dataclass(frozen=True)
class SampleRow:
    """One row to be: ``kind`` says what was done to it and is not written."""

    id: str
    url: str
    text: str | None
    source: str
    kind: str = "clean"


def read_corpus(folder: Path) -> list[SampleRow]:
    """The documents of the corpus that may be in the sample, in the order of their ids."""
    chosen = []
    for path in sorted(folder.glob("*.jsonl.zst")):
        with path.open("rb") as raw:
            stream = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(raw)
            for line in io.TextIOWrapper(stream, encoding="utf-8"):
                row = json.loads(line)
                document = SampleRow(row["id"], row["url"], row["text"], row["source"])
                if may_be_used(document):
                    chosen.append(document)
    return sorted(chosen, key=lambda document: document.id)


def may_be_used(document: SampleRow) -> bool:
    """Whether source and text say that the document is in the public domain or CC0."""
    text = document.text or ""
    if document.source == "gutenberg":
        return document.url.partition(":")[2].partition(":")[2].startswith(tuple(AUTHORS))
    if document.source == "peps":
        return "public domain" in text.lower()
    if document.source == "eips":
        return "CC0" in text
    return document.source in QUOTA


def cut(document: SampleRow, rng: random.Random) -> Iterator[SampleRow]:
    """The document in pieces of 1 to 12 kB that end where paragraphs end."""
    pieces: list[str] = [""]
    room = rng.lognormvariate(7.8, 0.6)
    for paragraph in (document.text or "").split("\n\n"):
        if pieces[-1] and len(pieces[-1]) + len(paragraph) > min(max(room, 1_000), 12_000):
            pieces.append("")
            room = rng.lognormvariate(7.8, 0.6)
        pieces[-1] += ("\n\n" if pieces[-1] else "") + paragraph.strip()
    for number, piece in enumerate(pieces):
        header = document.source == "peps" and number == 0
        if 600 <= len(piece) <= 12_000 and not header and not UNFIT.search(piece):
            yield replace(document, id=f"{document.id}.{number}", text=piece)


def choose(corpus: list[SampleRow], rng: random.Random) -> list[SampleRow]:
    """As many pieces of each source as its quota says, from as many documents as there are."""
    chosen = []
    for source, quota in QUOTA.items():
        documents = [document for document in corpus if document.source == source]
        rng.shuffle(documents)
        shelves = [list(cut(document, rng)) for document in documents[: 2 * quota]]
        pieces: list[SampleRow] = []
        while len(pieces) < quota and any(shelves):
            pieces.extend(shelf.pop(rng.randrange(len(shelf))) for shelf in shelves if shelf)
        chosen.extend(pieces[:quota])
    rng.shuffle(chosen)
    return chosen


# What is done to a text, one function a kind of noise.


def with_boilerplate(text: str, rng: random.Random) -> str:
    head = rng.sample(NAVIGATION, 5) + rng.sample(COOKIES, 2)
    return "\n".join([*head, "", text[: rng.choice([300, 1_500])], "", *rng.sample(LEGAL, 4), *rng.sample(COOKIES, 1)])


def with_repeated_lines(text: str, rng: random.Random) -> str:
    line = max(text.split("\n"), key=len)[:160]
    return "\n".join([text[:400], *[line] * rng.randint(15, 30)])


def with_repeated_paragraphs(text: str, rng: random.Random) -> str:
    return "\n\n".join([text[:500]] * rng.randint(5, 9))


def with_repeated_phrase(text: str, rng: random.Random) -> str:
    words = text.split()
    start = rng.randrange(max(1, len(words) - 20))
    return " ".join(words[:60] + words[start : start + 5] * rng.randint(25, 40))


def near_copy(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(words))
        words[place : place + 1] = rng.choice([[], [words[place], "also"], [words[place].upper()]])
    return " ".join(words)


def as_symbols(text: str, rng: random.Random) -> str:
    return " ".join(rng.choice(["#", "##", "###", "...", "|", "=>", "~~", word]) for word in text.split()[:300])


def as_bullets(text: str, rng: random.Random) -> str:
    bullet = rng.choice(BULLETS)
    words = text.split()[:240]
    return "\n".join(f"{bullet} {' '.join(words[i : i + 6])}" for i in range(0, len(words), 6))


def as_teasers(text: str, rng: random.Random) -> str:
    words = text.split()[:300]
    return "\n".join(" ".join(words[i : i + 12]) + rng.choice(["...", "…"]) for i in range(0, len(words), 12))


def as_numbers(text: str, rng: random.Random) -> str:
    return "\n".join(" ".join(str(rng.randrange(10_000)) for _ in range(10)) for _ in range(rng.randint(12, 40)))


def as_spaced(text: str, rng: random.Random) -> str:
    return " \t ".join(text[:800].replace(" ", ""))


def as_mojibake(text: str, rng: random.Random) -> str:
    curly = text.replace('"', "“").replace("'", "’").replace("--", "—")
    return curly.encode("utf-8").decode("cp1252", errors="replace")


def shortened(text: str, rng: random.Random) -> str:
    return " ".join(text.split()[: rng.randint(3, 25)])


def unchanged(text: str, rng: random.Random) -> str:
    return text


#: Kind of noise -> (how many documents, how, how the README describes it).
NOISE: dict[str, tuple[int, Callable[[str, random.Random], str], str]] = {
    "copy": (60, unchanged, "the text of another document, under another id, in another file"),
    "near": (50, near_copy, "another document with 1 to 4 words changed"),
    "boilerplate": (40, with_boilerplate, "navigation, cookie and terms-of-use lines around a text"),
    "lines": (30, with_repeated_lines, "one line 15 to 30 times"),
    "paragraphs": (15, with_repeated_paragraphs, "one paragraph 5 to 9 times"),
    "phrase": (15, with_repeated_phrase, "five words 25 to 40 times in a row"),
    "short": (25, shortened, "3 to 25 words"),
    "symbols": (15, as_symbols, "most words replaced by `#`, `...`, `|` and the like"),
    "bullets": (15, as_bullets, "nothing but bulleted lines"),
    "teasers": (15, as_teasers, "every line ends in an ellipsis"),
    "numbers": (12, as_numbers, "tables of numbers"),
    "spaced": (8, as_spaced, "white space between all characters"),
    "mojibake": (12, as_mojibake, "UTF-8 read as Windows-1252, with replacement characters"),
}


def make_noise(clean: list[SampleRow], rng: random.Random) -> list[SampleRow]:
    """New documents made of clean ones, under ids that say what was done."""
    noisy = []
    for kind, (count, spoil, _) in NOISE.items():
        for number, document in enumerate(rng.sample(clean, count)):
            text = spoil(document.text or "", rng)
            noisy.append(replace(document, id=f"{kind}-{number:03d}", text=text, kind=kind))
    return noisy


def spread(clean: list[SampleRow], noisy: list[SampleRow], rng: random.Random) -> list[list[SampleRow]]:
    """The documents in ten lists; a copy never stands in the list of what it was copied from."""
    files: list[list[SampleRow]] = [clean[number::10] for number in range(10)]
    home = {document.url + (document.text or ""): number for number, file in enumerate(files) for document in file}
    for document in noisy:
        number = rng.randrange(10)
        if home.get(document.url + (document.text or "")) == number:
            number = (number + 1) % 10
        files[number].append(document)
    files[2].append(SampleRow("empty-000", "", "", "none", "empty"))
    files[4].append(SampleRow("null-000", "", None, "none", "null"))
    files[5].append(SampleRow("blank-000", "", " \n\t\n ", "none", "white space only"))
    for file in files:
        rng.shuffle(file)
    return files


def rendered(document: SampleRow, file: int) -> bytes:
    """A line of the file: ``kilobytes`` is a float, but in file 9 an int; file 8 has no ``url``."""
    size = len((document.text or "").encode()) / 1_000
    row = {"id": document.id, "url": document.url, "text": document.text, "source": document.source}
    if file == 8:
        del row["url"]
    return json.dumps({**row, "kilobytes": round(size) if file == 9 else size}, ensure_ascii=False).encode() + b"\n"


def damaged(lines: list[bytes], file: int) -> list[bytes]:
    """The lines of file 1 with blank ones, of 3 with bytes that are not UTF-8, of 6 with one that breaks off."""
    if file == 1:
        return [lines[0], b"\n", *lines[1:20], b"\n", b"   \n", *lines[20:]]
    if file == 3:
        place = next(i for i, line in enumerate(lines) if i > 10 and len(line) > 1_500)
        lines[place] = lines[place][:600] + b"\xc3\x28\xff\xfe" + lines[place][600:]
    if file == 6:
        lines.insert(30, lines[7][: len(lines[7]) // 2] + b"\n")
    return lines


def write(files: list[list[SampleRow]], output: Path) -> int:
    """Write the ten files; returns their size before compression."""
    output.mkdir(parents=True, exist_ok=True)
    total = 0
    for number, documents in enumerate(files):
        content = b"".join(damaged([rendered(document, number) for document in documents], number))
        total += len(content)
        if number == 6:
            (output / f"part-0{number}.jsonl.gz").write_bytes(gzip.compress(content, mtime=0))
        elif number == 7:
            (output / f"part-0{number}.jsonl.zst").write_bytes(zstandard.ZstdCompressor(level=9).compress(content))
        else:
            (output / f"part-0{number}.jsonl").write_bytes(content)
    return total


def readme(files: list[list[SampleRow]], size: int) -> str:
    """The README of the sample."""
    documents = [document for file in files for document in file]
    of_source = Counter(document.source for document in documents)
    of_kind = Counter(document.kind for document in documents)
    sources = "\n".join(
        f"| `{source}` | {what} | {licence} | {of_source[source]} |" for source, (what, licence) in LICENCES.items()
    )
    noise = "\n".join(f"| `{kind}-NNN` | {of_kind[kind]} | {what} |" for kind, (_, _, what) in NOISE.items())
    return f"""# The sample that `make demo` curates

{len(documents)} documents in ten files, {size / 1e6:.1f} MB before compression.
Made by `benchmarks/make_sample.py` (seed {SEED}); do not edit by hand.
Columns: `id`, `url`, `text`, `source`, `kilobytes`.

## Sources

All text is in the public domain or CC0. Long texts are cut at paragraphs into documents of 0.6 to 12 kB.
Pieces with e-mail addresses or telephone numbers are left out.

| `source` | what | licence | documents |
|---|---|---|---|
{sources}

{of_kind["clean"]} documents are as their authors wrote them. The others are made of them, as noise.

## Noise

The id says how a document was changed.

| id | documents | what |
|---|---|---|
{noise}
| `empty-000` | 1 | the text is `""` (`part-02.jsonl`) |
| `null-000` | 1 | the text is `null` (`part-04.jsonl`) |
| `blank-000` | 1 | the text is white space (`part-05.jsonl`) |

## Files

| file | what is odd about it |
|---|---|
| `part-00.jsonl` | nothing |
| `part-01.jsonl` | three blank lines (2, 22 and 23) |
| `part-02.jsonl` | an empty text |
| `part-03.jsonl` | one line holds bytes that are not UTF-8 |
| `part-04.jsonl` | a null text |
| `part-05.jsonl` | a text of white space |
| `part-06.jsonl.gz` | gzip; line 31 is malformed: it breaks off in the middle of its object |
| `part-07.jsonl.zst` | zstd |
| `part-08.jsonl` | no column `url` |
| `part-09.jsonl` | `kilobytes` is an integer; elsewhere it is a float |
"""


def write_pictures(path: Path) -> None:
    """Write a shard of WebDataset: three pictures of coarse tiles with some noise, and their captions."""
    rng = random.Random(SEED)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
        for number in range(3):
            tiles = Image.frombytes("RGB", (8, 8), rng.randbytes(8 * 8 * 3)).resize(
                (256, 256), Image.Resampling.NEAREST
            )
            noise = Image.frombytes("RGB", tiles.size, rng.randbytes(256 * 256 * 3))
            picture = io.BytesIO()
            Image.blend(tiles, noise, 0.1).save(picture, "JPEG", quality=75)
            members = {"jpg": picture.getvalue(), "txt": b"A red wall behind a garden with many small trees"}
            for suffix, data in members.items():
                member = tarfile.TarInfo(f"{number:03}.{suffix}")
                member.size = len(data)
                shard.addfile(member, io.BytesIO(data))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the sample that make demo curates.")
    parser.add_argument("--corpus", type=Path, help="folder of .jsonl.zst files")
    parser.add_argument("--output", type=Path, help="folder to write to")
    parser.add_argument("--pictures", type=Path, help="write the sample of pictures to this shard, and nothing else")
    options = parser.parse_args()
    if options.pictures:
        write_pictures(options.pictures)
        return
    if not (options.corpus and options.output):
        parser.error("give --corpus and --output, or --pictures")
    rng = random.Random(SEED)
    clean = choose(read_corpus(options.corpus), rng)
    files = spread(clean, make_noise(clean, rng), rng)
    size = write(files, options.output)
    (options.output / "README.md").write_text(readme(files, size), encoding="utf-8")
    print(f"{sum(map(len, files))} documents, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
