"""Stages for videos under NeMo Curator's names: each takes and returns a `VideoTask`, a film with its clips.

A stage gives films and clips to dcurate's own stage or function of the same purpose, decodes in child processes, and
puts what it learns into the task.
"""
