"""Stages that run models: tokenize, then classify, embed or score. Torch is imported when a stage is set up."""
