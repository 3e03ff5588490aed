"""Seconds and bytes read of a summary of a million documents whose texts are not read; its numbers beside DuckDB's.

``python -m benchmarks.proof_summary --input DIR [--documents 1000000] [--json FILE]``

Documents are made into DIR, if it is empty: Parquet with texts, and a tenth of them as JSON Lines, which must be
parsed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import called, job, machine, plain, save, table, versions
from benchmarks.measure import measure as run_program
from dcurate.runs import SummaryOptions, training_summary

DOCUMENTS, FILES = 1_000_000, 20
#: Sites of the documents: a few of them have most.
_SITES = 400_000
_SUFFIXES = ("com", "org", "co.uk", "de", "io", "com.au", "jp")
#: A document of JSON Lines for this number of those of Parquet.
_LINES = 10
_SEED = 7


def make(folder: Path, documents: int = DOCUMENTS) -> None:
    """Make the documents, the same each time."""
    words = random.Random(_SEED).choices("abcdefghijklmnopqrstuvwxyz     ", k=2**22)
    text = "".join(words)
    (folder / "parquet").mkdir(parents=True)
    (folder / "lines").mkdir()
    for number in range(FILES):
        rows = _rows(number, documents // FILES, text)
        pq.write_table(rows, folder / "parquet" / f"part-{number:02}.parquet", row_group_size=10_000)
        some = rows.slice(0, rows.num_rows // _LINES).to_pylist()
        lines = "".join(json.dumps(row) + "\n" for row in some)
        (folder / "lines" / f"part-{number:02}.jsonl").write_text(lines)


def _rows(number: int, documents: int, text: str) -> pa.Table:
    draw = np.random.default_rng((_SEED, number))
    starts = draw.integers(0, len(text) - 4000, documents)
    lengths = draw.integers(200, 2000, documents)
    sites = np.minimum(draw.zipf(1.3, documents), _SITES)
    columns = {
        "url": [f"https://www.site{site}.{_SUFFIXES[site % 7]}/{number}/{row}" for row, site in enumerate(sites)],
        "text": [text[start : start + length] for start, length in zip(starts, lengths, strict=True)],
        "language": draw.choice(["en", "de", "fr"], documents),
        "date": draw.choice(["2024-02-03T04:05:06Z", "2025-11-12T00:00:00Z"], documents),
        "n_tokens": lengths // 5,
        "licence": draw.choice(["CC-BY-4.0", "CC0-1.0"], documents),
    }
    return pa.table(columns)


def summed_up(folder: str, read_texts: bool = False) -> dict[str, Any]:
    """Sum up a folder, and return what that read and what it says."""
    with tempfile.TemporaryDirectory() as warm_up:  # modules and the list of suffixes are loaded
        Path(warm_up, "a.jsonl").write_text('{"url": "https://example.org/"}\n')
        pq.write_table(pa.table({"url": ["https://example.org/"]}), f"{warm_up}/b.parquet")
        training_summary(warm_up)
    before, began = _bytes_read(), time.perf_counter()
    summary = training_summary(folder, options=SummaryOptions(read_texts=read_texts))
    seconds, read = time.perf_counter() - began, _bytes_read() - before
    names = ("file_bytes", "text_documents", "text_bytes", "text_tokens", "domains_in_all", "documents_of_domains")
    values = {name: field.value for name in names if (field := summary.field(name)) is not None}
    largest = summary.field("domains")
    assert largest is not None
    return {
        "seconds": round(seconds, 2),
        "bytes_by_the_kernel": read,
        "bytes_read": summary.bytes_read,
        "largest": [row["domain"] for row in largest.value[:100]],
        **values,
    }


def _bytes_read() -> int:
    """Bytes that this process has read, by the kernel."""
    counters = Path("/proc/self/io").read_text()
    return int(re.findall(r"rchar: (\d+)", counters)[0])


def recount(folder: Path) -> dict[str, Any]:
    """What DuckDB counts in Parquet files: these domains are two labels, or three of ``co.uk`` and ``com.au``."""
    files = f"'{folder}/*.parquet'"
    domain = r"regexp_extract(url, '//www\.([^/]+)', 1)"
    counts = f"SELECT count(*), sum(n_tokens), count(DISTINCT {domain}) FROM read_parquet({files})"
    [(documents, tokens, domains)] = duckdb.sql(counts).fetchall()
    exact = f"SELECT {domain} FROM read_parquet({files}) GROUP BY 1 ORDER BY sum(strlen(text)) DESC, count(*) DESC, 1"
    largest = [name for (name,) in duckdb.sql(f"{exact} LIMIT 100").fetchall()]
    return {"text_documents": documents, "text_tokens": tokens, "domains_in_all": domains, "largest": largest}


def _runs(folder: Path) -> Iterator[tuple[str, Path, bool]]:
    yield "Parquet", folder / "parquet", False
    yield "Parquet, texts read", folder / "parquet", True
    yield "JSON Lines", folder / "lines", False


def measure(input: Path) -> dict[str, Any]:  # noqa: A002
    """Return the figures of summaries of the documents in a folder, which are made if it is empty.

    Raises:
        SystemExit: a number is not that of DuckDB.
    """
    if not (input / "parquet").is_dir():
        make(input)
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "pyarrow", "duckdb"), "runs": []}
    wanted = recount(input / "parquet")
    for name, folder, read_texts in _runs(input):
        usage = run_program(job("benchmarks.proof_summary:summed_up", folder=str(folder), read_texts=read_texts))
        result = usage.result
        if folder.name == "parquet":
            counted = {key: result[key] for key in wanted if key != "largest" or read_texts}
            if wrong := [key for key, number in counted.items() if number != wanted[key]]:
                raise SystemExit(f"{name}: {wrong[0]} is {counted[wrong[0]]}, and {wanted[wrong[0]]} by DuckDB")
        alike = len(set(result["largest"]) & set(wanted["largest"]))
        figures["runs"].append(
            {"run": name, **plain(usage), **{key: number for key, number in result.items() if key != "largest"}}
            | {"of_the_100_largest_domains": alike}
        )
    return figures


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True, help="folder of the documents, made if it is empty")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="documents that are made")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not (options.input / "parquet").is_dir():
        make(options.input, options.documents)
    figures = measure(options.input)
    header = [
        "",
        "documents",
        "s",
        "CPU-s",
        "peak MB",
        "MB of files",
        "MB read",
        "MB by the kernel",
        "domains",
        "of 100",
    ]
    rows = [
        [
            run["run"],
            run["text_documents"],
            run["seconds"],
            run["cpu_s"],
            run["peak"]["root"]["rss_mb"],
            run["file_bytes"] / 1e6,
            run["bytes_read"] / 1e6,
            run["bytes_by_the_kernel"] / 1e6,
            run["domains_in_all"],
            run["of_the_100_largest_domains"],
        ]
        for run in figures["runs"]
    ]
    print(table(header, rows))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
