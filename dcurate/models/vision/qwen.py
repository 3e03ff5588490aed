"""Qwen's vision language models of transformers, as functions from images and a prompt to a text. Untested on a GPU.

Their processors of transformers need Torchvision, for films. What images need of them is little: the image processor of
the folder, the chat template of its tokenizer, and as many image tokens as an image has patches, merged.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.hub.loading import pretrained, read, tokenizer_of
from dcurate.hub.weights import Weights
from dcurate.isolate.errors import MediaError

#: Kinds of models, as their config.json has them.
KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")

_FIRST_BACKENDS = 5


class ImageQuestion(NamedTuple):
    """A prompt about images, prepared for a model.

    Args:
        tokens: token ids, with those of the images.
        patches: patches of all images, float32: shape (patches, numbers).
        grids: number of patches of each image: in time, height and width.
    """

    tokens: list[int]
    patches: npt.NDArray[np.float32]
    grids: npt.NDArray[np.int64]


@dataclass(frozen=True)
class QwenVision:
    """A loaded model with its image processor and tokenizer."""

    model: Any
    processor: Any
    tokenizer: Any

    def prepared(self, images: Sequence[npt.NDArray[np.uint8]], prompt: str, system: str | None) -> ImageQuestion:
        """Prepare a prompt about images, as the model's folder says.

        Args:
            images: each height x width x 3, RGB.
            prompt: the text behind them.
            system: the system message, if any.

        Raises:
            MediaError: an image has a form that the model cannot take, or the prompt holds a token of images.
        """
        try:
            made = self.processor(images=list(images), return_tensors="np", input_data_format="channels_last")
        except ValueError as error:  # of an image that is 200 times as wide as high
            raise MediaError("bad image", str(error)) from error
        grids = np.asarray(made["image_grid_thw"], np.int64)
        counts = grids.prod(axis=1) // self.processor.merge_size**2
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": prompt}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
        plain = self.tokenizer.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=False
        )
        tokens = list(_expanded(plain, self.model.config.image_token_id, counts.tolist()))
        return ImageQuestion(tokens, np.asarray(made["pixel_values"], np.float32), grids)

    def answers(self, questions: Sequence[ImageQuestion], max_tokens: int) -> list[str]:
        """Answer questions of one length, by the likeliest token each time.

        Args:
            questions: prepared prompts with equally many tokens.
            max_tokens: no answer has more.
        """
        torch = needed("torch", "a vision language model", "models")
        device = self.model.device
        ids = torch.tensor([question.tokens for question in questions], device=device)
        inputs = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": _joined(torch, [question.patches for question in questions], device).to(self.model.dtype),
            "image_grid_thw": _joined(torch, [question.grids for question in questions], device),
        }
        if "mm_token_type_ids" in inspect.signature(self.model.forward).parameters:  # from transformers 5 on
            inputs["mm_token_type_ids"] = (ids == self.model.config.image_token_id).int()
        likeliest = {"do_sample": False, "num_beams": 1, "temperature": None, "top_p": None, "top_k": None}
        made = self.model.generate(**inputs, max_new_tokens=max_tokens, **likeliest)
        texts: list[str] = self.tokenizer.batch_decode(made[:, ids.shape[1] :], skip_special_tokens=True)
        return texts


def _joined(torch: Any, arrays: Sequence[npt.NDArray[Any]], device: Any) -> Any:
    return torch.from_numpy(np.concatenate(arrays)).to(device)


def _expanded(tokens: Iterable[int], image: int, counts: Sequence[int]) -> Iterator[int]:
    """Tokens with as many image tokens as each image needs.

    Raises:
        MediaError: there are more or less than images.
    """
    place = 0
    for token in tokens:
        if token != image:
            yield token
            continue
        if place < len(counts):
            yield from [image] * counts[place]
        place += 1
    if place != len(counts):
        raise MediaError("bad prompt", f"it has {place} image tokens for {len(counts)} images; take them out of it")


def load_qwen(weights: Weights, folder: str, device: Any) -> QwenVision:
    """Load a model, its image processor and its tokenizer from a folder; no code of the folder is run.

    Raises:
        DataError: the folder cannot be read, or has another kind of model.
        ResourceError: a library is not installed.
    """
    transformers = needed("transformers", str(weights), "models")
    safe: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    config = read(weights, folder, lambda: transformers.AutoConfig.from_pretrained(folder, **safe))
    if config.model_type not in KINDS:
        raise DataError(
            f"{weights} is of the kind {config.model_type!r}; give a Qwen2-VL, Qwen2.5-VL or Qwen3-VL, or ask another "
            "model behind an endpoint with Generate(images_field=...)"
        )
    is_new = int(transformers.__version__.partition(".")[0]) >= _FIRST_BACKENDS
    how: dict[str, Any] = {"backend": "pil"} if is_new else {"use_fast": False}
    processor = read(weights, folder, lambda: transformers.AutoImageProcessor.from_pretrained(folder, **safe, **how))
    tokenizer = tokenizer_of(weights, folder)
    if not tokenizer.chat_template:
        raise DataError(f"{weights} has no chat template in {folder}; copy chat_template.json from the model")
    model = pretrained("AutoModelForImageTextToText", weights, folder, device)
    return QwenVision(model.eval().to(device), processor, tokenizer)
