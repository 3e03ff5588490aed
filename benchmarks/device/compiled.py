"""Whether every kernel compiles for GPUs and computes what the CPU does, on a machine that has no GPU.

    make check-cuda                                          # or, with numba-cuda, nvidia-nvvm and nvidia-cuda-nvcc:
    python -m benchmarks.device.compiled [--arch 75,90] [--only pii] [--json FILE] [--ptx FOLDER]

Each kernel is called as `dcurate.kernels` calls it, with stand-ins for the GPU. In place of a launch its PTX is made
by NVVM, for the types that it was called with, and assembled by ptxas for each architecture. A kernel fails that
spills registers, has a stack, uses more than 128 registers (of 65,536 for 2,048 threads there are 32 for each; with
128 a quarter of them run together), or has tables in constant memory, where threads that read different bytes of a
table wait for each other.

`python -m benchmarks.device.native` runs the kernels; `make check-cuda` does both.
"""

from __future__ import annotations

import argparse
import importlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device import compiled_dedup
from benchmarks.measure import machine, save, table, versions
from dcurate.kernels import cuda, cuda_minhash
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.layout import Rows
from dcurate.kernels.minhash import one_permutation
from dcurate.kernels.permutations import Permutations, Window, as_cudf, permuted
from dcurate.kernels.shingles import Rule
from dcurate_testing.cuda_measures import MEASURES, given
from dcurate_testing.native_cuda import Kernel, Launches, NativeCuda, lowered, native_cuda

#: Compute capability times ten: Turing, Ampere, Hopper, Blackwell of servers and of desktops.
ARCHITECTURES = (75, 80, 90, 100, 120)
MOST_REGISTERS = 128
#: Bytes of constants that a kernel may have; its parameters come beside them.
MOST_CONSTANTS = 0
_CONSTANTS = re.compile(r"\.const .*\[(\d+)\]")
_TABLES = re.compile(r"\.global .*\.b8 .*\[(\d+)\] =")
_USED = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spilled_bytes": re.compile(r"(\d+) bytes spill stores"),
}
TEXTS = ("one two three", "", "so it goes, and so it goes")


@dataclass
class Lowering(NativeCuda):
    """A stand-in for numba's CUDA that lowers kernels to LLVM IR, and runs none.

    Args:
        only: part of the names of the kernels to lower; all by default.
    """

    only: str = ""
    found: dict[Any, tuple[Kernel, float]] = field(default_factory=dict)

    def jit(self, function: Any) -> Launches:
        return Launches(function, self._lower)

    def _lower(self, function: Any, signature: tuple[Any, ...], grid: tuple[int, int], given: Any) -> None:
        if (function, signature) in self.found or self.only not in function.__name__:
            return
        start = time.process_time()
        kernel = lowered(function, signature, self.capability)
        self.found[function, signature] = kernel, time.process_time() - start


