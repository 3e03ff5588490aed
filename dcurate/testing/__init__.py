"""Checks of what a user adds: `check_stage` for a stage, `SubjectTests` for a package."""

from dcurate.testing.stage import LAWS, check_stage, run_stage
from dcurate.testing.subject import SubjectTests

__all__ = ["LAWS", "SubjectTests", "check_stage", "run_stage"]
