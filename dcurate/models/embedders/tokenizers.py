"""Tokenize texts for embedding: with a prompt before them, and truncated to the model's limit."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from dcurate.core.extras import needed
from dcurate.core.stage import WorkerMetadata
from dcurate.models.embedders.layout import positions, read_layout
from dcurate.models.tokenizer import Tokenize


@dataclass
class PromptedTokenizer(Tokenize):
    """Tokenize texts with a prompt before each, as required by models such as E5.

    Args:
        prompt: such as ``"query: "``; with ``max_chars`` it counts as part of the text.
    """

    _: KW_ONLY
    prompt: str | None = None

    def texts(self, table: Any) -> list[str]:
        texts, prompt = super().texts(table), self._prompt()
        return [prompt + text for text in texts] if prompt else texts

    def _prompt(self) -> str:
        return self.prompt or ""


@dataclass
class SentenceTokenizer(PromptedTokenizer):
    """Tokenize texts like sentence-transformers for the same model: its maximum length, lower-casing and prompts.

    Args:
        prompt_name: name of one of the model's own prompts; by default the one that its folder names, mostly none.
    """

    _: KW_ONLY
    prompt_name: str | None = None

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the tokenizer, and find the prompt."""
        layout = read_layout(self.weights.folder("tokenizer"))
        self._own_prompt = layout.prompt(self.prompt_name) if self.prompt is None else self.prompt
        super().setup(worker_metadata)

    def load_tokenizer(self, folder: str) -> Any:
        layout = read_layout(folder)
        tokenizer = super().load_tokenizer(layout.encoder)
        longest = layout.max_seq_length or positions(layout.encoder)
        if longest is not None and (layout.max_seq_length or longest < tokenizer.model_max_length):
            tokenizer.model_max_length = longest
        if layout.lower_case:
            lower_cased(tokenizer)
        return tokenizer

    def _prompt(self) -> str:
        return self._own_prompt


def lower_cased(tokenizer: Any) -> None:
    """Make a tokenizer lower-case texts first."""
    normalizers = needed("tokenizers.normalizers", "lower-casing of texts", "models")
    held = tokenizer.backend_tokenizer.normalizer
    steps = [normalizers.Lowercase(), *([held] if held is not None else [])]
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
