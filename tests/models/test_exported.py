import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from dcurate import DocumentBatch, PipelineError
from dcurate.cli import cli
from dcurate.frames.vectors import vectors_in
from dcurate.fs.temporary import held
from dcurate.hub import device as devices
from dcurate.models import PromptTaskComplexityClassifier, SequenceClassifier, TextEmbedding, exported
from dcurate.models.export import stage_kinds
from dcurate.models.exported import BACKENDS, once, prune
from tests.models.embedders.tiny_sentences import TEXTS, tiny_sentences
from tests.models.tiny import tiny_classifier

QUICK = BACKENDS[1:]


@pytest.fixture(autouse=True, scope="module")
def own_exports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Exports of these tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("exports")))
        yield


def through(stages: list[Any], table: pa.Table) -> tuple[pa.Table, dict[str, float]]:
    """The rows after stages, each set up as a run does it, and the figures of the last one."""
    batch = DocumentBatch(data=table)
    for stage in stages:
        stage.setup_on_node()
        stage.setup()
        try:
            batch = stage.process(batch)
        finally:
            stage.teardown()
    return batch.to_arrow(), stages[-1].take_metrics()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_sentences(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_classifier(tmp_path_factory.mktemp("classifier")))


@pytest.mark.parametrize("backend", QUICK)
def test_a_backend_embeds_texts_as_torch_does(encoder: str, backend: str) -> None:
    texts = [" ".join(TEXTS[: number % 5 + 1]) for number in range(20)] + [*TEXTS, "", None]
    table = pa.table({"text": pa.array(texts, pa.string())})
    exact = vectors_in(through(TextEmbedding(model=encoder).decompose(), table)[0], "embeddings")
    stages = TextEmbedding(model=encoder, backend=backend, min_agreement=0.9).decompose()
    found, figures = through(stages, table)
    cosines = (exact * vectors_in(found, "embeddings")).sum(axis=1)
    assert cosines.min() > (0.99999 if backend == "onnx" else 0.95)
    assert 0.9 * figures["compared_rows"] <= figures["agreeing_rows"] <= 1.0001 * figures["compared_rows"]


def test_a_backend_gives_the_labels_of_torch(classifier: str) -> None:
    table = pa.table({"text": [*TEXTS, ""]})
    exact, _ = through(SequenceClassifier(model=classifier).decompose(), table)
    found, figures = through(SequenceClassifier(model=classifier, backend="onnx").decompose(), table)
    assert found.column("label").equals(exact.column("label"))
    np.testing.assert_allclose(found.column("score"), exact.column("score"), atol=1e-5)
    assert figures["agreeing_rows"] == figures["compared_rows"] > 0


def test_a_model_is_exported_once_and_again_when_its_files_change(classifier: str) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    place = model.exported_folder()
    first = (place / "model.onnx").stat().st_mtime_ns
    model.setup_on_node()
    assert (place / "model.onnx").stat().st_mtime_ns == first
    os.utime(Path(classifier) / "config.json", ns=(1, 1))
    assert model.exported_folder() != place


def test_names_of_columns_need_no_export_of_their_own(classifier: str) -> None:
    first, second = (
        SequenceClassifier(model=classifier, backend="onnx", label_field=name).decompose()[1] for name in ("a", "b")
    )
    assert first.exported_folder() == second.exported_folder()  # type: ignore[attr-defined]
    shorter: Any = SequenceClassifier(model=classifier, backend="onnx", task="multi_label").decompose()[1]
    assert shorter.exported_folder() != first.exported_folder()  # type: ignore[attr-defined]


def made_export(folder: Path, name: str, age: float, size: int = 1000) -> Path:
    """A folder as an export leaves it, last used some seconds ago."""
    path = folder / name
    path.mkdir(parents=True)
    (path / "model.onnx").write_bytes(b"x" * size)
    exported.write_facts(path, exported.Facts("tensor", 0, None, None, 8))
    used = time.time() - age
    os.utime(path / "facts.json", (used, used))
    return path


