"""The command line: ``dcurate``."""

from dcurate.cli import corpora, jobs, label, marks, monitoring, nemo, recipes, runs, samples, tokens
from dcurate.cli.group import cli, main

__all__ = [
    "cli",
    "corpora",
    "jobs",
    "label",
    "main",
    "marks",
    "monitoring",
    "nemo",
    "recipes",
    "runs",
    "samples",
    "tokens",
]
