"""Run a pipeline, round by round."""
