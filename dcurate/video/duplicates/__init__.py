"""Films that repeat others."""
