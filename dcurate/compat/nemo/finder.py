"""Imports of ``nemo_curator``: modules made from the table of names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from dcurate.compat.nemo import cpus
from dcurate.compat.nemo.missing import missing
from dcurate.compat.nemo.names import names
from dcurate.errors import nearest

ROOT = "nemo_curator"


class NemoModule(ModuleType):
    """A module of NeMo Curator. A name loads on first use, so that importing a module loads nothing else."""

    def __getattr__(self, name: str) -> Any:
        module, table = self.__name__, names()
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if f"{module}.{name}" in table.modules:
            return importlib.import_module(f"{module}.{name}")
        try:
            value = table.get(module, name)
        except KeyError:
            if name.startswith("_"):
                return missing(module, name, "it is private to NeMo Curator")
            raise AttributeError(_unknown(module, name, "attribute "), name=name, obj=self) from None
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})

    def __reduce__(self) -> Any:
        return imported, (self.__name__,)


class _Finder(MetaPathFinder, Loader):
    """Finds modules of NeMo Curator. Each counts as a package, so that every wrong name in an import comes here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        if name == "__main__" and names().has(parent):
            return ModuleSpec(fullname, self)
        if not names().has(fullname):
            raise ModuleNotFoundError(_unknown(parent, name), name=parent)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return NemoModule(spec.name)

    def get_code(self, fullname: str) -> CodeType:
        """The code of ``python -m``: it calls the module's `main`, or says what to use instead."""
        module = fullname.removesuffix(".__main__")
        return compile(f"from {module} import main; main()", module, "exec")

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__all__"] = list(names().modules.get(module.__name__, ()))
        if module.__name__ == ROOT:
            vars(module)["__version__"] = names().known["__version__"].value


def _unknown(module: str, name: str, prefix: str = "") -> str:
    known = [*names().modules.get(module, ()), *_submodules(module)]
    return f"{module} has no {prefix}{name!r} in {' or '.join(names().follows)}" + (
        nearest(name, known) if known else ""
    )


def _submodules(module: str) -> list[str]:
    inside = f"{module}."
    return sorted({name.removeprefix(inside).split(".")[0] for name in names().modules if name.startswith(inside)})


def imported(module: str) -> ModuleType:
    """Import a module of NeMo Curator, in a process in which that may not have happened."""
    install()
    return importlib.import_module(module)


def _forget_modules() -> None:
    for name in [name for name in sys.modules if name == ROOT or name.startswith(f"{ROOT}.")]:
        del sys.modules[name]


def install(*, cpu: bool = False) -> None:
    """Let ``import nemo_curator`` give dcurate's names, from now on and in this process, also if it is installed.

    Args:
        cpu: also run what asks for a GPU on CPUs, until the process ends; see `dcurate.compat.nemo.cpus`.
    """
    if cpu:
        cpus.install()
    cpus.join()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        _forget_modules()
        sys.meta_path.insert(0, _Finder())


def uninstall() -> None:
    """Undo `install`: the next ``import nemo_curator`` gives what is installed."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        _forget_modules()
