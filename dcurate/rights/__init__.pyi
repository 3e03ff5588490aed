"""Public names of `dcurate.rights` and the modules that define them; `__init__.py` reads this file."""

from .find import FindRights as FindRights
from .policy import FilterByRights as FilterByRights
from .policy import RightsFilter as RightsFilter
from .robots_files import RobotsFiles as RobotsFiles

__all__: list[str]
