"""Public names of `dcurate.runs` and the modules that define them; `__init__.py` reads this file."""

from dcurate.io.tracing import TracedPiece as TracedPiece
from dcurate.io.tracing import TraceHook as TraceHook

from .inspect import RunPlaces as RunPlaces
from .lineages.graph import lineage as lineage
from .lineages.result import Lineage as Lineage
from .lineages.way import WaysBack as WaysBack
from .lineages.way import way_back as way_back
from .preview import Preview as Preview
from .proof import Proof as Proof
from .proof import RowChange as RowChange
from .proof import prove as prove
from .proof_row import RowProof as RowProof
from .proof_row import prove_row as prove_row
from .proof_sample import prove_sample as prove_sample
from .publish.publish import Published as Published
from .summary.fields import SummaryField as SummaryField
from .summary.fields import SummarySection as SummarySection
from .summary.summary import SummaryOptions as SummaryOptions
from .summary.summary import TrainingSummary as TrainingSummary
from .summary.summary import training_summary as training_summary

__all__: list[str]
