"""Readers and writers, their files, and the records of a run on disk."""
