"""What `python -m benchmarks.device` needs and a machine does not have, in one line.

    python -m benchmarks.device.preflight [--json FILE]

Ends with 0 if nothing is missing, with 1 if something is, with 2 without a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dcurate.kernels import cuda
from dcurate.kernels.cuda_compiler import numba_refuses

NO_GPU = "no GPU: NVML finds none on this machine"


def gpus() -> list[dict[str, Any]]:
    """The GPUs of this machine and their driver, as NVML describes them; none where it cannot."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no package, no library or no driver: all of them mean that there is no GPU to use
        return []
    handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    driver = nvml.nvmlSystemGetDriverVersion()
    return [
        {"gpu": nvml.nvmlDeviceGetName(one), "bytes": nvml.nvmlDeviceGetMemoryInfo(one).total, "driver": driver}
        for one in handles
    ]


def _gpu() -> str:
    return "" if gpus() else NO_GPU


def _kernels() -> str:
    """Compile a kernel and run it."""
    if refusal := numba_refuses():
        return refusal
    characters = importlib.import_module("dcurate.kernels.characters").character_signals
    text = np.frombuffer(b"a b", np.uint8)
    found = characters.gpu(cuda.on_gpu(np.array([0, 3]), text), np.array([0]))
    return "" if found.total.tolist() == [3] else f"a kernel counts {found.total.tolist()} characters in a text of 3"


def _torch() -> str:
    torch = importlib.import_module("torch")
    return "" if torch.cuda.is_available() else f"torch {torch.__version__} finds no GPU"


def _cupy() -> str:
    return "" if int(importlib.import_module("cupy").arange(3).sum()) == 3 else "CuPy adds wrongly"


def _dask() -> str:
    importlib.import_module("dask_cuda")
    return ""


def _cudf() -> str:
    return "" if len(importlib.import_module("cudf").Series([1])) == 1 else "cuDF makes no Series"


def _sanitizer() -> str:
    return "" if shutil.which("compute-sanitizer") else "compute-sanitizer is not on the PATH; the CUDA toolkit has it"


CHECKS: dict[str, Callable[[], str]] = {
    "gpu": _gpu,
    "kernels": _kernels,
    "torch": _torch,
    "cupy": _cupy,
    "dask": _dask,
    "cudf": _cudf,
    "sanitizer": _sanitizer,
}


def missing() -> dict[str, str]:
    """What is not there or does not work, and a sentence about each; only "gpu" where there is no GPU."""
    found = {}
    for name, check in CHECKS.items():
        try:
            wrong = check()
        except Exception as error:  # of any of the libraries: whatever they raise, they cannot be used
            wrong = f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if wrong:
            found[name] = wrong
        if name == "gpu" and wrong:
            break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = missing()
    print("; ".join(found.values()) or "nothing is missing")
    if options.json is not None:
        options.json.write_text(json.dumps(found))
    return 2 if "gpu" in found else int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
