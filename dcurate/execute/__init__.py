"""Carries a plan out: inline, in batch or streaming on Dask; decides apart from doing."""
