"""Whatever a server answers is an answer or the fault of its row, and never ends a run."""

from __future__ import annotations

import gzip
import http.server
import itertools
import json
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, ResourceError
from dcurate.endpoints.errors import wait_asked
from dcurate.endpoints.response import model_names
from dcurate.llm import AsyncOpenAIClient, EndpointEmbedding, Generate, OpenAIClient, RequestError

GOOD = {"choices": [{"message": {"content": "good"}, "finish_reason": "stop"}]}


@dataclass
class Hostile:
    """A server that answers requests with "bad" in them as a test wants, and others well.

    Attributes:
        body: of the answer; blocks of bytes, which are sent in chunks.
        sent: bytes of bodies that were sent.
    """

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    url: str = ""
    sent: int = 0


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    state = Hostile()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = asked.get("input") or [asked["messages"][-1]["content"]]
            bad = "bad" in str(texts)
            body = (
                state.body
                if bad
                else orjson.dumps({"data": [{"embedding": [1, 2]} for _ in texts]} if "input" in asked else GOOD)
            )
            blocks = iter([body]) if isinstance(body, bytes) else iter(body)
            self.send_response(state.status if bad else 200)
            self.send_header("Transfer-Encoding", "chunked")
            for name, value in (state.headers if bad else {}).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for block in itertools.chain(filter(None, blocks), [b""]):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
                    state.sent += len(block)
            except OSError:  # the client has had enough
                self.close_connection = True

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield state
        server.shutdown()
        thread.join()


def client(server: Hostile) -> AsyncOpenAIClient:
    return AsyncOpenAIClient(base_url=server.url, api_key="sk-hostile", max_retries=0, base_delay_s=0.0, timeout_s=60)


def generated(server: Hostile, **settings: Any) -> DocumentBatch:
    """The rows "good" and "bad", and what was answered to them."""
    stage = Generate(
        **{"client": client(server), "model": "m", "prompt": "{text}", "output_field": "answer", **settings}
    )
    return processed(stage)


def embedded(server: Hostile) -> DocumentBatch:
    return processed(EndpointEmbedding(client(server), "m", texts_per_request=1))


def processed(stage: Any) -> DocumentBatch:
    stage.setup()
    try:
        return stage.process_batch([DocumentBatch(data=pa.table({"text": ["good", "bad"]}))])[0]
    finally:
        stage.teardown()


def behave(server: Hostile, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
    server.status, server.headers, server.sent = status, headers or {}, 0
    server.body = orjson.dumps(body) if isinstance(body, dict | list | str | int | float | None) else body


def check_accounted(batch: DocumentBatch) -> None:
    """The good row is there, and the bad one is in the output or in quarantine with a reason."""
    kept = batch.to_arrow()["text"].to_pylist()
    gone = [text for rejection in batch.rejections for text in rejection.data["text"].to_pylist()]
    assert sorted(kept + gone) == ["bad", "good"]
    assert "good" in kept
    assert all(rejection.reason and rejection.fault for rejection in batch.rejections)


numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1e308, -1, 0])
)
texts = st.one_of(st.text(max_size=5), st.sampled_from(["many", "stop", "length", "content_filter", ""]))
names = st.sampled_from(
    [
        "choices",
        "message",
        "content",
        "text",
        "usage",
        "finish_reason",
        "refusal",
        "data",
        "embedding",
        "index",
        "error",
    ]
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names | texts, inner, max_size=3)),
    max_leaves=8,
)


def optional(**values: Any) -> Any:
    return st.fixed_dictionaries({}, optional=values) | anything


