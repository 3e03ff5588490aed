"""Observers of a run: progress, tables and reports. The engine never imports them."""
