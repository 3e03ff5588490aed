"""Public names of `dcurate.runs` and the modules that define them; `__init__.py` reads this file."""

from dcurate.io.tracing import TracedPiece as TracedPiece
from dcurate.io.tracing import TraceHook as TraceHook

from .inspect import RunPlaces as RunPlaces
from .preview import Preview as Preview
from .publish.publish import Published as Published

__all__: list[str]