messages = optional(content=texts | anything, refusal=texts | anything)
choices = optional(message=messages, finish_reason=texts | anything, text=texts)
usage = optional(prompt_tokens=numbers | anything, completion_tokens=numbers | anything)
entries = optional(index=st.integers(-1, 2) | anything, embedding=st.lists(numbers | anything, max_size=3) | anything)
answers = optional(
    choices=st.lists(choices, max_size=2) | anything,
    usage=usage,
    data=st.lists(entries, max_size=2) | anything,
    error=optional(message=texts | anything),
)
statuses = st.sampled_from([200, 200, 200, 400, 408, 422, 429, 500, 503])
pauses = st.sampled_from(
    ["", "²", "9" * 5000, "1e308", "-1", "nan", "Fri, 31 Dec 99999999999 23:59:59 GMT", "soon"]
) | (st.text(st.characters(codec="latin1", exclude_categories=["Cc"]), max_size=40))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(answer=answers, status=statuses)
@example({"choices": {"a": 1}}, 200)
@example({"choices": "text"}, 200)
@example({"choices": [None]}, 200)
@example({"choices": [[]]}, 200)
@example({"choices": [{"message": "text"}]}, 200)
@example({"choices": [{"message": ["text"]}]}, 200)
@example({"choices": GOOD["choices"], "usage": "many"}, 200)
@example({"choices": GOOD["choices"], "usage": [1]}, 200)
@example({"choices": GOOD["choices"], "usage": {"prompt_tokens": "many", "completion_tokens": [1]}}, 200)
@example({"choices": GOOD["choices"], "usage": {"prompt_tokens": -5, "completion_tokens": 1e308}}, 200)
@example({"error": {"message": {"a": [1]}}}, 400)
def test_any_structure_of_an_answer_is_an_answer_or_the_fault_of_its_row(
    hostile: Hostile, answer: Any, status: int
) -> None:
    behave(hostile, answer, status)
    check_accounted(generated(hostile))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(answer=answers, status=statuses)
@example({"data": [{"embedding": [1, 2, 3]}]}, 200)
@example({"data": [{"embedding": [1e308, 2]}]}, 200)
@example({"data": [{"embedding": ["a", None]}]}, 200)
@example({"data": [{"embedding": [1, 2], "index": 7}]}, 200)
@example({"data": [{"embedding": [1, 2], "index": "x"}]}, 200)
@example({"data": {"embedding": [1, 2]}}, 200)
def test_any_structure_of_an_embedding_is_a_vector_or_the_fault_of_its_row(
    hostile: Hostile, answer: Any, status: int
) -> None:
    behave(hostile, answer, status)
    check_accounted(embedded(hostile))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pause=pauses, status=st.sampled_from([429, 503, 200]))
def test_any_retry_after_is_a_wait_or_nothing(hostile: Hostile, pause: str, status: int) -> None:
    behave(hostile, GOOD, status, {"Retry-After": pause.strip()[:5000]})
    check_accounted(generated(hostile))


