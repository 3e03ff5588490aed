"""Stages that add labels and scores of a model."""
