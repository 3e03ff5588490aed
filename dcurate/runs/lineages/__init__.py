"""Lineage: what a run read, what it wrote and by which plan, and the way back over several runs."""
