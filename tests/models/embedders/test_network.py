import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from dcurate import DataError
from dcurate.models.embedders.layout import POOLINGS, EmbeddingSteps, Layer, read_layout
from dcurate.models.embedders.network import pooled, sentence_network
from tests.models.embedders.tiny_sentences import TEXTS, earlier_layout, encoded, tiny_sentences
from tests.models.tiny import tiny_encoder, tiny_generator


def embedded(folder: Path, side: str = "right") -> np.ndarray:
    """What our network makes of the texts, in one padded batch."""
    layout = read_layout(str(folder))
    tokenizer = AutoTokenizer.from_pretrained(layout.encoder, padding_side=side)
    longest = layout.max_seq_length or tokenizer.model_max_length
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    network = sentence_network(
        AutoModel.from_pretrained(layout.encoder), layout.pooling, layout.layers, normalize=False
    ).eval()
    with torch.inference_mode():
        return np.asarray(network(batch["input_ids"], batch["attention_mask"]).numpy())


@pytest.mark.parametrize("pooling", [*POOLINGS, ("cls", "mean")])
def test_every_pooling_gives_what_sentence_transformers_gives(pooling: str | tuple[str, ...], tmp_path: Path) -> None:
    folder = tiny_sentences(tmp_path, pooling, layers=())
    np.testing.assert_allclose(embedded(folder), encoded(folder, TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    "layers",
    [("Dense", "Normalize"), ("Residual",), ("Narrow", "LayerNorm"), ("Dense", "Residual", "LayerNorm", "Normalize")],
)
def test_layers_on_top_give_what_sentence_transformers_gives(layers: tuple[str, ...], tmp_path: Path) -> None:
    folder = tiny_sentences(tmp_path, layers=layers)
    np.testing.assert_allclose(embedded(folder), encoded(folder, TEXTS), atol=1e-5)


def test_folders_of_earlier_releases_are_read_as_well(tmp_path: Path) -> None:
    folder = earlier_layout(tmp_path)
    assert read_layout(str(folder)).pooling == ("max", "mean")
    np.testing.assert_allclose(embedded(folder), encoded(folder, TEXTS), atol=1e-5)


@pytest.mark.parametrize(("make", "pooling"), [(tiny_encoder, "mean"), (tiny_generator, "lasttoken")])
def test_a_plain_model_is_pooled_as_sentence_transformers_does(
    make: Callable[[Path], Path], pooling: str, tmp_path: Path
) -> None:
    assert read_layout(str(make(tmp_path))) == EmbeddingSteps(str(tmp_path), (pooling,))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_it_makes_no_difference_on_which_side_padding_stands(pooling: str) -> None:
    rows = torch.randn(3, 5, 4)
    lengths = [5, 2, 3]
    right, left = torch.zeros(3, 5, dtype=torch.long), torch.zeros(3, 5, dtype=torch.long)
    moved = torch.randn(3, 5, 4)
    for row, length in enumerate(lengths):
        right[row, :length] = left[row, 5 - length :] = 1
        moved[row, 5 - length :] = rows[row, :length]
    for skip in (0, 1):
        torch.testing.assert_close(
            pooled(rows, right, [pooling], skip), pooled(moved, left, [pooling], skip), atol=1e-6, rtol=1e-5
        )


def test_tokens_of_a_prompt_may_be_left_out_of_the_pooling() -> None:
    rows, mask = torch.tensor([[[100.0], [1.0], [3.0], [50.0]]]), torch.tensor([[1, 1, 1, 0]])
    assert pooled(rows, mask, ["mean", "max", "cls", "lasttoken"], skip=1).tolist() == [[2.0, 3.0, 1.0, 3.0]]


def test_sums_of_half_precision_are_made_in_float32() -> None:
    rows = torch.full((1, 4096, 1), 1.0).to(torch.bfloat16)
    mask = torch.ones(1, 4096, dtype=torch.long)
    assert pooled(rows, mask, ["mean_sqrt_len_tokens"]).tolist() == [[64.0]]


def settings(folder: Path, modules: list[tuple[str, str]], **files: dict[str, object]) -> str:
    listed = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    for path, content in files.items():
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(content))
    return str(folder)


@pytest.mark.parametrize(
    ("modules", "files", "said"),
    [
        ([("", "StaticEmbedding")], {}, "is made of 'StaticEmbedding'; dcurate reads Transformer, Pooling"),
        ([("", "Transformer"), ("a", "Pooling"), ("b", "CNN")], {}, "'Transformer', 'Pooling', 'CNN'"),
        ([("", "Transformer"), ("a", "Pooling")], {"a": {"pooling_mode": "men"}}, "did you mean 'mean'"),
        (
            [("", "Transformer"), ("a", "Pooling"), ("b", "Dense")],
            {"b": {"module_input_name": "token_embeddings"}},
            "works on 'token_embeddings', not on the embedding of a text",
        ),
    ],
)
def test_a_model_made_of_something_else_is_refused_in_a_sentence(
    modules: list[tuple[str, str]], files: dict[str, dict[str, object]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        read_layout(settings(tmp_path, modules, **files))


def test_files_that_are_damaged_are_named(tmp_path: Path) -> None:
    folder = tiny_sentences(tmp_path, layers=("Dense",))
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"2_Dense has no model.safetensors, the weights of its Dense; fetch"):
        embedded(folder)
    (folder / "modules.json").write_text("[{")
    with pytest.raises(DataError, match="modules.json is not JSON"):
        read_layout(str(folder))
    (folder / "modules.json").write_text("{}")
    with pytest.raises(DataError, match="modules.json has unexpected contents; fetch the model again"):
        read_layout(str(folder))
    (folder / "modules.json").unlink()
    (folder / "config.json").write_text("[1, 2]")
    with pytest.raises(DataError, match="config.json has unexpected contents; fetch the model again"):
        read_layout(str(folder))


def test_weights_that_are_of_another_layer_are_refused(tmp_path: Path) -> None:
    folder = tiny_sentences(tmp_path, layers=("Dense",))
    wrong = Layer("LayerNorm", str(folder / "2_Dense"), {"dimension": 12})
    with pytest.raises(DataError, match=r"holds 'linear.bias', 'linear.weight', but LayerNorm has 'norm.bias'"):
        sentence_network(torch.nn.Identity(), ["mean"], [wrong])


def test_prompts_are_found_by_name_or_are_the_default() -> None:
    layout = EmbeddingSteps("m", prompts={"query": "query: ", "passage": "passage: "}, default_prompt="passage")
    assert (layout.prompt("query"), layout.prompt(), EmbeddingSteps("m").prompt()) == ("query: ", "passage: ", "")
    with pytest.raises(DataError, match="no prompt 'queri'; did you mean 'query'"):
        layout.prompt("queri")
    with pytest.raises(DataError, match="no prompt 'query'; give prompt=, the text itself"):
        EmbeddingSteps("m").prompt("query")
