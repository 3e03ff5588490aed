"""Stages that run a vision model with Torch: embeddings of pictures, and filters by them."""
