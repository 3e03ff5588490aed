"""Captions by Qwen's models from a folder, against transformers itself; the models are small, of random weights."""

from __future__ import annotations

import inspect
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from PIL import Image

from dcurate import DataError, DocumentBatch, InlineExecutor, Pipeline, PipelineError, ResourceError
from dcurate.media.refs import Ref, ref_array
from dcurate.models import DescribeImages
from dcurate.testing import check_stage
from dcurate.video import CaptionWindows
from tests.models.vision.test_vision import reasons, through
from tests.models.vision.tiny_qwen import tiny_qwen
from tests.models.vision.tiny_vision import picture, tiny_vision
from tests.video.films import film

KINDS = ("qwen2_5_vl", "qwen3_vl")
PROMPT = "What happens in {name}?"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {kind: tiny_qwen(tmp_path_factory.mktemp("qwen") / kind, kind) for kind in KINDS}


def frames(seed: int, count: int, width: int = 80) -> list[bytes]:
    return [picture(100 * seed + number, width, 60, "JPEG") for number in range(count)]


ROWS = [("one", frames(1, 4)), ("two", frames(2, 4)), ("three", frames(3, 1, 50)), ("four", frames(4, 6))]


def batch(rows: list[tuple[Any, Any]] = ROWS) -> DocumentBatch:
    images = pa.array([images for _, images in rows], pa.list_(pa.large_binary()))
    return DocumentBatch(data=pa.table({"name": pa.array([name for name, _ in rows]), "window_frames": images}))


def stage(folder: str, **settings: Any) -> DescribeImages:
    given: dict[str, Any] = {"max_tokens": 6, "device": "cpu", **settings}
    return DescribeImages(folder, given.pop("prompt", PROMPT), **given)


def captions(made: DocumentBatch) -> list[str | None]:
    found: list[str | None] = made.to_arrow()["caption"].to_pylist()
    return found


def expected(folder: str, images: list[bytes], prompt: str, system: str | None = None) -> str:
    """What transformers answers: the template as text, with as many image tokens as its processors write."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    made = processor(images=[Image.open(io.BytesIO(image)).convert("RGB") for image in images], return_tensors="pt")
    text = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    text += "<|im_start|>user\n"
    for grid in made["image_grid_thw"]:
        text += "<|vision_start|>" + "<|image_pad|>" * (int(grid.prod()) // 4) + "<|vision_end|>"
    text += f"{prompt}<|im_end|>\n<|im_start|>assistant\n"
    inputs = {**tokenizer([text], return_tensors="pt"), **made}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == model.config.image_token_id).int()
    with torch.inference_mode():
        tokens = model.generate(**inputs, do_sample=False, max_new_tokens=6)
    answer: Any = tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return str(answer)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_transformers(folders: dict[str, str], kind: str) -> None:
    found = captions(through(stage(folders[kind]), batch()))
    wanted = [expected(folders[kind], images, f"What happens in {name}?") for name, images in ROWS]
    assert found == wanted
    assert len(set(found)) == len(ROWS)
    with_system = stage(folders[kind], system_prompt="Be {name}.", prompt="Say.")
    assert captions(through(with_system, batch()))[0] == expected(folders[kind], ROWS[0][1], "Say.", "Be one.")


@pytest.mark.parametrize("kind", KINDS)
def test_answers_do_not_depend_on_other_rows(folders: dict[str, str], kind: str) -> None:
    together = captions(through(stage(folders[kind], model_inference_batch_size=8), batch()))
    assert together == captions(through(stage(folders[kind], model_inference_batch_size=1), batch()))
    backwards = captions(through(stage(folders[kind], model_inference_batch_size=3), batch(ROWS[::-1])))
    assert together == backwards[::-1]


def test_a_pipeline_makes_windows_of_films_and_captions(folders: dict[str, str]) -> None:
    source = DocumentBatch(data=pa.table({"id": ["a"], "bytes": [film(frames=60)]}))
    windows = CaptionWindows(window_size=30, remainder_threshold=10, height=48)
    ask = stage(folders["qwen2_5_vl"], prompt="Describe window {window_number}.")
    run = Pipeline("captions", stages=[windows, ask]).run(InlineExecutor(), [source], observers=[])
    rows = run.to_arrow().to_pylist()
    assert [row["window_number"] for row in rows] == [0, 1]
    for row in rows:
        prompt = f"Describe window {row['window_number']}."
        assert row["caption"] == expected(folders["qwen2_5_vl"], row["window_frames"], prompt)


def test_rows_that_cannot_be_asked_about_are_null_or_go_to_quarantine(folders: dict[str, str]) -> None:
    long = io.BytesIO()
    Image.fromarray(np.zeros((2, 900, 3), np.uint8)).save(long, "PNG")
    rows = [
        *ROWS[:1],
        ("none", []),
        ("null", None),
        (None, ROWS[0][1]),
        ("damaged", [*ROWS[0][1], b"\xff\xd8\xff"]),
        ("<|image_pad|>", ROWS[0][1]),
        ("long", [long.getvalue()]),
    ]
    made = through(stage(folders["qwen2_5_vl"]), batch(rows))
    assert made.to_arrow()["name"].to_pylist() == ["one", "none", "null", None]
    assert [caption is None for caption in captions(made)] == [False, True, True, True]
    found = reasons(made)
    assert found.pop(("bad prompt", True)) == found.pop(("bad image", True)) == 1
    assert [(fault, count) for (_, fault), count in found.items()] == [(True, 1)]
    empty = through(stage(folders["qwen2_5_vl"]), batch([]))
    assert empty.to_arrow().schema.field("caption").type == pa.string()


def test_addresses_are_not_fetched_and_references_are(folders: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(1))
    refs = ref_array([Ref(str(tmp_path / "a.png")), Ref(str(tmp_path / "b.png"))])
    table = pa.table({"media_ref": refs, "name": ["a", "b"]})
    made = through(stage(folders["qwen2_5_vl"], images_field="media_ref"), DocumentBatch(data=table))
    assert captions(made) == [expected(folders["qwen2_5_vl"], [picture(1)], "What happens in a?")]
    table = pa.table({"image": ["http://127.0.0.1:1/a.png"], "name": ["a"]})
    made = through(stage(folders["qwen2_5_vl"], images_field="image"), DocumentBatch(data=table))
    assert reasons(made) == {("no picture", True): 1}


def test_code_of_a_folder_is_never_run(folders: dict[str, str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["qwen2_5_vl"], tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    code = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"
    (folder / "own.py").write_text(code)
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForImageTextToText": "own.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError):
        stage(str(folder)).setup()
    assert not list(tmp_path.rglob("*.ran"))
    assert "trust_remote_code" not in inspect.signature(DescribeImages).parameters


def test_other_models_are_refused_with_what_to_do(folders: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of the kind 'clip'; give a Qwen2-VL"):
        stage(tiny_vision(tmp_path / "clip", "clip")).setup()
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "plain"))
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(DataError, match="no chat template"):
        stage(str(folder)).setup()
    with pytest.raises(DataError, match="no such folder"):
        stage(str(tmp_path / "nowhere" / "else")).setup()
    with pytest.raises(ResourceError, match="not on this host"):
        stage("nobody/has-this-model").setup()


@pytest.mark.parametrize(
    "wrong",
    [{"prompt": ""}, {"prompt": "{}"}, {"max_tokens": 0}, {"model_inference_batch_size": True}, {"device": "gpu"}],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PipelineError):
        stage("folder", **wrong)


def test_it_is_a_stage_as_the_engine_wants_it(folders: dict[str, str]) -> None:
    check_stage(stage(folders["qwen2_5_vl"]), batch())
