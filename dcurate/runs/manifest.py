"""The manifest of a run as plain values: stages, settings, thresholds, versions, and how to repeat it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dcurate.core import secrets
from dcurate.core.pipeline import PipelineDefinition
from dcurate.core.secrets import argument_without_secrets
from dcurate.core.stage import ProcessingStage, SourceStage, Stage
from dcurate.redaction import HIDDEN, redacted, without_secrets
from dcurate.text.thresholds import thresholds

#: Packages whose versions are recorded; those in the second row only where they are in use.
PACKAGES = ("dcurate", "dask", "distributed", "numpy", "pandas", "pyarrow", "numba")
WHERE_USED = ("torch", "transformers", "cudf", "cupy", "fasttext")

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LONGEST, _MOST = 300, 20
_OBVIOUS = ("name", "resources", "batch_size", "spec")


def provenance(pipeline: PipelineDefinition, stages: Sequence[Stage]) -> dict[str, Any]:
    """Describe the settings, versions and inputs of a run, without secrets.

    Args:
        pipeline: pipeline as the user wrote it.
        stages: those that it was taken apart into.

    Returns:
        ``description``, ``stages`` (``name``, ``kind``, ``needs``, ``settings``, ``evidence``: what columns of dropped
        rows say, and ``groups``: where one wrote groups of duplicates), ``thresholds`` by stage and filter,
        ``versions``, ``machine``, ``inputs``, ``command`` where there was one, and ``resume``: how to go on.

    Examples:
        >>> from dcurate import Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> pipeline = Pipeline("demo").add_stage(ScoreFilter(WordCountFilter(min_words=5)))
        >>> about = provenance(pipeline, pipeline.build())
        >>> about["stages"][0]["kind"], about["thresholds"]["word_count"]["word_count"][0]
        ('ScoreFilter', {'keeps': '>= 5', 'value': 5.0})
    """
    source = stages[0] if stages and isinstance(stages[0], SourceStage) else None
    command = _command()
    return {
        "description": pipeline.description or "",
        "stages": [
            {
                "name": stage.name,
                "kind": type(stage).__name__,
                "needs": str(stage.resources),
                "settings": _settings(stage),
                **({"evidence": dict(evidence)} if (evidence := stage.evidence_columns()) else {}),
                **({"groups": _full_path(str(groups))} if (groups := vars(stage).get("report_path")) else {}),
            }
            for stage in stages
        ],
        "thresholds": {
            stage: {name: [asdict(cut) for cut in cuts] for name, cuts in filters.items()}
            for stage, filters in thresholds(stage for stage in stages if isinstance(stage, ProcessingStage)).items()
        },
        "versions": versions(),
        **_recipe(pipeline.config),
        "machine": f"{platform.node()}, {os.cpu_count()} CPUs, {platform.system()} {platform.machine()}",
        "inputs": [] if source is None else _paths(source),
        "command": command,
        "resume": _resume(command),
    }


def _recipe(config: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe that a pipeline was made from, and its params, where the recipe's reader noted them."""
    params = config.get("params")
    about: dict[str, Any] = {"recipe": str(config["recipe"])} if "recipe" in config else {}
    return about | ({"params": {name: shown(value, name) for name, value in params.items()}} if params else {})


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect the output."""
    used = [name for name in WHERE_USED if name in sys.modules]
    installed = {name: _version(name) for name in (*PACKAGES, *used)}
    return {
        "Python": platform.python_version(),
        **{name: package_version for name, package_version in installed.items() if package_version},
    }


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _command() -> str:
    """The command line, where the run was begun by ``dcurate run``."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    if program != "dcurate":
        return ""
    return redacted(shlex.join([program, *map(argument_without_secrets, sys.argv[1:])]))


def _resume(command: str) -> str:
    if not command:
        return "pipeline.run(executor, resume=True)"
    return command if "--resume" in command else f"{command} --resume"


def _full_path(path: str) -> str:
    """A path that holds in any working directory; a URL stays as it is."""
    return path if "://" in path else os.path.abspath(path)


def _settings(stage: Stage) -> dict[str, str]:
    """Settings that say something, as text."""
    return {
        name: shown(value, name)
        for name, value in vars(stage).items()
        if not name.startswith("_") and name not in _OBVIOUS and not _says_nothing(value)
    }


def _says_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | Mapping | Sequence) and not value)


def shown(value: Any, name: str = "") -> str:
    """A setting as text, without secrets.

    Examples:
        >>> shown({"key": "AKIA", "client_kwargs": {"endpoint_url": "http://me:pw@host"}})
        "{key: ..., client_kwargs: {endpoint_url: 'http://host'}}"
    """
    value = secrets.shown(value, name)
    if isinstance(value, str) and value == HIDDEN:
        return "..."
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(entry, str(key))}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        some = [shown(element) for element in list(value)[:_MOST]]
        return "[" + ", ".join([*some, f"and {len(value) - _MOST} more"] if len(value) > _MOST else some) + "]"
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.repr and not field.name.startswith("_")]
        inner = ", ".join(f"{attribute}={shown(getattr(value, attribute), attribute)}" for attribute in names)
        return f"{type(value).__name__}({inner})"
    text = without_secrets(_ADDRESS.sub("", repr(value)))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _paths(source: SourceStage[Any, Any]) -> list[str]:
    """The paths that a source was given."""
    readers = vars(source).get("readers")
    if readers is not None:
        return [path for reader in readers for path in _paths(reader)][:_MOST]
    paths = vars(source).get("file_paths", vars(source).get("path", ()))
    many = paths if isinstance(paths, list | tuple) else [paths]
    return [without_secrets(str(path)) for path in many][:_MOST]
