from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from dcurate import DataError, InlineExecutor, Pipeline, PipelineError, ResourceError
from dcurate.models import AegisClassifier, InstructionDataGuardClassifier
from dcurate.models.classifiers.aegis import HIDDEN_TEXT_FIELD, FormatAegisPrompt
from dcurate.models.classifiers.aegis_prompt import AEGIS_LABELS, AFTER, format_aegis, parse_response
from dcurate.models.classifiers.llama_guard import (
    AEGIS_VARIANTS,
    INSTRUCTION_DATA_GUARD_MODEL_IDENTIFIER,
    LLAMA_GUARD,
    InstructionDataGuardModel,
    Prefix,
    RunAegis,
)
from dcurate_testing.hub_server import TOKEN, hub_server
from tests.models.classifiers import checkpoints
from tests.models.classifiers.checkpoints import GuardHead
from tests.models.classifiers.conftest import Published
from tests.models.classifiers.rows import TEXTS, batch, columns, run

#: peft asks models for an attribute that transformers warns about.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def aegis(published: Published, **settings: Any) -> AegisClassifier:
    return AegisClassifier(published.adapter, base_model=published.llama, **settings)


def guard(published: Published, **settings: Any) -> InstructionDataGuardClassifier:
    return InstructionDataGuardClassifier(
        model=published.guard,
        aegis_variant=published.adapter,
        base_model=published.llama,
        **settings,
    )


@pytest.fixture(scope="module")
def adapted(published: Published) -> tuple[Any, Any]:
    """The language model with its adapter and its tokenizer, read by their own libraries."""
    base = AutoModelForCausalLM.from_pretrained(published.llama)
    return PeftModel.from_pretrained(base, published.adapter).eval(), AutoTokenizer.from_pretrained(published.llama)


@pytest.fixture(scope="module")
def strict(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """With a language model that answers every prompt ``unsafe`` and ``O3``."""
    folder = tmp_path_factory.mktemp("strict")
    follows = {"[/INST]": "unsafe", "unsafe": "\n", "\n": "O3", "O3": "</s>"}
    llama = checkpoints.language_model(folder / "llama", follows)
    return Published(
        published.quality, published.prompts, published.scorer, str(llama), published.adapter, published.guard
    )


def test_the_prompt_is_the_one_that_the_model_was_tuned_on_letter_by_letter() -> None:
    # That of NeMo Curator's format_aegis("HELLO").
    found = hashlib.sha256(format_aegis("HELLO").encode()).hexdigest()
    assert found == "21cacaf77c16b14a878ece748a2c08fada6406205f553860da68888131499fb4"
    assert format_aegis("HELLO").index("User: HELLO\n\n<END CONVERSATION>") == 8969


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("safe", "safe"),
        (" safe\n", "safe"),
        ("unsafe\nO3", "O3"),
        (" unsafe \n O13 \nmore", "O13"),
        ("unsafe\nO12,O3", "O12"),
        ("unsafe", "unknown"),
        ("unsafe\n", "unknown"),
        ("unsafe\nO14", "unknown"),
        ("unsafe\nsafe", "unknown"),
        ("safely", "unknown"),
        ("O3", "unknown"),
        ("", "unknown"),
    ],
)
def test_an_answer_means_safe_a_category_or_unknown(answer: str, label: str) -> None:
    assert parse_response(answer) == label
    assert label in AEGIS_LABELS


def written(adapted: tuple[Any, Any], text: str, tokens: int, **settings: Any) -> tuple[Any, int]:
    """What the model writes after a text, and how many tokens the text has."""
    model, tokenizer = adapted
    ids = tokenizer(text, truncation=True, max_length=4096, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        found = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
            **settings,
        )
    return found, ids.shape[1]


def test_answers_are_what_the_model_writes_to_each_prompt_alone(published: Published, adapted: tuple[Any, Any]) -> None:
    prompts = [f"Is it safe? {text or ''}"[:200] for text in TEXTS]
    found = columns(
        run(aegis(published, keep_raw_output=True, aegis_prompt_field="ask", max_new_tokens=12), *TEXTS, ask=prompts)
    )
    expected = []
    for prompt in prompts:
        answer, begins = written(adapted, prompt, 12)
        expected.append(adapted[1].decode(answer[0, begins:], skip_special_tokens=True))
    assert found["_aegis_raw_pred"] == expected
    assert len(set(expected)) == len(set(prompts))
    assert found["aegis_pred"] == [parse_response(answer) for answer in expected]
    assert sorted(found) == ["_aegis_raw_pred", "aegis_pred", "text"]


