"""The child of a sandbox has compiled all kernels before it reads its first file, so that no file is timed for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.documents.warm import WARM, warm

pytestmark = pytest.mark.program

CHECK = """
import importlib, pkgutil
import dcurate.documents.child, dcurate.documents.pdf as pdf

missing = set()
for module in pkgutil.iter_modules(pdf.__path__):
    for name, value in vars(importlib.import_module(f"{pdf.__name__}.{module.name}")).items():
        is_kernels = type(value).__name__ == "module" and "kernels" in value.__name__
        found = vars(value).items() if is_kernels else [(name, value)]
        for kernel, each in found:
            inlined = getattr(each, "targetoptions", {}).get("forceinline")  # compiled into what calls it
            if kernel[0] != "_" and hasattr(each, "signatures") and not each.signatures and not inlined:
                missing.add(kernel)
print(*sorted(missing))
"""


def test_the_bundled_file_is_the_one_that_is_made_here() -> None:
    assert WARM.read_bytes() == warm()


def test_it_needs_every_kernel() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
