"""Public names of `dcurate.learn` and the modules that define them; `__init__.py` reads this file."""

from .agreement import cohen_kappa as cohen_kappa
from .agreement import krippendorff_alpha as krippendorff_alpha
from .agreement import measure_agreement as measure_agreement
from .judge import ComparePairs as ComparePairs
from .judge import Judge as Judge
from .schema import Label as Label
from .schema import LabelSchema as LabelSchema

__all__: list[str]
