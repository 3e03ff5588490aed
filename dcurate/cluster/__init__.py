"""A connected Dask client: an embedded cluster, one that runs elsewhere, or one that grows and shrinks by kind."""
