"""Public names of `dcurate.dedup` and the modules that define them; `__init__.py` reads this file."""

from dcurate.groups.keep import First as First
from dcurate.groups.keep import Highest as Highest
from dcurate.groups.keep import Keep as Keep
from dcurate.groups.keep import Longest as Longest
from dcurate.groups.keep import Lowest as Lowest
from dcurate.groups.keep import Preferred as Preferred

from .bands import Bands as Bands
from .benchmarks import Benchmark as Benchmark
from .benchmarks import NgramIndex as NgramIndex
from .bloom import BloomDuplicates as BloomDuplicates
from .bloom import bloom_state as bloom_state
from .bloom_filter import BloomState as BloomState
from .bloom_size import BloomSize as BloomSize
from .decontamination import TaskDecontamination as TaskDecontamination
from .minhash import MinHash as MinHash
from .removal import RemoveIds as RemoveIds
from .report import DedupReport as DedupReport
from .report import dedup_report as dedup_report
from .report_table import DedupReportTable as DedupReportTable
from .shingles import Shingles as Shingles
from .site_boilerplate import RemoveSiteBoilerplate as RemoveSiteBoilerplate

__all__: list[str]
