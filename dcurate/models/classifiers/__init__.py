"""Stages that put labels and scores on documents with a model."""
