"""Public names of `dcurate.learn` and the modules that define them; `__init__.py` reads this file."""

from .agreement import cohen_kappa as cohen_kappa
from .agreement import krippendorff_alpha as krippendorff_alpha
from .agreement import measure_agreement as measure_agreement
from .check import CheckLabels as CheckLabels
from .columns import ColumnStudent as ColumnStudent
from .head import StudentHead as StudentHead
from .judge import ComparePairs as ComparePairs
from .judge import Judge as Judge
from .schema import Label as Label
from .schema import LabelSchema as LabelSchema
from .score import LabelScoreFilter as LabelScoreFilter
from .score import ScoreLabels as ScoreLabels
from .stage import HeldBack as HeldBack
from .stage import Learn as Learn
from .student import Student as Student
from .thresholds import KeepByFBeta as KeepByFBeta
from .thresholds import KeepFraction as KeepFraction
from .thresholds import KeepPrecision as KeepPrecision
from .train_ngrams import TrainNgrams as TrainNgrams
from .training import TextFeatures as TextFeatures
from .training import Training as Training

__all__: list[str]
