"""Opt-outs: CPU seconds and bytes to take 0.1 % of documents out of all that was made of a corpus, beside a new run.

``python -m benchmarks.proof_optout --input FOLDER [--json FILE]``: JSON Lines with the column ``text``. A run filters
the documents and writes JSON Lines, Parquet and tokens; then documents are removed by their URLs, which are made up.
Two lists are tried: documents spread over files, and documents of one file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import MB, called, machine, save, scratch_folder, table, versions
from benchmarks.rows import all_rows
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, ParquetWriter, Pipeline, ScoreFilter, TokenWriter
from dcurate.core.stage import Stage
from dcurate.optouts.listing import read_list
from dcurate.optouts.remove import OptOutRemoval
from dcurate.text import SymbolsToWordsFilter, WordCountFilter
from dcurate_testing.token_files import train_bpe

#: Input files, documents of each, and one of how many is removed.
FILES, DOCUMENTS, ONE_OF = 40, 100, 1000


def measure(input: Path) -> dict[str, Any]:  # noqa: A002 - the name that all these benchmarks share
    """Return CPU seconds and bytes of a run and of removals from what it wrote.

    Args:
        input: a folder of JSON Lines.
    """
    with scratch_folder("proof_optout", None) as scratch:
        texts = _written(input, scratch / "in")
        tokenizer = train_bpe(scratch / "tokenizer.json", texts[:2000])
        outputs = ["jsonl", "parquet", "tokens"]
        _run(scratch / "in" / "000.jsonl", scratch / "warm-up", tokenizer)
        figures: dict[str, Any] = {
            "documents": len(texts),
            "mb": sum(len(text.encode()) for text in texts) / MB,
            "run_s": _seconds(lambda: _run(scratch / "in", scratch / "out", tokenizer)),
            "run_mb": _bytes(scratch / "out") / MB,
        }
        numbers = {
            "spread": range(7, len(texts), ONE_OF),
            "in one file": range(max(1, len(texts) // ONE_OF)),
        }
        for name, some in numbers.items():
            shutil.copytree(scratch / "out", scratch / name)
            (scratch / "urls.txt").write_text("".join(f"{_url(number)}\n" for number in some))
            folders = [str(scratch / name / output) for output in outputs]
            first, seconds = _remove(scratch, folders)
            second, again = _remove(scratch, folders)
            assert second["documents"] == 0
            assert _left(scratch / name) == _left_without(scratch / "out", set(map(_url, some)))
            figures[name] = {
                "asked": len(some),
                "removed": {_last(product["output"]): product["documents"] for product in first["products"]},
                "files": {_last(p["output"]): [p["written"], p["files"]] for p in first["products"]},
                "cpu_s": seconds,
                "again_cpu_s": again,
                "of_a_run": seconds / figures["run_s"],
                "row_mb_written": first["bytes_written"] / MB,
            }
    return figures


def _written(source: Path, folder: Path) -> list[str]:
    """Write the input as small files of documents with URLs; return the texts."""
    folder.mkdir()
    texts = []
    for row in all_rows(source):
        if len(texts) == FILES * DOCUMENTS:
            break
        texts.append(str(row["text"]))
    for file in range(0, len(texts), DOCUMENTS):
        rows = [
            {"id": f"d{file + number}", "url": _url(file + number), "text": text}
            for number, text in enumerate(texts[file : file + DOCUMENTS])
        ]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{file // DOCUMENTS:03d}.jsonl").write_text(lines, "utf-8")
    return texts


def _url(number: int) -> str:
    return f"http://site{number % 1000}.example/page/{number}"


def _run(source: Path, folder: Path, tokenizer: str) -> None:
    """Filter the documents, and write them in three ways."""
    filters: list[Stage] = [ScoreFilter(WordCountFilter(min_words=20)), ScoreFilter(SymbolsToWordsFilter())]
    stages = [JsonlReader(str(source)), *filters, JsonlWriter(str(folder / "jsonl"))]
    Pipeline("filter", stages=stages).run(InlineExecutor(), observers=[])
    read = JsonlReader(str(folder / "jsonl"))
    for writer in (
        ParquetWriter(str(folder / "parquet")),
        TokenWriter(str(folder / "tokens"), tokenizer, shard_tokens=2**20),
    ):
        Pipeline("write", stages=[read, writer]).run(InlineExecutor(), observers=[])


def _remove(scratch: Path, folders: list[str]) -> tuple[dict[str, Any], float]:
    """Remove documents; return the receipt and the CPU seconds."""
    begun = time.process_time()
    wanted = read_list(str(scratch / "urls.txt"), "url", texts=False)
    with OptOutRemoval(wanted, folders) as removal:
        removal.lock()
        removal.find()
        removal.commit(_carried_out)
        return removal.receipt(), time.process_time() - begun


def _carried_out(stages: list[Stage]) -> None:
    Pipeline("drop", stages=stages).run(InlineExecutor(), observers=[])


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and ".dcurate" not in str(path))


def _left(folder: Path) -> list[bytes]:
    return [line for path in sorted((folder / "jsonl").iterdir()) for line in path.read_bytes().splitlines()]


def _left_without(folder: Path, urls: set[str]) -> list[bytes]:
    return [line for line in _left(folder) if json.loads(line)["url"] not in urls]


def _last(address: str) -> str:
    return address.rpartition("/")[2]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True, help="a folder of JSON Lines")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = {"machine": machine(), "versions": versions("pyarrow", "numpy"), **measure(options.input)}
    print(f"{figures['documents']:,} documents, {figures['mb']:.1f} MB of text; one of {ONE_OF:,} is removed")
    rows = [["a run: filters, JSON Lines, Parquet, tokens", figures["run_s"], 1.0, figures["run_mb"], ""]]
    for name in ("spread", "in one file"):
        some = figures[name]
        files = ", ".join(f"{kind} {written} of {files}" for kind, (written, files) in some["files"].items())
        rows.append(
            [f"{some['asked']} documents, {name}", some["cpu_s"], some["of_a_run"], some["row_mb_written"], files]
        )
        rows.append([f"the same again, {name}", some["again_cpu_s"], some["again_cpu_s"] / figures["run_s"], 0.0, ""])
    print(table(["", "CPU-s", "of a run", "MB of rows written", "files written"], rows))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
