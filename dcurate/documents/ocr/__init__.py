"""Read pictures of pages with PP-OCR models through ONNX Runtime."""

from __future__ import annotations

from dcurate.documents.ocr.page import PageOcr, PageText, Word

__all__ = ["PageOcr", "PageText", "Word"]
