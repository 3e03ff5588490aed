"""Pages of PDFs to lines: pdfium called in bulk, segments, columns, the order of reading."""
