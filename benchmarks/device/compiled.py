"""Whether every kernel compiles for a GPU, on a machine that has none.

    make check-cuda                                                # or, with numba-cuda and nvidia-nvvm installed:
    python -m benchmarks.device.compiled [--cc 9.0] [--json FILE] [--ptx FOLDER]

Each kernel is called as `dcurate.kernels` calls it, with stand-ins for the card: in place of a launch it is compiled to
PTX for the types that it was called with. What it computes is looked at elsewhere: `tests/kernels/test_cuda.py`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import typeof

from benchmarks.device import compiled_dedup
from dcurate.kernels import cuda, cuda_minhash
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.layout import Rows
from dcurate.kernels.minhash import one_permutation
from dcurate.kernels.permutations import Permutations, Window, as_cudf, permuted
from dcurate.kernels.shingles import Rule
from dcurate_testing.cuda_measures import MEASURES, given

#: Bytes of constants that a kernel may have: tables of a module, of which each function that reads one has its own.
CONSTANTS = 2**16
_CONSTANTS = re.compile(r"\.const .*\[(\d+)\]")
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
    folder: Path | None = None
    done: list[dict[str, Any]] = field(default_factory=list)

    def to_device(self, array: Any) -> Any:
        return np.array(array).view(OnHost)

    def device_array(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype).view(OnHost)

    def jit(self, function: Any) -> Any:
        return Launches(self, function, function.__name__)


@dataclass
class Launches:
    """A kernel that compiles itself where it would be launched."""

    compiler: Compiler
    function: Any
    name: str
    compiled: list[Any] = field(default_factory=list)

    def __getitem__(self, grid: Any) -> Launches:
        return self

    def __call__(self, *given: Any) -> None:
        start = time.perf_counter()
        types = tuple(typeof(_plain(value)) for value in given)
        if types in self.compiled:
            return
        self.compiled.append(types)
        ptx, _ = self.compiler.numba_cuda.compile_ptx(self.function, types, cc=self.compiler.capability)
        seconds = round(time.perf_counter() - start, 1)
        constants = sum(int(size) for size in _CONSTANTS.findall(ptx))
        if self.compiler.folder is not None:
            (self.compiler.folder / f"{len(self.compiler.done):02}-{self.name}.ptx").write_text(ptx)
        if constants > CONSTANTS:
            raise SystemExit(f"{self.name}: {constants:,} bytes of constants, and a GPU has room for {CONSTANTS:,}")
        known = {"kernel": self.name, "ptx_bytes": len(ptx), "constant_bytes": constants, "seconds": seconds}
        self.compiler.done.append(known)


def _plain(value: Any) -> Any:
    """The arguments of a kernel with arrays of NumPy: those on a card have the same types, and can be written to."""
    if isinstance(value, tuple):
        made = map(_plain, value)
        return type(value)(*made) if type(value) is not tuple else tuple(made)
    return np.array(value) if isinstance(value, np.ndarray) else value


def compile_all(capability: tuple[int, int], folder: Path | None = None) -> list[dict[str, Any]]:
    """Compile every kernel; the name, the size and the seconds of each.

    Args:
        capability: that of the GPU.
        folder: where to write the PTX.
    """
    numba_cuda = importlib.import_module("numba.cuda")
    dispatcher = importlib.import_module("numba.cuda.dispatcher")
    # Functions that a kernel calls are compiled for the card of the process; there is none.
    vars(dispatcher)["get_current_device"] = lambda: SimpleNamespace(compute_capability=capability)
    compiler = Compiler(numba_cuda, capability, folder)
    vars(cuda).update(_cuda=lambda: compiler, cuda=numba_cuda)
    offsets = np.cumsum([0, *(len(text) for text in TEXTS)])
    column, rows = cuda.on_gpu(offsets, np.frombuffer("".join(TEXTS).encode(), np.uint8)), np.arange(1)
    for call_all in CALLS:
        call_all(column, rows)
    return compiler.done


def measures(column: CudaColumn, rows: Rows) -> None:
    """Call every kernel that measures texts."""
    layout = column.offsets, column.data.copy_to_host(), rows
    for _, kernel, options in MEASURES:
        kernel.gpu(column, rows, *given(options, layout))


def signatures(column: CudaColumn, rows: Rows) -> None:
    """Call every kernel of MinHash."""
    rule, drawn = Rule(2, True, np.uint64(1)), Permutations.seeded(8, 1)
    one_permutation.gpu(column, rows, rule, 8)
    permuted.gpu(column, rows, rule, drawn)
    as_cudf.gpu(column, rows, Window(5, np.uint32(1)), drawn)
    cuda_minhash.band_keys(np.zeros((1, 8), np.uint32), 4, 2)
    cuda_minhash.text_hashes(column, rows)


#: What calls kernels, each once or more, with texts on a card and numbers of some of them.
CALLS: tuple[Callable[[CudaColumn, Rows], None], ...] = (measures, signatures, compiled_dedup.call_all)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="9.0", help="compute capability")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ptx", type=Path, help="folder for the PTX, such as ptxas reads")
    options = parser.parse_args()
    major, minor = map(int, options.cc.split("."))
    try:
        version = importlib.import_module("numba_cuda").__version__
    except ImportError:
        print("numba-cuda is not installed: make check-cuda")
        return 2
    if options.ptx:
        options.ptx.mkdir(parents=True, exist_ok=True)
    done = compile_all((major, minor), options.ptx)
    print(f"numba-cuda {version}, compute capability {options.cc}")
    for kernel in done:
        print(f"{kernel['kernel']:32} {kernel['ptx_bytes'] / 1000:7.0f} kB of PTX {kernel['seconds']:6.1f} s")
    if options.json:
        options.json.write_text(json.dumps({"numba_cuda": version, "cc": options.cc, "kernels": done}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
