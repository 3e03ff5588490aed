"""How fast one column is read from JSON Lines: by the kernels, pyarrow, orjson and pysimdjson.

``python -m benchmarks.json_parsers FILE ... [--mb 64] [--repeat 5] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json as pj

from benchmarks.measure import MB, called, machine, save, table, versions
from benchmarks.rows import texts
from dcurate.fs.compression import ending_of, unpack
from dcurate.kernels.json_rows import decode, scan

#: As deep as the reader allows.
DEEPEST = 40

Parser = Callable[[bytes], Any]


def ours(data: bytes) -> Any:
    rows = scan(data, ["text"], DEEPEST)
    if not rows.valid.all():
        raise SystemExit("a line is no JSON object")
    offsets, letters = decode(data, rows, 0)
    return pa.LargeStringArray.from_buffers(len(rows.starts), pa.py_buffer(offsets), pa.py_buffer(letters))


def ours_checked(data: bytes) -> Any:
    column = ours(data)
    column.validate(full=True)
    return column


def pyarrow_all(data: bytes) -> Any:
    options = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pj.read_json(pa.BufferReader(data), read_options=options)["text"]


def pyarrow_text(data: bytes) -> Any:
    only = pj.ParseOptions(explicit_schema=pa.schema([("text", pa.string())]), unexpected_field_behavior="ignore")
    options = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pj.read_json(pa.BufferReader(data), read_options=options, parse_options=only)["text"]


def orjson_lines(data: bytes) -> Any:
    return pa.array([orjson.loads(line)["text"] for line in data.splitlines()], pa.large_string())


def pysimdjson_lines(data: bytes) -> Any:
    import simdjson  # noqa: PLC0415 - it need not be installed

    parser = simdjson.Parser()
    return pa.array([parser.parse(line).get("text") for line in data.splitlines()], pa.large_string())


PARSERS: dict[str, Parser] = {
    "scan + decode": ours,
    "scan + decode + UTF-8": ours_checked,
    "pyarrow, only text": pyarrow_text,
    "pyarrow, all columns": pyarrow_all,
    "orjson": orjson_lines,
    "pysimdjson": pysimdjson_lines,
}


def documents(files: Sequence[Path], most: float) -> bytes:
    """Whole lines of files, each unpacked, until a number of bytes is reached."""
    data = b"".join(unpack(file.read_bytes(), ending_of(file.name), str(file)) for file in files)[: int(most)]
    return data[: data.rfind(b"\n") + 1]


def chat(files: Sequence[Path], most: float) -> Iterator[bytes]:
    """Short nested rows made of the lines of texts, until a number of bytes is reached."""
    lines = (line[:120] for file in files for text in texts(file, most / MB) for line in text.splitlines() if line)
    for number, (asked, answer, text) in enumerate(zip(lines, lines, lines, strict=False)):
        row = orjson.dumps(
            {
                "id": f"c{number}",
                "messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}],
                "meta": {"score": number % 7 / 7, "tags": ["a", "b", None, "c"], "n": number},
                "text": text,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        most -= len(row)
        if most < 0:
            return
        yield row


def seconds(parser: Parser, data: bytes) -> float:
    begin = time.process_time()
    parser(data)
    return time.process_time() - begin


def installed() -> dict[str, Parser]:
    """The parsers that can be imported; the others are named in the output."""
    found = {}
    for name, parser in PARSERS.items():
        try:
            parser(b'{"text": "a"}\n')
        except ImportError:
            print(f"{name} is not installed\n")
        else:
            found[name] = parser
    return found


def compared(parsers: dict[str, Parser], data: bytes, repeat: int) -> list[dict[str, Any]]:
    """The rates of all parsers, which take turns, in MB per CPU-second."""
    columns = [pa.chunked_array(parser(data)).cast(pa.large_string()) for parser in parsers.values()]
    if not all(column.equals(columns[0]) for column in columns):
        raise SystemExit("the parsers do not read the same texts")
    rates: dict[str, list[float]] = {name: [] for name in parsers}
    for _, (name, parser) in itertools.product(range(repeat), parsers.items()):
        rates[name].append(len(data) / MB / seconds(parser, data))
    return [
        {"parser": name, "mb_per_cpu_s": statistics.median(all_), "least": min(all_), "most": max(all_)}
        for name, all_ in rates.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="JSONL with a column text, plain or compressed")
    parser.add_argument("--mb", type=float, default=64, help="MB of each kind of rows")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "numba", "pyarrow", "orjson", "pysimdjson"),
    }
    parsers = installed()
    made = {
        "documents": documents(options.files, options.mb * MB),
        "chat": b"".join(chat(options.files, options.mb * MB)),
    }
    for name, data in made.items():
        rows = data.count(b"\n")
        print(f"{name}: {len(data) / MB:.1f} MB, {rows:,} rows of {len(data) // rows:,} bytes\n")
        rates = compared(parsers, data, options.repeat)
        print(table([*rates[0]], [list(rate.values()) for rate in rates]) + "\n")
        figures[name] = {"mb": len(data) / MB, "rows": rows, "rates": rates}
    print(f"{figures['machine']['cpu']}; {', '.join(f'{name} {which}' for name, which in figures['versions'].items())}")
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
