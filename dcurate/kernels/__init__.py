"""Hot loops over the Arrow layout (offsets and UTF-8 bytes), compiled by numba without the GIL."""
