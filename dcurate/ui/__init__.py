"""Views of a run: terminal, notebook, dashboard, pages and metrics."""

from dcurate.core.public import attach

__getattr__, __dir__ = attach(__name__, __file__)
