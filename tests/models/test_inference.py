from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError, ResourceError, Resources, WorkerMetadata
from dcurate.core.stage import Spec
from dcurate.hub import device as devices
from dcurate.hub.shared import SHARED
from dcurate.models import ModelStage, Tokenize
from tests.models import tiny
from tests.models.stages import Classify, ClassifyInLittleMemory, Encode

TEXTS = ["the quick brown fox", "", "狐狸", "a dog does not mind " * 9, None, "fox", "a model reads tokens " * 40, "x"]


def tokens(folder: Path, texts: list[str | None] = TEXTS) -> DocumentBatch:
    stage = Tokenize(str(folder))
    stage.setup()
    try:
        return stage.process(DocumentBatch(data=pa.table({"text": pa.array(texts, pa.string())})))
    finally:
        stage.teardown()


def of(ids: list[list[int]]) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32()))}))


def ready(stage: Any) -> Any:
    stage.setup(WorkerMetadata("here/0"))
    return stage


def columns(batch: DocumentBatch, *names: str) -> list[np.ndarray]:
    return [np.array(batch.to_arrow()[name].to_pylist()) for name in names]


def alone(stage: ModelStage, batch: DocumentBatch, *names: str) -> list[np.ndarray]:
    """What each row gives when it is the only one."""
    rows = [columns(stage.process(batch.rows(row, row + 1)), *names) for row in range(batch.num_items)]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_each_row_gets_what_transformers_says_of_it_alone(architecture: str, classifiers: dict[str, Path]) -> None:
    batch = tokens(classifiers[architecture])
    stage = ready(Classify(str(classifiers[architecture]), max_batch_tokens=150))
    scores, label = columns(stage.process(batch), "scores", "label")
    with torch.inference_mode():
        said = [
            stage.module(input_ids=torch.tensor([row])).logits[0].numpy()
            for row in batch.to_arrow()["input_ids"].to_pylist()
        ]
    assert np.allclose(scores, said, atol=1e-5)
    assert (label == np.argmax(said, axis=1)).all()
    assert len({tuple(row) for row in scores.round(4).tolist()}) > 4  # the model does distinguish texts
    stage.teardown()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_padding_changes_nothing_at_either_side(architecture: str, side: Any, encoders: dict[str, Path]) -> None:
    batch = tokens(encoders[architecture])
    stage = ready(Encode(str(encoders[architecture]), padding_side=side))
    together = columns(stage.process(batch), "vector")
    assert np.allclose(together[0], alone(stage, batch, "vector")[0], atol=1e-5)
    stage.teardown()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_columns_that_make_a_multiple_change_nothing(
    architecture: str, side: Any, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = of([[5 + place % 80 for place in range(length)] for length in (1, 3, 8, 17, 0, tiny.LONGEST)])
    stage = ready(Encode(str(encoders[architecture]), padding_side=side))
    expected = columns(stage.process(batch), "vector")[0]
    padding = stage.take_metrics()["padding"]
    for multiple in (8, 100):  # the second is more than the model has positions for
        monkeypatch.setattr(devices, "aligned", lambda device, multiple=multiple: multiple)
        assert np.allclose(columns(stage.process(batch), "vector")[0], expected, atol=1e-5)
        assert stage.take_metrics()["padding"] > padding
    stage.teardown()


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=24),
    most=st.integers(1, 300),
    rows=st.integers(1, 9),
    by_length=st.booleans(),
    side=st.sampled_from(["left", "right"]),
)
def test_how_rows_are_packed_changes_nothing(
    bert: Path, lengths: list[int], most: int, rows: int, by_length: bool, side: Any
) -> None:
    batch = of([[5 + (7 * row + place) % 80 for place in range(length)] for row, length in enumerate(lengths)])
    limits: Any = {"max_batch_tokens": most, "model_inference_batch_size": rows}
    packed = ready(Encode(str(bert), has_seq_order=by_length, padding_side=side, **limits))
    single = ready(Encode(str(bert), model_inference_batch_size=1))
    assert np.allclose(*columns(packed.process(batch), "vector"), *columns(single.process(batch), "vector"), atol=1e-5)  # type: ignore[arg-type, misc]
    for stage in (packed, single):
        stage.teardown()


