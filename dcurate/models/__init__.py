"""Stages that run models: tokenise, then classify, embed or score. Torch is imported when a stage is set up."""
