"""The Dask backend."""
