"""The recipe ``crawl``, from WARC files to filtered, deduplicated Parquet, after each extractor.

``python -m benchmarks.html_crawl --input FILE [--copies 8] [--extractor NAME ...] [--json FILE]``

The WARC files are made of the pages of the input (JSON Lines with ``html``), as many times as ``--copies`` says; each
copy has a line of its own in each paragraph, and the copies are among what deduplication removes. Rates are MB of HTML
per CPU-second of all processes: of the whole run, and of what more copies cost than one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import MB, called, machine, measure, save, table, versions
from benchmarks.rows import read_rows

EXTRACTORS = ("dcurate", "trafilatura", "resiliparse", "justext")
#: Pages of a WARC file.
PAGES = 100
_PARAGRAPH = re.compile(r"</p>", re.IGNORECASE)


def record(url: str, page: str) -> bytes:
    """A response as a member of a WARC file."""
    body = page.encode("utf-8", "replace")
    message = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + body
    fields = {
        "WARC-Type": "response",
        "WARC-Target-URI": url,
        "WARC-Date": "2026-02-03T04:05:06Z",
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": len(message),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return gzip.compress(b"WARC/1.0\r\n" + head.encode() + b"\r\n" + message + b"\r\n\r\n", 1)


def make_crawl(folder: Path, pages: Sequence[str], copies: int) -> float:
    """Write WARC files; return the MB of HTML in them."""
    folder.mkdir()
    size = 0
    records: list[bytes] = []
    for copy in range(copies):
        for number, page in enumerate(pages):
            changed = _PARAGRAPH.sub(f" This is line {copy} of the copies.</p>", page) if copy else page
            size += len(changed.encode("utf-8", "replace"))
            records.append(record(f"http://example.org/{copy}/{number}", changed))
    for first in range(0, len(records), PAGES):
        (folder / f"part-{first // PAGES:05}.warc.gz").write_bytes(b"".join(records[first : first + PAGES]))
    return size / MB


def run_recipe(source: Path, output: Path, extractor: str) -> dict[str, Any]:
    """Run the recipe, and return its CPU-seconds and how many documents are left."""
    command = [
        sys.executable,
        "-c",
        "from dcurate.cli import main; raise SystemExit(main())",
        "run",
        "crawl",
        "--quiet",
    ]
    options = ["--input", str(source), "--output", str(output), "--set", f"extractor={extractor}", "--workers", "2"]
    usage = measure([*command, *options])
    report = json.loads((output.with_name(f"{output.name}.dcurate") / "report.json").read_text())
    return {"cpu_s": usage.cpu_s, "documents": report["stages"][-1]["rows_out"]}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSONL, plain or compressed, with the column html")
    parser.add_argument("--copies", type=int, default=8, help="copies of each page (8)")
    parser.add_argument("--extractor", choices=EXTRACTORS, nargs="+", default=["dcurate", "trafilatura"])
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args(arguments)
    pages = [row["html"] for row in read_rows(options.input, {"html": str}).rows]
    runs = []
    with tempfile.TemporaryDirectory(prefix="dcurate-crawl-") as scratch:
        folder = Path(scratch)
        small_mb = make_crawl(folder / "small", pages, 1)
        large_mb = make_crawl(folder / "large", pages, options.copies)
        run_recipe(folder / "small", folder / "warm", "dcurate")  # compiles kernels
        for extractor in options.extractor:
            small = run_recipe(folder / "small", folder / f"small-{extractor}", extractor)
            large = run_recipe(folder / "large", folder / f"large-{extractor}", extractor)
            runs.append(
                {
                    "extractor": extractor,
                    "mb_per_cpu_s": large_mb / large["cpu_s"],
                    "mb_per_cpu_s_more": (large_mb - small_mb) / (large["cpu_s"] - small["cpu_s"]),
                    "documents": large["documents"],
                    "cpu_s": large["cpu_s"],
                    "small_cpu_s": small["cpu_s"],
                }
            )
    slowest = {name: min(run[name] for run in runs) for name in ("mb_per_cpu_s", "mb_per_cpu_s_more")}
    print(f"{len(pages)} pages, {options.copies} copies of each: {large_mb:.1f} MB of HTML\n")
    columns = (
        "extractor",
        "MB/CPU-s",
        "ratio",
        "MB/CPU-s of more",
        "ratio",
        "documents left",
        "CPU-s",
        "CPU-s of one copy",
    )
    lines = [
        (
            run["extractor"],
            f"{run['mb_per_cpu_s']:.2f}",
            f"{run['mb_per_cpu_s'] / slowest['mb_per_cpu_s']:.2f}",
            f"{run['mb_per_cpu_s_more']:.2f}",
            f"{run['mb_per_cpu_s_more'] / slowest['mb_per_cpu_s_more']:.2f}",
            str(run["documents"]),
            f"{run['cpu_s']:.1f}",
            f"{run['small_cpu_s']:.1f}",
        )
        for run in runs
    ]
    print(table(columns, lines))
    packages = versions("dcurate", *options.extractor, "lxml")
    save(options.json, {"machine": machine(), "versions": packages, "html_mb": large_mb, "runs": runs})


if __name__ == "__main__":
    called(main)
