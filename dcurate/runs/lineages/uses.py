"""What a run reads beside its input: models, tokenizers, benchmarks, indexes, as its settings name them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from dcurate.core.packages import is_ours
from dcurate.core.stage import Stage
from dcurate.fs.listing import walk
from dcurate.fs.paths import full_address, open_store
from dcurate.redaction import without_secrets

#: Settings that name what is read, and what that is called; see `docs/reference/names.md`.
_ROLES = {"model": "model", "tokenizer": "tokenizer", "tasks": "benchmarks", "index": "index"}
#: Settings that name what is written.
_WRITTEN = ("report_path", "output_path", "cache_path")
#: How deep objects are looked into, how many of them, and how many files of a folder count.
_LEVELS, _VALUES, _FILES = 5, 10_000, 10_000


@dataclass(frozen=True)
class Use:
    """Something that a stage reads beside the rows.

    Args:
        stage: name of the stage.
        setting: the setting that names it.
        role: ``"model"``, ``"tokenizer"``, ``"benchmarks"``, ``"index"`` or ``"file"``.
        address: a full path or URL, or the name of a model, without secrets.
        files: number of its files; 0 for a name, or where nothing is there.
        nbytes: their size.
        version: what changes when they do, or the revision of a model that is named; empty where that is not known.
    """

    stage: str
    setting: str
    role: str
    address: str
    files: int = 0
    nbytes: int = 0
    version: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)


def uses_of(stages: Sequence[Stage], output: str = "") -> list[Use]:
    """Return what the settings of stages name, each once.

    Args:
        stages: as the user wrote them.
        output: where the run writes.

    Examples:
        >>> from dcurate import ScoreFilter
        >>> from dcurate.text import FastTextQualityFilter
        >>> stage = ScoreFilter(FastTextQualityFilter("https://me:pw@host/quality.bin"), name="quality")
        >>> [(use.role, use.address) for use in uses_of([stage])]
        [('model', 'https://host/quality.bin')]
    """
    uses: dict[tuple[str, str], Use] = {}
    for place, stage in enumerate(stages):
        for owner, setting, value in _settings(stage):
            role = _role(setting)
            of_source = place == 0 and role == "file"  # its files are listed with their versions
            if not role or of_source or not value:
                continue
            options, revision = vars(owner).get("storage_options"), vars(owner).get("revision")
            named = Use(stage.name, setting, role, value, version=str(revision or ""))
            use = looked_at(named, options if isinstance(options, Mapping) else {})
            if use is not None and use.address != output:
                uses.setdefault((stage.name, use.address), use)
    return list(uses.values())


def _role(setting: str) -> str:
    """What a setting names; empty for one that names nothing that is read."""
    if setting in _WRITTEN or setting.startswith("_"):
        return ""
    noun = setting.removesuffix("_path").rpartition("_")[2]
    return _ROLES.get(noun) or ("file" if setting in ("path", "file_paths") or setting.endswith("_path") else "")


def _settings(stage: Stage) -> Iterator[tuple[Any, str, str]]:
    """The settings of a stage, and of objects of dcurate in them, whose values are texts: owner, name and value."""
    seen: dict[int, Any] = {}
    waiting: list[tuple[Any, str, Any, int]] = [(stage, "", stage, 0)]
    while waiting and len(seen) < _VALUES:
        owner, name, value, level = waiting.pop(0)
        if isinstance(value, str | os.PathLike):
            yield owner, name, os.fspath(value)
        elif level < _LEVELS and id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, list | tuple):
                waiting += [(owner, name, member, level + 1) for member in islice(value, _VALUES)]
            elif isinstance(value, Mapping):
                waiting += [(owner, str(key), member, level + 1) for key, member in islice(value.items(), _VALUES)]
            elif is_ours(type(value)):
                members = getattr(value, "__dict__", {})  # none of a tuple, or of slots
                waiting += [(value, key, member, level + 1) for key, member in members.items() if key[0] != "_"]


def looked_at(use: Use, options: Mapping[str, Any]) -> Use | None:
    """Return it with its address and the version of what is there; None where a file setting names no place."""
    named = without_secrets(use.address)
    is_place = "://" in use.address or os.path.exists(use.address)
    if not is_place:
        return None if use.role == "file" else replace(use, address=named, files=0, nbytes=0)
    entries, address = [], named
    try:
        store, path = open_store(use.address, options)
        address = without_secrets(full_address(store, path))
        entries = [(entry.path[len(path) :], entry.size, entry.version) for entry in islice(walk(store, path), _FILES)]
    except Exception:  # of any library of a store: a run that is over does not fail for it
        entries = []
    size = sum(size for _, size, _ in entries)
    digest = hashlib.sha256(repr(sorted(entries)).encode(errors="surrogateescape")).hexdigest()[:16]
    version = entries[0][2] if len(entries) == 1 else digest if entries else ""
    return Use(use.stage, use.setting, use.role, address, len(entries), size, version)