@pytest.fixture(scope="module")
def bert(encoders: dict[str, Path]) -> Iterator[Path]:
    """A folder whose model stays loaded, as a slot holds it meanwhile."""
    held = [ready(Encode(str(encoders["bert"]), padding_side=side)) for side in ("left", "right")]
    yield encoders["bert"]
    for stage in held:
        stage.teardown()


@pytest.mark.gpu
def test_a_gpu_gives_the_rows_of_a_cpu_from_many_small_batches(classifiers: dict[str, Path]) -> None:
    batch = tokens(classifiers["bert"], [f"the quick fox {'and a dog ' * (row % 17)}" for row in range(500)])
    stages = [Classify(str(classifiers["bert"]), device=device, autocast=False) for device in ("cuda", "cpu")]
    stages += [Classify(str(classifiers["bert"]), device="cuda", autocast=False, max_batch_tokens=100)]
    whole, expected, small = (columns(ready(stage).process(batch), "scores")[0] for stage in stages)
    assert np.allclose(whole, expected, atol=1e-3)
    assert np.allclose(small, expected, atol=1e-3)
    for stage in stages:
        stage.teardown()


def test_other_columns_and_the_order_of_rows_stay(classifiers: dict[str, Path]) -> None:
    batch = tokens(classifiers["bert"])
    before = batch.with_data(batch.to_arrow().append_column("id", pa.array(range(len(TEXTS)))))
    stage = ready(Classify(str(classifiers["bert"])))
    after = stage.process(before).to_arrow()
    assert after.select(before.to_arrow().column_names).equals(before.to_arrow())
    assert after.column_names == ["text", "input_ids", "id", "scores", "label"]
    stage.teardown()


def test_a_batch_of_no_rows_has_the_columns_of_any_other(classifiers: dict[str, Path]) -> None:
    batch = tokens(classifiers["bert"])
    stage = ready(Classify(str(classifiers["bert"])))
    full, empty = stage.process(batch).to_arrow(), stage.process(batch.rows(0, 0)).to_arrow()
    assert empty.num_rows == 0
    assert empty.schema.equals(full.schema)
    stage.teardown()


def test_a_row_without_a_token_is_run_as_one_of_padding(classifiers: dict[str, Path]) -> None:
    stage = ready(Classify(str(classifiers["bert"])))
    scores = columns(stage.process(of([[], [5, 6, 7], [0]])), "scores")[0]
    assert np.allclose(scores[0], scores[2], atol=1e-6)
    assert not np.isnan(scores).any()
    stage.teardown()


@pytest.mark.parametrize(("side", "kept"), [("right", [5, 6, 7]), ("left", [7, 8, 9])])
def test_max_seq_length_keeps_the_end_that_has_no_padding(bert: Path, side: Any, kept: list[int]) -> None:
    stage = ready(Encode(str(bert), max_seq_length=3, padding_side=side))
    cut, whole = columns(stage.process(of([[5, 6, 7, 8, 9], kept])), "vector")[0]
    assert np.allclose(cut, whole, atol=1e-6)
    assert stage.take_metrics()["cut_tokens"] == 2
    stage.teardown()


def test_metrics_say_what_was_run(bert: Path) -> None:
    stage = ready(Encode(str(bert), max_batch_tokens=8))
    stage.process(of([[5] * 8, [5] * 3, [5] * 4, []]))
    figures = stage.take_metrics()
    assert figures.pop("model_seconds") > 0
    assert figures == {"documents": 4, "tokens": 15, "padding": 1 + 1 - 1, "model_batches": 3, "cut_tokens": 0}
    stage.teardown()


def test_memory_that_runs_out_halves_batches_and_changes_no_row(classifiers: dict[str, Path]) -> None:
    batch = tokens(classifiers["bert"], [f"the quick fox {'and a dog ' * (row % 17)}" for row in range(60)])
    roomy = ready(Classify(str(classifiers["bert"])))
    cramped = ready(ClassifyInLittleMemory(str(classifiers["bert"]), room=160))
    expected, found = roomy.process(batch), cramped.process(batch)
    assert np.allclose(*columns(expected, "scores"), *columns(found, "scores"), atol=1e-5)  # type: ignore[arg-type, misc]
    calls = cramped.module.calls
    failed = [shape for shape in calls if shape[0] * shape[1] > 160]
    assert failed
    assert sum(rows for rows, longest in calls if rows * longest <= 160) == 60
    calls.clear()
    cramped.process(batch)
    assert len([shape for shape in calls if shape[0] * shape[1] > 160]) < len(failed)  # what was too much is remembered
    for stage in (roomy, cramped):
        stage.teardown()


