"""Stages that ask a language model behind an HTTP endpoint: any that speaks OpenAI's interface."""
