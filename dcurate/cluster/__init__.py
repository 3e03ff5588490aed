"""A connected Dask client: an embedded local cluster, CPU and CUDA workers together, or one that runs elsewhere."""
