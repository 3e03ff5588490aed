"""Translation, synthetic data and clients of NeMo Curator's form, against a real server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

import dcurate
import dcurate.llm
from dcurate.compat.nemo import synthetic
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.llm_client import AsyncLLMClient
from dcurate.compat.nemo.math_stages.cleanup import LLMCleanupStage
from dcurate.compat.nemo.pipeline import Pipeline
from dcurate.compat.nemo.stages import Resources
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.backends import TranslationBackend, get_backend, register_backend
from dcurate.compat.nemo.translating.composite import TranslationStage
from dcurate.compat.nemo.translating.reassembly import ReassemblyStage
from dcurate.compat.nemo.translating.segmentation import SegmentationStage
from dcurate.compat.nemo.translating.translate import SegmentTranslationStage
from dcurate_testing.llm_server import Endpoint

pytestmark = pytest.mark.cluster

MARKS = {"Fluency": 4, "Accuracy": 5, "Idiomaticity": 0, "Terminology": 3, "Handling_of_Format": 5}
REPLIES = [
    ["English: Hello.", "Here you are: 〘Hallo.〙"],
    ["English: Good day!", "〘Guten Tag!〙"],
    ["\nHallo.", json.dumps(MARKS)],
    ["\nGuten Tag!", json.dumps({**MARKS, "Idiomaticity": 1})],
]
TEXT = "Hello.\n```\nprint('Hello.')\n```\n  Good day!\n42"
GERMAN = "Hallo.\n```\nprint('Hello.')\n```\n  Guten Tag!\n42"


def asked(endpoint: Endpoint) -> Any:
    return dcurate.llm.AsyncOpenAIClient(base_url=endpoint.url, base_delay_s=0.01)


def run(stages: list[Any], **columns: Any) -> list[dict[str, Any]]:
    task = DocumentBatch(dataset_name="mine", data=pd.DataFrame(columns))
    made = Pipeline("test", stages=stages).run(initial_tasks=[task])
    return [row for each in made or () for row in each.data.to_dict("records")]


def translated(endpoint: Endpoint, **settings: Any) -> Any:
    endpoint.behave(replies=REPLIES)
    client = asked(endpoint)
    return TranslationStage(source_lang="en", target_lang="de", client=client, model_name="made-up", **settings)


def test_texts_are_translated_evaluated_and_described(client: RayClient, endpoint: Endpoint) -> None:
    stage = translated(endpoint, enable_faith_eval=True, output_mode="both", merge_scores=True, faith_threshold=3.5)
    [row] = run([stage], text=[TEXT], id=[7])
    assert (row["id"], row["text"], row["translated_text"], row["translation_errors"]) == (7, GERMAN, GERMAN, "")
    metadata = json.loads(row["translation_metadata"])
    assert metadata["segmented_translation"]["text"][1] == {"src": "Good day!", "tgt": "Guten Tag!"}
    assert metadata["faith_scores"]["Idiomaticity"] == 1.0  # a mark of 0 does not apply
    assert row["faith_avg"] == metadata["faith_scores"]["average"] == 3.6
    stage = translated(endpoint, enable_faith_eval=True, faith_threshold=3.7)
    assert run([stage], text=[TEXT]) == []


def test_messages_are_translated_in_their_places(client: RayClient, endpoint: Endpoint) -> None:
    messages = json.dumps([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day!"}])
    stage = translated(endpoint, text_field="messages.*.content", reconstruct_messages=True)
    [row] = run([stage], messages=[messages])
    german = [{"role": "user", "content": "Hallo."}, {"role": "assistant", "content": "Guten Tag!"}]
    assert json.loads(row["messages"]) == json.loads(row["translated_messages"]) == german


def test_rows_with_a_translation_are_left_alone_in_their_order(client: RayClient, endpoint: Endpoint) -> None:
    stage = translated(endpoint, skip_translated=True)
    rows = run([stage], text=["Hello.", "Hello.", "Good day!"], translated_text=[None, "Servus.", ""])
    assert [row["translated_text"] for row in rows] == ["Hallo.", "Servus.", "Guten Tag!"]


def test_sentences_are_segments_and_joined_as_they_were() -> None:
    text = "  One. Two!\n\n```\nCode. Code.\n```\n三。四。"
    stage = SegmentationStage(source_lang="en", mode="fine")
    batch = stage.process(DocumentBatch(dataset_name="mine", data=pd.DataFrame({"text": [text]})))
    assert list(batch.data["_seg_segments"]) == ["One.", "Two!", "三。", "四。"]
    batch.data["_translated"] = batch.data["_seg_segments"]
    assert ReassemblyStage().process(batch).data["translated_text"][0] == text


class Reverse(TranslationBackend):
    """A backend of a person's own, which refuses one text."""

    def setup(self) -> None:
        pass

    def check_server(self) -> bool:
        return True

    async def translate_batch_async(self, texts: list[str], source_lang: str, target_lang: str) -> list[str]:
        if "no" in texts:
            raise OSError("refused")
        return [text[::-1] for text in texts]


