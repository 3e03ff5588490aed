"""Vision models of transformers as functions from pictures, or texts, to vectors. Untested on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.hub.loading import pretrained, read, tokenizer_of
from dcurate.hub.weights import Weights

Vectors: TypeAlias = npt.NDArray[np.float32]
#: How the vectors of the parts of a picture become one.
Pooling: TypeAlias = Literal["auto", "cls", "mean", "pooler"]
#: What a processor makes of a picture, by name, the first axis being 1.
Inputs: TypeAlias = Mapping[str, npt.NDArray[Any]]

_FIRST_BACKENDS = 5


@dataclass(frozen=True)
class VisionEncoder:
    """A loaded model with its processor, and its tokenizer if it embeds texts as well.

    Args:
        model: the ``torch.nn.Module``.
        processor: scales, crops and normalizes pictures, as the folder says.
        tokenizer: None for a model without texts.
        pooling: ``"auto"`` takes what the model was trained for: its projected features where it has texts, else the
            vector of its first token, else that of its pooler, else the mean.
    """

    model: Any
    processor: Any
    tokenizer: Any = None
    pooling: Pooling = "auto"

    def prepared(self, pixels: npt.NDArray[np.uint8]) -> Inputs:
        """Scale, crop and normalize a picture, as the model's folder says.

        Args:
            pixels: height x width x 3, RGB.
        """
        made = self.processor(images=[pixels], return_tensors="np", input_data_format="channels_last")
        return {name: np.asarray(values) for name, values in made.items()}

    def images(self, prepared: Sequence[Inputs], device: Any) -> Vectors:
        """Embed prepared pictures; a row for each, not normalized."""
        torch = needed("torch", "a vision model", "models")
        inputs = {}
        for name in prepared[0]:
            values = torch.from_numpy(np.concatenate([picture[name] for picture in prepared])).to(device)
            inputs[name] = values.to(self.model.dtype) if values.is_floating_point() else values
        if hasattr(self.model, "get_image_features") and self.pooling == "auto":
            return rows_of(self.model.get_image_features(**inputs))
        return rows_of(self._pooled(self.model(**inputs)))

    def texts(self, texts: Sequence[str], device: Any) -> Vectors:
        """Embed texts, cut to what the model can read; a row for each, not normalized.

        Raises:
            DataError: the model has no texts.
        """
        if self.tokenizer is None or not hasattr(self.model, "get_text_features"):
            raise DataError(
                f"{type(self.model).__name__} embeds pictures only; give a model of pictures and texts, such as CLIP"
            )
        config = self.model.config.get_text_config()
        kind = str(self.model.config.model_type)
        tokens = self.tokenizer(
            list(texts),
            padding="max_length" if kind.startswith("siglip") else True,  # it was trained so
            truncation=True,
            max_length=config.max_position_embeddings,
            return_tensors="pt",
        )
        known = ("input_ids",) if kind.startswith("siglip") else ("input_ids", "attention_mask")
        return rows_of(self.model.get_text_features(**{name: tokens[name].to(device) for name in known}))

    def _pooled(self, outputs: Any) -> Any:
        states, pooler = outputs.last_hidden_state, getattr(outputs, "pooler_output", None)
        if self.pooling == "pooler" or (self.pooling == "auto" and states.ndim != 3):
            if pooler is None:
                raise DataError(f"{type(self.model).__name__} has no pooler; give pooling='cls' or 'mean'")
            return pooler
        first = any(name.endswith("cls_token") for name, _ in self.model.named_parameters())
        if self.pooling == "cls" or (self.pooling == "auto" and first):
            return states[:, 0]
        if self.pooling == "auto" and pooler is not None:
            return pooler
        return states.mean(dim=1)


def rows_of(output: Any) -> Vectors:
    """The vectors of a model's answer: a tensor, or an output with one."""
    tensor = output if hasattr(output, "detach") else output.pooler_output
    rows: Vectors = tensor.detach().float().cpu().numpy().reshape(len(tensor), -1)
    return rows


def normalized(vectors: Vectors) -> Vectors:
    """Scale vectors to length one; those of all zeros stay.

    Examples:
        >>> normalized(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1.0, lengths)).astype(np.float32)


def load_encoder(weights: Weights, folder: str, device: Any, *, texts: bool = False, pooling: Pooling = "auto") -> Any:
    """Load a model, its processor and, for texts, its tokenizer from a folder; the network is not used.

    Raises:
        DataError: the folder cannot be read, or has no weights or no processor.
        ResourceError: a library is not installed.
    """
    model = pretrained("AutoModel", weights, folder, device, optional=("pooler.",)).eval().to(device)
    tokenizer = tokenizer_of(weights, folder) if texts else None
    return VisionEncoder(model, image_processor(weights, folder), tokenizer, pooling)


def image_processor(weights: Weights, folder: str) -> Any:
    """The image processor of a folder, which needs no Torchvision.

    Raises:
        DataError: the folder has none.
    """
    transformers = needed("transformers", str(weights), "models")
    is_new = int(transformers.__version__.partition(".")[0]) >= _FIRST_BACKENDS
    how: dict[str, Any] = {"backend": "pil"} if is_new else {"use_fast": False}

    def load() -> Any:
        return transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=weights.trust_remote_code, **how
        )

    return read(weights, folder, load)
