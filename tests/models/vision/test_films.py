"""Embeddings of films, against transformers itself; the models are small, of random weights."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, AutoProcessor

from dcurate import DataError, DocumentBatch, InlineExecutor, Pipeline, PipelineError
from dcurate.frames.vectors import vectors_in
from dcurate.media import FileReading
from dcurate.models import VideoEmbedding
from dcurate.models.vision.film import spread
from dcurate.testing import check_stage
from dcurate.video import CaptionWindows
from tests.models.vision.test_vision import reasons, through
from tests.models.vision.tiny_films import FRAMES, tiny_cosmos, tiny_film_model
from tests.models.vision.tiny_vision import picture, tiny_vision
from tests.video.films import film

KINDS = ("xclip", "videomae", "timesformer", "vivit")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("films")
    made = {kind: tiny_film_model(place / kind, kind) for kind in KINDS}
    return made | {"cosmos": tiny_cosmos(place / "cosmos")}


def frames(seed: int, count: int, width: int = 80) -> list[bytes]:
    return [picture(100 * seed + number, width, 60, "PNG") for number in range(count)]


ROWS = [frames(1, 4), frames(2, 11), frames(3, 3), frames(4, 16)]


def batch(rows: list[Any] = ROWS) -> DocumentBatch:
    names = pa.array([f"row {number}" for number in range(len(rows))], pa.string())
    return DocumentBatch(data=pa.table({"name": names, "window_frames": pa.array(rows, pa.list_(pa.large_binary()))}))


def pixels(images: list[bytes]) -> list[Any]:
    return [np.asarray(Image.open(io.BytesIO(image)).convert("RGB")) for image in images]


def chosen(images: list[bytes], count: int) -> list[Any]:
    """The frames in the middle of equal parts of a clip; of few, some are repeated."""
    return pixels([images[math.floor((part + 0.5) * len(images) / count)] for part in range(count)])


def wanted(kind: str, folder: str, images: list[bytes]) -> Any:
    """What transformers says."""
    model = AutoModel.from_pretrained(folder).eval()
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    inputs = processor(chosen(images, FRAMES), return_tensors="pt", input_data_format="channels_last")
    with torch.no_grad():
        if kind == "xclip":
            made = model.get_video_features(**inputs)
            made = made if torch.is_tensor(made) else made.pooler_output
        else:
            states = model(**inputs).last_hidden_state
            made = states.mean(dim=1) if kind == "videomae" else states[:, 0]
    vector = made[0].numpy()
    return vector / np.linalg.norm(vector)


def wanted_of_cosmos(folder: str, images: list[bytes]) -> Any:
    """What NeMo Curator's calls say of these frames: those of `encode_video_frames` of its Cosmos-Embed1."""
    model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    processor = AutoProcessor.from_pretrained(folder, trust_remote_code=True)
    video = np.transpose(np.expand_dims(np.stack(chosen(images, processor.num_video_frames)), 0), (0, 1, 4, 2, 3))
    with torch.no_grad():
        videos = processor(videos=video, return_tensors="pt")["videos"]
        return model.get_video_embeddings(videos=videos).visual_proj[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_those_of_transformers(folders: dict[str, str], kind: str) -> None:
    made = vectors_in(
        through(VideoEmbedding(folders[kind], model_inference_batch_size=3), batch()).to_arrow(), "embeddings"
    )
    np.testing.assert_allclose(made, [wanted(kind, folders[kind], images) for images in ROWS], atol=2e-5)
    assert len({tuple(row) for row in made.round(3).tolist()}) == len(ROWS)


def test_embeddings_of_cosmos_embed1_are_those_that_nemo_curators_calls_make(folders: dict[str, str]) -> None:
    made = through(VideoEmbedding(folders["cosmos"], trust_remote_code=True), batch()).to_arrow()
    expected = [wanted_of_cosmos(folders["cosmos"], images) for images in ROWS]
    np.testing.assert_allclose(vectors_in(made, "embeddings"), expected, atol=2e-5)


def test_code_of_cosmos_embed1_does_not_run_unless_it_is_trusted(folders: dict[str, str], tmp_path: Path) -> None:
    folder = Path(tiny_cosmos(tmp_path / "model"))
    for path in folder.glob("*_embed1.py"):
        path.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n" + path.read_text())
    with pytest.raises(DataError, match="code of its own: read it, then pass trust_remote_code=True"):
        VideoEmbedding(str(folder)).setup()
    assert not (tmp_path / "ran").exists()
    VideoEmbedding(str(folder), trust_remote_code=True).setup()
    assert (tmp_path / "ran").exists()


def test_frames_that_cannot_be_had_go_to_quarantine(folders: dict[str, str]) -> None:
    rows = [ROWS[0], [], None, [*ROWS[0][:3], b"<html>"], ROWS[1]]
    made = through(VideoEmbedding(folders["xclip"]), batch(rows))
    assert made.to_arrow()["name"].to_pylist() == ["row 0", "row 4"]
    assert reasons(made) == {("no frames", True): 2, ("not a picture: HTML or XML", True): 1}
    small = VideoEmbedding(folders["xclip"], reading=FileReading(max_file_bytes=10))
    assert reasons(through(small, batch(ROWS[:1]))) == {("too large", True): 1}
    mixed = [[*frames(1, 4), *frames(2, 4, 90)]]
    made = through(VideoEmbedding(folders["cosmos"], trust_remote_code=True), batch(mixed))
    assert reasons(made) == {("frames of several sizes", True): 1}
    assert through(VideoEmbedding(folders["xclip"]), batch(mixed)).num_items == 1


def test_only_the_chosen_frames_are_decoded_and_decide(
    folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = frames(5, 40)
    damaged = [image if place in spread(40, FRAMES) else b"<html>" for place, image in enumerate(images)]
    seen: list[bytes] = []
    decode = VideoEmbedding.pixels
    monkeypatch.setattr(VideoEmbedding, "pixels", lambda stage, data: seen.append(data) or decode(stage, data))
    made = through(VideoEmbedding(folders["xclip"]), batch([damaged, images, images[:1]]))
    assert made.num_items == 3
    assert len(seen) == 2 * FRAMES + 1
    left, right, _ = vectors_in(made.to_arrow(), "embeddings")
    np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.parametrize("total", [1, 7, 8, 9, 15, 16, 100])
@pytest.mark.parametrize("count", [1, 8, 16])
def test_chosen_frames_are_spread_evenly_over_all_of_a_clip(total: int, count: int) -> None:
    places = spread(total, count)
    assert len(places) == count
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] < total
    assert abs(places[0] - (total - 1 - places[-1])) <= 1
    inner = np.diff(places)
    assert not len(inner) or inner.max() - inner.min() <= 1


def test_other_models_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of the kind 'clip', not a model of films; give an X-CLIP"):
        VideoEmbedding(tiny_vision(tmp_path / "clip", "clip")).setup()
    with pytest.raises(PipelineError, match="leave out storage_options"):
        VideoEmbedding(reading=FileReading(storage_options={"key": "a"}))


def test_a_pipeline_embeds_windows_of_films(folders: dict[str, str]) -> None:
    source = DocumentBatch(data=pa.table({"id": ["a"], "bytes": [film(frames=60)]}))
    windows = CaptionWindows(window_size=30, remainder_threshold=10, height=48)
    stages = [windows, VideoEmbedding(folders["xclip"], device="cpu")]
    rows = Pipeline("films", stages=stages).run(InlineExecutor(), [source], observers=[]).to_arrow().to_pylist()
    assert [row["window_number"] for row in rows] == [0, 1]
    for row in rows:
        expected = wanted("xclip", folders["xclip"], row["window_frames"])
        np.testing.assert_allclose(row["embeddings"], expected, atol=2e-5)


def test_it_is_a_stage_as_the_engine_wants_it(folders: dict[str, str]) -> None:
    check_stage(VideoEmbedding(folders["xclip"], device="cpu"), batch())
