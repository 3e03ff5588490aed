"""Public names of `dcurate.documents` and the modules that define them; `__init__.py` reads this file."""

from .extract import PdfExtract as PdfExtract
from .filters import BrokenTextFilter as BrokenTextFilter
from .filters import CharactersPerPageFilter as CharactersPerPageFilter
from .filters import PageCountFilter as PageCountFilter
from .filters import ScannedFilter as ScannedFilter
from .needs_ocr import NeedsOcr as NeedsOcr
from .ocr.page import PageOcr as PageOcr
from .office.stage import OfficeExtract as OfficeExtract
from .vision import VisionExtract as VisionExtract

__all__: list[str]
