"""Shuffle rows by key, out of core."""
