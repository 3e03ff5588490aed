"""Public names of `dcurate.tokens` and the modules that define them; `__init__.py` reads this file."""

from .importance import ImportanceWeights as ImportanceWeights
from .importance import fit_importance as fit_importance
from .mixture import Mixture as Mixture
from .nemo import MegatronTokenizerWriter as MegatronTokenizerWriter
from .shuffle import TokenShuffle as TokenShuffle
from .sources import Source as Source

__all__: list[str]
