"""The table of NeMo Curator's modules and names: where each comes from here."""

from __future__ import annotations

import copy
import importlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dcurate.compat.nemo.missing import missing
from dcurate.core.public import find_public, homes


@dataclass(frozen=True)
class Name:
    """Where a name comes from: the `value` itself, a `target` ``"module:name"``, or neither, and what to `use`."""

    value: Any = None
    target: str = ""
    use: str = ""


@dataclass(frozen=True)
class Names:
    """What `names.toml` holds.

    Args:
        follows: the releases of NeMo Curator that it lists.
        modules: the names of each module.
        known: where names come from, by ``"module:name"`` or, for those that are the same everywhere, by ``"name"``.
        native: names of dcurate for those that NeMo Curator calls otherwise.
        without: modules that are not here with all that they hold, and what to use instead.
        imported: names that every module has besides its own.
    """

    follows: list[str]
    modules: dict[str, list[str]]
    known: dict[str, Name]
    native: dict[str, str]
    without: dict[str, str]
    imported: list[str]

    def use_instead_of(self, module: str) -> str | None:
        """Return what to use instead of a module that is not here."""
        return next((self.without[parent] for parent in _with_parents(module) if parent in self.without), None)

    def has(self, module: str) -> bool:
        return module in self.modules or self.use_instead_of(module) is not None

    def get(self, module: str, name: str) -> Any:
        """Return what `name` of `module` is here.

        Raises:
            KeyError: the name is not known.
        """
        if module not in self.modules:
            return missing(module, name, self.use_instead_of(module) or "")
        if name not in self.modules[module] and name not in self.imported:
            raise KeyError(name)
        known = self.known.get(f"{module}:{name}") or self.known[name]
        if known.target:
            return load(known.target)
        return missing(module, name, known.use) if known.use else copy.copy(known.value)


def _with_parents(module: str) -> Iterator[str]:
    """Yield the name of a module and those of its parents, from the inside.

    Examples:
        >>> list(_with_parents("a.b.c"))
        ['a.b.c', 'a.b', 'a']
    """
    while module:
        yield module
        module = module.rpartition(".")[0]


def native_name(name: str) -> str | None:
    """Return dcurate's public name for a name of NeMo Curator, or None if dcurate has none."""
    native = names().native.get(name, name)
    return native if native in homes() else None


def load(target: str) -> Any:
    """Return a name of dcurate, or of a module of this package, by its target."""
    module, _, name = target.partition(":")
    if module == "dcurate":
        return find_public(native_name(name) or name)
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


@cache
def names() -> Names:
    """Read the table."""
    table = tomllib.loads(files(__package__).joinpath("names.toml").read_text())
    known = {name: Name(target=f"{module}:{name}") for module, group in table["targets"].items() for name in group}
    known |= {name: Name(target=target) for name, target in table["renamed"].items()}
    known |= {name: Name(value=value) for name, value in table["values"].items()}
    known |= {name: Name(use=group["use"]) for group in table["missing"] for name in group["names"]}
    without = {module: group["use"] for group in table["without"] for module in group["modules"]}
    return Names(table["follows"], table["modules"], known, table["native"], without, table["imported"])
