"""Public names of `dcurate.media` and the modules that define them; `__init__.py` reads this file."""

from .huggingface import PackMedia as PackMedia
from .huggingface import UnpackMedia as UnpackMedia

__all__: list[str]
