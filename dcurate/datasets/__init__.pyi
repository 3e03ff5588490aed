"""Public names of `dcurate.datasets` and the modules that define them; `__init__.py` reads this file."""

from .blend import Blend as Blend
from .contract import CheckSchema as CheckSchema
from .expressions import AddColumns as AddColumns
from .expressions import FilterByExpression as FilterByExpression
from .join import JoinTable as JoinTable
from .rebatch import Rebatch as Rebatch
from .shuffle import SampleFraction as SampleFraction
from .shuffle import SampleRows as SampleRows
from .shuffle import Shuffle as Shuffle
from .strata import SampleStrata as SampleStrata

__all__: list[str]
