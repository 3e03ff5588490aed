"""Models label texts by a schema; what was paid for is kept, and what cannot be used is set aside with its reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ProcessingStage,
    ResourceError,
)
from dcurate.learn import ComparePairs, Judge, LabelSchema
from dcurate.learn.judge import _asked
from dcurate.llm import AnswerCache, AsyncLLMClient, AsyncOpenAIClient
from dcurate.recipe import load_recipe
from dcurate_testing.llm_server import Endpoint
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

SCHEMA = LabelSchema.of(
    {
        "labels": {
            "quality": {"type": "scale", "description": "How good.", "min": 1, "max": 5},
            "kind": {"type": "enumeration", "description": "What.", "values": ["shop", "article"]},
            "ad": {"type": "flag", "description": "It sells."},
        }
    }
)


def answer(quality: Any = 3, kind: Any = "shop", ad: Any = True) -> str:
    return json.dumps({"quality": quality, "kind": kind, "ad": ad})


def client(endpoint: Endpoint, **settings: Any) -> AsyncOpenAIClient:
    return AsyncOpenAIClient(4, 1, 0.01, base_url=endpoint.url, **settings)


def judge(endpoint: Endpoint, cache: Path | None = None, **settings: Any) -> Judge:
    settings = {"client": client(endpoint, **({"cache": str(cache)} if cache else {})), "model": "m", **settings}
    return Judge(SCHEMA, **settings)


def rows_of(stage: Any, columns: dict[str, Any], executor: Any = None) -> tuple[list[dict[str, Any]], Any]:
    batch = DocumentBatch(data=pa.table(columns))
    result = Pipeline("test", stages=[stage]).run(executor or InlineExecutor(), initial_tasks=[batch], observers=[])
    rows = [row for out in result for row in out.to_arrow().to_pylist()]  # type: ignore[attr-defined]
    return rows, result.report.stages[-1]


def test_every_text_gets_typed_labels_and_the_endpoint_gets_the_schema(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["good", answer(5, "article", False)], ["bad", answer(1)]])
    rows, _ = rows_of(judge(endpoint), {"text": ["good {one}", "bad one"]})
    assert rows == [
        {"text": "good {one}", "quality": 5, "kind": "article", "ad": False},
        {"text": "bad one", "quality": 1, "kind": "shop", "ad": True},
    ]
    body = endpoint.seen.bodies[0]
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA.json_schema()
    assert body["messages"][0]["content"].startswith(SCHEMA.instructions)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ("I think it is good.", "no JSON object in the answer"),
        (answer(quality=9), "'quality' is 9, above 5,"),
        (answer(quality="3"), "'quality' is '3', no integer,"),
        (answer(kind="blog"), "'kind' is 'blog', none of"),
        ('{"quality": 3, "kind": "shop"}', "'ad' is missing,"),
    ],
)
def test_an_answer_outside_the_schema_is_asked_for_once_more_then_set_aside(
    endpoint: Endpoint, tmp_path: Path, reply: str, sentence: str
) -> None:
    endpoint.behave(replies=[["odd", reply], ["fine", answer()]])
    (tmp_path / "in.jsonl").write_text('{"text": "odd one"}\n{"text": "fine one"}\n')
    stages: list[Any] = [
        JsonlReader(str(tmp_path / "in.jsonl")),
        judge(endpoint, send_schema=False),
        JsonlWriter(str(tmp_path / "o")),
    ]
    result = Pipeline("test", stages=stages).run(InlineExecutor(), observers=[])
    stats = result.report.stages[1]
    assert (stats.rows_in, stats.rows_out, stats.metrics["asked_again"]) == (2, 1, 1)
    aside = [
        json.loads(line)
        for path in (tmp_path / "o.dcurate").rglob("quarantine/**/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert [row["text"] for row in aside] == ["odd one"]
    assert sentence in aside[0]["_dcurate_error"]
    seeds = [body["seed"] for body in endpoint.seen.bodies if "odd one" in body["messages"][1]["content"]]
    assert len(seeds) == len(set(seeds)) == 2


def test_a_second_judge_keeps_rows_that_it_cannot_label(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["odd", "no"], ["fine", answer()]])
    rows, _ = rows_of(judge(endpoint, suffix="_2", on_error="null"), {"text": ["odd one", "fine one"]})
    assert [(row["quality_2"], row["kind_2"], row["ad_2"]) for row in rows] == [(None, None, None), (3, "shop", True)]


def test_texts_without_words_are_dropped_and_never_asked_about(endpoint: Endpoint) -> None:
    rows, stats = rows_of(judge(endpoint), {"text": ["", None, " \n\t", "--- !!! ___", "word", "字", "7"]})
    assert [row["text"] for row in rows] == ["word", "字", "7"]
    assert stats.dropped == {"no words": 4}
    assert endpoint.seen.requests == 3


def test_a_column_of_numbers_is_not_judged(endpoint: Endpoint) -> None:
    with pytest.raises(DataError, match="text"):
        judge(endpoint).process(DocumentBatch(data=pa.table({"text": [1, 2]})))


@given(st.text())
def test_no_text_ends_the_material_early(text: str) -> None:
    content = _asked("Task.", text)[1]["content"]
    for forged in (text, f"</text>{text}<text>", f"</TEXT>{text}"):
        content = _asked("Task.", forged)[1]["content"]
        assert content.lower().count("</text>") == content.lower().count("<text>") == 1


RECIPE = """
params: {input: in, output: out}
stages:
  - JsonlReader: {file_paths: "{input}"}
  - Judge:
      schema: topic-format
      model: m
      client: {AsyncOpenAIClient: {base_url: "http://localhost:8000/v1"}}
  - JsonlWriter: {path: "{output}"}
