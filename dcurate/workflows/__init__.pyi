"""Public names of `dcurate.workflows` and the modules that define them; `__init__.py` reads this file."""

from .result import WorkflowRunResult as WorkflowRunResult

__all__: list[str]
