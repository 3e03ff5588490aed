"""The stages of `benchmarks.video_example`: those of dcurate, each with a diary of its calls.

What a stage does is real. Only the time of a GPU is not: a stage of a model that has done its work waits until as many
seconds are over as the GPU of the example would take.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Self

import torch
from transformers import ViTConfig, ViTModel

from benchmarks.sleeping import Diary
from dcurate import MediaReader, WorkerMetadata
from dcurate.llm import Generate
from dcurate.models import ImageEmbedding
from dcurate.video import CaptionWindows, ClipRows, ExtractFrames, FindShots, PoolFrames, ShotClips

#: Side of the pictures of the models that are made, in pixels.
SIDE = 32


class LoggedStage:
    """What the stages have in common: a diary of a slot, once it is set up.

    Attributes:
        place: of the stage in the pipeline.
        folder: for the diaries; a stage that has none keeps no diary.
        gpu_s: seconds that the GPU of the example takes for a call.
        load_s: seconds that it takes to load the model.
    """

    place = -1
    folder = ""
    gpu_s = 0.0
    load_s = 0.0

    _diary: Diary | None = None

    def logged(self, place: int, folder: str) -> Self:
        self.place, self.folder = place, folder
        return self

    def on_simulated_gpu(self, gpu_s: float, load_s: float) -> Self:
        self.gpu_s, self.load_s = gpu_s, load_s
        return self

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        begin = time.monotonic()
        self._diary = Diary(self.folder, self.place)
        self._diary.write("begin", begin, begin)
        super().setup(worker_metadata)  # type: ignore[misc]
        time.sleep(self.load_s)
        self._diary.write("setup", begin, time.monotonic())

    def teardown(self) -> None:
        diary, self._diary = self._diary, None
        if diary is not None:
            now = time.monotonic()
            diary.write("teardown", now, now)
            diary.close()
        super().teardown()  # type: ignore[misc]

    def process_batch(self, tasks: list[Any]) -> list[Any]:
        begin = time.monotonic()
        made: list[Any] = super().process_batch(tasks)  # type: ignore[misc]
        time.sleep(max(0.0, begin + self.gpu_s - time.monotonic()))
        end = time.monotonic()
        assert self._diary is not None, "a stage is set up before it works"
        self._diary.write("call", begin, end, work=self.gpu_s or end - begin)
        return made


class LoggedReader(LoggedStage, MediaReader):
    """Films as rows, one in a batch."""


class LoggedShots(LoggedStage, FindShots):
    """Decodes films, and finds their shots."""


class LoggedClips(LoggedStage, ShotClips):
    """Clips of shots."""


class LoggedClipRows(LoggedStage, ClipRows):
    """A row of each clip."""


class LoggedFrames(LoggedStage, ExtractFrames):
    """Decodes films, and makes a batch of the frames of each clip, so that the clips of a film spread over slots."""


class LoggedEmbedding(LoggedStage, ImageEmbedding):
    """Embeds the frames of a clip; the GPU is simulated."""


class LoggedPooling(LoggedStage, PoolFrames):
    """A row of each clip again."""


class LoggedWindows(LoggedStage, CaptionWindows):
    """Decodes a clip, and picks the frames that the endpoint is asked about."""


class LoggedCaptions(LoggedStage, Generate):
    """Asks the endpoint for a caption."""


def made_vision(folder: Path, seed: int) -> str:
    """Write the folder of a small vision transformer with random weights, and return its path."""
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = ViTConfig(**sizes, intermediate_size=64, image_size=SIDE, patch_size=8)
    ViTModel(config, add_pooling_layer=False).eval().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "ViTImageProcessor",
                "do_resize": True,
                "do_rescale": True,
                "do_normalize": True,
                "rescale_factor": 1 / 255,
                "size": {"height": SIDE, "width": SIDE},
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.5, 0.5, 0.5],
            }
        )
    )
    return str(folder)
