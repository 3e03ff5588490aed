"""The command line: ``dcurate``."""

from dcurate.cli import corpora, monitoring, recipes, runs, tokens
from dcurate.cli.group import cli, main

__all__ = ["cli", "corpora", "main", "monitoring", "recipes", "runs", "tokens"]
