"""A limit of cost holds over all runs with one cache, and loses nothing that was paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcurate import InlineExecutor, JsonlReader, Pipeline, PipelineError, ResourceError
from dcurate.endpoints.cache import AnswerCache
from dcurate.llm import AsyncOpenAIClient, Generate, GenerationConfig
from dcurate_testing.llm_server import Endpoint

PRICES = {"made-up": (1_000_000.0, 2_000_000.0)}
TEXTS = 40


def source(folder: Path) -> JsonlReader:
    path = folder / "in.jsonl"
    path.write_text("".join(f'{{"text": "text {number} of some"}}\n' for number in range(TEXTS)))
    return JsonlReader(str(path))


def asked(endpoint: Endpoint, folder: Path, **settings: Any) -> list[str]:
    """The answers of a run; each costs 4 tokens of the prompt and 5 of the answer."""
    client = AsyncOpenAIClient(
        4, base_url=endpoint.url, base_delay_s=0.01, cache=str(folder / "answers"), prices=PRICES, **settings
    )
    stage = Generate(
        prompt="{text}",
        output_field="said",
        client=client,
        model="made-up",
        generation_config=GenerationConfig(max_tokens=5),
    )
    result = Pipeline("test", stages=[source(folder), stage]).run(InlineExecutor(), observers=[])
    return [text for batch in result for text in batch.to_arrow()["said"].to_pylist()]  # type: ignore[attr-defined]


def spent(folder: Path) -> int:
    with AnswerCache(str(folder / "answers")).open() as answers:
        return sum(prompt + 2 * completion for prompt, completion in answers.spent().values())


@pytest.mark.parametrize("concurrency", [0.0, 0.01])
def test_a_run_ends_before_it_costs_more_and_the_next_pays_for_the_rest_alone(
    endpoint: Endpoint, tmp_path: Path, concurrency: float
) -> None:
    endpoint.behave(latency=concurrency)
    with pytest.raises(ResourceError, match=r"max_cost=200 is reached: the answers in .* have taken .* raise max_cost"):
        asked(endpoint, tmp_path, max_cost=200)
    first = endpoint.seen
    assert spent(tmp_path) == 14 * first.paid
    assert 200 - 40 < spent(tmp_path) <= 200
    with pytest.raises(ResourceError, match="max_cost=200 is reached"):
        asked(endpoint, tmp_path, max_cost=200)
    assert endpoint.seen.requests == first.requests
    assert len(asked(endpoint, tmp_path, max_cost=10_000)) == TEXTS
    assert endpoint.seen.paid == TEXTS
    assert spent(tmp_path) == 14 * TEXTS


def test_tokens_can_be_limited_without_prices(endpoint: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="max_total_tokens=100 is reached"):
        asked(endpoint, tmp_path, max_total_tokens=100)
    with AnswerCache(str(tmp_path / "answers")).open() as answers:
        assert 60 < sum(map(sum, answers.spent().values())) <= 100


def test_a_limit_without_what_it_needs_is_refused() -> None:
    with pytest.raises(PipelineError, match="max_cost=1 needs prices="):
        AsyncOpenAIClient(max_cost=1, cache="answers")
    with pytest.raises(PipelineError, match="need cache=, which keeps what was paid for"):
        AsyncOpenAIClient(max_total_tokens=1)
    with pytest.raises(PipelineError, match="max_cost=0 must be above zero"):
        AsyncOpenAIClient(max_cost=0, prices=PRICES, cache="answers")


def test_a_limit_needs_one_slot() -> None:
    client = AsyncOpenAIClient(base_url="http://localhost:1/v1", max_total_tokens=9, cache="answers")
    stage = Generate(prompt="{text}", output_field="said", client=client, model="made-up")
    assert stage.num_workers() == 1
    with pytest.raises(PipelineError, match="max_cost and max_total_tokens need one slot, not 3"):
        stage.with_(num_workers=3).setup()
