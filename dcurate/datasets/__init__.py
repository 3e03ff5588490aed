"""Whole datasets: samples, blends, order, and the sizes of batches."""
