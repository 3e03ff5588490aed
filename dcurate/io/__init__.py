"""Readers and writers, the files between them, and what a run remembers on disk."""
