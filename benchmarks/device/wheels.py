"""Whether the wheels that a GPU machine gets fit together and have what dcurate uses of them; no GPU is needed.

    make check-wheels                                       # or, in an environment of image.txt, with `stage`:
    PYTHONPATH=SITE python -m benchmarks.device.wheels [--write]

Run it where SITE is what `receive` installed, on top of `image.txt`: Python 3.12 with the NumPy of the machine's image.

image    the image alone: its NumPy is refused in one sentence
pins     each wheel has the version of its list, and is found before the image's
imports  every library, with the smaller copies of libcudf and others, and every module that uses one
refused  what needs a GPU ends with one sentence
names    libraries have what dcurate uses, with these arguments, as tests/frames/cudf_signatures.json records it;
         ``--write`` records it again
kernels  numba-cuda and NVVM make PTX of every kernel
extras   pip finds versions for dcurate[cuda12] and dcurate[cuda13] together; nothing is downloaded but metadata
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.device.compiled import compile_all
from benchmarks.device.stage import LISTS, pins
from benchmarks.measure import ROOT, table
from dcurate import DcurateError, LocalCluster
from dcurate.frames.convert import cudf
from dcurate.kernels import cuda
from dcurate_testing.gpu_calls import Signature, refused, resolved, signature, uses

RECORD = ROOT / "tests/frames/cudf_signatures.json"
_LIBRARIES = ("numba.cuda", "cupy", "rmm", "pylibcudf", "cudf", "dask_cuda", "dask_cudf", "pynvml", "cuda.core")
#: Versions that are kept beside signatures.
_RECORDED = ("cudf-cu13", "pylibcudf-cu13", "dask-cuda", "rmm-cu13", "cupy-cuda13x", "numba-cuda", "nvidia-ml-py")
_REFUSES = "from dcurate.kernels.cuda_compiler import numba_refuses; print(numba_refuses())"
#: Modules that import Torch at once.
_OF_TORCH = {"benchmarks/device/models_run.py"}
_EXTRAS = ("cuda12", "cuda13")


def image(write: bool) -> list[str]:
    """What is wrong with the image alone: nothing if its NumPy is refused."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _REFUSES], env=environment, capture_output=True, text=True, check=False
    )
    print(done.stdout.strip())
    return [] if "cannot compile with NumPy 2.5" in done.stdout else [done.stderr or "the image's NumPy is not refused"]


def versions_of_lists(write: bool) -> list[str]:
    """Wheels that are not found, or in another version."""
    wanted = [pin.split("==") for pin in pins(LISTS)]
    found = [(name, pin, version(name)) for name, pin in wanted]
    return [f"{name} {other} is found before {pin}" for name, pin, other in found if other != pin]


def imports(write: bool) -> list[str]:
    """Libraries and modules that cannot be imported, each in a sentence."""
    files = {use.place.partition(":")[0] for use in uses(ROOT)} - _OF_TORCH
    modules = sorted(file.removesuffix(".py").replace("/", ".") for file in files if file.endswith(".py"))
    wrong = []
    for name in (*_LIBRARIES, *modules):
        try:
            importlib.import_module(name)
        except Exception as error:  # of any library, while it is loaded
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(_LIBRARIES)} libraries, {len(modules)} modules that use them")
    return wrong


def sentences(write: bool) -> list[str]:
    """Calls that need a GPU, and do not say so in one sentence."""
    calls: dict[str, tuple[Callable[[], Any], str]] = {
        "cudf()": (cudf, "cuDF needs a GPU, and there is none here"),
        "kernels": (_given, "CUDA_VISIBLE_DEVICES=0 assigns this process a GPU, but numba cannot use it"),
        "ucxx": (lambda: LocalCluster(protocol="ucxx").__enter__(), "protocol='ucxx' needs distributed-ucxx"),
        "LocalCluster": (
            lambda: LocalCluster(gpus=True).__enter__(),
            "gpus=True, but NVML finds no GPU on this machine",
        ),
    }
    wrong = []
    for name, (call, expected) in calls.items():
        try:
            call()
            said = "it did not fail"
        except DcurateError as error:
            said = str(error)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        print(f"{name}: {said}")
        if expected not in said or "\n" in said:
            wrong.append(f"{name}: {said}")
    return wrong


def _given() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    try:
        cuda.usable()
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]


def names(write: bool) -> list[str]:
    """Names and arguments that are missing in the libraries, and what the record has otherwise."""
    found = [use for use in uses(ROOT) if not use.name.startswith("torch.")]
    signatures: dict[str, Signature] = {}
    wrong = []
    for name in sorted({use.name for use in found}):
        try:
            value = resolved(name)
        except AttributeError:
            wrong += [f"{use.place}: there is no {name}" for use in found if use.name == name]
            continue
        signatures[name] = signature(value)
    wrong += refused((use for use in found if use.name in signatures), signatures)
    text = recorded({name: version(name) for name in _RECORDED}, signatures)
    print(f"{len(signatures)} names in {len(found)} places")
    if write:
        RECORD.write_text(text)
    elif text != RECORD.read_text("utf-8"):
        wrong.append(f"{RECORD.name} records something else; look at what --write changes in it")
    return wrong


def recorded(packages: dict[str, str], signatures: dict[str, Signature]) -> str:
    """The text of the record."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in signatures.items())
    return f'{{\n "versions": {json.dumps(packages, sort_keys=True)},\n "signatures": {{\n{lines}\n }}\n}}\n'


def kernels(write: bool) -> list[str]:
    """Kernels of which no PTX is made."""
    made = compile_all((90,))
    print(f"PTX of {len(made)} kernels")
    return [f"{one['kernel']} has no PTX" for one in made if not one["ptx_bytes"]]


def extras(write: bool) -> list[str]:
    """Extras for which pip finds no versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wrong = []
    for extra in _EXTRAS:
        wanted = [*project["dependencies"], *project["optional-dependencies"][extra]]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
            command += ["--only-binary=:all:", "--report", str(report), *wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                wrong.append(f"{extra}: {done.stderr.strip()[-600:]}")
                continue
            chosen = {
                one["metadata"]["name"]: one["metadata"]["version"] for one in json.loads(report.read_text())["install"]
            }
        shown = [f"{name} {chosen[name]}" for name in sorted(chosen) if name.startswith(("cu", "num", "torch", "dask"))]
        print(f"{extra}: {len(chosen)} packages: {', '.join(shown)}")
    return wrong


CHECKS: dict[str, Callable[[bool], list[str]]] = {
    "image": image,
    "pins": versions_of_lists,
    "imports": imports,
    "refused": sentences,
    "names": names,
    "kernels": kernels,
    "extras": extras,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the signatures of the libraries")
    parser.add_argument("--only", choices=CHECKS, nargs="*", default=list(CHECKS))
    options = parser.parse_args()
    wrong = {}
    for name in options.only:
        print(f"{name}:", flush=True)
        wrong[name] = CHECKS[name](options.write)
    print(table(["check", "right"], [[name, "NO" if found else "yes"] for name, found in wrong.items()]))
    print("\n".join(one for found in wrong.values() for one in found) or "all fit together")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
