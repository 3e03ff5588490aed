"""Stages that call a language model behind any OpenAI-compatible HTTP endpoint."""
