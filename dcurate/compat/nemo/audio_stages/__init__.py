"""Stages for recordings under NeMo Curator's names: each takes and returns an `AudioTask`, a row of a manifest.

A stage gives the values it needs to dcurate's own stage or function of the same purpose and puts the new values into
the row. All other values of the row stay as they are.
"""