def test_prompts_that_begin_alike_are_answered_as_each_would_be_alone(
    published: Published, adapted: tuple[Any, Any]
) -> None:
    texts = ("The quick brown fox.", None, "A model reads tokens; " * 8)
    stages = aegis(published, keep_raw_output=True, max_new_tokens=6).decompose()
    for stage in stages:
        stage.setup()
    rows: Any = batch(*texts)
    for stage in stages:
        rows = stage.process(rows)
    expected = []
    for text in texts:
        answer, begins = written(adapted, format_aegis(text or ""), 6)
        expected.append(adapted[1].decode(answer[0, begins:], skip_special_tokens=True))
    assert rows.to_arrow()["_aegis_raw_pred"].to_pylist() == expected
    assert len(set(expected)) == 3
    model = stages[2]
    assert isinstance(model, RunAegis)
    assert len(model._prefix.tokens) > 2000
    assert model._prefix._states is not None
    for stage in stages:
        stage.teardown()


def test_a_beginning_that_is_known_is_put_in_front_and_padding_behind_it() -> None:
    ids = torch.tensor([[0, 0, 8, 9, 5], [8, 9, 6, 7, 4]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    known = Prefix([8, 9], _states=DynamicCache())
    made = known.inputs(None, {"input_ids": ids, "attention_mask": mask})
    assert made["input_ids"].tolist() == [[8, 9, 0, 0, 5], [8, 9, 6, 7, 4]]
    assert made["attention_mask"].tolist() == [[1, 1, 0, 0, 1], [1, 1, 1, 1, 1]]
    for other in (Prefix([8, 1]), Prefix([8, 9, 5]), Prefix([])):
        assert other.inputs(None, {"input_ids": ids, "attention_mask": mask})["input_ids"] is ids


def test_an_answer_becomes_a_label_by_which_rows_are_kept(strict: Published) -> None:
    assert columns(run(aegis(strict), "a", "b")) == {"text": ["a", "b"], "aegis_pred": ["O3", "O3"]}
    result = run(aegis(strict, filter_by=["safe"]), "a", "b")
    assert len(result) == 0
    assert result.report.stages[-1].dropped == {"aegis_pred: O3": 2}
    assert result.report.stages[-2].scores["aegis_pred"] == {"O3": 2}


def test_what_is_asked_for_stays(strict: Published) -> None:
    stage = aegis(strict, keep_raw_output=True, keep_aegis_prompt_field=True, keep_tokens=True, max_chars=3)
    found = columns(run(stage, "abcdef"))
    assert found["_aegis_raw_pred"] == ["unsafe\nO3"]
    assert found[HIDDEN_TEXT_FIELD] == [format_aegis("abc")]
    assert found["text"] == ["abcdef"]
    tokenizer = AutoTokenizer.from_pretrained(strict.llama)
    assert found["input_ids"] == [tokenizer(format_aegis("abc"))["input_ids"]]


def test_a_prompt_that_is_too_long_is_cut_in_the_text_and_still_asks(strict: Published) -> None:
    result = run(aegis(strict, max_chars=None, keep_tokens=True), "x y " * 3000, "short")
    long, short = result[0].to_arrow()["input_ids"].to_pylist()  # type: ignore[attr-defined]
    tokenizer = AutoTokenizer.from_pretrained(strict.llama)
    text = str(tokenizer.decode(long))
    assert len(long) == 4096
    assert text.endswith("violated categories. [/INST]")
    assert "x y x y" in text
    assert str(tokenizer.decode(short)).endswith("violated categories. [/INST]")
    assert columns(result)["aegis_pred"] == ["O3", "O3"]


def test_prompts_of_ones_own_and_tokens_that_are_there_are_taken_as_they_are(strict: Published) -> None:
    own = aegis(strict, aegis_prompt_field="ask", keep_aegis_prompt_field=True, keep_tokens=True)
    first = run(own, "a", ask=["Is it safe? [/INST]"])
    assert columns(first)["aegis_pred"] == ["O3"]
    tokenizer = AutoTokenizer.from_pretrained(strict.llama)
    ids = tokenizer("Is it safe? [/INST]")["input_ids"]
    assert columns(first)["input_ids"] == [ids]
    again = run(aegis(strict, use_existing_tokens=True), "a", input_ids=pa.array([ids]))
    assert columns(again) == {"text": ["a"], "aegis_pred": ["O3"]}


def test_both_variants_may_be_in_one_pipeline(strict: Published) -> None:
    stages = [aegis(strict, label_field="defensive"), aegis(strict, label_field="permissive")]
    result = Pipeline("p", stages=stages).run(InlineExecutor(), initial_tasks=[batch("a")])
    assert columns(result) == {"text": ["a"], "defensive": ["O3"], "permissive": ["O3"]}


def test_the_score_of_the_guard_is_that_of_its_network_over_the_state_of_the_last_token(
    published: Published, adapted: tuple[Any, Any]
) -> None:
    head = GuardHead.from_pretrained(published.guard).eval()
    found = columns(run(guard(published), *TEXTS))
    expected = []
    for text in TEXTS:
        answer, _ = written(adapted, text or "", 1, output_hidden_states=True, return_dict_in_generate=True)
        with torch.no_grad():
            state = torch.nn.functional.normalize(answer.hidden_states[0][-1][:, -1, :].float(), dim=-1)
            for layer in (head.input_layer, head.hidden_layer_0, head.hidden_layer_1):
                state = torch.relu(layer(state))
            expected.append(torch.sigmoid(head.hidden_layer_2(state)).item())
    assert np.allclose(found["instruction_data_guard_poisoning_score"], expected, atol=1e-5)
    assert found["is_poisoned"] == [score >= 0.5 for score in expected]
    assert len(set(found["is_poisoned"])) == 2
    assert list(found) == ["text", "is_poisoned", "instruction_data_guard_poisoning_score"]


@pytest.mark.parametrize("asked", [[False], ["False"], False])
def test_what_is_poisoned_is_dropped_and_counted(published: Published, asked: Any) -> None:
    poisoned = columns(run(guard(published), *TEXTS))["is_poisoned"]
    result = run(guard(published, filter_by=asked), *TEXTS)
    assert columns(result)["is_poisoned"] == [False] * poisoned.count(False)
    assert poisoned.count(True) > 0
    assert result.report.stages[-1].dropped == {"is_poisoned: True": poisoned.count(True)}
    with pytest.raises(PipelineError, match="filter_by has an unknown label 'maybe'"):
        guard(published, filter_by="maybe")


def test_defaults_and_names_of_stages_are_those_of_nemo_curator() -> None:
    made = AegisClassifier(hf_token="secret", filter_by=["safe"])
    variant = "aegis_ai_content_safety_llamaguard_defensive_1.0"
    assert [stage.name for stage in made.decompose()] == [
        "format_aegis_prompt",
        "llamaguard_7b_tokenizer",
        f"{variant}_model",
        "postprocess_aegis_responses",
        "filter_fn",
    ]
    assert (made.name, made.outputs()[1], made.max_chars) == (f"{variant}_classifier", ["aegis_pred"], 6000)
    inner: Any = made.decompose()
    prompt, tokenizer, model, after, _ = inner
    assert isinstance(model, RunAegis)
    assert (prompt.max_chars, tokenizer.max_seq_length, model.model_inference_batch_size) == (6000, 4096, 64)
    assert model.base_weights.hf_token == tokenizer.weights.hf_token == after.weights.hf_token == "secret"
    assert AegisClassifier(AEGIS_VARIANTS[1]).model == AEGIS_VARIANTS[1]
    inner = InstructionDataGuardClassifier().decompose()
    tokenizer, model = inner
    assert isinstance(model, InstructionDataGuardModel)
    assert (tokenizer.name, model.name, tokenizer.max_chars) == ("llamaguard_7b_tokenizer", f"{variant}_model", None)
    assert InstructionDataGuardClassifier().name == "instruction_data_guard_classifier"
    with pytest.raises(PipelineError, match="filter_by has an unknown label 'o3'; there are 'unknown', 'safe', 'O1'"):
        AegisClassifier(filter_by=["o3"])


def test_columns_that_are_there_are_not_replaced_unless_that_is_said(strict: Published) -> None:
    with pytest.raises(PipelineError, match="column 'aegis_pred' already exists"):
        run(aegis(strict), "a", aegis_pred=["?"])
    with pytest.raises(PipelineError, match=f"column '{HIDDEN_TEXT_FIELD}' already exists"):
        FormatAegisPrompt("text", 9).process(batch("a", **{HIDDEN_TEXT_FIELD: ["?"]}))
    with pytest.raises(PipelineError, match="column '_aegis_raw_pred' already exists"):
        run(aegis(strict), "a", _aegis_raw_pred=["?"])
    assert columns(run(aegis(strict, overwrite=True), "a", aegis_pred=["?"]))["aegis_pred"] == ["O3"]


def test_a_batch_of_no_rows_has_the_same_columns(strict: Published) -> None:
    inner = [*aegis(strict, keep_raw_output=True).decompose(), *guard(strict).decompose()]
    some: Any = batch("a text")
    none: Any = batch()
    for stage in inner:
        stage.setup()
        some, none = stage.process(some), stage.process(none)
        stage.teardown()
    assert none.num_items == 0
    assert none.to_arrow().schema == some.to_arrow().schema


def test_a_network_for_another_language_model_is_refused(published: Published, tmp_path: Path) -> None:
    head = str(checkpoints.guard_head(tmp_path / "head", 16))
    stage = InstructionDataGuardModel(head, adapter_identifier=published.adapter, base_model=published.llama)
    with pytest.raises(DataError, match="expects states of 16 numbers, and .* has 32; they do not match"):
        stage.setup()


def test_models_come_from_the_hub_by_their_published_names_and_the_gated_one_for_a_token(
    strict: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {LLAMA_GUARD: Path(strict.llama), AEGIS_VARIANTS[0]: Path(strict.adapter)}
    models[INSTRUCTION_DATA_GUARD_MODEL_IDENTIFIER] = Path(strict.guard)
    with hub_server(models, {LLAMA_GUARD}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(ResourceError, match="meta-llama/LlamaGuard-7b' is gated: accept its terms .* hf_token="):
            run(AegisClassifier(cache_dir=str(tmp_path / "without")), "a")
        cache = str(tmp_path / "with")
        found = run(AegisClassifier(cache_dir=cache, hf_token=TOKEN), "a")
        assert columns(found)["aegis_pred"] == ["O3"]
        found = run(InstructionDataGuardClassifier(cache_dir=cache, hf_token=TOKEN), "a")
        assert columns(found) == columns(run(guard(strict), "a"))


def test_an_adapter_that_is_damaged_is_refused_in_one_sentence(published: Published, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(published.adapter, tmp_path / "adapter"))
    (folder / "adapter_model.safetensors").write_bytes(b"no weights")
    with pytest.raises(DataError, match="are damaged .*; delete them and fetch them again"):
        RunAegis(str(folder), base_model=published.llama).setup()


def test_without_peft_it_is_said_what_to_install(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ResourceError, match=r"this needs the 'models' extra: pip install 'dcurate\[models\]'"):
        RunAegis(published.adapter, base_model=published.llama).setup()


def test_weights_have_the_names_that_the_published_ones_have(published: Published) -> None:
    adapted = {
        f"base_model.model.model.layers.{layer}.self_attn.{part}.lora_{side}.weight"
        for layer in range(2)
        for part in ("q_proj", "v_proj")
        for side in ("A", "B")
    }
    assert set(load_file(Path(published.adapter) / "adapter_model.safetensors")) == adapted
    layers = ("input_layer", "hidden_layer_0", "hidden_layer_1", "hidden_layer_2")
    head = set(load_file(Path(published.guard) / "model.safetensors"))
    assert head == {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}


def test_all_three_models_are_fetched_to_a_host_before_any_is_loaded(published: Published, tmp_path: Path) -> None:
    for changes in ({"adapter_identifier": "./gone"}, {"base_model": "./gone"}):
        settings: Any = {"adapter_identifier": published.adapter, "base_model": published.llama, **changes}
        with pytest.raises(DataError, match=r"'./gone': no such folder on this host"):
            InstructionDataGuardModel(published.guard, **settings).setup_on_node()
    assert AFTER in format_aegis("")
