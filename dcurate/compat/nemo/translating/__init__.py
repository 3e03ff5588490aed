"""The parts of NeMo Curator's translation."""
