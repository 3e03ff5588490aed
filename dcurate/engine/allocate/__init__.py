"""Allocate slots: how many of which operator on which host and GPU."""
