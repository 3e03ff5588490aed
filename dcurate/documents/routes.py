"""Where a page of a document can go for its text."""

from __future__ import annotations

from typing import Final

#: The text of the file; OCR; a vision model behind an endpoint; nowhere, because nothing can read it.
TEXT: Final = "text"
OCR: Final = "ocr"
VISION: Final = "vision"
ASIDE: Final = "set aside"
ROUTES: Final = (TEXT, OCR, VISION, ASIDE)
