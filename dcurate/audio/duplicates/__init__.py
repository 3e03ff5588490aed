"""Recordings that repeat others."""
