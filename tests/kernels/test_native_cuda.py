"""The stand-in that runs kernels of a GPU on a CPU finds what it is there to find."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import typeof

from dcurate import DataError
from dcurate_testing import native_cuda
from dcurate_testing.native_cuda import PATTERN, Kernel, NativeCuda, type_of

pytestmark = pytest.mark.program

#: As numba-cuda writes a kernel: out[block * threads + thread + shift] = thread, for an array and an integer.
_KERNEL = """
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @kernel(ptr %m, ptr %p, i64 %size, i64 %item, ptr %data, i64 %shape, i64 %stride, i64 %shift) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %before = mul i32 %block, %threads
  %number = add i32 %before, %thread
  %wide = sext i32 %number to i64
  %at = add i64 %wide, %shift
  %place = getelementptr i32, ptr %data, i64 %at
  store i32 %thread, ptr %place
  ret void
}
!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0}
"""


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> NativeCuda:
    kernel = Kernel("kernel", "kernel", SimpleNamespace(llvm_strs=[_KERNEL]))
    monkeypatch.setattr(native_cuda, "lowered", lambda *_: kernel)
    return NativeCuda()


def test_every_thread_of_every_block_runs(native: NativeCuda) -> None:
    out = native.device_array(6, np.int32)
    native.jit(len)[2, 3](out, 0)
    assert (out.copy_to_host().tolist(), native.launches) == ([0, 1, 2, 0, 1, 2], 1)


def test_a_kernel_that_writes_before_an_array_is_reported(native: NativeCuda) -> None:
    out = native.device_array(6, np.int32)
    with pytest.raises(DataError, match="wrote before the beginning of 1 arrays"):
        native.jit(len)[1, 1](out, -1)


def test_a_kernel_that_writes_behind_an_array_ends_the_process() -> None:
    code = (
        "from tests.kernels import test_native_cuda as here\n"
        "library = here.SimpleNamespace(llvm_strs=[here._KERNEL])\n"
        "kernel = here.native_cuda.Native(here.Kernel('kernel', 'kernel', library))\n"
        "given = here.NativeCuda().device_array(6, here.np.int32), SHIFT\n"
        "kernel.run((1, 6), [each for one in given for each in here.native_cuda._flat(here.type_of(one), one)])\n"
        "print(given[0].tolist())"
    )
    ended = []
    for shift in ("0", "1"):
        command = [sys.executable, "-c", code.replace("SHIFT", shift)]
        ended.append(subprocess.run(command, capture_output=True, text=True, check=False))
    assert (ended[0].returncode, ended[0].stdout) == (0, "[0, 1, 2, 3, 4, 5]\n"), ended[0].stderr
    assert (ended[1].returncode, ended[1].stdout) == (-11, "")


def test_memory_that_nothing_was_written_to_holds_a_pattern() -> None:
    assert NativeCuda().device_array((2, 3), np.uint8).tolist() == [[PATTERN] * 3] * 2


class _Pair(NamedTuple):
    left: Any
    right: Any


def test_arguments_have_the_types_that_numba_gives_them() -> None:
    array = np.zeros((2, 3), np.int32)
    for value in (1, True, np.uint64(3), (1, 2), (1, True), _Pair(1, 2), _Pair(array, (array, 1)), array, ((1,), 2)):
        assert type_of(value) == typeof(value)
    array.flags.writeable = False
    assert type_of(array).mutable
