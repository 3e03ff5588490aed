"""Clean or classify texts with a model."""

from __future__ import annotations

from typing import Any

from dcurate.endpoints.client import AsyncLLMClient, LLMClient
from dcurate.endpoints.config import GenerationConfig
from dcurate.endpoints.generate import Generate
from dcurate.endpoints.prompt import Prompt
from dcurate.errors import PipelineError
from dcurate.frames.columns import numbers
from dcurate.frames.document import DocumentBatch

#: Share of the model's context that a text may take, as there is to be an answer of about its length.
_LONGEST = 0.8


class LLMCleanup(Generate):
    """Clean texts with a model, for example web pages with mathematics.

    Args:
        model: name of the model at the endpoint.
        system_prompt: the instructions, with ``{text}`` for the text; it is sent as the user message.
        text_field: the column with the text.
        output_field: the column for the answer.
        max_model_len: tokens of the model's context, for ``n_tokens_field``.
        classification: whether the answer is a label; it then goes into the column ``label``.
        temperature: generation setting, as are the four arguments after it; ``top_k`` and ``min_p`` are sent as
            vLLM has them.
        n_tokens_field: a column with the tokens of each text; where it is there, texts of 0.8 of ``max_model_len`` and
            more are dropped.
        client: client of the language model.

    Unlike NeMo Curator's, it calls an endpoint, rows keep their order, and no column is dropped.

    Raises:
        PipelineError: the prompt has no ``{text}``.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> client = AsyncOpenAIClient(base_url="http://localhost:8000/v1")
        >>> stage = LLMCleanup("org/llama", "Correct the formulas in: {text}", client=client)
        >>> stage.name, stage.inputs()[1], stage.outputs()[1]
        ('llama_llm_cleanup', ['text'], ['cleaned_text'])
    """

    def __init__(  # noqa: PLR0913, PLR0917 - NeMo Curator's order
        self,
        model: str,
        system_prompt: str,
        text_field: str = "text",
        output_field: str = "cleaned_text",
        max_model_len: int | None = None,
        classification: bool = False,
        temperature: float = 0.7,
        top_p: float = 0.8,
        top_k: int | None = 20,
        min_p: float = 0.0,
        max_tokens: int | None = None,
        n_tokens_field: str = "n_tokens",
        *,
        client: AsyncLLMClient | LLMClient,
        on_error: str = "quarantine",
        error_field: str | None = None,
    ) -> None:
        self.text_field = text_field
        self.max_model_len = max_model_len
        self.n_tokens_field = n_tokens_field
        super().__init__(
            prompt=system_prompt,
            output_field="label" if classification else output_field,
            client=client,
            model=model,
            generation_config=GenerationConfig(
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                top_k=top_k,
                extra_kwargs={"min_p": min_p} if min_p else None,
            ),
            name=f"{model.rpartition('/')[2]}_llm_cleanup",
            on_error=on_error,
            error_field=error_field,
        )
        if text_field not in self._read:
            raise PipelineError(f"{self.name}: system_prompt has no {{text}}, so the model would not see the text")

    @property
    def _prompts(self) -> tuple[Prompt | None, Prompt]:
        return None, Prompt(self.prompt or "", {"text": self.text_field})

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        fitting = [self._fitting(task) for task in tasks]
        cleaned = super().process_batch(fitting)
        for before, after in zip(fitting, cleaned, strict=True):
            after.rejections += before.rejections
        return cleaned

    def _fitting(self, task: DocumentBatch) -> DocumentBatch:
        """The rows that are short enough."""
        table: Any = task.to_arrow()
        if self.n_tokens_field not in table.column_names:
            return task
        if self.max_model_len is None:
            raise PipelineError(
                f"stage {self.name!r}: the rows have a column {self.n_tokens_field!r}, so max_model_len= must say how "
                "many tokens the model takes; or name another n_tokens_field="
            )
        long = numbers(table, self.n_tokens_field) >= int(_LONGEST * self.max_model_len)
        return task.keep(~long, self.name, "too long for the model")
