"""Functions that are compiled into each kernel that calls them, and only there."""

from __future__ import annotations

import ctypes
from typing import Any

from numba import _dynfunc, njit  # type: ignore[attr-defined]
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering


class _LinkedLibrary(JITCodeLibrary):
    """The optimised LLVM code of a function, without machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _LoweredLibrary(_LinkedLibrary):
    """The same as it was lowered: the kernel that it is linked into is optimised as a whole.

    Only functions that call none are optimised by themselves, which is cheap.
    """

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if not self._linking_libraries:
            super()._optimize_functions(self._final_module)
            super()._optimize_final_module()


class _LoweringToLink(NativeLowering):
    _library: type[_LinkedLibrary]

    def run_pass(self, state: Any) -> bool:
        flags = state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        state.library = self._library(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        lowered = state["cr"]
        entry = _entry(state.func_id.func, lowered, state.library)
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LoweringAndOptimising(_LoweringToLink):
    _name = "lowering_and_optimising"  # type: ignore[assignment]
    _library = _LinkedLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class _LoweringOnly(_LoweringToLink):
    _name = "lowering_only"  # type: ignore[assignment]
    _library = _LoweredLibrary


class Inlining(compiler.CompilerBase):
    """Compiles a function as far as it is needed to inline it, to the same code as numba would.

    Numba makes machine code of every function that a kernel calls, too, and makes it callable from Python and from C.
    """

    _lowering: type[_LoweringToLink] = _LoweringAndOptimising

    def define_pipelines(self) -> list[Any]:
        """Lower in our own way, and leave all else as numba has it."""
        manager = PassManager("inlining")
        for step, description in compiler.DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            manager.add_pass(self._lowering if step is NativeLowering else step, description)
        manager.finalize()
        return [manager]


class LateInlining(Inlining):
    """Leaves optimising to the kernel, which takes half of the time but may make slower code: measure it."""

    _lowering = _LoweringOnly


_CALL = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)


def _entry(function: Any, lowered: Any, library: Any) -> Any:
    """What a call from Python reaches, in tests: the function, compiled on its own at the first call."""
    compiled = njit(boundscheck=False)(function)
    call = _CALL(lambda _closure, arguments, _named: compiled(*arguments))
    where, name = lowered.fndesc.lookup_module(), lowered.fndesc.qualname.rpartition(".")[2]
    pointer = ctypes.cast(call, ctypes.c_void_p).value
    return _dynfunc.make_function(where, name, "", pointer, lowered.env, (library, call))
