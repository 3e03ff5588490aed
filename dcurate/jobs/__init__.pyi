"""Public names of `dcurate.jobs` and the modules that define them; `__init__.py` reads this file."""

from .client import Job as Job
from .client import jobs_on as jobs_on
from .records import JobRecord as JobRecord
from .records import LogLine as LogLine

__all__: list[str]
