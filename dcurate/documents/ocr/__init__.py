"""Read pictures of pages with PP-OCR models through ONNX Runtime, and broken fonts by the shapes of their glyphs."""

import dcurate.documents.pdf  # noqa: F401 - first: it and this package use each other's modules
