"""The stages that write training data, against a real server."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, LocalCluster, Pipeline, PipelineError
from dcurate.llm import (
    AsyncOpenAIClient,
    CleanDiverseQA,
    CleanKnowledgeList,
    GenerationConfig,
    LLMCleanup,
    NemotronCC,
    Rephrase,
    SyntheticQA,
)
from dcurate.llm.nemotron_pipeline import TASKS
from dcurate.llm.nemotron_prompts import PROMPTS
from dcurate.text import AddId
from dcurate_testing.llm_server import Endpoint

pytestmark = pytest.mark.cluster


class Words:
    """A tokenizer whose tokens are words."""

    def encode(self, text: str) -> list[str]:
        return text.split()


def client(endpoint: Endpoint) -> AsyncOpenAIClient:
    return AsyncOpenAIClient(base_url=endpoint.url, base_delay_s=0.01, max_concurrent_requests=8)


def documents(**columns: list[Any]) -> DocumentBatch:
    return DocumentBatch(data=pa.table(columns))


def run(*stages: Any, batch: DocumentBatch | None = None, executor: Any = None) -> Any:
    batches = None if batch is None else [batch]
    return Pipeline("test", stages=stages).run(executor or InlineExecutor(), initial_tasks=batches)


def column(result: Any, name: str) -> list[Any]:
    return [value for batch in result for value in batch.to_arrow()[name].to_pylist()]


# Out of a prompt alone


def samples(endpoint: Endpoint, **settings: Any) -> SyntheticQA:
    plain = {
        "prompt": "A question in {language}.",
        "languages": ["Hindi", "Dutch", "Thai"],
        "client": client(endpoint),
        "model": "made-up",
        "num_samples": 130,
    }
    return SyntheticQA(**{**plain, **settings})


def test_as_many_samples_are_written_as_asked_for_in_languages_that_are_drawn(
    endpoint: Endpoint, cluster: LocalCluster
) -> None:
    result = run(samples(endpoint))
    assert column(result, "sample") == list(range(130))
    assert set(column(result, "language")) == {"Hindi", "Dutch", "Thai"}
    language, text = column(result, "language")[7], column(result, "text")[7]
    assert text == f"echo 7: A question in {language}."
    again = run(samples(endpoint), executor=DaskExecutor(cluster=cluster))
    assert sorted(column(again, "text")) == sorted(column(result, "text"))
    assert len(set(column(result, "text"))) == 130


def test_asterisks_around_headings_go(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["question", "**Q:** why?"]])
    assert column(run(samples(endpoint, num_samples=1)), "text") == ["Q: why?"]


def test_samples_need_languages_and_a_number(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="languages='Hindi' must be a list"):
        samples(endpoint, languages="Hindi")
    with pytest.raises(PipelineError, match="num_samples=0 must be at least 1"):
        samples(endpoint, num_samples=0)


# Nemotron-CC


@pytest.mark.parametrize(
    ("task", "name", "output"),
    [
        ("wikipedia_paraphrasing", "WikipediaParaphrasing", "rephrased"),
        ("diverse_qa", "DiverseQA", "diverse_qa"),
        ("distill", "Distill", "distill"),
        ("extract_knowledge", "ExtractKnowledge", "extract_knowledge"),
        ("knowledge_list", "KnowledgeList", "knowledge_list"),
    ],
)
def test_a_stage_asks_about_the_document_and_keeps_the_answer_in_its_column(
    endpoint: Endpoint, task: str, name: str, output: str
) -> None:
    endpoint.behave(replies=[["{of} the sea", "an answer"]])
    one = Rephrase(task=task, client=client(endpoint), model="made-up")
    assert (one.name, one.output_field, one.input_field) == (name, output, "text")
    assert column(run(one, batch=documents(text=["a text {of} the sea"])), output) == ["an answer"]
    assert [each["role"] for each in endpoint.seen.bodies[0]["messages"]] == ["system", "user"]


def test_a_task_that_there_is_not_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="task='distil' is unknown"):
        Rephrase(task="distil", client=client(endpoint), model="made-up")


def test_pairs_are_drawn_the_same_way_each_time_and_stand_below_the_text() -> None:
    answer = "\n".join(f"- Question: {number}? Answer: {number}." for number in range(9))
    batch = documents(text=["A text.", "A text.", "Another."], diverse_qa=[answer, answer, answer])
    first, second, third = CleanDiverseQA().process(batch).to_arrow()["diverse_qa"].to_pylist()
    assert first == second != third
    text, *pairs = first.split("\n\n")
    assert text == "A text."
    assert 1 <= len(pairs) <= 9
    assert len(set(pairs)) == len(pairs)


def test_no_more_pairs_are_drawn_than_the_length_of_the_text_allows() -> None:
    answer = "\n".join(f"- Question: {number}? Answer: {number}." for number in range(9))
    batch = documents(text=[f"{number} short" for number in range(50)], diverse_qa=[answer] * 50)
    drawn = CleanDiverseQA(tokenizer=Words()).process(batch).to_arrow()["diverse_qa"].to_pylist()
    assert {each.count("Question:") for each in drawn} == {1}


@pytest.mark.parametrize("answer", ["", "I am sorry.", "- An answer: none"])
def test_what_is_no_list_of_questions_becomes_empty(answer: str) -> None:
    batch = documents(text=["A text."], diverse_qa=[answer])
    assert CleanDiverseQA().process(batch).to_arrow()["diverse_qa"].to_pylist() == [""]


def test_a_null_answer_stays_null_or_empty() -> None:
    batch = DocumentBatch(
        data=pa.table({"text": ["a"], "diverse_qa": pa.array([None], pa.string()), "knowledge_list": [""]})
    )
    assert CleanDiverseQA().process(batch).to_arrow()["diverse_qa"].to_pylist() == [None]
    assert CleanKnowledgeList().process(batch).to_arrow()["knowledge_list"].to_pylist() == [""]


LINE = "water flows over stones and down to the sea "
LONG = "\n".join([LINE * 5, LINE * 5, "short", LINE * 400])


def nemotron(endpoint: Endpoint, task: str) -> Any:
    stage = NemotronCC(task, client(endpoint), "made-up", Words())
    return run(AddId("id"), stage, batch=documents(text=[LONG, "too short"]))


SIXTY = "plain words of an answer that is long enough to be kept " * 10

REPLIES = {
    "wikipedia_paraphrasing": f'Here is a paraphrased version:\n"{SIXTY}"',
    "distill": f"Paraphrased Text: **{SIXTY}**",
    "extract_knowledge": f"Passage:\n{SIXTY}",
    "knowledge_list": f"Here it is:\n- {SIXTY}",
    "diverse_qa": f"Here are the questions and answers based on the provided text:\n- Question: Why? Answer: {SIXTY}",
}


@pytest.mark.parametrize("task", TASKS)
def test_documents_are_cut_rewritten_and_tidied(endpoint: Endpoint, task: str) -> None:
    endpoint.behave(replies=[["stones", REPLIES[task]]])
    result = nemotron(endpoint, task)
    output = PROMPTS[task].output_field
    (written,) = column(result, output)
    assert written.strip().endswith(SIXTY.strip())
    assert "*" not in written
    assert not written.startswith(("Here", "Paraphrased", "Passage", "-", '"'))
    assert endpoint.seen.requests == 1  # the lines that fit were joined, the long one dropped
    dropped = {stage.name: sum(stage.dropped.values()) for stage in result.report.stages}
    assert (dropped["document_token_count_count"], dropped["segment_token_count_count"]) == (1, 1)


def test_answers_of_another_form_are_dropped(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["stones", SIXTY]])
    assert column(nemotron(endpoint, "distill"), "distill") == []


def test_an_unknown_task_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="task='destill' is unknown; did you mean 'distill'"):
        NemotronCC("destill", client(endpoint), "made-up", Words())


# Cleaning


def test_texts_are_cleaned_and_those_too_long_for_the_model_dropped(endpoint: Endpoint) -> None:
    stage = LLMCleanup("org/made-up", "Clean: {text}", max_model_len=10, client=client(endpoint))
    result = run(stage, batch=documents(text=["a", "b", "c"], n_tokens=[7, 8, 2]))
    assert column(result, "cleaned_text") == ["echo: Clean: a", "echo: Clean: c"]
    assert result.report.stages[-1].dropped == {"too long for the model": 1}
    assert stage.name == "made-up_llm_cleanup"
    assert endpoint.seen.bodies[0]["top_k"] == 20


def test_texts_are_classified(endpoint: Endpoint) -> None:
    endpoint.behave(replies=[["theorem", "math"]])
    stage = LLMCleanup("made-up", "Label: {text}", classification=True, client=client(endpoint))
    assert column(run(stage, batch=documents(text=["a theorem"])), "label") == ["math"]


def test_a_prompt_without_the_text_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(PipelineError, match="system_prompt has no {text}"):
        LLMCleanup("made-up", "Clean it.", client=client(endpoint))


def test_a_column_of_tokens_needs_the_size_of_the_model(endpoint: Endpoint) -> None:
    stage = LLMCleanup("made-up", "{text}", client=client(endpoint))
    with pytest.raises(PipelineError, match="max_model_len= must say how many tokens the model takes"):
        run(stage, batch=documents(text=["a"], n_tokens=[1]))


def test_a_configuration_may_be_a_mapping(endpoint: Endpoint) -> None:
    stage = Rephrase(task="distill", client=client(endpoint), model="made-up", generation_config={"max_tokens": 5})
    run(stage, batch=documents(text=["a"]))
    assert endpoint.seen.bodies[0]["max_tokens"] == 5
    assert GenerationConfig.of(stage.generation_config).samples == 1
