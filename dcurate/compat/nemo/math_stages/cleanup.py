"""Clean or classify texts with a language model."""

from __future__ import annotations

import copy
import os
from typing import Any

from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.stages import Resources
from dcurate.endpoints.openai_client import AsyncOpenAIClient
from dcurate.errors import PipelineError

_LLMCleanupStage: type[Any] = builtin.LLMCleanupStage


class LLMCleanupStage(_LLMCleanupStage):  # type: ignore[misc]
    """dcurate's stage, which asks an endpoint: dcurate does not run vLLM itself.

    Without `client` it asks the endpoint that the environment variable ``OPENAI_BASE_URL`` names, such as one that
    ``vllm serve MODEL`` opens. As the endpoint has the GPU, the stage needs none, also if it is asked for.

    Args:
        cache_dir: not used.
        settings: those of `dcurate.llm.LLMCleanup`.

    Raises:
        PipelineError: there is no endpoint.
    """

    def __init__(self, model: Any, *args: Any, cache_dir: str | None = None, **settings: Any) -> None:
        with as_nemo_raises():
            self._find_endpoint(settings)
        super().__init__(str(model), *args, **settings)

    def _find_endpoint(self, settings: dict[str, Any]) -> None:
        if settings.get("client") is None:
            if not os.environ.get("OPENAI_BASE_URL"):
                raise PipelineError(
                    "dcurate does not run vLLM itself: start `vllm serve MODEL`, and set OPENAI_BASE_URL to its "
                    "address, such as http://localhost:8000/v1"
                )
            settings["client"] = AsyncOpenAIClient(max_concurrent_requests=64)

    def with_(self, *args: Any, **settings: Any) -> Any:
        """A copy of the stage with some settings changed; without a GPU."""
        changed = super().with_(*args, **settings)
        if changed.resources.requires_gpu:
            changed = copy.copy(changed)
            changed.resources = Resources(cpus=changed.resources.cpus)
        return changed

    def process_batch(self, tasks: list[Any]) -> list[Any]:
        """Clean each text; of a classification the text is dropped, as are counted tokens."""
        done: list[Any] = super().process_batch(tasks)
        unused = {self.n_tokens_field, *([self.text_field] if self.output_field == "label" else [])}
        return [task.with_data(_without(task.to_arrow(), unused)) for task in done]


def _without(table: Any, names: set[str]) -> Any:
    return table.drop_columns([name for name in table.column_names if name in names])