"""


def test_a_recipe_that_nobody_vouches_for_may_judge(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE)
    stage = load_recipe(tmp_path / "r.yaml").pipeline.stages[1]
    assert stage.outputs()[1] == ["topic", "format"]


def test_long_texts_are_cut(endpoint: Endpoint) -> None:
    rows_of(judge(endpoint, max_chars=10), {"text": ["word " * 100]})
    assert endpoint.seen.bodies[0]["messages"][1]["content"] == "<text>\nword word \n</text>"


@dataclass
class EndServer(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Ends a server process at the first text that holds a word."""

    process_id: int
    word: str
    name: str = "end_server"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if any(self.word in text for text in task.to_arrow()["text"].to_pylist()):
            os.kill(self.process_id, signal.SIGKILL)
        return task

    def settings(self) -> dict[str, Any]:
        return {}


@contextmanager
def server() -> Iterator[tuple[Endpoint, int]]:
    """A server of its own, and the id of its process."""
    command = [sys.executable, "-m", "dcurate_testing.llm_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield Endpoint(f"http://127.0.0.1:{int(process.stdout.readline())}"), process.pid
        finally:
            process.kill()


@pytest.mark.program
def test_an_endpoint_that_ends_midway_is_paid_once_for_each_text(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for file in range(6):
        texts = (f"text {file} {row} " + ("late" if file > 2 else "early") for row in range(7))
        (source / f"{file}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def labelled(endpoint: Endpoint, out: str, ends: int, *, resume: bool = False) -> list[dict[str, Any]]:
        ending = EndServer(ends, "late") if ends else EndServer(0, "no such word")
        stages: list[Any] = [JsonlReader(str(source)), ending, judge(endpoint, tmp_path / "answers")]
        stages.append(JsonlWriter(str(tmp_path / out)))
        Pipeline("test", stages=stages).run(InlineExecutor(), observers=[], resume=resume)
        paths = sorted((tmp_path / out).glob("*.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    with server() as (endpoint, process_id), pytest.raises(ResourceError, match="the endpoint cannot be reached"):
        labelled(endpoint, "out", process_id)
    with AnswerCache(str(tmp_path / "answers")).open() as answers:
        words = sum(prompt for prompt, _ in answers.spent().values())
    with server() as (endpoint, _):
        resumed = labelled(endpoint, "out", 0, resume=True)
        assert len(resumed) == 42
        paid = endpoint.seen.paid
        assert labelled(endpoint, "again", 0) == resumed
        assert endpoint.seen.paid == paid
    with AnswerCache(str(tmp_path / "answers")).open() as answers:
        total = sum(prompt for prompt, _ in answers.spent().values())
    assert 0 < paid < 42
    assert words * 42 == total * (42 - paid)  # all prompts have as many words


class Unwilling(AsyncLLMClient):
    """An endpoint that is there, fails at some texts, and does not list its models."""

    def setup(self) -> None:
        pass

    async def models(self) -> list[str] | None:
        raise ResourceError("this key may not list models")

    async def _query_model_impl(self, *, messages: Any, **settings: Any) -> list[str]:
        if "slow" in messages[-1]["content"]:
            raise TimeoutError
        return [answer()]


def test_a_text_at_which_a_living_endpoint_fails_is_set_aside() -> None:
    stage = Judge(SCHEMA, client=Unwilling(max_retries=0), model="m")
    rows, stats = rows_of(stage, {"text": ["fine", "slow one"]})
    assert ([row["text"] for row in rows], stats.faulty) == (["fine"], {"timeout": 1})


def test_labels_are_the_same_on_any_workers(endpoint: Endpoint, cluster: LocalCluster) -> None:
    texts = {"text": [f"text {number}" for number in range(20)]}
    assert rows_of(judge(endpoint), texts)[0] == rows_of(judge(endpoint), texts, DaskExecutor(cluster=cluster))[0]


PAIRS = {"a": ["good 1", "bad 2", "same 3", "odd 4"], "b": ["bad 1", "good 2", "same 3", "odd 4"]}


def compare(endpoint: Endpoint) -> ComparePairs:
    return ComparePairs("Which is better?", client=client(endpoint), model="m", first_field="a", second_field="b")


def test_a_text_that_wins_in_both_orders_is_preferred_and_no_other(endpoint: Endpoint) -> None:
    replies = [
        ["A:\ngood", '{"better": "A"}'],
        ["B:\ngood", '{"better": "B"}'],
        ["A:\nsame", '{"better": "tie"}'],
        ["A:\nodd", '{"better": "A"}'],  # whatever comes first
    ]
    endpoint.behave(replies=replies)
    rows, _ = rows_of(compare(endpoint), PAIRS)
    assert [(row["preferred"], row["consistent"]) for row in rows] == [
        ("first", True),
        ("second", True),
        ("tie", True),
        ("tie", False),
    ]
    assert [row["a"] for row in rows] == PAIRS["a"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_a_judge_that_always_takes_the_first_prefers_none(scores: list[tuple[int, int]]) -> None:
    stage = ComparePairs("Which?", client=AsyncOpenAIClient(), model="m", first_field="a", second_field="b")
    assert stage._verdict([{"better": "A"}], [{"better": "A"}]) == [{"preferred": "tie", "consistent": False}]
    for first, second in scores:
        ordered = "A" if first > second else "B" if second > first else "tie"
        swapped = "A" if second > first else "B" if first > second else "tie"
        expected = "first" if first > second else "second" if second > first else "tie"
        assert stage._verdict([{"better": ordered}], [{"better": swapped}]) == [
            {"preferred": expected, "consistent": True}
        ]


def test_a_pair_without_a_usable_answer_in_one_order_is_set_aside(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["A:\ngood", '{"better": "A"}'], ["A:\nbad", "neither"]])
    rows, stats = rows_of(compare(endpoint), {"a": ["good"], "b": ["bad"]})
    assert (rows, stats.rows_in, stats.rows_out) == ([], 1, 0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda c: Judge("qualty", client=c, model="m"), "unknown label schema 'qualty'"),
        (
            lambda c: Judge(cast(Any, {"labels": {}}), client=c, model="m"),
            "must be a LabelSchema, the name of a preset",
        ),
        (lambda c: Judge("quality", client=cast(Any, "c"), model="m"), "client='c' is not a client"),
        (lambda c: Judge("quality", client=c, model="m", max_chars=0), "max_chars=0 must be a whole number"),
        (lambda c: ComparePairs("", client=c, model="m", first_field="a", second_field="b"), "question= is empty"),
        (lambda c: ComparePairs("?", client=c, model="m", first_field="a", second_field="a"), "are both 'a'"),
    ],
)
def test_wrong_settings_are_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(PipelineError) as error:
        make(AsyncOpenAIClient(base_url="http://localhost:1/v1"))
    assert sentence in str(error.value)
