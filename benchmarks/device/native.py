"""Whether the code that NVVM is given for each kernel computes what the CPU does, run on a CPU with guard pages.

    make check-cuda                                                     # or, with numba-cuda installed:
    python -m benchmarks.device.native [--only pii] [--json FILE]

For each kernel: all texts of the bundled sample at once, and with the longest left to a core; texts that are awkward,
one in a launch, each in a column of its own, so that the page behind its last byte may not be touched; and texts of a
megabyte. Scratch is filled with a pattern. A byte read or written out of bounds ends the process, with the name of the
kernel above the traceback.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.device.calls import calls, names, same
from benchmarks.measure import machine, save, table, versions
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels import cuda
from dcurate_testing.device import sample
from dcurate_testing.native_cuda import native_cuda

MEGABYTE = 1_000_000
#: The sample once more, of which a core measures texts above some bytes meanwhile.
BESIDE, _BESIDE = "sample, beside a core", 2**10
#: What is between all kinds of characters, marks and numbers, or ends in the middle of what a kernel looks for.
AWKWARD = (
    *(b"", b"a", b"\n", b" ", b"?!", b"[", b"@", b":", b"+", b"4", b"\r", b"<", b"/"),
    *(
        text.encode()
        for text in ("é", "中文 ab İx ΟΔΟΣ", "Zażółć\u2003gęślą\u2028jaźń", "日本にほん。 \U0001f4da", "…")
    ),
    *(b"one", b"so it goes " * 60, b"/* two", b"<!--", b"https://", b"<?xml", b"use cookies", b"...", b"{}[]()"),
    b"jo@example.org, +1 (415) 555-2671, 8.8.8.8, 2001:4860:4860::8888, 4111 1111 1111 1111",
    b"IBAN DE89 3704 0044 0532 0130 00, SSN 536-22-1234, https://a:b@c.de/ ghp_" + b"0a1B2" * 8,
    b"A line that ends.[1]\n\n\nOne more [edit] line. \r\nno end\nJavascript is on.\nIs[citation needed] {.\r\nEnd...",
)


def megabytes() -> dict[str, bytes]:
    """Texts of a megabyte: documents, one word, words of a letter, lines without a word, and digits."""
    documents = b"\n\n".join(sample())
    return {
        "documents": documents[:MEGABYTE].decode(errors="ignore").encode(),
        "a word": b"x" * MEGABYTE,
        "words": b"a " * (MEGABYTE // 2),
        "lines": b"\n" * MEGABYTE,
        "digits": b"+1 415 555 2671, 8.8.8.8; " * (MEGABYTE // 26),
    }


def columns() -> Iterator[tuple[str, TextColumn, bool]]:
    """Texts, what they are, and whether each is to be in a launch of its own."""
    texts = sample()
    yield "sample", column_of(texts), False
    yield BESIDE, column_of(texts), False
    longest = sorted(texts, key=len)[-1]
    yield "one by one", column_of([*AWKWARD, longest]), True
    for text in AWKWARD:
        yield "alone", column_of([text]), False
    for name, text in megabytes().items():
        yield f"1 MB of {name}", column_of([b"", text, b"after it"]), False


def checked(only: str) -> list[dict[str, Any]]:
    """Run each kernel on all texts: whether its results are those of the CPU, and CPU-seconds of the second run."""
    found: list[dict[str, Any]] = []
    with native_cuda() as native:
        given = [(what, column, cuda.on_gpu(*column), alone) for what, column, alone in columns()]
        for name in (name for name in names() if name.startswith(only)):
            print(name, end=": ", flush=True)
            one: dict[str, Any] = {"kernel": name, "wrong": [], "launches": -native.launches}
            start = time.process_time()
            for what, column, gpu, alone in given:
                cuda.SCRATCH = 1 if alone else 2**28
                cuda.LONG = _BESIDE if what == BESIDE else 2**62  # else no text goes to the CPU instead
                ((by_cpu, by_cuda),) = calls(column, gpu, 2000, only=name).values()
                if not same(by_cpu(), by_cuda()):
                    one["wrong"].append(what)
            one |= {"launches": one["launches"] + native.launches, "cpu_s": round(time.process_time() - start, 1)}
            print(f"differs for {', '.join(one['wrong'])}" if one["wrong"] else "equal", flush=True)
            found.append(one)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels whose names begin with this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if importlib.util.find_spec("numba_cuda") is None:
        print("numba-cuda is not installed: make check-cuda")
        return 2
    faulthandler.enable()
    warnings.simplefilter("ignore", RuntimeWarning)
    found = checked(options.only)
    wrong = [one["kernel"] for one in found if one["wrong"]]
    shown = [[one["kernel"], "NO" if one["wrong"] else "yes", one["launches"], one["cpu_s"]] for one in found]
    print(table(["kernel", "equal bits", "launches", "CPU-s"], shown))
    print(f"{len(found)} kernels, {sum(one['launches'] for one in found):,} launches; {len(wrong)} differ from the CPU")
    sizes = [[what, len(column.data)] for what, column, _ in columns()]
    used = versions("numba-cuda", "numba", "llvmlite")
    save(options.json, {"machine": machine(), "versions": used, "texts": sizes, "kernels": found})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
