"""Rights as columns: CPU seconds of all signals of the pages of an archive, beside those of their extraction.

``python -m benchmarks.proof_rights --input FILE_OR_FOLDER [--json FILE]``: JSON Lines with pages in the column ``html``
(and ``url``), which are packed into an archive, or a folder of archives.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import MB, called, machine, save, scratch_folder, table, versions
from benchmarks.rows import all_rows
from dcurate import DocumentBatch, WarcReader
from dcurate.rights import FilterByRights, FindRights
from dcurate.text import HtmlExtractor, HtmlInfo

#: Header lines and files of robots.txt as pages of the web have them, one after the other.
HEADERS = (
    "Server: nginx\r\nX-Robots-Tag: noai, noimageai",
    "Server: nginx\r\nCache-Control: max-age=60\r\nStrict-Transport-Security: max-age=31536000",
    "Content-Usage: train-ai=n, search=y\r\ntdm-reservation: 1",
    'Link: <https://example.org/license.xml>; rel="license"; type="application/rsl+xml"',
)
ROBOTS = (
    "User-agent: *\nContent-Signal: search=yes,ai-train=no\nAllow: /\n",
    "User-agent: *\nDisallow: /admin/\nDisallow: /*?s=\nSitemap: https://example.org/sitemap.xml\n",
    "".join(f"User-agent: {name}\nDisallow: /\n\n" for name in ("GPTBot", "CCBot", "ClaudeBot", "Bytespider")),
    "User-agent: *\nContent-Usage: train-ai=n\n" + "".join(f"Disallow: /{number}/\n" for number in range(200)),
)
REPEAT = 5
PAGES = ["text/html", "application/xhtml+xml"]
FIELDS = ["url", "mime_type", "charset", "http_headers", "content"]


def measure(input: Path) -> dict[str, Any]:  # noqa: A002 - the name that all these benchmarks share
    """Return CPU seconds of rights and of extraction, medians of several runs, and what was found.

    Args:
        input: JSON Lines with a column ``html``, or a folder of archives.
    """
    with scratch_folder("proof_rights", None) as scratch:
        archives = input if input.is_dir() else _packed(input, scratch)
        rows, figures = _read(archives)
        robots = [ROBOTS[number % len(ROBOTS)] for number in range(rows.num_rows)]
        rows = rows.append_column("robots", pa.array(robots))
        batch = DocumentBatch(data=rows)
        marked = FindRights().process(batch)
        rights = marked.to_arrow().drop_columns(["http_headers", "content", "robots"])
        extractors = {name: HtmlExtractor(name) for name in ("trafilatura", "dcurate")}
        for extractor in extractors.values():
            extractor.setup()
        stages: dict[str, Callable[[], Any]] = {
            "rights: headers, markup, robots.txt": lambda: FindRights().process(batch),
            "rights: markup alone": lambda: FindRights().process(
                DocumentBatch(data=rows.drop_columns(["robots", "http_headers"]))
            ),
            "rights: policy on stored columns": lambda: FilterByRights(licences=["open"]).process(
                DocumentBatch(data=rights)
            ),
            "HtmlInfo": lambda: HtmlInfo().process(batch),
            "extraction: trafilatura": lambda: extractors["trafilatura"].process(batch),
            "extraction: dcurate": lambda: extractors["dcurate"].process(batch),
        }
        seconds = {name: _seconds(run, 2 if "trafilatura" in name else REPEAT) for name, run in stages.items()}
    mb = sum(map(len, rows["content"].to_pylist())) / MB
    rights_s = statistics.median(seconds["rights: headers, markup, robots.txt"])
    ratios = {name: rights_s / statistics.median(seconds[f"extraction: {name}"]) for name in ("trafilatura", "dcurate")}
    return {
        "pages": rows.num_rows,
        "mb": mb,
        **figures,
        "seconds": seconds,
        "mb_per_cpu_s": {name: mb / statistics.median(runs) for name, runs in seconds.items()},
        "ratio_to_extraction": ratios,
        "headers_ratio_to_reading": figures["read_with_headers_s"] / figures["read_s"] - 1,
        "found": dict(sorted(marked.found.items())),
    }


def _packed(source: Path, folder: Path) -> Path:
    """Pages of JSON Lines as the records of an archive, each a member of its own."""
    (folder / "warc").mkdir()
    with (folder / "warc" / "pages.warc.gz").open("wb") as file:
        for number, row in enumerate(all_rows(source)):
            url = row.get("url") or f"https://example.org/{number}"
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{HEADERS[number % len(HEADERS)]}\r\n\r\n"
            )
            message = head.encode() + str(row["html"]).encode("utf-8", "replace")
            lines = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2026-02-03T04:05:06Z\r\n"
            record = f"{lines}Content-Length: {len(message)}\r\n\r\n".encode() + message + b"\r\n\r\n"
            file.write(gzip.compress(record, 6))
    return folder / "warc"


def _read(archives: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The pages of archives, and the CPU seconds of reading them with headers and without."""
    plain = [name for name in FIELDS if name != "http_headers"]
    bare_s = _seconds(lambda: list(_batches(archives, plain)), REPEAT)
    headers_s = _seconds(lambda: list(_batches(archives, FIELDS)), REPEAT)
    rows = pa.concat_tables(_batches(archives, FIELDS))
    return rows.combine_chunks(), {"read_s": min(bare_s), "read_with_headers_s": min(headers_s)}


def _batches(archives: Path, fields: list[str]) -> Iterator[pa.Table]:
    reader = WarcReader(str(archives), fields=fields, mime_types=PAGES)
    for split in reader.splits():
        batch = reader.process(split)
        if batch is not None:
            yield batch.to_arrow()


def _seconds(run: Callable[[], Any], repeat: int) -> list[float]:
    run()
    seconds = []
    for _ in range(repeat):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSON Lines with a column html, or a folder of WARC")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    before = machine()
    figures = measure(options.input)
    print(f"{figures['pages']} pages, {figures['mb']:.1f} MB of HTML; medians of CPU seconds of one core\n")
    rows = [
        [name, f"{statistics.median(seconds):.3f}", f"{figures['mb_per_cpu_s'][name]:.1f}"]
        for name, seconds in figures["seconds"].items()
    ]
    print(table(["what", "CPU s", "MB/s"], rows))
    for name, ratio in figures["ratio_to_extraction"].items():
        print(f"all signals take {ratio:.1%} of the CPU of extraction by {name}")
    print(f"reading with headers takes {figures['headers_ratio_to_reading']:+.1%} of CPU\n")
    print(table(["found", "pages"], [[name, str(count)] for name, count in figures["found"].items()]))
    packages = versions("dcurate", "trafilatura", "resiliparse", "lxml")
    save(options.json, {**figures, "machine": before, "versions": packages})


if __name__ == "__main__":
    called(main)
