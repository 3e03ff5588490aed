"""The engine: what runs a plan."""
