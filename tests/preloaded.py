"""What the workers of the tests have loaded as they start: the process that they are forked from imports this."""

import importlib

from dcurate.kernels.nesting import line_ends

for module in (
    "distributed",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "dcurate.engine.dask.scheduler_plugin",
    "dcurate.engine.dask.worker_plugin",
    "dcurate.io.jsonl",
):
    importlib.import_module(module)

line_ends(b"{}\n", 9)  # numba loads half of itself, and SciPy, with the first kernel
