from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from dcurate import DataError, PipelineError
from dcurate.models import PromptTaskComplexityClassifier
from dcurate.models.classifiers.complexity import OUTPUT_FIELDS, TARGETS, WEIGHTS, Scales, complexity
from dcurate.models.classifiers.prompts import PromptTaskComplexityModel
from tests.models.classifiers.checkpoints import PROMPT_CONFIG, TASKS, Heads
from tests.models.classifiers.conftest import Published
from tests.models.classifiers.rows import TEXTS, columns, run

SCALES = Scales.of(PROMPT_CONFIG, PROMPT_CONFIG["target_sizes"], "a model")


def plainly(module: Any, tokenizer: Any, text: str) -> dict[str, Any]:
    """The columns of one prompt, as the model's card computes them."""
    tokens = tokenizer(text, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        states = module.backbone(tokens["input_ids"], tokens["attention_mask"]).last_hidden_state
        mean = states.mean(dim=1)
        logits = [getattr(module, f"head_{number}").fc(mean)[0] for number in range(8)]
    likely = torch.softmax(logits[0], dim=0)
    (first, second), (one, other) = torch.topk(likely, 2).indices.tolist(), torch.topk(likely, 2).values.tolist()
    row: dict[str, Any] = {
        "task_type_1": TASKS[first],
        "task_type_2": TASKS[second] if round(other, 3) >= 0.1 else "NA",
        "task_type_prob": round(one, 3),
    }
    for number, target in enumerate(TARGETS[1:], 1):
        shares = torch.softmax(logits[number], dim=0).tolist()
        weights, divisor = PROMPT_CONFIG["weights_map"][target], PROMPT_CONFIG["divisor_map"][target]
        row[target] = round(sum(share * weight for share, weight in zip(shares, weights, strict=True)) / divisor, 4)
    if row["number_of_few_shots"] < 0.05:
        row["number_of_few_shots"] = 0
    row["prompt_complexity_score"] = round(
        0.35 * row["creativity_scope"]
        + 0.25 * row["reasoning"]
        + 0.15 * row["constraint_ct"]
        + 0.15 * row["domain_knowledge"]
        + 0.05 * row["contextual_knowledge"]
        + 0.05 * row["number_of_few_shots"],
        5,
    )
    return row


def test_all_eleven_columns_are_what_the_card_of_the_model_computes(published: Published) -> None:
    found = columns(run(PromptTaskComplexityClassifier(model=published.prompts), *TEXTS))
    assert list(found) == ["text", *OUTPUT_FIELDS]
    module = Heads.from_pretrained(published.prompts).eval()
    tokenizer = AutoTokenizer.from_pretrained(published.prompts)
    for row, text in enumerate(TEXTS):
        for name, expected in plainly(module, tokenizer, text or "").items():
            # Where texts of several lengths are run together, the last of the rounded digits may differ.
            assert found[name][row] == (expected if isinstance(expected, str) else pytest.approx(expected, abs=2e-4))
    assert len(set(found["task_type_1"])) > 1


def logits(**given: list[list[float]]) -> dict[str, Any]:
    """Logits of one row: of the heads that are not given all classes are as likely."""
    plain = {target: [[0.0] * size] for target, size in PROMPT_CONFIG["target_sizes"].items()}
    return {target: np.array(values, np.float32) for target, values in {**plain, **given}.items()}


def test_classes_of_equal_probability_count_with_the_mean_of_their_weights() -> None:
    found = {name: column[0] for name, column in complexity(logits(), SCALES).items()}
    assert found == {
        "prompt_complexity_score": 0.6,
        "task_type_1": "Brainstorming",
        "task_type_2": "Code Generation",
        "task_type_prob": 0.333,
        "creativity_scope": 0.5,
        "reasoning": 0.5,
        "contextual_knowledge": 0.5,
        "number_of_few_shots": 2.5,
        "domain_knowledge": 0.5,
        "no_label_reason": 0.0,
        "constraint_ct": 0.5,
    }


def test_a_second_task_below_a_tenth_and_few_shots_below_a_twentieth_are_none() -> None:
    sure = complexity(logits(task_type=[[9.0, 0, 0]], number_of_few_shots=[[6.0, 0, 0, 0, 0, 0]]), SCALES)
    assert (sure["task_type_2"][0], sure["number_of_few_shots"][0]) == ("NA", 0.0)
    less = complexity(logits(task_type=[[2.0, 0, -9]], number_of_few_shots=[[5.0, 0, 0, 0, 0, 0]]), SCALES)
    assert (less["task_type_2"][0], less["number_of_few_shots"][0]) == ("Code Generation", 0.0978)


def test_the_weights_of_the_score_add_up_to_one() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)


