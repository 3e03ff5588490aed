"""Public names of `dcurate.audio` and the modules that define them; `__init__.py` reads this file."""

from .info import AudioInfo as AudioInfo

__all__: list[str]
