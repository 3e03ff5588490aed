"""Public names of `dcurate.media` and the modules that define them; `__init__.py` reads this file."""

from dcurate.isolate.errors import MediaError as MediaError
from dcurate.isolate.errors import MediaFault as MediaFault

from .heads import File as File
from .huggingface import PackMedia as PackMedia
from .huggingface import UnpackMedia as UnpackMedia
from .reference import Ref as Ref
from .refs import fetch as fetch
from .refs import ref_array as ref_array
from .stage import FileReading as FileReading
from .stage import FileStage as FileStage

__all__: list[str]
