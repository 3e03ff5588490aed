"""The filter by CLIP against NeMo Curator's formula; the model is small and of random weights."""

from __future__ import annotations

import numpy as np
import pytest

from dcurate import DocumentBatch
from dcurate.media.image.pixels import colours
from dcurate.models import FilterInterleavedByClipScore
from tests.images.interleaved.media import places, table
from tests.models.vision.tiny_vision import picture, tiny_vision


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_vision(tmp_path_factory.mktemp("clip"), "clip")


def test_an_image_is_kept_if_it_goes_with_any_text_of_its_sample(clip: str) -> None:
    texts = ["the quick brown fox", "  a model reads tokens ", "the dog does not mind"]
    images = [picture(seed) for seed in range(4)]
    rows = table(
        ("a", 0, "text", texts[0]),
        ("a", 1, "image", images[0]),
        ("a", 2, "text", texts[1]),
        ("a", 3, "image", images[1]),
        ("b", 0, "image", images[2]),
        ("b", 1, "text", texts[2]),
        ("c", 0, "image", images[3]),
        ("c", 1, "text", "  "),
        ("c", 2, "image", b"no picture"),
    )
    stage = FilterInterleavedByClipScore(clip, score_field="score", min_score=-1, model_inference_batch_size=2)
    stage.setup()
    try:
        made = stage.process(DocumentBatch(data=rows))
        of_texts = stage.embed_texts([text.strip() for text in texts])
        of_images = stage.embed([stage.encoder.prepared(colours(image)) for image in images[:3]])
        cosines = of_images @ of_texts.T
        wanted = [max(cosines[0][:2]), max(cosines[1][:2]), cosines[2][2]]
        scores = made.to_arrow()["score"].to_pylist()
        np.testing.assert_allclose([score for score in scores if score is not None], wanted, atol=1e-6)
        assert places(made.to_arrow())[-1] == ("c", 0, "text")
        gone = {(one.reason, one.fault): one.rows for one in made.rejections}
        assert gone == {("no text", False): 2}
        stage.min_score = float(np.median(wanted)) - 1e-5
        left = stage.process(DocumentBatch(data=rows))
        assert [kind for _, _, kind in places(left.to_arrow())].count("image") == 2
    finally:
        stage.teardown()
