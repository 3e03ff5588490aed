"""The samples that ``dcurate sample`` writes: files by name, some made from what is bundled."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dcurate.fs.compression import unpack
from dcurate.recipe import BUNDLED, SAMPLE, SAMPLE_FILES, SAMPLE_FILMS, SAMPLE_PICTURES, SAMPLE_RECORDINGS

_NAV = "<nav><a href='/'>Home</a> <a href='/about'>About us</a></nav>"
_PACKAGE = BUNDLED.parent


class SampleSet(NamedTuple):
    """A sample.

    Attributes:
        option: help of the option that chooses it.
        files: function that returns its files, by name.
        about: what is written, and under which licence.
    """

    option: str
    files: Callable[[], dict[str, bytes]]
    about: str


def _documents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(SAMPLE.glob("part-*"))}


def _folder(folder: Path) -> Callable[[], dict[str, bytes]]:
    return lambda: {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def small_sample() -> dict[str, bytes]:
    r"""Return the content of the files of a small sample, by name: in each of three files the same ten texts.

    Examples:
        >>> {name: content.count(b"\n") for name, content in small_sample().items()}
        {'part-0.jsonl': 10, 'part-1.jsonl': 10, 'part-2.jsonl': 10}
    """
    return {
        f"part-{file}.jsonl": _jsonl(
            {
                "id": f"{file}-{row}",
                "url": f"https://example.org/{file}/{row}",
                "text": f"The text of {row}. " * 10 * row,
            }
            for row in range(10)
        )
        for file in range(3)
    }


def crawl() -> dict[str, bytes]:
    """Return three WARC files of the documents of ``part-00`` to ``part-02`` as web pages; the last is cut off."""
    files = {}
    for number in range(3):
        records = [
            _record(f"http://example.org/{row['id']}", _page(f"{row['text']} Questions go to jo@example.org."))
            for row in _rows(f"part-0{number}.jsonl")
        ]
        files[f"part-{number}.warc.gz"] = b"".join(records)
    files["part-2.warc.gz"] = files["part-2.warc.gz"][:-40]
    return files


def mathematics() -> dict[str, bytes]:
    """Return a WARC file of eight pages with formulas, each twice, among pages of laws and other prose."""
    pages = [(path.stem, path.read_text("utf-8")) for path in sorted((BUNDLED / "mathematics").glob("*.html"))]
    prose = [(row["id"], _page(row["text"] or "")) for row in _rows("part-03.jsonl")]
    places = [("http://example.org/", pages), ("http://mirror.example.org/", pages), ("http://example.org/", prose)]
    records = [_record(place + name, page) for place, named in places for name, page in named]
    return {"pages.warc.gz": b"".join(records)}


def chat() -> dict[str, bytes]:
    """Return conversations of two and four turns about sections of a code of law, among them some of no use.

    They are of the form of OpenAI's: ``messages`` is a list of ``role`` and ``content``.
    """
    rows: list[dict[str, Any]] = []
    for number, (section, title, law) in enumerate(_laws()):
        answer = law
        if number % 10 == 3:
            answer = "As an AI language model, I cannot answer questions about the law."
        elif number % 10 == 6:
            answer = ""
        elif number % 10 == 8:
            answer = f"{law} You can write to clerk.{number}@example.org."
        question = f"What does section {section} of the Code of the District of Columbia say about {title.lower()}?"
        turns = [("user", question), ("assistant", answer)]
        if number % 4 == 1:
            turns += [("user", "And which section is that?"), ("assistant", f"Section {section}, {title}.")]
        if number % 10 == 9:
            turns = turns[1:]  # it begins with the answer
        messages = [{"role": role, "content": content} for role, content in turns]
        rows.append({"id": f"chat-{number}", "source": "laws", "messages": messages})
    again = [{**row, "id": f"{row['id']}-again"} for row in rows[::7]]
    return {"chat.jsonl": _jsonl([*rows, *again])}


def code() -> dict[str, bytes]:
    """Return the source files of dcurate itself, some of them twice, beside files that are not worth training on."""
    rows = [
        {"path": f"dcurate/{path.relative_to(_PACKAGE)}", "license": "Apache-2.0", "text": path.read_text("utf-8")}
        for folder in ("core", "fs", "plan", "text")
        for path in sorted((_PACKAGE / folder).rglob("*.py"))
    ]
    copies = [{**row, "path": f"fork/{row['path']}"} for row in rows[::6]]
    near = [
        {**row, "path": f"old/{row['path']}", "text": row["text"].replace("return", "return ", 1)} for row in rows[3::6]
    ]
    table = (
        "DATA = [\n" + "".join(f"    {number * 37 % 1000}, {number * 91 % 1000},\n" for number in range(4000)) + "]\n"
    )
    odd = [
        {"path": "data/table.py", "license": "MIT", "text": table},
        {
            "path": "proto/api_pb2.py",
            "license": "MIT",
            "text": "# Generated by the protocol buffer compiler. DO NOT EDIT!\nX = 1\n" * 20,
        },
        {"path": "app/settings.py", "license": "MIT", "text": _SETTINGS},
        {"path": "secret/tool.py", "license": "proprietary", "text": rows[1]["text"].replace("the", "our")},
        {"path": "broken/half.py", "license": "MIT", "text": 'def half(:\n    """Docs."""\n' * 10},
    ]
    return {"code.jsonl": _jsonl([*rows, *copies, *near, *odd])}


_SETTINGS = '''"""Settings of the application."""

HOST = "10.0.0.7"
PUBLIC_HOST = "93.184.216.34"
ADMIN = "jo.doe@example.org"


def address(port):
    # where the service listens
    return f"{PUBLIC_HOST}:{port}"
'''


def pdfs() -> dict[str, bytes]:
    """Return PDFs as a crawl brings them: whole, twice, cut off, empty, or a page of an error."""
    [sample] = [path.read_bytes() for path in SAMPLE_FILES.glob("*.pdf")]
    return {
        "novel.pdf": sample,
        "copy.pdf": sample,
        "second.pdf": sample.replace(b"Chapter 1", b"Chapter 2"),
        "cut.pdf": sample[:-300].replace(b"Chapter 1", b"Chapter 3"),
        "stub.pdf": sample[:100],
        "error.pdf": b"<html><h1>404 Not Found</h1></html>",
        "empty.pdf": b"",
    }


def languages() -> dict[str, bytes]:
    """Return parts of a declaration in 22 languages; in a second file copies, single sentences and rows of numbers."""
    files = _folder(BUNDLED / "declarations")()
    rows = [
        json.loads(line)
        for line in unpack(files["declarations.jsonl.zst"], ".zst", "declarations.jsonl.zst").splitlines()
    ]
    noise = []
    for row in rows[::9]:
        noise.append({**row, "id": f"copy-{row['id']}"})
        noise.append({**row, "id": f"short-{row['id']}", "text": row["text"].split("\n\n")[0][:40]})
        noise.append({**row, "id": f"numbers-{row['id']}", "text": " ".join(map(str, range(len(row["text"]) // 4)))})
    return {**files, "noise.jsonl": _jsonl(noise)}


def pictures() -> dict[str, bytes]:
    """Return the bundled shard of pictures, and one with a copy of each, a page of an error, and a cut picture."""
    [shard] = [path.read_bytes() for path in SAMPLE_PICTURES.glob("*.tar")]
    with tarfile.open(fileobj=io.BytesIO(shard)) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    images = [content for name, content in members.items() if name.endswith(".jpg")]
    odd = [*images, b"<html><h1>404 Not Found</h1></html>", images[0][:2000]]
    again = io.BytesIO()
    with tarfile.open(fileobj=again, mode="w") as tar:
        for number, image in enumerate(odd, start=100):
            for suffix, content in (("jpg", image), ("txt", b"A picture.")):
                info = tarfile.TarInfo(f"{number}.{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return {"00000.tar": shard, "00001.tar": again.getvalue()}


def _rows(name: str) -> Iterator[dict[str, Any]]:
    for line in (SAMPLE / name).read_bytes().splitlines():
        if line.strip():
            yield json.loads(line.decode("utf-8", "replace"))


def _laws() -> Iterator[tuple[str, str, str]]:
    """Number, title and text of the sections of the code of law in the sample, without their continuations."""
    for number in (0, 1, 2, 4, 5, 8, 9):
        for row in _rows(f"part-0{number}.jsonl"):
            section = re.match(r"(\d+[\w.–-]*)\n\n([^\n]{4,80})\.\n\n(.+)", row["text"] or "", re.DOTALL)
            if section and row["id"].startswith("dc-law-"):
                yield section[1], section[2], section[3].strip()


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _record(url: str, page: str) -> bytes:
    """A response of a web server as a crawler keeps it: one gzip member."""
    message = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{page}".encode()
    fields = {"WARC-Type": "response", "WARC-Target-URI": url, "WARC-Date": "2024-02-03T04:05:06Z"}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**fields, "Content-Length": len(message)}.items())
    return gzip.compress(b"WARC/1.0\r\n" + head.encode() + b"\r\n" + message + b"\r\n\r\n", mtime=0)


def _page(text: str) -> str:
    paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in text.split("\n\n"))
    return f"<title>A page</title><body>{_NAV}<article>{paragraphs}</article></body>"


_PUBLIC = f"public domain and CC0; sources are in {SAMPLE / 'README.md'}"

#: The samples, by their option; the first has none.
SAMPLES = {
    "": SampleSet("", _documents, f"1,115 documents, whose sources and licences are in {SAMPLE / 'README.md'}"),
    "--small": SampleSet("Write 30 short documents in three files, as the how-tos use.", small_sample, "30 documents"),
    "--crawl": SampleSet("Write three small WARC files of web pages.", crawl, f"343 web pages, {_PUBLIC}"),
    "--languages": SampleSet(
        "Write documents in 22 languages.",
        languages,
        "a declaration in 22 languages, public domain",
    ),
    "--code": SampleSet(
        "Write Python source, as JSON Lines.", code, "source of dcurate, under Apache-2.0, and files made up"
    ),
    "--math": SampleSet(
        "Write web pages, some with formulas.",
        mathematics,
        f"pages with formulas, under Apache-2.0, and others, {_PUBLIC}",
    ),
    "--chat": SampleSet("Write conversations, as JSON Lines.", chat, f"conversations about laws, {_PUBLIC}"),
    "--pdfs": SampleSet("Write seven PDFs, some damaged.", pdfs, "7 PDFs of the beginning of a novel, public domain"),
    "--pictures": SampleSet(
        "Write two WebDataset shards of pictures.", pictures, "8 pictures, drawn by a program, some of them damaged"
    ),
    "--recordings": SampleSet(
        "Write eight short recordings, as the tutorial on speech uses.",
        _folder(SAMPLE_RECORDINGS),
        "8 recordings, under CC BY-SA 3.0; README.md says whose they are",
    ),
    "--films": SampleSet(
        "Write seven short films, as the tutorial on video uses.",
        _folder(SAMPLE_FILMS),
        "7 films, drawn by a program, under Apache-2.0; README.md says what they show",
    ),
}
