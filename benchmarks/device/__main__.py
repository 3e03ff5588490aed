"""Everything that only a machine with a GPU can tell, within a quarter of an hour: what is right, and how fast it is.

    python -m benchmarks.device [--only kernels,...] [--json FILE]      on the machine with the GPU
    python -m benchmarks.device --cpu                                   elsewhere: numba's simulator, what needs no card

Works from the checkout alone with the wheels that `stage` carries. Each section runs in a process of its own, so that
one that fails, or hangs, leaves the others. Ends with 0 if all that ran are right, 1 if one is not, 2 without a GPU.

kernels   signals and signatures by CUDA beside one core of the CPU: equal bits, GB/s, the ratio of the two
frames    cuDF: its own MinHash beside ours, layouts without copies, Parquet decoded on the card
workers   a pipeline with GPU stages on a LocalCluster of CUDA and CPU workers: the rows that the CPU gives
kmeans    k-means and semantic duplicates with CuPy beside NumPy
models    `python -m benchmarks.device.models`
tests     ``pytest -m gpu``, of the files that have such tests
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, machine, save, table, versions

#: Seconds that each section may take.
SECTIONS = {"kernels": 240, "frames": 60, "workers": 90, "kmeans": 60, "models": 300, "tests": 100}
#: What runs where there is no GPU.
WITHOUT = ("kernels", "workers", "kmeans")
_SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"}
_PACKAGES = ("numba", "numba-cuda", "numpy", "pandas", "pyarrow", "cupy-cuda13x", "cudf-cu13", "dask", "dask-cuda")


def cards() -> list[dict[str, Any]]:
    """The GPUs of this machine and their driver, as NVML tells them; none where it tells nothing."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no package, no library or no driver: all of them mean that there is no GPU to use
        return []
    handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    driver = nvml.nvmlSystemGetDriverVersion()
    return [
        {"card": nvml.nvmlDeviceGetName(one), "bytes": nvml.nvmlDeviceGetMemoryInfo(one).total, "driver": driver}
        for one in handles
    ]


def _toolkit() -> dict[str, str]:
    """Where the CUDA toolkit stands, for numba-cuda to find its compiler, if it is on the path."""
    nvcc = shutil.which("nvcc")
    return {"CUDA_HOME": str(Path(nvcc).resolve().parents[1])} if nvcc else {}


def gpu_tests() -> list[str]:
    """The files that have tests for a GPU."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if "pytest.mark.gpu" in file.read_text("utf-8")]


def command_of(section: str, file: Path, cpu: bool) -> list[str]:
    """What runs a section; it writes its figures into the file."""
    if section == "tests":
        # By file: to collect all tests takes packages that an image for GPUs need not have, and its own may warn.
        # Without the options of pyproject.toml, which need pytest-xdist.
        options = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "-W", "default", "-o", "addopts="]
        return [sys.executable, "-m", "pytest", *options, *gpu_tests()]
    if section == "models":
        return [sys.executable, "-m", "benchmarks.device.models", "--json", str(file)]
    module = "benchmarks.device.sections"
    return [sys.executable, "-m", module, section, "--json", str(file), *(["--cpu"] if cpu else [])]


def run(section: str, cpu: bool, folder: Path) -> dict[str, Any]:
    """Run a section; whether it is right, its seconds, its figures, and the end of what it said."""
    file, start = folder / f"{section}.json", time.monotonic()
    if section == "models" and importlib.util.find_spec("benchmarks.device.models") is None:
        return {
            "section": section,
            "right": False,
            "seconds": 0.0,
            "figures": None,
            "said": "it is not in this checkout",
        }
    environment = {**_toolkit(), **os.environ, **(_SIMULATED if cpu and section == "kernels" else {})}
    try:
        done = subprocess.run(
            command_of(section, file, cpu),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECTIONS[section],
            check=False,
        )
        right, said = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as late:
        right, said = False, f"{late.stdout or ''!s}\nstopped after {SECTIONS[section]} s"
    figures = json.loads(file.read_text()) if file.exists() else None
    seconds = round(time.monotonic() - start, 1)
    return {"section": section, "right": right, "seconds": seconds, "figures": figures, "said": said[-3000:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="sections, with commas between them")
    parser.add_argument("--cpu", action="store_true", help="run what needs no GPU")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = cards()
    if not found and not options.cpu:
        print("no GPU: NVML finds none on this machine; --cpu runs what needs none")
        return 2
    wanted = options.only.split(",") if options.only else list(WITHOUT if options.cpu else SECTIONS)
    unknown = [section for section in wanted if section not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    for card in found:
        print(f"{card['card']}, {card['bytes'] / 1e9:.1f} GB, driver {card['driver']}")
    with tempfile.TemporaryDirectory() as folder:
        ran = [run(section, options.cpu, Path(folder)) for section in wanted]
    for one in ran:
        print(f"\n=== {one['section']}\n{one['said'].strip()}")
    rows = [[one["section"], "yes" if one["right"] else "NO", one["seconds"]] for one in ran]
    print(f"\n{table(['section', 'right', 's'], rows)}")
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    save(
        options.json,
        {
            "date": date,
            "cards": found,
            "simulated": options.cpu,
            "machine": machine(),
            "versions": versions(*_PACKAGES),
            "sections": ran,
        },
    )
    return 0 if all(one["right"] for one in ran) else 1


if __name__ == "__main__":
    sys.exit(main())
