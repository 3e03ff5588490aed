"""Layouts of films and clips on disk: read, and written."""