def test_no_rows_give_the_same_columns() -> None:
    none = complexity({target: np.zeros((0, size)) for target, size in PROMPT_CONFIG["target_sizes"].items()}, SCALES)
    assert {name: len(column) for name, column in none.items()} == dict.fromkeys(none, 0)
    assert sorted(none) == sorted(OUTPUT_FIELDS)


def test_prompts_are_kept_by_their_task(published: Published) -> None:
    whole = columns(run(PromptTaskComplexityClassifier(model=published.prompts), *TEXTS))["task_type_1"]
    result = run(PromptTaskComplexityClassifier(model=published.prompts, filter_by=["Open QA"]), *TEXTS)
    assert columns(result)["task_type_1"] == ["Open QA"] * whole.count("Open QA")
    assert sum(result.report.stages[-1].dropped.values()) == len(TEXTS) - whole.count("Open QA")
    with pytest.raises(PipelineError, match="filter_by has an unknown label 'Open'; did you mean 'Open QA'"):
        PromptTaskComplexityClassifier(model=published.prompts, filter_by=["Open"])
    with pytest.raises(PipelineError, match="did you mean 'Closed QA'"):
        PromptTaskComplexityClassifier(filter_by="Closed_QA")


def test_a_column_that_is_there_is_not_replaced_unless_that_is_said(published: Published) -> None:
    with pytest.raises(PipelineError, match="column 'reasoning' already exists"):
        run(PromptTaskComplexityClassifier(model=published.prompts), "a", reasoning=["?"])
    stage = PromptTaskComplexityClassifier(model=published.prompts, overwrite=True)
    assert columns(run(stage, "a", reasoning=["?"]))["reasoning"] != ["?"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task_type_map": {}}, "has no '0' in task_type_map, weights_map or divisor_map"),
        ({"divisor_map": {}}, "has no 'creativity_scope' in task_type_map, weights_map or divisor_map"),
        (
            {"weights_map": {**PROMPT_CONFIG["weights_map"], "reasoning": [0, 1, 2]}},
            "has 3 weights for 'reasoning', whose head has 2 classes",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_the_heads_is_refused(
    published: Published, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    folder = shutil.copytree(published.prompts, tmp_path / "model")
    config = {**json.loads((folder / "config.json").read_text("utf-8")), **changes}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(DataError, match=sentence):
        PromptTaskComplexityModel(str(folder)).setup()


def test_weights_have_the_names_that_the_published_ones_have(published: Published) -> None:
    names = set(load_file(Path(published.prompts) / "model.safetensors"))
    heads = {f"head_{number}.fc.{kind}" for number in range(8) for kind in ("weight", "bias")}
    assert {name for name in names if not name.startswith("backbone.")} == heads
    assert "backbone.encoder.layer.0.attention.self.query_proj.weight" in names


def test_a_model_without_the_heads_is_another_kind_of_model(published: Published) -> None:
    with pytest.raises(DataError, match=r"is another kind of model: its weights have no head_0.fc.weight"):
        PromptTaskComplexityModel(published.quality).setup()


def test_defaults_and_names_of_stages_are_those_of_nemo_curator() -> None:
    made = PromptTaskComplexityClassifier()
    tokenizer: Any
    model: Any
    tokenizer, model = made.decompose()
    name = "prompt_task_and_complexity_classifier"
    assert (made.name, tokenizer.name, model.name) == (f"{name}_classifier", f"{name}_tokenizer", f"{name}_model")
    assert (tokenizer.max_seq_length, tokenizer.max_chars, model.model_inference_batch_size) == (512, None, 256)
    assert made.outputs()[1] == list(OUTPUT_FIELDS)
