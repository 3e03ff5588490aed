"""Stages that run a Torch model, as people subclass them for NeMo Curator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dcurate
import dcurate.models
from dcurate.compat.nemo import models
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.math_stages.chunks import ChunkMergeStage, TokenSplitterStage
from dcurate.compat.nemo.math_stages.finemath import FineMathClassifier
from dcurate.compat.nemo.pipeline import Pipeline
from dcurate.compat.nemo.tasks import DocumentBatch
from tests.models.classifiers import checkpoints

pytest.importorskip("torch")
pytestmark = pytest.mark.cluster

TEXTS = ["a much longer text with several words in it", "short", "of middling length", ""]


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model with one output."""
    return str(checkpoints.regressor(tmp_path_factory.mktemp("scorer")))


class Lengths(models.ModelStage):
    """A model stage of a person's own: its model counts the tokens of a row."""

    def outputs(self) -> Any:
        return ["data"], ["tokens"]

    def _setup(self, local_files_only: bool = True) -> None:
        torch: Any = pytest.importorskip("torch")

        class Count(torch.nn.Module):
            device = torch.device("cpu")

            def forward(self, inputs: Any) -> Any:
                return inputs["attention_mask"].sum(1)

        self.model = Count()

    def process_model_output(self, outputs: Any, model_input_batch: Any = None) -> dict[str, Any]:
        return {"tokens": outputs.numpy()}

    def create_output_dataframe(self, df_cpu: pd.DataFrame, collected_output: Any) -> pd.DataFrame:
        return df_cpu.drop(columns=["input_ids", "attention_mask"]).assign(tokens=collected_output["tokens"])


def run(stages: list[Any]) -> pd.DataFrame:
    task = DocumentBatch(dataset_name="mine", data=pd.DataFrame({"text": TEXTS}))
    [made] = Pipeline("models", stages=stages).run(initial_tasks=[task]) or []
    return made.data


def test_a_model_stage_of_ones_own_has_sorted_rows_and_returns_them_in_order(client: RayClient, scorer: str) -> None:
    tokenizer = models.TokenizerStage(scorer)
    frame = run([tokenizer, Lengths(scorer, model_inference_batch_size=2)])
    assert list(frame) == ["text", "tokens"]
    assert list(frame.text) == TEXTS
    tokenizer.setup()
    tokens = tokenizer.process(DocumentBatch(dataset_name="mine", data=pd.DataFrame({"text": TEXTS}))).to_pandas()
    lengths = dict(zip(tokens.text, map(len, tokens.input_ids), strict=True))
    assert list(frame.tokens) == [lengths[text] for text in TEXTS]
    assert list(tokens[models.SEQ_ORDER_FIELD])[-1] == 0  # the longest comes last


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_rows_are_cut_and_padded_at_the_side_that_is_asked_for(padding_side: str) -> None:
    torch = pytest.importorskip("torch")
    stage = Lengths("any", padding_side=padding_side, max_seq_length=2, has_seq_order=False)
    stage.setup()
    rows = pd.DataFrame({"input_ids": [[1, 2, 3], [4]], "attention_mask": [[1, 1, 1], [1]]})
    [batch] = stage.yield_next_batch(rows)
    assert batch["input_ids"].tolist() == ([[1, 2, 3], [0, 0, 4]] if padding_side == "left" else [[1, 2, 3], [4, 0, 0]])
    assert torch.equal(batch["attention_mask"], (batch["input_ids"] > 0).long())
    assert list(stage.process(DocumentBatch(dataset_name="mine", data=rows)).data.tokens) == [2, 1]


def test_finemath_scores_the_middle_and_puts_it_in_the_place_of_the_text(client: RayClient, scorer: str) -> None:
    frame = run([FineMathClassifier(model_identifier=scorer, center_crop_chars=5, sort_by_length=True)])
    assert list(frame.text) == ["xt with se", "short", "iddling le", ""]
    ours = dcurate.Pipeline("ours", stages=[dcurate.models.FineMathClassifier(model=scorer, center_crop_chars=5)])
    given = dcurate.DocumentBatch(data=pd.DataFrame({"text": TEXTS}))
    batch: Any = next(iter(ours.run(dcurate.InlineExecutor(), initial_tasks=[given])))
    expected = batch.to_pandas()
    np.testing.assert_allclose(frame.finemath_scores, expected.finemath_scores, atol=1e-5)
    assert list(frame.finemath_int_scores) == list(expected.finemath_int_scores)


def test_texts_are_split_by_tokens_and_joined_again(client: RayClient, scorer: str) -> None:
    text = "one two three\n\nfour five six\n\n \n\nseven"
    batch = DocumentBatch(dataset_name="mine", data=pd.DataFrame({"text": [text, ""], "url": ["u", "v"]}))
    stage = TokenSplitterStage(scorer, max_length_tokens=1)
    stage.setup()
    parts = stage.process(batch)
    assert list(parts.data.text) == ["one two three\n\n", "four five six\n\n", "seven"]
    assert list(parts.data.chunk_id) == [0, 1, 2]
    merged = ChunkMergeStage(text_field="text", raw_text_field=None, separator="").process(parts)
    assert merged.data[["url", "text"]].to_dict("records") == [{"url": "u", "text": text.replace(" \n\n", "")}]