def assembled(ptx: str, arch: int, ptxas: str) -> dict[str, int]:
    """What ptxas says about the machine code of a kernel: registers, bytes of stack, and bytes spilled.

    Raises:
        ValueError: ptxas refuses the code; its first lines are in the message.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [ptxas, "--verbose", f"--gpu-name=sm_{arch}", f"--output-file={folder}/kernel.cubin", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"ptxas refuses the code for sm_{arch}: {(done.stderr or done.stdout)[:600]}")
    return {name: max(map(int, pattern.findall(done.stderr))) for name, pattern in _USED.items()}


def faults(made: dict[str, Any]) -> list[str]:
    """What is wrong with the code of a kernel for an architecture, each in one sentence."""
    where = f"{made['kernel']} for sm_{made['arch']}"
    limits = {"registers": MOST_REGISTERS, "stack_bytes": 0, "spilled_bytes": 0, "constant_bytes": MOST_CONSTANTS}
    return [
        f"{where} has {made[name]:,} {name.replace('_', ' ')}; at most {limit:,} are allowed"
        for name, limit in limits.items()
        if made[name] > limit
    ]


def compile_all(
    architectures: tuple[int, ...], ptxas: str | None = None, folder: Path | None = None, only: str = ""
) -> list[dict[str, Any]]:
    """Compile every kernel for every architecture: sizes, CPU-seconds and what ptxas says.

    Args:
        architectures: compute capability times ten.
        ptxas: path of the assembler; PTX is not assembled without it.
        folder: where to write the PTX.
        only: part of the names of the kernels to compile.
    """
    with native_cuda() as native:
        lowering = Lowering(native.capability, guard=False, only=only)
        vars(cuda).update(_cuda=lambda: lowering)
        offsets = np.cumsum([0, *(len(text) for text in TEXTS)])
        column, rows = cuda.on_gpu(offsets, np.frombuffer("".join(TEXTS).encode(), np.uint8)), np.arange(1)
        for call_all in CALLS:
            call_all(column, rows)
        made = []
        with ThreadPoolExecutor(2) as pool:
            for kernel, front in lowering.found.values():
                made += [pool.submit(_made, kernel, front, arch, ptxas, folder) for arch in architectures]
        return [one.result() for one in made]


def _made(kernel: Kernel, front: float, arch: int, ptxas: str | None, folder: Path | None) -> dict[str, Any]:
    start = time.thread_time()
    ptx = kernel.library.get_asm_str(cc=divmod(arch, 10))
    nvvm = time.thread_time() - start
    if folder is not None:
        (folder / f"{kernel.name}-sm_{arch}.ptx").write_text(ptx)
    begun = time.perf_counter()
    return {
        "kernel": kernel.name,
        "arch": arch,
        **(assembled(ptx, arch, ptxas) if ptxas else {}),
        "constant_bytes": sum(map(int, _CONSTANTS.findall(ptx))),
        "table_bytes": sum(map(int, _TABLES.findall(ptx))),
        "ptx_bytes": len(ptx),
        "front_s": round(front, 2),
        "nvvm_s": round(nvvm, 2),
        "ptxas_wall_s": round(time.perf_counter() - begun, 2),
    }


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


#: What calls kernels, each once or more, with texts on a GPU and numbers of some of them.
CALLS: tuple[Callable[[CudaColumn, Rows], None], ...] = (measures, signatures, compiled_dedup.call_all)


def shown(made: list[dict[str, Any]]) -> str:
    """A table: of each kernel the most registers of any architecture, its tables and its CPU-seconds."""
    kernels = {one["kernel"]: [other for other in made if other["kernel"] == one["kernel"]] for one in made}
    rows = [
        [
            name,
            *(each["registers"] for each in of),
            max(each["stack_bytes"] + each["spilled_bytes"] for each in of),
            max(each["table_bytes"] for each in of),
            of[0]["front_s"] + of[0]["nvvm_s"],
        ]
        for name, of in kernels.items()
    ]
    registers = [f"sm_{one['arch']}" for one in next(iter(kernels.values()))]
    return table(["kernel", *registers, "stack, spills", "tables, B", "to PTX, CPU-s"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default=",".join(map(str, ARCHITECTURES)), help="compute capabilities times ten")
    parser.add_argument("--only", default="", help="kernels with this in their names")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ptx", type=Path, help="folder for the PTX")
    options = parser.parse_args()
    try:
        importlib.import_module("numba_cuda")
        ptxas = importlib.import_module("cuda.pathfinder").find_nvidia_binary_utility("ptxas")
    except ImportError:
        ptxas = None
    if ptxas is None:
        print("numba-cuda or ptxas is not installed: make check-cuda")
        return 2
    if options.ptx:
        options.ptx.mkdir(parents=True, exist_ok=True)
    made = compile_all(tuple(map(int, options.arch.split(","))), ptxas, options.ptx, options.only)
    wrong = [fault for one in made for fault in faults(one)]
    print("registers of each kernel; compiled by", ", ".join(f"{k} {v}" for k, v in versions(*_PACKAGES).items()))
    print(shown(made))
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(made)} compilations, {sum(one.ru_utime + one.ru_stime for one in used):.0f} CPU-s")
    print("\n".join(wrong) or "no stack, no spills, no constants, at most 128 registers")
    save(options.json, {"machine": machine(), "versions": versions(*_PACKAGES), "wrong": wrong, "kernels": made})
    return 1 if wrong else 0


_PACKAGES = ("numba-cuda", "numba", "llvmlite", "nvidia-nvvm", "nvidia-cuda-nvcc")


if __name__ == "__main__":
    sys.exit(main())
