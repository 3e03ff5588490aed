"""The record of a run: state, history, manifest."""