def test_exports_that_nobody_uses_are_kept_up_to_a_size_and_an_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported, "KEPT_BYTES", 3500)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "exported"
    for name, age in (("newest", 10), ("newer", 20), ("middle", 30), ("oldest", 40)):
        made_export(folder, name, age, size=900)
    made_export(folder, "aged", exported.KEPT_S + 60, size=1)
    (folder / "killed").mkdir()
    (folder / "killed" / "model.onnx").write_bytes(b"half")
    in_use = held(folder / "oldest")
    prune(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["middle", "newer", "newest", "oldest"]
    os.close(in_use)
    prune(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["middle", "newer", "newest"]


def test_an_export_makes_room_by_removing_the_longest_unused_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported, "KEPT_BYTES", 2500)
    first, second = (made_export(tmp_path, name, age) for name, age in (("first", 20), ("second", 10)))
    with once(first, lambda: pytest.fail("it is there")):
        pass  # a use, which makes the other one the longest unused

    def make() -> exported.Facts:
        (tmp_path / "third" / "model.onnx").write_bytes(b"x" * 1000)
        return exported.Facts("tensor", 0, None, None, 8)

    with once(tmp_path / "third", make):
        pass
    assert first.is_dir()
    assert not second.is_dir()


def test_an_export_that_was_removed_is_made_again_and_none_is_removed_while_in_use(
    classifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    shutil.rmtree(model.exported_folder())
    monkeypatch.setattr(exported, "KEPT_BYTES", 0)
    model.setup()
    prune(model.exported_folder().parent)
    assert (model.exported_folder() / "model.onnx").is_file()
    model.teardown()


def test_the_command_exports_what_a_run_takes(classifier: str, encoder: str) -> None:
    arguments = ["models", "export", classifier, "--backend", "onnx", "--json", "-"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    done = json.loads(result.output)["exported"][0]
    assert (done["agreement"], done["nbytes"] > 10_000, done["rows"] > 0) == (1.0, True, True)
    stage: Any = SequenceClassifier(model=classifier, backend="onnx", label_field="mood").decompose()[1]
    assert str(stage.exported_folder()) == done["folder"]
    before = (Path(done["folder"]) / "model.onnx").stat().st_mtime_ns
    stage.setup_on_node()
    assert (Path(done["folder"]) / "model.onnx").stat().st_mtime_ns == before
    settings = ["--set", "max_seq_length=16", "--stage", "TextEmbedding"]
    result = CliRunner().invoke(cli, ["models", "export", encoder, "--backend", "onnx", *settings])
    embedder: Any = TextEmbedding(model=encoder, backend="onnx", max_seq_length=16).decompose()[1]
    assert f"{encoder} for onnx: {embedder.exported_folder()}" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "torch"], "exports nothing"),
        (["--backend", "onnx", "--stage", "TextEmbeding"], "did you mean 'TextEmbedding'"),
        (["--backend", "onnx", "--set", "max_seq_lenth=3"], "did you mean 'max_seq_length'"),
    ],
)
def test_the_command_refuses_what_cannot_be_exported(encoder: str, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["models", "export", encoder, *arguments])
    assert isinstance(result.exception, PipelineError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("SequenceClassifier", "SequenceClassifier has no model of its own; name MODEL"),
        ("PromptTaskComplexityClassifier", "is not a stage with an encoder to export"),
        ("AegisClassifier", "is not a stage with an encoder to export"),
    ],
)
def test_the_command_refuses_a_stage_without_a_model_or_an_export(stage: str, message: str) -> None:
    result = CliRunner().invoke(cli, ["models", "export", "--stage", stage, "--backend", "onnx"])
    assert isinstance(result.exception, PipelineError)
    assert message in str(result.exception)
    kinds = stage_kinds()
    assert {"QualityClassifier", "SequenceClassifier", "TextEmbedding"} <= set(kinds)
    assert not {"PromptTaskComplexityClassifier", "AegisClassifier", "InstructionDataGuardClassifier"} & set(kinds)


def test_a_backend_that_agrees_too_little_is_refused_before_the_run(classifier: str) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    path = model.exported_folder() / "facts.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "agreement": 0.97}))
    with pytest.raises(PipelineError, match=r"agrees with Torch to 0.9700 on \d+ texts, less than min_agreement=0.98"):
        model.setup_on_node()
    SequenceClassifier(model=classifier, backend="onnx", min_agreement=0.9).decompose()[1].setup_on_node()
    shutil.rmtree(path.parent)


def test_an_export_is_not_removed_between_the_look_at_it_and_its_use(
    classifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    place = model.exported_folder()
    monkeypatch.setattr(exported, "KEPT_BYTES", 0)
    device_of = devices.device_of

    def pruned(*arguments: Any) -> Any:  # as by another process, which exports something else
        prune(place.parent)
        return device_of(*arguments)

    monkeypatch.setattr(devices, "device_of", pruned)
    model.setup()
    model.teardown()


def test_an_export_that_agrees_too_little_is_refused_also_where_a_slot_makes_it_again(
    classifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]
    model.setup_on_node()
    shutil.rmtree(model.exported_folder())
    monkeypatch.setattr(type(model), "agreement", lambda *_: 0.5)
    with pytest.raises(PipelineError, match=r"agrees with Torch to 0.5000 on \d+ texts"):
        model.setup()
    shutil.rmtree(model.exported_folder())


def test_an_export_that_was_not_compared_is_made_again(classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = SequenceClassifier(model=classifier, backend="onnx").decompose()[1]

    def ended(*_: Any) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "agreement", ended)
        with pytest.raises(KeyboardInterrupt):
            model.setup_on_node()
    with model.hold_export(classifier) as known:
        assert known.rows > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "onxx"}, "unknown backend 'onxx'; did you mean 'onnx'"),
        ({"backend": "onnx", "device": "cuda"}, "leave out device='cuda'"),
        ({"backend": "onnx", "autocast": "bf16"}, "leave out autocast='bf16'"),
        ({"backend": "onnx", "min_agreement": 1.5}, "must be a number from 0 to 1"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        SequenceClassifier(model="org/model", **settings)


def test_a_model_that_cannot_be_exported_is_refused() -> None:
    with pytest.raises(PipelineError, match="cannot be exported"):
        PromptTaskComplexityClassifier(backend="onnx")


def test_a_backend_takes_no_gpu() -> None:
    model: Any = SequenceClassifier(model="org/model", backend="onnx").decompose()[1]
    assert model.resources.gpus == 0
    assert model.device == "cpu"
