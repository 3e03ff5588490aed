"""The parts of deduplication under NeMo Curator's names; `dcurate.compat.nemo.dedup` has them all."""
