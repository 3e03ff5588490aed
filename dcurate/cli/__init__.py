"""The command line: ``dcurate``."""

from dcurate.cli import (
    corpora,
    jobs,
    label,
    learn,
    lineage,
    marks,
    models,
    monitoring,
    nemo,
    optouts,
    prove,
    recipes,
    runs,
    samples,
    summary,
    tokens,
)
from dcurate.cli.group import cli, main

__all__ = [
    "cli",
    "corpora",
    "jobs",
    "label",
    "learn",
    "lineage",
    "main",
    "marks",
    "models",
    "monitoring",
    "nemo",
    "optouts",
    "prove",
    "recipes",
    "runs",
    "samples",
    "summary",
    "tokens",
]
