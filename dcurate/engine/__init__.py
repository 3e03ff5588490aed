"""Run a plan: decide which batch goes where, and run the operators inline or on Dask."""
