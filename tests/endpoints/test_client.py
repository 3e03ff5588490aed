"""Clients against a real server."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from dcurate import PipelineError, ResourceError
from dcurate.core.fingerprint import fingerprint
from dcurate.endpoints.config import Answer, EmbeddingRequest, Messages, Request
from dcurate.endpoints.errors import wait_asked
from dcurate.llm import (
    AnswerCache,
    AsyncLLMClient,
    AsyncOpenAIClient,
    Generate,
    GenerationConfig,
    LLMClient,
    OpenAIClient,
    RequestError,
)
from dcurate_testing.llm_server import Endpoint, vector_of

HELLO = [{"role": "user", "content": "hello"}]
PLAIN = GenerationConfig()


def client(endpoint: Endpoint, **settings: Any) -> AsyncOpenAIClient:
    return AsyncOpenAIClient(
        **{"base_url": endpoint.url, "base_delay_s": 0.01, "max_concurrent_requests": 4, **settings}
    )


def asked(of: AsyncLLMClient, *questions: Any) -> list[Any]:
    """What a client answers to each; errors as values."""

    async def ask() -> list[Any]:
        of.setup()
        try:
            return await asyncio.gather(*(of.ask(one) for one in questions), return_exceptions=True)
        finally:
            await of.close()

    return asyncio.run(ask())


def ask(of: AsyncLLMClient, text: str = "hello", config: GenerationConfig = PLAIN) -> Any:
    (answer,) = asked(of, Request([{"role": "user", "content": text}], "made-up", config))
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_an_answer_comes_with_what_it_took(endpoint: Endpoint) -> None:
    assert ask(client(endpoint)) == Answer(("echo: hello",), prompt_tokens=1, completion_tokens=2)
    assert endpoint.seen.bodies == [
        {
            "model": "made-up",
            "messages": HELLO,
            "max_tokens": 2048,
            "n": 1,
            "seed": 0,
            "temperature": 0.0,
            "top_p": 0.95,
        }
    ]


def test_query_model_answers_as_the_original_does(endpoint: Endpoint) -> None:
    async def query() -> list[str]:
        one = client(endpoint)
        try:
            return await one.query_model(messages=HELLO, model="made-up", generation_config={"n": 2, "top_k": 5})
        finally:
            await one.close()

    assert asyncio.run(query()) == ["echo: hello", "echo 1: hello"]
    assert endpoint.seen.bodies[0]["top_k"] == 5


def test_a_client_that_waits_answers_in_any_thread_and_leaves_none_behind(endpoint: Endpoint) -> None:
    one = OpenAIClient(base_url=endpoint.url)
    one.setup()
    assert one.query_model(messages=HELLO, model="made-up") == ["echo: hello"]
    assert one.query_model(messages=HELLO, model="made-up") == ["echo: hello"]
    assert "dcurate-llm" not in [thread.name for thread in threading.enumerate()]


def test_never_more_requests_at_a_time_than_allowed(endpoint: Endpoint) -> None:
    endpoint.behave(latency=0.02)
    questions = [Request([{"role": "user", "content": f"{number}"}], "made-up", PLAIN) for number in range(20)]
    answers = asked(client(endpoint, max_concurrent_requests=3), *questions)
    assert [answer.texts for answer in answers] == [(f"echo: {number}",) for number in range(20)]
    assert 2 <= endpoint.seen.busiest <= 3


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "retry_after": "0.01"},
        {"status": 500},
        {"status": 503},
        {"kind": "truncated"},
        {"kind": "dropped"},
    ],
    ids=lambda fault: str(fault.get("status", fault.get("kind"))),
)
def test_what_may_go_better_is_asked_again(endpoint: Endpoint, fault: dict[str, Any]) -> None:
    endpoint.behave(faults=[{**fault, "times": 2}])
    answer = ask(client(endpoint))
    assert (answer.texts, answer.retries, answer.requests) == (("echo: hello",), 2, 3)
    assert endpoint.seen.requests == 3


def test_a_request_that_hangs_is_given_up_and_sent_again(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"kind": "hang"}])
    assert ask(client(endpoint, timeout_s=2.0)).retries == 1


def test_the_timeout_is_that_of_the_whole_request_however_often_a_byte_arrives(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"kind": "trickle"}])
    with pytest.raises(RequestError, match="no answer within timeout_s=1") as raised:
        ask(client(endpoint, timeout_s=1.0, max_retries=0))
    assert raised.value.reason == "timeout"


def test_retries_come_to_an_end(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"status": 503, "times": 100}])
    with pytest.raises(RequestError, match="^model 'made-up' at http.*: 503: made up$") as raised:
        ask(client(endpoint, max_retries=2))
    assert (raised.value.reason, raised.value.attempts, endpoint.seen.requests) == ("status 503", 3, 3)


def test_a_server_that_asks_for_a_pause_is_believed_by_all_requests(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"match": "first", "status": 429, "retry_after": "0.3"}], latency=0.01)
    texts = ["first", *(f"other {number}" for number in range(6))]
    questions = [Request([{"role": "user", "content": text}], "made-up", PLAIN) for text in texts]

    async def timed() -> float:
        loop, of = asyncio.get_running_loop(), client(endpoint, max_concurrent_requests=2)
        of.setup()
        begin = loop.time()
        await asyncio.gather(*(of.ask(one) for one in questions))
        await of.close()
        return loop.time() - begin

    assert asyncio.run(timed()) >= 0.29


def test_a_pause_of_hours_ends_the_run_instead(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"status": 429, "retry_after": "7200"}])
    with pytest.raises(ResourceError, match="asks to wait 7200 s, which is too long; resume the run later"):
        ask(client(endpoint))


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ({"key": "right"}, "the API key is refused .401: Incorrect API key provided.; set the environment variable"),
        ({"models": ["made-us", "other"]}, "no such model or path .404: .*; did you mean 'made-us'"),
        (
            {"faults": [{"status": 429, "code": "insufficient_quota", "message": "pay"}]},
            "no quota left .429: pay.; add credit",
        ),
    ],
    ids=["key", "model", "quota"],
)
def test_what_no_row_is_to_blame_for_ends_the_run_at_once(
    endpoint: Endpoint, behaviour: dict[str, Any], sentence: str
) -> None:
    endpoint.behave(**behaviour)
    with pytest.raises(ResourceError, match=sentence):
        ask(client(endpoint))
    assert endpoint.seen.requests == 1


@pytest.mark.parametrize(
    ("fault", "reason", "sentence"),
    [
        ({"status": 400, "message": "bad field"}, "status 400", "the request is refused .400: bad field."),
        (
            {"status": 400, "message": "maximum context length is 10", "code": "context_length_exceeded"},
            "prompt too long",
            "the prompt is too long .400: maximum context length is 10.; split the texts first, or lower max_tokens",
        ),
        ({"kind": "empty"}, "empty answer", "the answer has no text"),
        ({"kind": "filtered"}, "filtered", "the endpoint's filter withheld the answer"),
    ],
    ids=["400", "context", "empty", "filtered"],
)
def test_what_a_row_is_to_blame_for_is_asked_once(
    endpoint: Endpoint, fault: dict[str, Any], reason: str, sentence: str
) -> None:
    endpoint.behave(faults=[{**fault, "times": 10}])
    with pytest.raises(RequestError, match=sentence) as raised:
        ask(client(endpoint))
    assert (raised.value.reason, endpoint.seen.requests) == (reason, 1)


def test_an_address_where_nobody_listens_is_told(endpoint: Endpoint) -> None:
    with pytest.raises(RequestError, match="^http://127.0.0.1:9/v1/chat/completions cannot be reached: ") as raised:
        ask(client(endpoint, base_url="http://127.0.0.1:9/v1", max_retries=0))
    assert raised.value.reason == "connection"


def test_as_many_answers_come_as_were_asked_for_also_where_a_request_has_one(endpoint: Endpoint) -> None:
    endpoint.behave(most_choices=1)
    answer = ask(client(endpoint), config=GenerationConfig(n=3))
    assert answer.texts == ("echo: hello", "echo 1: hello", "echo 2: hello")
    assert answer.requests == 3


def test_answers_that_were_cut_are_counted(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"kind": "length"}])
    assert ask(client(endpoint)).cut == 1


def test_texts_are_continued_by_models_that_do_not_chat(endpoint: Endpoint) -> None:
    assert ask(client(endpoint, chat=False)).texts == ("echo: hello",)
    assert endpoint.seen.bodies[0]["prompt"] == "hello"


def test_vectors_come_in_the_order_of_the_texts(endpoint: Endpoint) -> None:
    (answer,) = asked(client(endpoint), EmbeddingRequest(("a", "b"), "made-up"))
    assert [list(memoryview(vector).cast("f")) for vector in answer.vectors] == [
        pytest.approx(vector_of("a")),
        pytest.approx(vector_of("b")),
    ]


def test_text_that_is_not_unicode_is_asked_about_all_the_same(endpoint: Endpoint) -> None:
    assert ask(client(endpoint), "a\ud800b").texts == ("echo: a?b",)


# Keys


def forms(of: AsyncLLMClient) -> list[Callable[[], object]]:
    stage = Generate(prompt="{text}", output_field="said", client=of, model="made-up")
    return [
        lambda: repr(of),
        lambda: repr(stage),
        lambda: pickle.dumps(of),
        lambda: cloudpickle.dumps(stage),
        lambda: repr(pickle.loads(pickle.dumps(of))),
        lambda: vars(of),
        stage.settings,
        lambda: fingerprint([stage]),
    ]


def test_a_key_shows_nowhere_and_reaches_the_server(endpoint: Endpoint) -> None:
    endpoint.behave(key="sk-very-secret")
    one = client(endpoint, api_key="sk-very-secret", default_headers={"X-Key": "sk-very-secret"})
    assert [form for form in forms(one) if "very-secret" in str(form())] == []
    assert ask(pickle.loads(pickle.dumps(one))).texts == ("echo: hello",)


def test_the_key_of_the_environment_is_taken_where_the_client_is_set_up(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.behave(key="sk-of-worker")
    one = client(endpoint, api_key_variable="MY_KEY")
    monkeypatch.setenv("MY_KEY", "sk-of-worker")
    assert ask(one).texts == ("echo: hello",)
    assert "sk-of-worker" not in repr(pickle.dumps(one))


def test_openai_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ResourceError, match="needs an API key: set OPENAI_API_KEY where the workers run"):
        AsyncOpenAIClient().setup()


def test_a_new_key_or_address_does_not_make_another_pipeline(endpoint: Endpoint) -> None:
    stages = [
        Generate(prompt="{text}", output_field="said", client=one, model="made-up")
        for one in (client(endpoint, api_key="a"), client(endpoint, api_key="b", base_url="http://elsewhere/v1"))
    ]
    assert fingerprint(stages[:1]) == fingerprint(stages[1:])


def test_what_was_opened_does_not_travel(endpoint: Endpoint) -> None:
    one = client(endpoint)
    ask(one)
    assert pickle.loads(pickle.dumps(one)) == client(endpoint) == one


# Settings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"base_url": "localhost:8000"}, "base_url='localhost:8000' is not a URL"),
        ({"base_url": "http://me:secret@host/v1"}, "base_url holds a password"),
        ({"max_concurrent_requests": 0}, "max_concurrent_requests=0 must be at least 1"),
        ({"timeout_s": 0}, "timeout_s=0 must be above zero"),
        ({"requests_per_minute": -1}, "requests_per_minute=-1 must be above zero"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        AsyncOpenAIClient(**settings)


def test_streams_are_refused() -> None:
    with pytest.raises(PipelineError, match="stream=True is not supported"):
        GenerationConfig(stream=True)
    with pytest.raises(PipelineError, match="has no 'max_token'; did you mean 'max_tokens'"):
        GenerationConfig.of({"max_token": 3})


def test_both_forms_of_a_pause_are_read() -> None:
    date = wait_asked({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert (wait_asked({"Retry-After": "1.5"}), date, wait_asked({})) == (1.5, 0.0, None)


# Kept answers


def test_the_oldest_answers_are_forgotten_when_there_are_too_many(tmp_path: Any) -> None:
    with AnswerCache(str(tmp_path), max_bytes=2000).open() as answers:
        for number in range(100):
            answers.put(b"%d" % number, Answer(("x" * 90,)))
        answers.forget_oldest()
        found = [number for number in range(100) if answers.get(b"%d" % number)]
    assert found[-1] == 99
    assert 8 <= len(found) <= 20


def test_answers_that_were_kept_come_back_as_they_were(tmp_path: Any) -> None:
    kept = Answer(("é", "b"), 3, 4, vectors=(b"\x00\x01",))
    with AnswerCache(str(tmp_path / "new" / "folder")).open() as answers:
        answers.put(b"k", kept)
    with AnswerCache(str(tmp_path / "new" / "folder")).open() as answers:
        found = answers.get(b"k")
    assert found is not None
    assert (found.texts, found.prompt_tokens, found.vectors) == (kept.texts, 3, kept.vectors)
    assert (found.cached, found.requests) == (True, 0)


# Clients of a person's own


class Flaky(AsyncLLMClient):
    """Fails once, then answers."""

    def setup(self) -> None:
        self._calls = 0

    async def _query_model_impl(self, *, messages: Messages, **_: Any) -> list[str]:
        self._calls += 1
        if self._calls == 1:
            raise ConnectionResetError("gone")
        return [str(messages[-1]["content"]).upper()]


class Waiting(LLMClient):
    """Answers after a while, in the thread that asks."""

    def setup(self) -> None:
        pass

    def query_model(self, *, messages: Messages, **_: Any) -> list[str]:
        return [str(messages[-1]["content"]).upper()]


def test_a_client_of_ones_own_is_asked_again_after_a_broken_connection() -> None:
    answer = ask(Flaky(base_delay_s=0.01))
    assert (answer.texts, answer.retries) == (("HELLO",), 1)


def test_a_client_of_ones_own_that_waits_can_be_asked_by_those_who_do_not() -> None:
    assert ask(Waiting().asynchronous()).texts == ("HELLO",)
