"""Requests to OpenAI-compatible endpoints, and the stage that makes them; no Torch."""
