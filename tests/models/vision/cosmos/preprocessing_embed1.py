"""A processor with the functions of that of Cosmos-Embed1: films are batch x frames x channels x height x width."""

from typing import Any

import torch
from transformers import AutoTokenizer, BatchFeature, ProcessorMixin


class CosmosEmbed1Processor(ProcessorMixin):
    attributes = ["tokenizer"]  # noqa: RUF012 - as in transformers
    tokenizer_class = "AutoTokenizer"

    def __init__(self, tokenizer: Any, num_video_frames: int = 8, resolution: Any = (16, 16), **unused: Any) -> None:
        super().__init__(tokenizer)
        self.tokenizer, self.num_video_frames, self.resolution = tokenizer, num_video_frames, tuple(resolution)

    @classmethod
    def from_pretrained(cls, folder: Any, **unused: Any) -> "CosmosEmbed1Processor":  # type: ignore[override]
        return cls(AutoTokenizer.from_pretrained(folder))

    def __call__(self, text: Any = None, videos: Any = None, return_tensors: Any = None) -> BatchFeature:
        if videos is None:
            return BatchFeature(self.tokenizer(text, padding=True, return_tensors="pt"))
        batch, frames = videos.shape[:2]
        pixels = torch.from_numpy(videos).float().flatten(0, 1) / 255
        scaled = torch.nn.functional.interpolate(pixels, self.resolution, mode="bilinear", antialias=True)
        return BatchFeature({"videos": scaled.view(batch, frames, 3, *self.resolution) * 2 - 1})
