"""Compile a pipeline to a plan: operators, and the rules that fuse, place and prioritise them. Pure; no Dask."""
