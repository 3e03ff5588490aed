"""Whether every kernel compiles for a GPU, on a machine that has none.

    make check-cuda                                                # or, with numba-cuda and nvidia-nvvm installed:
    python -m benchmarks.device.compiled [--cc 9.0] [--json FILE]

Each kernel is called as `dcurate.kernels` calls it, with stand-ins for the card: in place of a launch it is compiled to
PTX for the types that it was called with. What it computes is looked at elsewhere: `tests/kernels/test_cuda.py`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import typeof

from dcurate.kernels import cuda, cuda_minhash, cuda_signals
from dcurate.kernels.permutations import Permutations, Window
from dcurate.kernels.shingles import Rule

TEXTS = ("one two three", "", "so it goes, and so it goes")


class OnHost(np.ndarray[Any, Any]):
    """An array that is said to be on a card."""

    def copy_to_host(self) -> Any:
        return np.asarray(self)


@dataclass
class Compiler:
    """What `dcurate.kernels.cuda` takes for numba's CUDA here: it compiles kernels, and launches none."""

    numba_cuda: Any
    capability: tuple[int, int]
    done: list[dict[str, Any]] = field(default_factory=list)

    def to_device(self, array: Any) -> Any:
        return np.array(array).view(OnHost)

    def device_array(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype).view(OnHost)

    def jit(self, function: Any) -> Any:
        (body,) = (cell.cell_contents for cell in function.__closure__)
        return Launches(self, function, f"{body.py_func.__module__.rpartition('.')[2]}.{body.py_func.__name__}")


@dataclass
class Launches:
    """A kernel that compiles itself where it would be launched."""

    compiler: Compiler
    function: Any
    name: str

    def __getitem__(self, grid: Any) -> Launches:
        return self

    def __call__(self, *given: Any) -> None:
        start = time.perf_counter()
        types = tuple(typeof(_plain(value)) for value in given)
        ptx, _ = self.compiler.numba_cuda.compile_ptx(self.function, types, cc=self.compiler.capability)
        seconds = round(time.perf_counter() - start, 1)
        self.compiler.done.append({"kernel": self.name, "ptx_bytes": len(ptx), "seconds": seconds})


def _plain(value: Any) -> Any:
    """The arguments of a kernel with arrays of NumPy: those on a card have the same types, and can be written to."""
    if isinstance(value, tuple):
        made = map(_plain, value)
        return type(value)(*made) if type(value) is not tuple else tuple(made)
    return np.array(value) if isinstance(value, np.ndarray) else value


def compile_all(capability: tuple[int, int]) -> list[dict[str, Any]]:
    """Compile every kernel; the name, the size and the seconds of each."""
    numba_cuda = importlib.import_module("numba.cuda")
    dispatcher = importlib.import_module("numba.cuda.dispatcher")
    # Functions that a kernel calls are compiled for the card of the process; there is none.
    vars(dispatcher)["get_current_device"] = lambda: SimpleNamespace(compute_capability=capability)
    compiler = Compiler(numba_cuda, capability)
    vars(cuda).update(_cuda=lambda: compiler, cuda=numba_cuda)
    offsets = np.cumsum([0, *(len(text) for text in TEXTS)])
    column, rows = cuda.on_card(offsets, np.frombuffer("".join(TEXTS).encode(), np.uint8)), np.arange(1)
    rule, drawn = Rule(2, True, np.uint64(1)), Permutations.seeded(8, 1)
    cuda_signals.character_signals(column, rows)
    cuda_signals.word_signals(column, rows)
    cuda_signals.line_signals(column, rows)
    cuda_signals.paragraph_signals(column, rows)
    cuda_signals.ngram_signals(column, rows, [2], [3])
    cuda_minhash.one_permutation(column, rows, rule, 8)
    cuda_minhash.permuted(column, rows, rule, drawn)
    cuda_minhash.as_cudf(column, rows, Window(5, np.uint32(1)), drawn)
    cuda_minhash.band_keys(np.zeros((1, 8), np.uint32), 4, 2)
    cuda_minhash.text_hashes(column, rows)
    return compiler.done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="9.0", help="compute capability")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    major, minor = map(int, options.cc.split("."))
    try:
        version = importlib.import_module("numba_cuda").__version__
    except ImportError:
        print("numba-cuda is not installed: make check-cuda")
        return 2
    done = compile_all((major, minor))
    print(f"numba-cuda {version}, compute capability {options.cc}")
    for kernel in done:
        print(f"{kernel['kernel']:32} {kernel['ptx_bytes'] / 1000:7.0f} kB of PTX {kernel['seconds']:6.1f} s")
    if options.json:
        options.json.write_text(json.dumps({"numba_cuda": version, "cc": options.cc, "kernels": done}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
