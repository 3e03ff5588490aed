"""Numbers and addresses that others wrote: whatever they are, they cost the one file that has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import DcurateError, InlineExecutor, JsonlReader, MediaReader, Pipeline
from dcurate.core.foreign import LARGEST, retry_after_s, whole_number
from dcurate.download import (
    DownloadFiles,
    FetchMedia,
    FileDownloader,
    GenerateUrls,
    Transfer,
    URLGenerator,
)
from tests.download.server import answering

QUICK = Transfer(attempts=2, backoff_s=0.01, timeout_s=2.0)
ODD = {
    "superscript": "\xb2",
    "digits": "9" * 5000,
    "4,300 digits": "9" * 4300,
    "2^64 - 1": str(2**64 - 1),
    "2^63": str(2**63),
    "negative": "-1",
    "float": "1e999",
    "NaN": "nan",
    "hexadecimal": "0x10",
    "underscore": "1_0",
    "nothing": "",
    "list": "3, 3",
    "NUL": "1\0",
    "folded": "1\r\n 2",
    "year 99999": "Thu, 01 Jan 99999 00:00:00 GMT",
    "year 1": "Mon, 01 Jan 0001 00:00:00 GMT",
    "zone": "Thu, 01 Jan 2026 00:00:00 +999999999",
    "long zone": "Thu, 01 Jan 2026 00:00:00 -99999999999999999999",
    "text": "soon",
    "bad host": "http://a..b/",
    "bad port": "http://host:99999/",
    "bad address": "http://[bad",
    "scheme": "gopher://host/",
    "letters": "a" * 9000,
}
#: Statuses, and headers that are read of an answer with it.
HEADERS = [
    *((200, name) for name in ("Content-Length", "Content-Encoding", "Content-Type", "ETag", "Last-Modified")),
    *((200, name) for name in ("Transfer-Encoding", "X-Robots-Tag", "tdm-reservation", "Location", "Content-Range")),
    *((206, name) for name in ("Content-Range", "Content-Length")),
    *((302, name) for name in ("Location", "Retry-After")),
    *((status, "Retry-After") for status in (416, 429, 500, 503)),
    (416, "Content-Range"),
]
ADDRESSES = [
    *("http://a..b/", "http://.host/", f"http://{'a' * 64}/", f"http://{'a.' * 130}a/", "http://..", "http://a\0b/"),
    *(
        "http://",
        "http:///a",
        "http://[bad",
        "http://[::g]/",
        "http://host:99999/",
        "http://host:x/",
        "http://host:-1/",
    ),
    *("http://host:\xb2/", "http://h\tost/", "http://ho st/", "http://127.0.0.1\\@127.0.0.2/", "http://\u2460.0.0.1/"),
    *(
        "http://\ud7ff/",
        "http://xn--\xe9/",
        "http://%31/",
        "http://%00/",
        "http:host",
        "//host/a",
        "?",
        "a",
        "",
        " http://a",
    ),
    *(
        "http://127.0.0.1:1/\n",
        "HTTP://",
        "gopher://host/",
        "s3://[bad",
        "file:///no/such/file",
        "nothing://a/b",
        "://",
    ),
    *(
        "http://u@v@[::1]:0/",
        "http://[::ffff:999.0.0.1]/",
        "http://1.2.3.4.5.6/",
        "http://\u3002/",
        "data:,a",
        "zip://a",
    ),
]


def answer(status: int, name: str, value: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Any", "Connection: close", f"{name}: {value}"]
    if name not in ("Content-Length", "Transfer-Encoding"):
        lines.append("Content-Length: 3")
    return "\r\n".join([*lines, "", "abc"]).encode("latin-1")


class Listed(URLGenerator):
    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = urls

    def generate_urls(self) -> list[str]:
        return list(self.urls)


def fetched(urls: Sequence[str], folder: Path, **options: object) -> tuple[list[str], dict[str, int]]:
    """The URLs of which files came, and the reasons why others did not; none is lost."""
    path = folder / "urls.jsonl"
    path.write_text("".join(json.dumps({"url": url}) + "\n" for url in urls))
    stage = FetchMedia(transfer=QUICK, file_timeout_s=1.0, **options)  # type: ignore[arg-type]
    result = Pipeline("urls", stages=[JsonlReader(str(path)), stage]).run(InlineExecutor(), observers=[])
    report = result.report.stages[1]
    batches: list[Any] = list(result)
    rows = [row for batch in batches for row in batch.to_arrow().to_pylist()]
    assert len(urls) == len(rows) + sum(report.faulty.values()) + sum(report.dropped.values())
    return [row["url"] for row in rows], dict(report.faulty)


def downloaded(urls: Sequence[str], folder: Path) -> set[str]:
    """The URLs of which files were downloaded; of all others the run says why not."""
    stages: list[Any] = [
        GenerateUrls(Listed(urls)),
        DownloadFiles(FileDownloader(str(folder), transfer=QUICK)),
    ]
    result = Pipeline("urls", stages=stages).run(InlineExecutor(), observers=[])
    groups: list[Any] = list(result)
    files = [part for group in groups for part in group.parts]
    assert len(set(urls)) == len(files) + sum(result.report.stages[1].faulty.values())
    return {origin.url for group in groups for origin in group.origins}


@pytest.fixture(scope="module")
def odd() -> Iterator[tuple[str, list[str]]]:
    """The address of a good file, and those of files each with an odd value in a header."""
    answers = {f"/{status}/{name}/{kind.replace(' ', '-')}": answer(status, name, ODD[kind])
               for status, name in HEADERS for kind in ODD}  # fmt: skip
    named = {f"{path}{ending}": data for path, data in answers.items() for ending in (".jsonl", ".warc")}
    with answering({"/good": answer(200, "ETag", '"a"'), **answers, **named}) as address:
        yield f"{address}/good", [f"{address}{path}" for path in answers]


def test_an_odd_header_costs_the_file_that_has_it(odd, tmp_path):
    good, urls = odd
    rows, faults = fetched([good, *urls, good], tmp_path, private=True, robots=False)
    assert rows[0] == rows[-1] == good
    assert sum(faults.values()) > len(urls) / 3


def test_an_odd_header_costs_the_download_that_has_it(odd, tmp_path):
    good, urls = odd
    assert good in downloaded([*urls, good], tmp_path)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("reader", [JsonlReader, MediaReader])
def test_an_odd_header_of_a_file_that_a_reader_opens_is_an_error_in_one_sentence(kind, reader, odd):
    """Or it does not matter; splits are bounded, whatever size a server says."""
    good, _ = odd
    address = good.removesuffix("/good")
    ending = "jsonl" if reader is JsonlReader else "warc"
    for status, name in ((200, "Content-Length"), (200, "ETag"), (200, "Last-Modified"), (206, "Content-Range")):
        url = f"{address}/{status}/{name}/{kind.replace(' ', '-')}.{ending}"
        with suppress(DcurateError):
            Pipeline("read", stages=[reader(url)]).run(InlineExecutor(), observers=[])


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_header_of_robots_txt_costs_the_files_of_its_site(kind, tmp_path):
    for status, name in HEADERS:
        with answering({"/robots.txt": answer(status, name, ODD[kind]), "/a": answer(200, "ETag", '"a"')}) as address:
            fetched([f"{address}/a"], tmp_path, private=True)


def test_a_header_that_no_request_could_send_back_is_not_sent_back(tmp_path):
    """A download that goes on asks whether the file is that of the ETag."""
    head = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\nETag: "a\r\n b"\r\n\r\n'
    with answering({"/cut": head + b"abc", "/good": answer(200, "ETag", '"a"')}) as address:
        assert downloaded([f"{address}/cut", f"{address}/good"], tmp_path) == {f"{address}/good"}


@pytest.mark.parametrize("private", [True, False])
def test_an_odd_address_costs_its_row(private, odd, tmp_path):
    good, _ = odd
    rows, faults = fetched([good, *ADDRESSES, good], tmp_path, private=private, robots=False)
    assert rows == ([good, good] if private else [])
    assert sum(faults.values()) == len(ADDRESSES) + (0 if private else 2)


def test_an_odd_address_costs_its_download(odd, tmp_path):
    good, _ = odd
    assert downloaded([*ADDRESSES, good], tmp_path) == {good}


@example("9" * 41)
@example("\u0663")
@given(st.text(st.characters(categories=("Nd", "No", "Nl", "Po", "Sm")), max_size=50))
def test_a_number_is_ascii_digits_within_its_bound(text):
    number = whole_number(text)
    assert number is None or (0 <= number <= LARGEST and text.isascii() and text.isdigit())
    assert number is not None or not (text.isascii() and text.isdigit() and len(text) <= 18)
    wait = retry_after_s(text)
    assert wait is None or wait >= 0


@settings(max_examples=300)
@given(st.text(max_size=40) | st.builds("Thu, {} Jan {} {}:00:00 {}".format, *[st.integers()] * 4))
def test_a_date_never_raises(text):
    wait = retry_after_s(text)
    assert wait is None or wait >= 0
