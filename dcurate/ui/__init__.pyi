"""Public names of `dcurate.ui` and the modules that define them; `__init__.py` reads this file."""

from .compare import compare_runs as compare_runs
from .openlineage import OpenLineage as OpenLineage
from .openlineage import OpenLineageSettings as OpenLineageSettings
from .progress import JsonProgress as JsonProgress
from .progress import Progress as Progress
from .student_page import write_student_page as write_student_page
from .table import report_table as report_table
from .thresholds import ThresholdPlot as ThresholdPlot
from .thresholds import threshold_plot as threshold_plot
from .tracing import Tracing as Tracing

__all__: list[str]
