"""Interleaved documents: texts and pictures in reading order, a row for each."""
