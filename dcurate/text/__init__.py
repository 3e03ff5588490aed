"""Stages over texts: scores, filters, modifiers."""
