"""Decode images; this package needs the extra ``images``."""
