"""A small model with the functions of Cosmos-Embed1: frames and texts become vectors of one space."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils.generic import ModelOutput


class CosmosEmbed1Config(PretrainedConfig):
    model_type = "cosmos-embed1"

    def __init__(self, embed_dim: int = 12, resolution: int = 16, vocab_size: int = 2000, **others: Any) -> None:
        super().__init__(**others)
        self.embed_dim, self.resolution, self.vocab_size = embed_dim, resolution, vocab_size


@dataclass
class VideoOutput(ModelOutput):
    visual_proj: Any = None


@dataclass
class TextOutput(ModelOutput):
    text_proj: Any = None


class CosmosEmbed1(PreTrainedModel):
    config_class = CosmosEmbed1Config

    def __init__(self, config: CosmosEmbed1Config) -> None:
        super().__init__(config)
        self.patches = torch.nn.Conv2d(3, config.embed_dim, 8, 8)
        self.times = torch.nn.Conv1d(config.embed_dim, config.embed_dim, 3, padding=1)
        self.words = torch.nn.Embedding(config.vocab_size, config.embed_dim)
        self.post_init()

    def get_video_embeddings(self, videos: Any) -> VideoOutput:
        batch, frames = videos.shape[:2]
        patches = self.patches(videos.flatten(0, 1)).mean(dim=(2, 3)).view(batch, frames, -1)
        states = torch.tanh(self.times(patches.transpose(1, 2)))
        return VideoOutput(visual_proj=torch.nn.functional.normalize(states.amax(dim=2), dim=-1))

    def get_text_embeddings(self, input_ids: Any, attention_mask: Any, **unused: Any) -> TextOutput:
        states = self.words(input_ids.long()) * attention_mask[..., None]
        return TextOutput(text_proj=torch.nn.functional.normalize(states.sum(dim=1), dim=-1))
