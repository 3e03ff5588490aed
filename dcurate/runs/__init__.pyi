"""Public names of `dcurate.runs` and the modules that define them; `__init__.py` reads this file."""

from .inspect import RunPlaces as RunPlaces
from .publish.publish import Published as Published

__all__: list[str]
