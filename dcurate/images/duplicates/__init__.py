"""Duplicates among images: exact ones, near ones without a missed pair, and images of benchmarks."""
