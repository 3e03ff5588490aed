from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch

from dcurate import DataError, PipelineError, ResourceError
from dcurate.hub.loading import pretrained, tokenizer_of
from dcurate.hub.weights import Weights, wanted
from dcurate.models import ImageEmbedding, SequenceClassifier, TextEmbedding, Tokenize, VideoEmbedding
from dcurate_testing.hub_server import COMMIT, TOKEN, Hub

CPU = torch.device("cpu")
ALL = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture
def tiny(tmp_path: Path) -> Weights:
    return Weights("org/tiny", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def copied(classifiers: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(classifiers["bert"], tmp_path / "copied"))


def test_fetching_brings_what_is_there_into_the_cache_and_setup_finds_it_there(tiny: Weights, hub: Hub) -> None:
    fetched = tiny.fetch()
    assert {path.name for path in Path(fetched).iterdir()} == ALL
    before = hub.asked.total()
    assert tiny.folder() == fetched
    assert hub.asked.total() == before


def test_a_tokenizer_is_fetched_without_the_weights_and_the_model_is_then_missing(tiny: Weights, hub: Hub) -> None:
    tiny.fetch("tokenizer")
    assert set(hub.downloads) == ALL - {"model.safetensors"}
    assert tiny.folder("tokenizer")
    with pytest.raises(ResourceError, match=r"on this host without weights .*hf download org/tiny"):
        tiny.folder()


def test_files_are_fetched_once_however_often_they_are_asked_for(tiny: Weights, hub: Hub) -> None:
    for _ in range(3):
        tiny.fetch("tokenizer")
        tiny.fetch()
    assert set(hub.downloads.values()) == {1}


def test_a_commit_that_is_on_the_host_is_not_asked_for_again(tiny: Weights, hub: Hub) -> None:
    pinned = replace(tiny, revision=COMMIT)
    pinned.fetch()
    before = hub.asked.total()
    assert pinned.fetch() == pinned.folder()
    assert hub.asked.total() == before


def test_only_one_form_of_the_weights_is_fetched() -> None:
    names = ["config.json", "pytorch_model.bin", "onnx/model.onnx", "openvino/model.bin", "tf_model.h5", "flax.msgpack"]
    assert wanted([*names, "model.safetensors"]) == ["config.json", "model.safetensors"]
    assert wanted(names) == ["config.json", "pytorch_model.bin"]
    assert wanted(["2_Dense/pytorch_model.bin", "model.safetensors"]) == [
        "2_Dense/pytorch_model.bin",
        "model.safetensors",
    ]


def test_a_gated_model_is_fetched_with_its_token_and_refused_without(tiny: Weights, hub: Hub) -> None:
    gated = replace(tiny, identifier="org/gated")
    with pytest.raises(ResourceError, match=r"model 'org/gated' is gated: accept its terms .* pass hf_token="):
        gated.fetch()
    assert replace(gated, hf_token=TOKEN).fetch()
    assert f"Bearer {TOKEN}" in hub.tokens


def test_a_model_that_is_not_there_or_not_shown_says_so(tiny: Weights, hub: Hub) -> None:
    with pytest.raises(ResourceError, match=r"the hub has no model 'org/none', or does not show it to you"):
        replace(tiny, identifier="org/none").fetch()
    with pytest.raises(ResourceError, match=r"the hub has no model 'org/a b'"):
        replace(tiny, identifier="org/a b").fetch()


def test_a_revision_that_is_not_there_is_named(tiny: Weights, hub: Hub) -> None:
    with pytest.raises(DataError, match=r"'org/tiny' has no revision 'v9'; its page at the hub lists"):
        replace(tiny, revision="v9").fetch()


def test_offline_a_fetched_model_is_used_and_another_refused_at_once(
    tiny: Weights, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tiny.fetch()
    before = hub.asked.total()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert tiny.fetch() == there
    with pytest.raises(ResourceError, match=r"'org/gated' is not on this host, and HF_HUB_OFFLINE forbids to fetch it"):
        replace(tiny, identifier="org/gated").fetch()
    assert hub.asked.total() == before


def test_with_the_network_closed_a_fetched_model_is_used_and_another_refused_without_trying_again(
    tiny: Weights, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tiny.fetch()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"waits {seconds} s to try again"))
    assert tiny.fetch() == there
    with pytest.raises(ResourceError, match=r"hub cannot be reached \(.*refused\); fetch it where there is a network"):
        replace(tiny, identifier="org/gated").fetch()


def test_a_hub_that_is_down_is_named_unless_the_model_is_on_the_host(tiny: Weights, hub: Hub) -> None:
    there = tiny.fetch()
    hub.fault = lambda kind, number: (503, {})
    assert tiny.fetch() == there
    with pytest.raises(ResourceError, match=r"not on this host, and the hub answered 503; try again later"):
        replace(tiny, identifier="org/gated").fetch()


def test_a_model_that_the_hub_has_in_part_is_refused(copied: Path, tiny: Weights, hub: Hub) -> None:
    (copied / "model.safetensors").unlink()
    hub.models = {"org/tiny": copied}
    with pytest.raises(
        DataError, match=r"model 'org/tiny' is missing weights \(such as model.safetensors\) at the hub"
    ):
        tiny.fetch()


def test_setup_before_anything_was_fetched_says_how_to_fetch_it(tiny: Weights, hub: Hub) -> None:
    with pytest.raises(ResourceError, match=r"'org/tiny' is not on this host; fetch it where there is a network"):
        tiny.folder()
    assert not hub.asked.total()


@pytest.mark.parametrize("identifier", ["./nowhere", "/no/where", "a/b/c", "~/nowhere", " "])
def test_a_folder_that_is_not_there_is_not_looked_for_at_the_hub(identifier: str, hub: Hub) -> None:
    with pytest.raises(DataError, match="no such folder on this host; give the id"):
        Weights(identifier).fetch()
    assert not hub.asked.total()


@pytest.mark.parametrize(
    ("gone", "lack"),
    [
        ("config.json", "is missing config.json"),
        ("model.safetensors", r"is missing weights \(such as model.safetensors\)"),
    ],
)
def test_a_folder_without_what_a_model_needs_names_it(copied: Path, gone: str, lack: str) -> None:
    (copied / gone).unlink()
    with pytest.raises(DataError, match=f"{lack} in .*; give a folder that save_pretrained wrote"):
        Weights(str(copied)).folder()


def test_a_folder_without_a_tokenizer_makes_no_tokens(copied: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copied / name).unlink()
    assert Weights(str(copied)).folder() == str(copied)
    with pytest.raises(DataError, match="is missing a tokenizer"):
        Weights(str(copied)).folder("tokenizer")


def test_a_shard_that_is_missing_is_named(copied: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (copied / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(
        DataError, match="is missing 'model-00002-of-00002.safetensors', which model.safetensors.index.json"
    ):
        Weights(str(copied)).folder()


def test_damaged_weights_are_said_to_be_damaged(copied: Path) -> None:
    (copied / "model.safetensors").write_bytes((copied / "model.safetensors").read_bytes()[:500])
    with pytest.raises(DataError, match=r"the weights in .* are damaged \(.*\); delete them and fetch them again"):
        pretrained("AutoModel", Weights(str(copied)), str(copied), CPU)


def test_a_configuration_of_other_sizes_than_the_weights_is_said_to_be_that(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config |= {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"the weights in .* do not fit the sizes of its config.json; copy it from"):
        pretrained("AutoModelForSequenceClassification", Weights(str(copied)), str(copied), CPU)


def test_a_kind_of_model_that_is_unknown_is_named(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "model_type": "berd", "architectures": ["Berd"]}))
    with pytest.raises(DataError, match="is of a kind that this transformers does not know; update transformers"):
        pretrained("AutoModel", Weights(str(copied)), str(copied), CPU)


def test_code_of_a_models_own_runs_only_where_it_is_trusted(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    own = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    (copied / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": own}))
    (copied / "own.py").write_text(
        "from transformers import BertConfig, BertModel\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
        "class OwnModel(BertModel):\n    config_class = OwnConfig\n"
    )
    weights = Weights(str(copied))
    with pytest.raises(DataError, match=r"comes with code of its own: read it, then pass trust_remote_code=True"):
        pretrained("AutoModel", weights, str(copied), CPU, optional=("pooler.",))
    trusting = replace(weights, trust_remote_code=True)
    model = pretrained("AutoModel", trusting, str(copied), CPU, optional=("pooler.",))
    assert type(model).__name__ == "OwnModel"


@pytest.mark.parametrize("repository", ["own/code", "org/tiny"])
@pytest.mark.parametrize("place", ["config.json", "tokenizer_config.json"])
def test_trusted_code_of_another_repository_is_refused_as_no_revision_pins_it(
    copied: Path, repository: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = {"AutoModel": "own.OwnModel", "AutoTokenizer": ["own.Slow", f"{repository}--own.Fast"]}
    config = json.loads((copied / place).read_text())
    (copied / place).write_text(json.dumps({**config, "inner": [{"auto_map": classes}]}))
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", pytest.fail)
    with pytest.raises(DataError, match=f"takes its code from '{repository}', whose revision is not pinned; read"):
        tokenizer_of(Weights(str(copied), trust_remote_code=True), str(copied))


@pytest.mark.parametrize("stage", [Tokenize, TextEmbedding, VideoEmbedding, SequenceClassifier, ImageEmbedding])
def test_trusted_code_is_pinned_by_a_whole_commit_or_refused(stage: Any, tmp_path: Path) -> None:
    advice = "with trust_remote_code=True, give revision .* or give a local folder"
    for revision in (None, "", "main", "v1", COMMIT[:7], COMMIT + "0"):
        with pytest.raises(PipelineError, match=advice):
            stage(model="org/model", revision=revision, trust_remote_code=True)
        stage(model="org/model", revision=revision)
    stage(model="org/model", revision=COMMIT, trust_remote_code=True)
    for folder in (str(tmp_path), "/not/on/this/host", "./model"):
        stage(model=folder, trust_remote_code=True)


def test_a_folder_that_is_gone_does_not_let_the_newest_code_of_the_hub_run(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("org/tiny").mkdir(parents=True)
    weights = Weights("org/tiny", trust_remote_code=True)
    Path("org/tiny").rmdir()
    for ask in (weights.fetch, weights.folder):
        with pytest.raises(PipelineError, match="give revision all 40 hex digits"):
            ask()
    assert not hub.asked


def test_a_checkpoint_without_the_head_that_is_asked_for_is_refused(encoders: dict[str, Path]) -> None:
    folder = str(encoders["bert"])
    with pytest.raises(DataError, match=r"has no weights for 'classifier.bias' and 1 more, which BertForSequence"):
        pretrained("AutoModelForSequenceClassification", Weights(folder), folder, CPU)


def test_weights_that_may_be_missing_are_not_made_up(classifiers: dict[str, Path]) -> None:
    folder = str(classifiers["xlm-roberta"])
    model = pretrained("AutoModel", Weights(folder), folder, CPU, optional=("pooler.",))
    assert model.pooler.dense.weight.isnan().all()
    assert not model.embeddings.word_embeddings.weight.isnan().any()


def test_a_tokenizer_that_cannot_be_read_is_named(copied: Path) -> None:
    (copied / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match=r"model '.*copied' cannot be loaded from .*copied"):
        tokenizer_of(Weights(str(copied)), str(copied))


def test_the_token_is_in_no_text_about_the_weights() -> None:
    weights = Weights("org/gated", hf_token="hf_secret")
    assert "hf_secret" not in repr(weights) + str(weights)
    assert pickle.loads(pickle.dumps(weights)).hf_token == "hf_secret"