@pytest.mark.parametrize(
    ("pause", "seconds"),
    [
        ("1.5", 1.5),
        ("²", None),
        ("٣", None),
        ("1_0", None),
        ("9" * 5000, None),
        ("1e308", None),
        ("-1", None),
        ("inf", None),
        ("Fri, 31 Dec 99999999999 23:59:59 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("Fri, 31 Dec 1999 23:59:59 +999999999999", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
    ],
)
def test_a_pause_that_is_not_a_time_is_not_believed(pause: str, seconds: float | None) -> None:
    assert wait_asked({"Retry-After": pause}) == seconds


def test_counts_of_tokens_that_are_none_cost_nothing(hostile: Hostile) -> None:
    behave(hostile, {**GOOD, "usage": {"prompt_tokens": -5, "completion_tokens": 1e308}})
    asks = AsyncOpenAIClient(base_url=hostile.url, api_key="sk", prices={"m": (1.0, 1.0)})
    stage = Generate(client=asks, model="m", prompt="{text}", output_field="answer")
    stage.setup()
    try:
        stage.process(DocumentBatch(data=pa.table({"text": ["bad"]})))
        metrics = stage.take_metrics()
    finally:
        stage.teardown()
    assert (metrics["prompt_tokens"], metrics["completion_tokens"], metrics.get("cost", 0)) == (0, 0, 0)


def blanks(gigabytes: int) -> Iterator[bytes]:
    return itertools.repeat(b" " * 2**20, gigabytes * 1024)


def bomb(gigabytes: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    zeros = b" " * 2**20
    for _ in range(gigabytes * 1024):
        yield packer.compress(zeros)
    yield packer.flush()


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(("body", "encoding"), [(blanks, "identity"), (bomb, "gzip")])
def test_what_is_read_of_an_answer_is_bounded(hostile: Hostile, body: Any, encoding: str, status: int) -> None:
    behave(hostile, body(3), status, {"Content-Encoding": encoding})
    tracemalloc.start()
    try:
        batch = generated(hostile)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check_accounted(batch)
    assert [rejection.reason for rejection in batch.rejections] == [
        "answer too large" if status == 200 else "status 400"
    ]
    assert peak < 100 * 2**20
    assert hostile.sent < 100 * 2**20


def test_an_answer_that_is_packed_is_read_and_a_damaged_or_unknown_packing_is_the_row_s_fault(hostile: Hostile) -> None:
    packed = gzip.compress(orjson.dumps({"choices": [{"message": {"content": "packed"}}]}))
    behave(hostile, packed, headers={"Content-Encoding": "gzip"})
    assert generated(hostile).to_arrow()["answer"].to_pylist() == ["good", "packed"]
    for data, encoding in ((b"no gzip", "gzip"), (packed[:20], "gzip"), (packed, "br"), (packed, "zstd")):
        behave(hostile, data, headers={"Content-Encoding": encoding})
        batch = generated(hostile)
        check_accounted(batch)
        assert [rejection.reason for rejection in batch.rejections] == ["unreadable answer"]


@pytest.mark.parametrize(
    ("choice", "reason", "sentence"),
    [
        (
            {"finish_reason": "tool_calls", "message": {"content": None}},
            "empty answer",
            "finish_reason is 'tool_calls'",
        ),
        ({"message": {"content": None, "refusal": "I cannot help"}}, "refused", "refused to answer: I cannot help"),
        ({"message": None, "finish_reason": "length"}, "empty answer", "has no text; finish_reason is 'length'"),
        ({"finish_reason": "content_filter", "message": {}}, "filtered", "filter withheld"),
    ],
)
def test_an_answer_without_text_says_why(hostile: Hostile, choice: Any, reason: str, sentence: str) -> None:
    behave(hostile, {"choices": [choice]})
    (rejection,) = generated(hostile).rejections
    assert rejection.reason == reason
    assert sentence in str(rejection.data["_dcurate_error"].to_pylist())


deep: Any = {}
for _ in range(900):
    deep = {"a": deep}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "9" * 30),
        ("number", "9" * 400),
        ("number", "NaN"),
        ("number", "1e999"),
        ("string", '"\\ud800"'),
        ("object", json.dumps(deep)),
        ("array", "[" * 900 + "]" * 900),
        ("string", json.dumps(deep)),
        ("integer", json.dumps("x" * 10**6)),
    ],
    ids=["integer", "whole number", "nan", "infinite", "surrogate", "object", "array", "string", "long"],
)
def test_values_that_no_column_holds_are_the_row_s_fault(hostile: Hostile, kind: str, value: str) -> None:
    behave(hostile, {"choices": [{"message": {"content": f'{{"score": {value}}}'}}]})
    batch = generated(hostile, output_field=None, schema={"score": {"type": kind}}, send_schema=False)
    gone = [rejection for rejection in batch.rejections if "bad" in rejection.data["text"].to_pylist()]
    assert [rejection.reason for rejection in gone] == ["unparsable answer"]
    assert max(len(text) for text in gone[0].data["_dcurate_error"].to_pylist()) < 1000


@pytest.mark.parametrize(
    "base_url", ["http://a..b/v1", f"http://{'a' * 64}.example/v1", "http://[::1/v1", "http://:/v1"]
)
def test_an_address_that_is_not_one_is_an_error_of_the_request(base_url: str) -> None:
    with pytest.raises(RequestError, match="cannot be reached"):
        OpenAIClient(base_url=base_url, max_retries=0).query_model(
            messages=[{"role": "user", "content": "?"}], model="m"
        )


def test_a_damaged_list_of_models_is_no_list() -> None:
    for content in ({"data": "m"}, {"data": [1, None, {"id": 3}, {"id": "m"}]}, {}):
        names = model_names(content)
        assert names in (None, ["m"])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("pad", [0, 285, 290, 295])
def test_an_error_that_repeats_the_key_shows_no_part_of_it(hostile: Hostile, status: int, pad: int) -> None:
    behave(hostile, {"error": {"message": f"{'x' * pad} Bearer sk-hostile, and hunter2-of-a-header"}}, status)
    asks = AsyncOpenAIClient(
        base_url=hostile.url, api_key="sk-hostile", default_headers={"X-Mine": "hunter2-of-a-header"}, max_retries=0
    )
    with pytest.raises((RequestError, ResourceError)) as caught:
        processed(Generate(client=asks, model="m", prompt="{text}", output_field="a", on_error="raise"))
    assert "sk-h" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
