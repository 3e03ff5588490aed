"""Embeddings, personal data and questions, against a real server."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, LocalCluster, Pipeline, PipelineError
from dcurate.frames.vectors import embeddings
from dcurate.llm import (
    AsyncOpenAIClient,
    EndpointEmbedding,
    FilterByAnswerability,
    FilterByEasiness,
    LLMPii,
    OpenAIClient,
    RequestError,
)
from dcurate_testing.llm_server import DIMENSIONS, Endpoint, vector_of

pytestmark = pytest.mark.cluster


def client(endpoint: Endpoint, **settings: Any) -> AsyncOpenAIClient:
    return AsyncOpenAIClient(**{"base_url": endpoint.url, "base_delay_s": 0.01, **settings})


def embed(endpoint: Endpoint, **settings: Any) -> EndpointEmbedding:
    return EndpointEmbedding(**{"client": client(endpoint), "model": "made-up", **settings})


def run(stage: Any, *batches: dict[str, Any], executor: Any = None) -> Any:
    tasks = [DocumentBatch(data=pa.table(columns)) for columns in batches]
    return Pipeline("test", stages=[stage]).run(executor or InlineExecutor(), initial_tasks=tasks)


def column(result: Any, name: str) -> list[Any]:
    return [value for batch in result for value in batch.to_arrow()[name].to_pylist()]


def test_every_text_has_its_own_vector(endpoint: Endpoint, cluster: LocalCluster) -> None:
    texts = [f"text {number}" for number in range(10)]
    stage = embed(endpoint, texts_per_request=3)
    result = run(stage, {"text": texts[:7]}, {"text": texts[7:]})
    assert result[0].to_arrow()["embeddings"].type == pa.list_(pa.float32(), DIMENSIONS)
    assert column(result, "embeddings") == [pytest.approx(vector_of(text)) for text in texts]
    assert endpoint.seen.requests == 4
    again = run(stage, {"text": texts[:7]}, {"text": texts[7:]}, executor=DaskExecutor(cluster=cluster))
    assert column(again, "embeddings") == column(result, "embeddings")


def test_a_text_without_words_has_no_direction(endpoint: Endpoint) -> None:
    result = run(embed(endpoint), {"text": ["a", None, " ", ""]})
    assert column(result, "embeddings")[1:] == [[0.0] * DIMENSIONS] * 3
    assert embeddings(result[0].to_arrow(), "embeddings").rows.tolist() == [0]
    assert endpoint.seen.asked == {"a": 1}


def test_a_batch_without_any_text_has_vectors_of_the_right_length(endpoint: Endpoint) -> None:
    assert column(run(embed(endpoint), {"text": ["", ""]}), "embeddings") == [[0.0] * DIMENSIONS] * 2


def test_a_text_that_is_refused_does_not_cost_the_others(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"match": "bad", "status": 400, "message": "too many tokens", "times": 100}])
    result = run(embed(endpoint), {"text": ["a", "bad", "c"]})
    assert column(result, "text") == ["a", "c"]
    assert column(result, "embeddings") == [pytest.approx(vector_of(text)) for text in "ac"]
    assert result.report.stages[-1].faulty == {"prompt too long": 1}
    with pytest.raises(RequestError, match="the prompt is too long"):
        run(embed(endpoint, on_error="raise"), {"text": ["a", "bad", "c"]})


def test_vectors_that_were_paid_for_are_kept(endpoint: Endpoint, tmp_path: Any) -> None:
    stage = embed(endpoint, client=client(endpoint, cache=str(tmp_path)))
    first, second = (column(run(stage, {"text": ["a", "b"]}), "embeddings") for _ in range(2))
    assert first == second
    assert endpoint.seen.requests == 1


def test_no_more_of_a_text_is_sent_than_asked_for(endpoint: Endpoint) -> None:
    run(embed(endpoint, max_chars=3, client=OpenAIClient(base_url=endpoint.url)), {"text": ["abcdef"]})
    assert endpoint.seen.asked == {"abc": 1}


def test_settings_of_embeddings_are_checked(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="texts_per_request=0 must be at least 1"):
        embed(endpoint, texts_per_request=0)
    with pytest.raises(PipelineError, match="on_error='null' is unknown"):
        embed(endpoint, on_error="null")


# Personal data


def found(*entities: tuple[str, str]) -> str:
    return json.dumps({"entities": [{"type": kind, "text": text} for kind, text in entities]})


def pii(endpoint: Endpoint, **settings: Any) -> LLMPii:
    return LLMPii(client=client(endpoint), model="made-up", **settings)


def test_what_a_model_finds_is_replaced_and_nothing_else(endpoint: Endpoint) -> None:
    answer = found(("name", "Ann Lee"), ("name", "Ann"), ("planet", "Mars"), ("name", "Bob"))
    endpoint.behave(replies=[["Annual", answer], ["nobody", found()]])
    texts = ["Annual news of Ann Lee and Ann on Mars.", "nobody", None]
    result = run(pii(endpoint, entities_field="found"), {"text": texts})
    assert column(result, "text") == ["Annual news of {name} and {name} on Mars.", "nobody", None]
    assert json.loads(column(result, "found")[0])[0] == {"type": "name", "text": "Ann Lee"}
    metrics = result.report.stages[-1].metrics
    assert (metrics["entities"], metrics["not_in_text"]) == (3, 1)


def test_a_text_that_could_not_be_looked_through_is_not_passed_on(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["secret", "I cannot help."]])
    result = run(pii(endpoint), {"text": ["secret"]})
    assert column(result, "text") == []
    assert result.report.stages[-1].faulty == {"unparsable answer": 1}


def test_kinds_of_data_are_a_list(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="labels='name' must be a list"):
        pii(endpoint, labels="name")


# Questions


def test_questions_that_the_text_does_not_answer_are_dropped(endpoint: Endpoint) -> None:
    endpoint.behave(
        replies=[
            ["Question: good", '{"criterion_1": "Y", "criterion_2": "Y"}'],
            ["Question: bad", '{"criterion_1": "Y", "criterion_2": "N"}'],
        ]
    )
    rows = {"text": ["t", "t", "t"], "question": ["good", "bad", "odd"]}
    stage = FilterByAnswerability(client=client(endpoint), model="made-up", send_schema=False)
    result = run(stage, rows)
    assert column(result, "question") == ["good"]
    stats = result.report.stages[-1]
    assert (stats.dropped, stats.faulty) == ({"answerability": 1}, {"unparsable answer": 1})


def test_questions_that_are_too_near_to_their_text_are_dropped(endpoint: Endpoint) -> None:
    rows = {"text": ["the sea", "a hill", None], "question": ["the sea", "why?", "how?"]}
    stage = FilterByEasiness(client(endpoint), "made-up", max_similarity=0.999)
    result = run(stage, rows)
    assert column(result, "question") == ["why?", "how?"]
    first, second = column(result, "easiness")
    assert 0 < first < 0.999
    assert second == 0.0
    assert len(column(run(FilterByEasiness(client(endpoint), "made-up"), rows), "easiness")) == 3