def test_a_backend_of_ones_own_translates_what_it_can() -> None:
    register_backend("reverse", Reverse)
    stage = SegmentTranslationStage(source_lang="en", target_lang="de", backend_type="reverse")
    stage.setup()
    frame = pd.DataFrame({"_seg_segments": ["abc", "no", "42"]})
    made = stage.process(DocumentBatch(dataset_name="mine", data=frame)).data
    assert list(made["_translated"]) == ["cba", "", "42"]
    assert list(made["_translation_error"]) == ["", "refused", ""]
    with pytest.raises(NotImplementedError, match="register_backend"):
        get_backend("google", {})


@dataclass
class Titles(synthetic.BaseSyntheticStage):
    """A stage of a person's own with its own prompt and its own way to read answers."""

    def _process_llm_prompt(self, sample: Any) -> str:
        return f"{sample['title']}: {sample['text']}"

    def _process_llm_response(self, response: list[str]) -> str:
        return response[0].removeprefix("echo: ").upper()


def test_own_stages_that_generate_read_every_column(client: RayClient, endpoint: Endpoint) -> None:
    stage = Titles(client=asked(endpoint), model_name="made-up", output_field="made", generation_config={"seed": 0})
    rows = run([stage], title=["One", "Two"], text=["a", "b"])
    assert [row["made"] for row in rows] == ["ONE: A", "TWO: B"]
    assert list(rows[0]) == ["title", "text", "made"]


def test_samples_of_one_language_differ(client: RayClient, endpoint: Endpoint) -> None:
    stage = synthetic.QAMultilingualSyntheticStage("In {language}", ["Dutch"], asked(endpoint), "made-up", 3)
    made = Pipeline("made", stages=[stage]).run()
    assert made is not None
    assert list(made[0].data.text) == ["echo: In Dutch", "echo 1: In Dutch", "echo 2: In Dutch"]


def test_texts_are_cleaned_by_an_endpoint_without_a_gpu(
    client: RayClient, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ValueError, match="vllm serve"):
        LLMCleanupStage("made-up", "Clean: {text}")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    made = LLMCleanupStage("made-up", "Clean: {text}", client=asked(endpoint), cache_dir="unused", max_model_len=9)
    stage = made.with_(resources=Resources(cpus=1.0, gpus=1.0))
    rows = run([stage], text=["one", "two", "long"], n_tokens=[1, 2, 8])
    assert rows == [{"text": text, "cleaned_text": f"echo: Clean: {text}"} for text in ("one", "two")]


class RateLimitError(Exception):
    """An error of a person's own."""


class Busy(AsyncLLMClient):
    """A client of a person's own that fails at first."""

    def __init__(self, error: Exception) -> None:
        super().__init__(max_retries=2, base_delay=0.0)  # type: ignore[call-arg]
        self.error, self.calls = error, 0

    def setup(self) -> None:
        pass

    async def _query_model_impl(self, *, messages: Any, model: str, **_: Any) -> list[str]:
        self.calls += 1
        if self.calls < 3:
            raise self.error
        return ["answer"]


def test_a_client_of_ones_own_is_asked_again_after_its_rate_limits() -> None:
    busy = Busy(RateLimitError("Error code: 429"))
    assert asyncio.run(busy.query_model(messages=[], model="any")) == ["answer"]
    assert busy.calls == 3
    never = Busy(RateLimitError("connection lost"))
    never.max_retries = 1
    with pytest.raises(RateLimitError):
        asyncio.run(never.query_model(messages=[], model="any"))
    broken = Busy(KeyError("field"))
    with pytest.raises(KeyError):
        asyncio.run(broken.query_model(messages=[], model="any"))
    assert broken.calls == 1
    assert isinstance(dcurate.llm.AsyncOpenAIClient(), AsyncLLMClient)
