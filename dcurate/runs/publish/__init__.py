"""Publish the output of a finished run."""