def test_a_row_that_alone_is_too_much_says_so(classifiers: dict[str, Path]) -> None:
    stage = ready(ClassifyInLittleMemory(str(classifiers["bert"]), room=10))
    with pytest.raises(
        ResourceError, match=r"a row of 20 tokens alone is too much for the memory of cpu; lower max_seq"
    ):
        stage.process(of([[5] * 20, [5] * 3]))
    stage.teardown()


def test_slots_of_a_process_share_the_weights_and_the_last_frees_them(bert: Path) -> None:
    first, second = (ready(Encode(str(bert), max_seq_length=8)) for _ in range(2))
    assert first.module is second.module
    other = ready(Encode(str(bert), max_seq_length=9))
    assert other.module is not first.module
    key = first._key
    first.teardown()
    assert SHARED.holders(key) == 1
    second.teardown()
    assert SHARED.holders(key) == 0
    other.teardown()
    other.teardown()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_slots_that_share_a_model_run_at_the_same_time_and_do_not_mix_rows(bert: Path, device: str) -> None:
    batches = [
        of([[5 + (row * 3 + shift + place) % 80 for place in range(1 + row % 40)] for row in range(90)])
        for shift in range(3)
    ]
    made: Any = {"max_batch_tokens": 200, "autocast": False, "device": device}
    stages = [ready(Encode(str(bert), **made)) for _ in batches]
    expected = [columns(stage.process(batch), "vector")[0] for stage, batch in zip(stages, batches, strict=True)]
    with ThreadPoolExecutor(3) as slots:
        for _ in range(3):
            found = list(slots.map(lambda stage, batch: columns(stage.process(batch), "vector")[0], stages, batches))
            assert all(np.allclose(one, other, atol=1e-4) for one, other in zip(found, expected, strict=True))
    for stage in stages:
        stage.teardown()


def test_a_model_that_keeps_state_is_loaded_for_each_slot(classifiers: dict[str, Path]) -> None:
    first, second = (ready(ClassifyInLittleMemory(str(classifiers["bert"]))) for _ in range(2))
    assert first.module is not second.module
    first.teardown()
    second.teardown()


def test_a_model_is_ready_for_inference(bert: Path) -> None:
    stage = ready(Encode(str(bert)))
    assert not stage.module.training
    stage.teardown()


@pytest.mark.parametrize(("autocast", "cast"), [("fp16", [2, 2]), ("bf16", [0, 0])])
def test_weights_become_16_bits_once_for_all_batches_of_a_call(bert: Path, autocast: str, cast: list[int]) -> None:
    stage = ready(Encode(str(bert), autocast=autocast, max_batch_tokens=8, device="cpu"))
    copies = []
    for rows in (1, 5):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            stage.process(of([[5 + row] * 8 for row in range(rows)]))
        copied = [event.input_shapes[0] for event in profile.events() if event.name == "aten::_to_copy"]
        copies.append(copied.count([48, 32]))  # between the two halves of each of two layers
    assert copies == cast
    stage.teardown()


@dataclass
class Spy(Encode):
    """Says within the model's call what holds there."""

    def outputs(self) -> Spec:
        return ["data"], ["threads", "half", "gradients"]

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        rows = len(inputs["input_ids"])
        half = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
        said = {"threads": torch.get_num_threads(), "half": half, "gradients": torch.is_grad_enabled()}
        return {name: np.full(rows, value) for name, value in said.items()}


@pytest.mark.parametrize(("cpus", "autocast", "half"), [(1.0, True, False), (3.0, "bf16", True), (0.5, "off", False)])
def test_a_slot_computes_with_its_cpus_in_its_precision(bert: Path, cpus: float, autocast: Any, half: bool) -> None:
    stage = ready(Spy(str(bert), autocast=autocast, device="cpu").with_(resources=Resources(cpus=cpus)))
    said = stage.process(of([[5, 6]])).to_arrow().select(["threads", "half", "gradients"]).to_pylist()
    assert said == [{"threads": max(1, int(cpus)), "half": half, "gradients": False}]
    stage.teardown()


