"""Finding documents that repeat."""
