"""The stage that asks a model about rows, in real pipelines against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcurate import (
    DaskExecutor,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    ResourceError,
    RunError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.endpoints.batch_client import GIVE_UP_AFTER, BatchClient
from dcurate.endpoints.config import Request
from dcurate.llm import AsyncOpenAIClient, Generate, GenerationConfig, RequestError
from dcurate.recipe import load_recipe
from dcurate_testing.llm_server import Endpoint
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

SCORE = {"score": {"type": "integer", "minimum": 1, "maximum": 5}, "why": {"type": "string"}}


def client(endpoint: Endpoint, **settings: Any) -> AsyncOpenAIClient:
    return AsyncOpenAIClient(
        **{"base_url": endpoint.url, "base_delay_s": 0.01, "max_concurrent_requests": 4, **settings}
    )


def said(endpoint: Endpoint, **settings: Any) -> Generate:
    """A stage that echoes texts."""
    plain = {"prompt": "{text}", "output_field": "said", "client": client(endpoint), "model": "made-up"}
    return Generate(**{**plain, **settings})


def texts(*rows: str | None) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"text": pa.array(rows, pa.string())}))


def run(stage: Generate, *batches: DocumentBatch, executor: Any = None) -> Any:
    return Pipeline("test", stages=[stage]).run(executor or InlineExecutor(), initial_tasks=batches)


def column(result: Any, name: str = "said") -> list[Any]:
    return [value for batch in result for value in batch.to_arrow()[name].to_pylist()]


def metrics(result: Any) -> dict[str, float]:
    found: dict[str, float] = result.report.stages[-1].metrics
    return found


# Rows


def test_every_row_has_its_own_answer_in_the_order_of_the_rows(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"match": "row 3", "status": 500, "times": 2}])
    rows = [f"row {number}" for number in range(20)]
    assert column(run(said(endpoint), texts(*rows))) == [f"echo: {row}" for row in rows]


def test_dask_and_inline_give_the_same_rows(endpoint: Endpoint, cluster: LocalCluster) -> None:
    batches = [texts(*(f"{batch} {row}" for row in range(5))) for batch in range(6)]
    stage = said(endpoint).with_(batch_size=2)
    inline = column(run(stage, *batches))
    assert column(run(stage, *batches, executor=DaskExecutor(cluster=cluster))) == inline
    assert inline[:2] == ["echo: 0 0", "echo: 0 1"]
    assert len(inline) == 30


def test_no_slot_asks_more_at_a_time_than_it_may(endpoint: Endpoint, cluster: LocalCluster) -> None:
    endpoint.behave(latency=0.03)
    stage = said(endpoint, client=client(endpoint, max_concurrent_requests=3))
    batches = [texts(*(f"{batch} {row}" for row in range(9))) for batch in range(4)]
    run(stage.with_(batch_size=4), *batches)
    assert 2 <= endpoint.seen.busiest <= 3
    endpoint.behave(latency=0.03)
    run(stage.with_(num_workers=2), *batches, executor=DaskExecutor(cluster=cluster))
    assert 2 <= endpoint.seen.busiest <= 6


def test_rows_of_several_batches_are_asked_about_together(endpoint: Endpoint) -> None:
    endpoint.behave(latency=0.5)
    run(said(endpoint).with_(batch_size=4), *(texts(f"{number}") for number in range(4)))
    assert endpoint.seen.busiest == 4


def test_a_null_is_not_asked_about_and_an_empty_batch_works(endpoint: Endpoint) -> None:
    table = run(said(endpoint), texts(None, "a", None))[0].to_arrow()
    assert table["said"].to_pylist() == [None, "echo: a", None]
    assert endpoint.seen.requests == 1
    stage = said(endpoint)
    stage.setup()
    empty = stage.process(texts()).to_arrow()
    stage.teardown()
    assert empty.schema.field("said").type == pa.string()


def test_equal_questions_are_asked_once(endpoint: Endpoint) -> None:
    assert column(run(said(endpoint), texts("a", "b", "a", "a"))) == ["echo: a", "echo: b", "echo: a", "echo: a"]
    assert endpoint.seen.requests == 2


def test_equal_questions_without_a_seed_have_answers_of_their_own(endpoint: Endpoint) -> None:
    run(said(endpoint, generation_config=GenerationConfig(seed=None, temperature=1.0)), texts("a", "a"))
    assert endpoint.seen.requests == 2


def test_prompts_are_made_of_columns_and_braces_in_texts_stay(endpoint: Endpoint) -> None:
    stage = said(endpoint, prompt="{text} by {author:>4} {{x}}", system_prompt="Answer in {language}.")
    rows = {"text": ["{a}"], "author": ["me"], "language": ["Dutch"]}
    run(stage, DocumentBatch(data=pa.table(rows)))
    assert [each["content"] for each in endpoint.seen.bodies[0]["messages"]] == ["Answer in Dutch.", "{a} by   me {x}"]


# What is refused before anything runs


def test_an_unknown_column_is_refused_when_the_pipeline_is_built(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="stage 'generate' reads column 'title', but 'initial_tasks' yields only"):
        run(said(endpoint, prompt="{title}: {text}"), texts("a"))
    assert endpoint.seen.requests == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"client": None}, "client=None is not a client; pass an AsyncOpenAIClient"),
        ({"model": ""}, "model= must name the model"),
        ({"prompt": ""}, "prompt= is empty"),
        ({"prompt": "{"}, "the prompt '{' cannot be read .*; write {{ and }} for braces"),
        ({"prompt": "{0}"}, "has {} without a name"),
        ({"on_error": "rase"}, "on_error='rase' is unknown; did you mean 'raise'"),
        ({"error_field": "e"}, "error_field='e' is filled with on_error='null' only"),
        ({"schema": SCORE}, "give output_field= for the answer as text, or schema= for its parts"),
        ({"output_field": None, "schema": {"a": {"type": "int"}}}, "'a' has type 'int'; there are 'string', 'integer'"),
        ({"output_field": None, "schema": SCORE, "generation_config": {"n": 2}}, "give samples='rows'"),
        ({"on_error": "null", "error_field": "said"}, "two new columns would be called 'said'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(endpoint: Endpoint, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        said(endpoint, **settings)


# Rows without an answer

BAD = [{"match": "bad", "status": 400, "message": "no", "times": 1000}]


def test_rows_without_an_answer_go_to_quarantine_and_the_others_stay(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.behave(faults=BAD)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ["a", "bad", "c"]))
    stages: list[AnyStage] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        said(endpoint),
        JsonlWriter(str(tmp_path / "out")),
    ]
    report = Pipeline("test", stages=stages).run(InlineExecutor()).report
    assert report.stages[1].faulty == {"status 400": 1}
    (file,) = Path(str(report.quarantine_path)).glob("*.jsonl")
    row = json.loads(file.read_text())
    assert (row["text"], row["_dcurate_reason"]) == ("bad", "status 400")
    assert row["_dcurate_error"].endswith("the request is refused (400: no)")
    (written,) = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line)["said"] for line in written.read_text().splitlines()] == ["echo: a", "echo: c"]


def test_rows_without_an_answer_may_stay_with_a_null_and_the_reason(endpoint: Endpoint) -> None:
    endpoint.behave(faults=BAD)
    result = run(said(endpoint, on_error="null", error_field="wrong"), texts("a", "bad"))
    assert column(result) == ["echo: a", None]
    first, second = column(result, "wrong")
    assert first is None
    assert second.endswith("(400: no)")


def test_the_first_row_without_an_answer_may_end_the_run_and_the_others_are_not_paid_for_again(
    endpoint: Endpoint,
) -> None:
    endpoint.behave(faults=BAD)
    rows = [f"row {number}" for number in range(12)] + ["bad", "never"]
    with pytest.raises(RequestError, match="the request is refused .400: no.") as raised:
        run(said(endpoint, on_error="raise", client=client(endpoint, max_concurrent_requests=1)), texts(*rows))
    assert "row 12 of batch" in " ".join(raised.value.__notes__)
    asked = endpoint.seen.asked
    assert {text: count for text, count in asked.items() if text != "bad"} == dict.fromkeys(rows[:12], 1)


def test_a_run_that_ignores_failures_asks_each_row_that_has_an_answer_once(endpoint: Endpoint) -> None:
    endpoint.behave(faults=BAD)
    stage = said(endpoint, on_error="raise", client=client(endpoint, max_concurrent_requests=1))
    rows = [f"row {number}" for number in range(9)] + ["bad"] + [f"row {number}" for number in range(9, 16)]
    assert column(run(stage.with_(ignore_failures=True), texts(*rows))) == [
        f"echo: {row}" for row in rows if row != "bad"
    ]
    assert {count for text, count in endpoint.seen.asked.items() if text != "bad"} == {1}


def test_an_endpoint_that_fails_again_and_again_ends_the_run(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"status": 500, "times": 10_000}])
    with pytest.raises(RunError, match=f"{GIVE_UP_AFTER} requests in a row have failed, the last with: model"):
        run(said(endpoint, client=client(endpoint, max_retries=0)), texts(*map(str, range(100))))
    assert endpoint.seen.requests < 30


def test_rows_that_are_refused_end_no_run_once_there_was_an_answer(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"match": "bad", "status": 400, "times": 1000}])
    rows = ["good", *(f"bad {number}" for number in range(60))]
    assert column(run(said(endpoint, client=client(endpoint, max_concurrent_requests=1)), texts(*rows))) == [
        "echo: good"
    ]
    with pytest.raises(RunError, match="requests in a row have failed"):
        run(said(endpoint), texts(*rows[1:]))


def test_a_model_may_be_named_without_its_tag(endpoint: Endpoint) -> None:
    endpoint.behave(models=["llama:latest"])
    assert column(run(said(endpoint, model="llama", startup_s=0), texts("a"))) == ["echo: a"]


# JSON


def test_the_parts_of_an_answer_become_columns_of_their_types(endpoint: Endpoint) -> None:
    stage = said(endpoint, output_field=None, schema=SCORE)
    table = run(stage, texts("a", None, "b"))[0].to_arrow()
    assert [table.schema.field(name).type for name in ("score", "why")] == [pa.int64(), pa.string()]
    assert table["why"].to_pylist() == ["why of a", None, "why of b"]
    assert all(1 <= score <= 5 for score in table["score"].drop_null().to_pylist())
    assert endpoint.seen.bodies[0]["response_format"]["json_schema"]["schema"]["required"] == ["score", "why"]


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ("I cannot.", "no JSON object in the answer 'I cannot.'"),
        ('{"score": 3, "wh', "no JSON object in the answer"),
        ('{"score": 9, "why": "x"}', "'score' is 9, above 5, in the answer"),
        ('{"score": "3", "why": "x"}', "'score' is '3', no integer, in the answer"),
        ('{"score": 3}', "'why' is missing, in the answer"),
    ],
)
def test_answers_that_cannot_be_read_are_set_aside(endpoint: Endpoint, reply: str, sentence: str) -> None:
    endpoint.behave(replies=[["bad", reply]])
    stage = said(endpoint, output_field=None, schema=SCORE, on_error="null", error_field="wrong")
    result = run(stage, texts("good", "bad"))
    assert column(result, "score")[1] is None
    assert sentence in column(result, "wrong")[1]
    set_aside = run(replace(stage, on_error="quarantine", error_field=None), texts("good", "bad"))
    assert set_aside.report.stages[-1].faulty == {"unparsable answer": 1}


def test_json_is_found_in_fences_and_among_words(endpoint: Endpoint) -> None:
    endpoint.behave(
        replies=[
            ["fence", '```json\n{"score": 2, "why": "f"}\n```'],
            ["words", 'Sure {here}: {"score": 4, "why": "w"}!'],
        ]
    )
    stage = said(endpoint, output_field=None, schema=SCORE, send_schema=False)
    assert column(run(stage, texts("fence", "words")), "score") == [2, 4]
    assert "response_format" not in endpoint.seen.bodies[0]


# Recipes


def test_a_recipe_may_ask_a_model(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "recipe.yaml").write_text(
        f"""
        name: scored
        stages:
          - JsonlReader: {{file_paths: {tmp_path}/in.jsonl}}
          - Generate:
              prompt: "Rate {{text}}"
              schema: {{score: {{type: integer, minimum: 1, maximum: 5}}}}
              client: {{AsyncOpenAIClient: {{base_url: "{endpoint.url}", max_concurrent_requests: 2}}}}
              model: made-up
        """
    )
    result = load_recipe(tmp_path / "recipe.yaml").pipeline.run(InlineExecutor())
    assert 1 <= column(result, "score")[0] <= 5


# Several answers


def test_several_answers_are_a_list_or_rows(endpoint: Endpoint) -> None:
    stage = said(endpoint, generation_config=GenerationConfig(n=2))
    assert column(run(stage, texts("a", None))) == [["echo: a", "echo 1: a"], None]
    rows = run(replace(stage, samples="rows"), texts("a", None, "b"))
    assert column(rows, "text") == ["a", "a", None, "b", "b"]
    assert column(rows) == ["echo: a", "echo 1: a", None, "echo: b", "echo 1: b"]


# What it costs


def test_the_report_says_what_was_asked_answered_and_paid(endpoint: Endpoint) -> None:
    endpoint.behave(faults=[{"match": "a", "status": 500}, {"match": "b", "kind": "length"}])
    stage = said(endpoint, client=client(endpoint, prices={"made-up": (1e6, 2e6)}))
    assert metrics(run(stage, texts("a", "b c", "d", "d"))) == {
        "requests": 4,
        "retries": 1,
        "prompt_tokens": 4,
        "completion_tokens": 7,
        "cut_answers": 1,
        "cost": 4 + 14,
    }


def test_a_repeated_run_pays_nothing(endpoint: Endpoint, tmp_path: Path) -> None:
    stage = said(endpoint, client=client(endpoint, cache=str(tmp_path), prices={"made-up": (1, 1)}))
    first = run(stage, texts("a", "b"))
    second = run(stage, texts("b", "a", "c"))
    assert column(second) == ["echo: b", "echo: a", "echo: c"]
    assert (metrics(first)["requests"], metrics(second)["requests"], metrics(second)["cached"]) == (2, 1, 2)
    assert endpoint.seen.paid == 3


def test_another_model_or_setting_is_another_question(endpoint: Endpoint, tmp_path: Path) -> None:
    keeps = client(endpoint, cache=str(tmp_path))
    settings: Sequence[dict[str, Any]] = [
        {},
        {"model": "other"},
        {"generation_config": GenerationConfig(temperature=0.5)},
        {"prompt": "{text}!"},
    ]
    for setting in settings:
        run(said(endpoint, client=keeps, **setting), texts("a"))
    assert endpoint.seen.paid == 4


ONE_RUN = """
import sys
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline
from dcurate.llm import Generate
from dcurate.llm import AsyncOpenAIClient
url, folder, resume = sys.argv[1], sys.argv[2], len(sys.argv) > 3
client = AsyncOpenAIClient(4, base_url=url, cache=folder + "/answers")
stage = Generate(prompt="{text}", output_field="said", client=client, model="made-up")
stages = [JsonlReader(folder + "/in", files_per_partition=1), stage, JsonlWriter(folder + "/out")]
Pipeline("test", stages=stages).run(InlineExecutor(), resume=resume)
"""


def test_a_run_that_was_killed_goes_on_without_paying_twice(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.behave(latency=0.2)
    (tmp_path / "in").mkdir()
    for file in range(4):
        rows = "".join(json.dumps({"text": f"{file} {row}"}) + "\n" for row in range(25))
        (tmp_path / "in" / f"{file}.jsonl").write_text(rows)
    command = [sys.executable, "-c", ONE_RUN, endpoint.url, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        end = time.monotonic() + 60
        while endpoint.seen.paid < 35 and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    paid_before = endpoint.seen.paid
    assert 35 <= paid_before < 100
    subprocess.run([*command, "resume"], cwd=ROOT, check=True, timeout=60)
    asked = endpoint.seen.asked
    assert len(asked) == 100
    assert sum(asked.values()) <= 100 + 4  # those under way when it was killed
    answers = [
        json.loads(line) for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    assert sorted(row["said"] for row in answers) == sorted(f"echo: {text}" for text in asked)


# Limits


def test_a_stage_with_limits_has_one_slot_unless_told_otherwise(endpoint: Endpoint) -> None:
    limited = said(endpoint, client=client(endpoint, requests_per_minute=600))
    assert (said(endpoint).num_workers(), limited.num_workers()) == (None, 1)
    assert limited.with_(num_workers=3).num_workers() == 3
    with pytest.raises(PipelineError, match="give num_workers= instead of num_workers_per_node="):
        limited.with_(num_workers_per_node=2).num_workers()


def test_a_run_takes_as_long_as_the_limits_want(endpoint: Endpoint, cluster: LocalCluster) -> None:
    limited = said(endpoint, client=client(endpoint, requests_per_minute=1200, max_concurrent_requests=10))
    batches = [texts(*(f"{batch} {row}" for row in range(10))) for batch in range(5)]
    begin = time.monotonic()
    run(limited, *batches, executor=DaskExecutor(cluster=cluster))
    assert time.monotonic() - begin >= (50 - 20) / 20  # twenty may go at once, twenty more each second
    assert endpoint.seen.requests == 50


def test_slots_of_a_limited_stage_share_what_there_is(endpoint: Endpoint) -> None:
    asker = BatchClient(client(endpoint, requests_per_minute=600), slots=3)
    asker.close()
    assert asker.client.limits.requests_per_minute == 200


# Slots


def test_a_slot_leaves_no_thread_and_no_connection_behind(endpoint: Endpoint) -> None:
    run(said(endpoint), texts("a"))
    assert "dcurate-llm" not in [thread.name for thread in threading.enumerate()]


def test_it_runs_where_an_event_loop_runs_already(endpoint: Endpoint) -> None:
    async def within() -> Any:
        return run(said(endpoint), texts("a"))

    assert column(asyncio.run(within())) == ["echo: a"]


def test_a_slot_waits_for_an_endpoint_that_is_starting(endpoint: Endpoint) -> None:
    asker = BatchClient(client(endpoint, base_url="http://127.0.0.1:9/v1", timeout_s=1))
    with pytest.raises(
        ResourceError, match="the endpoint cannot be reached after 0.6 s: http.*; start it, or check base_url="
    ):
        asker.wait_for_endpoint(0.6)
    asker.close()
    assert column(run(said(endpoint, startup_s=5.0), texts("a"))) == ["echo: a"]


def test_a_model_that_is_not_there_is_told_before_the_first_row(endpoint: Endpoint) -> None:
    endpoint.behave(models=["llama", "mistral"])
    with pytest.raises(PipelineError, match="the endpoint has no model 'lama'; did you mean 'llama'"):
        run(said(endpoint, model="lama", startup_s=0), texts("a"))
    assert endpoint.seen.requests == 0


def test_a_folder_that_cannot_be_written_is_told(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="answers cannot be stored in .*; name a folder on a local disk"):
        run(said(endpoint, client=client(endpoint, cache=str(tmp_path / "file"))), texts("a"))


def test_what_is_asked_does_not_depend_on_who_asks() -> None:
    request = Request(({"role": "user", "content": "a"},), "m", GenerationConfig())
    assert request.key == Request([{"content": "a", "role": "user"}], "m", GenerationConfig()).key
    assert request.key != replace(request, config=GenerationConfig(seed=1)).key