def test_weights_in_16_bits_leave_positions_as_exact_as_they_were(encoders: dict[str, Path]) -> None:
    stage = ready(Encode(str(encoders["llama"]), autocast="bf16", device="cpu"))
    assert {weight.dtype for weight in stage.module.parameters()} == {torch.bfloat16}
    assert {buffer.dtype for buffer in stage.module.buffers()} == {torch.float32}
    stage.teardown()


def test_results_in_16_bits_come_back_as_numbers_near_the_others(bert: Path) -> None:
    exact, half = ready(Encode(str(bert))), ready(Encode(str(bert), autocast="bf16"))
    batch = of([[5, 6, 7], [8]])
    assert half.process(batch).to_arrow().schema == exact.process(batch).to_arrow().schema
    assert np.allclose(*columns(exact.process(batch), "vector"), *columns(half.process(batch), "vector"), atol=0.1)  # type: ignore[arg-type, misc]
    exact.teardown()
    half.teardown()


def test_a_module_of_ones_own_may_take_the_batch_as_a_dict(bert: Path) -> None:
    class Lengths(torch.nn.Module):
        def forward(self, batch: Mapping[str, Any]) -> Any:
            return batch["attention_mask"].sum(dim=1)

    class Count(ModelStage):
        def load_model(self, folder: str, device: Any) -> Any:
            return Lengths()

        def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
            return {"length": outputs}

    stage = ready(Count(str(bert), unpack_inference_batch=False))
    assert stage.process(of([[5, 6], [7], [5, 6, 7]])).to_arrow()["length"].to_pylist() == [2, 1, 3]
    stage.teardown()


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda rows: {"n": torch.zeros(rows + 1)}, r"gave 'n' of shape \(3,\) for 2 rows; its first axis must be"),
        (lambda rows: {"n": torch.tensor(1.0)}, r"gave 'n' of shape \(\) for 2 rows"),
        (lambda rows: {f"n{rows}": torch.zeros(rows)}, r"gave \['n1'\] after \['n2'\]; give the same names"),
    ],
)
def test_results_that_are_not_one_a_row_are_refused(bert: Path, give: Any, message: str) -> None:
    class Wrong(ModelStage):
        def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
            return give(len(inputs["input_ids"]))

    stage = ready(Wrong(str(bert), model_inference_batch_size=2))
    with pytest.raises(PipelineError, match=message):
        stage.process(of([[5, 6], [7, 8], [9]]))
    stage.teardown()


def test_tokens_of_another_model_are_refused_before_they_are_run(bert: Path) -> None:
    stage = ready(Encode(str(bert)))
    with pytest.raises(
        DataError, match=r"token 9999 is not in the model's vocabulary of \d+: the rows were tokenized for another"
    ):
        stage.process(of([[5, 9999]]))
    with pytest.raises(DataError, match="token -1 is not in"):
        stage.process(of([[-1]]))
    stage.teardown()


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
def test_a_row_longer_than_the_model_has_positions_for_is_refused(architecture: str, encoders: dict[str, Path]) -> None:
    stage = ready(Encode(str(encoders[architecture])))
    assert stage.process(of([[5] * tiny.LONGEST])).num_items == 1
    with pytest.raises(
        DataError, match=r"a row has 129 tokens and the model positions for 128; pass max_seq_length=128"
    ):
        stage.process(of([[5] * (tiny.LONGEST + 1)]))
    stage.teardown()


def test_rows_without_tokens_and_a_stage_that_is_not_set_up_are_refused(bert: Path) -> None:
    with pytest.raises(PipelineError, match=r"is not set up; run it in a pipeline"):
        Encode(str(bert)).process(of([[5]]))
    stage = ready(Encode(str(bert)))
    with pytest.raises(DataError, match="no column 'input_ids'; the rows have 'text'; put a Tokenize before"):
        stage.process(DocumentBatch(data=pa.table({"text": ["fox"]})))
    with pytest.raises(DataError, match="'input_ids' holds string, not lists of token ids"):
        stage.process(DocumentBatch(data=pa.table({"input_ids": ["fox"]})))
    stage.teardown()


def test_without_torch_setup_names_the_extra(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ResourceError, match="this needs the 'models' extra: pip install 'dcurate\\[models\\]'"):
        Encode(str(bert)).setup()
