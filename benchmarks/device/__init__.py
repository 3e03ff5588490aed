"""What is measured, and tested, on a machine with a GPU: `python -m benchmarks.device`."""
