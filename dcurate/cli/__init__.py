"""The command line: ``dcurate``."""

from dcurate.cli import corpora, monitoring, nemo, recipes, runs, samples, tokens
from dcurate.cli.group import cli, main

__all__ = ["cli", "corpora", "main", "monitoring", "nemo", "recipes", "runs", "samples", "tokens"]
