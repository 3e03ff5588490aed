"""Deduplication under NeMo Curator's names and arguments, through dcurate's own engine and kernels."""
