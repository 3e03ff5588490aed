"""Texts in capitals: a reader, a rule and a stage of someone else."""

from acme_shouting.reader import LinesReader
from acme_shouting.rule import ShoutingFilter
from acme_shouting.stage import Quieten

__all__ = ["LinesReader", "Quieten", "ShoutingFilter"]
