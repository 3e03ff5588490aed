"""Read pictures of pages with PP-OCR models through ONNX Runtime."""
