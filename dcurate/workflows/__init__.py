"""Deduplication of whole datasets in one call, under the names that NeMo Curator gives it."""
