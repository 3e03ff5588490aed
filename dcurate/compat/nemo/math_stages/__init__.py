"""Stages for web pages with mathematics."""
