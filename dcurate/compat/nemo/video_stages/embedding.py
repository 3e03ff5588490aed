"""Embeddings of clips by Cosmos-Embed1, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.compat.nemo import trust
from dcurate.compat.nemo.image_models import has_gpu
from dcurate.compat.nemo.missing import MissingError
from dcurate.compat.nemo.stages import Resources, Spec
from dcurate.compat.nemo.verbose import log_progress
from dcurate.compat.nemo.video_stages.frames import (
    FrameExtractionPolicy,
    FrameExtractionSignature,
    Frames,
    extract_frames,
)
from dcurate.compat.nemo.video_stages.tasks import Clip, VideoTask, VideoTaskStage
from dcurate.hub import device as devices
from dcurate.hub.weights import Weights
from dcurate.models.vision.film import FilmEncoder, film_processor, load_film_encoder

_log = logging.getLogger("dcurate.compat.nemo")

Variant: TypeAlias = Literal["224p", "336p", "448p"]

#: Commits of the weights at the Hugging Face hub that NeMo Curator takes, by variant; it abbreviates them to 7 digits.
COSMOS_EMBED1_MODEL_REVISION_INFO = {
    "224p": "787e0b996f5260a71ad474a283c90539a2e12986",
    "336p": "0e8a28f7bf370f2dcb3b9b61d23e167d0d6b0e6f",
    "448p": "f60ec73636eb7c9cc25267367713b7b1b0cffaf3",
}

#: Frames a second, at most, at which frames of a short clip are taken again.
_MOST_FPS = 20


class CosmosEmbed1:
    """Cosmos-Embed1: frames of clips and texts become vectors of one space.

    Its code comes with its weights, and runs only where ``dcurate nemo --trust-remote-code`` says so. It runs on a GPU
    where there is one. Untested on a GPU, and on the real weights.

    Args:
        variant: ``"224p"``, ``"336p"`` or ``"448p"``.
        utils_only: whether only frames are prepared, without the model.
        model_dir: the folder with ``nvidia/Cosmos-Embed1-336p``; it is fetched there if it is missing.
        trusted: whether its code may run; by default whether the command says so.
    """

    def __init__(
        self,
        *,
        variant: Variant = "336p",
        utils_only: bool = False,
        model_dir: str | None = None,
        trusted: bool | None = None,
    ) -> None:
        self.variant = variant
        self._name = f"nvidia/Cosmos-Embed1-{variant}"
        self._utils_only = utils_only
        self._model_dir = model_dir
        self._trusted = trust.is_granted() if trusted is None else trusted
        self._encoder: FilmEncoder | None = None
        self._processor: Any = None
        self._device: Any = None

    @property
    def model_id_names(self) -> list[str]:
        """Name at the Hugging Face hub."""
        return [self._name]

    @property
    def weights(self) -> Weights:
        """The weights and code.

        Raises:
            MissingError: the code is not trusted.
        """
        if not self._trusted:
            raise MissingError(
                f"{self._name} comes with Python code of its own: read it, then run the script by `dcurate nemo "
                "--trust-remote-code`; dcurate.models.VideoEmbedding embeds clips by models whose code is in "
                "transformers"
            )
        folder = Path(self._model_dir or ".", self._name)
        if (folder / "config.json").is_file():
            return Weights(str(folder), trust_remote_code=True)
        revision = COSMOS_EMBED1_MODEL_REVISION_INFO[self.variant]
        return Weights(self._name, revision, self._model_dir, trust_remote_code=True)

    def setup(self) -> None:
        """Load the processor and, unless `utils_only`, the model.

        Raises:
            MissingError: the code is not trusted.
            DataError: the folder cannot be read.
            ResourceError: the weights are not on this host, or a library is missing.
        """
        weights = self.weights
        folder = weights.folder()
        if self._utils_only:
            self._processor = film_processor(weights, folder)
            return
        self._device = devices.device_of("cosmos_embed1", "auto", None)
        with devices.current(self._device):
            self._encoder = load_film_encoder(weights, folder, self._device)
        self._processor = self._encoder.processor

    def get_target_num_frames(self) -> int:
        """Return how many frames the model takes."""
        return int(self._processor.num_video_frames)

    def formulate_input_frames(self, frames: Sequence[Frames]) -> npt.NDArray[np.float32] | None:
        """Prepare each n-th frame from the first on; None if there are fewer than the model takes.

        Args:
            frames: each height x width x 3.
        """
        count = self.get_target_num_frames()
        if len(frames) < count:
            _log.error("Frame count %d is smaller than minimal requirement %d", len(frames), count)
            return None
        batch = np.stack(frames[:: len(frames) // count][:count])[None].transpose(0, 1, 4, 2, 3)
        made: npt.NDArray[np.float32] = np.asarray(self._processor(videos=batch, return_tensors="pt")["videos"])
        return made

    def encode_video_frames(self, frames: npt.NDArray[np.float32]) -> Any:
        """Return the vectors of prepared frames: a Torch tensor, a row for each clip, in half precision."""
        torch = devices.torch_for("cosmos_embed1")
        if frames.size == 0:
            return torch.empty((0, self._loaded.model.config.embed_dim), dtype=torch.float16)
        with devices.current(self._device), torch.no_grad():
            return torch.from_numpy(self._loaded.images([{"pixel_values": frames}], self._device)).half()

    def get_text_embedding(self, text: str) -> Any:
        """Return the vector of a text: a Torch tensor with one row, in half precision."""
        torch = devices.torch_for("cosmos_embed1")
        with devices.current(self._device), torch.no_grad():
            return torch.from_numpy(self._loaded.texts([text], self._device)).half()

    def evaluate(self, video_embd: Any, text_embds: list[Any]) -> tuple[list[float], list[int]]:
        """Return how probable texts are for a clip, and their numbers, the most probable first."""
        torch = devices.torch_for("cosmos_embed1")
        likeness = 100.0 * video_embd.float() @ torch.cat(text_embds, 0).float().T
        probabilities, numbers = likeness.softmax(dim=-1).topk(len(text_embds), dim=-1)
        return probabilities[0].tolist(), numbers[0].tolist()

    @property
    def _loaded(self) -> FilmEncoder:
        if self._encoder is None:
            raise RuntimeError("Model is not loaded")
        return self._encoder

    @classmethod
    def download_weights_on_node(cls, model_dir: str, variant: Variant = "336p") -> None:
        """Download the weights to this host, if they are not there."""
        cls(variant=variant, model_dir=model_dir).weights.fetch()

    @classmethod
    def download_processor_config_on_node(cls, model_dir: str, variant: Variant = "336p") -> None:
        """Download what prepares frames to this host, if it is not there."""
        cls(variant=variant, model_dir=model_dir).weights.fetch("tokenizer")


@dataclass
class CosmosEmbed1Stage(VideoTaskStage):
    """The base of two stages: they keep whether code of the model may run, as workers have another environment.

    Args:
        model_dir: the folder with ``nvidia/Cosmos-Embed1-336p``.
        variant: ``"224p"``, ``"336p"`` or ``"448p"``.
    """

    model_dir: str = "models/cosmos_embed1"
    variant: Variant = "336p"
    utils_only: ClassVar[bool] = False
    _trusted: bool = field(default_factory=trust.is_granted, init=False, repr=False, compare=False)
    _model: CosmosEmbed1 | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}

    def inputs(self) -> Spec:
        return ["data"], []

    def _made(self) -> CosmosEmbed1:
        return CosmosEmbed1(
            variant=self.variant, utils_only=self.utils_only, model_dir=self.model_dir, trusted=self._trusted
        )

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the model to this host, if it is not there."""
        self._made().weights.fetch("tokenizer" if self.utils_only else "model")

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the model."""
        self._model = self._made()
        self._model.setup()

    def teardown(self) -> None:
        """Free the memory of the model."""
        self._model = None

    @property
    def model(self) -> CosmosEmbed1:
        """The loaded model."""
        if self._model is None:
            self.setup()
        assert self._model is not None
        return self._model


@dataclass
class CosmosEmbed1FrameCreationStage(CosmosEmbed1Stage):
    """Prepare frames of clips for Cosmos-Embed1. Clips of too few frames are decoded again, at a higher rate.

    Args:
        model_dir: the folder with ``nvidia/Cosmos-Embed1-336p``.
        variant: ``"224p"``, ``"336p"`` or ``"448p"``.
        target_fps: frames a second of the extracted frames.
        verbose: whether numbers of clips are logged.
        num_cpus: without effect: a slot takes one CPU.
    """

    target_fps: float = 2.0
    verbose: bool = False
    num_cpus: int = 3
    name: str = "cosmos_embed1"
    utils_only: ClassVar[bool] = True

    def outputs(self) -> Spec:
        return ["data"], ["clips.cosmos_embed1_frames"]

    def process(self, task: VideoTask) -> VideoTask:
        """Add the frames, or in ``errors`` why there are none."""
        name = FrameExtractionSignature(FrameExtractionPolicy.sequence, self.target_fps).to_str()
        for clip in task.data.clips:
            if clip.buffer is None:
                clip.errors["buffer"] = "empty"
            elif name not in clip.extracted_frames:
                clip.errors[f"frames-{name}"] = "missing"
                _log.error("Clip %s has buffer but no extracted frames for %s", clip.uuid, name)
            else:
                clip.cosmos_embed1_frames = self.model.formulate_input_frames(list(self._frames(clip, name)))
                clip.extracted_frames.clear()
        if self.verbose:
            log_progress("prepared frames of %d clips of %s", len(task.data.clips), task.data.input_video)
        return task

    def _frames(self, clip: Clip, name: str) -> Frames:
        frames, fps = clip.extracted_frames[name], self.target_fps
        assert clip.buffer is not None
        while len(frames) < self.model.get_target_num_frames():
            fps *= 2
            if fps > _MOST_FPS:
                _log.error("Clip %s is too short to extract enough frames.", clip.uuid)
                break
            frames = extract_frames(clip.buffer, FrameExtractionPolicy.sequence, sample_rate_fps=fps)
        return frames


@dataclass
class CosmosEmbed1EmbeddingStage(CosmosEmbed1Stage):
    """Embed prepared frames of clips by Cosmos-Embed1, on a GPU where there is one.

    Args:
        model_dir: the folder with ``nvidia/Cosmos-Embed1-336p``.
        variant: ``"224p"``, ``"336p"`` or ``"448p"``.
        texts_to_verify: texts of which the most probable is kept for each clip.
        gpu_memory_gb: memory of the GPU, where there is one.
        verbose: whether numbers of clips are logged.
    """

    texts_to_verify: list[str] | None = None
    gpu_memory_gb: int = 20
    verbose: bool = False
    name: str = "cosmos_embed1_embedding"

    def __post_init__(self) -> None:
        self.resources = Resources(gpu_memory_gb=self.gpu_memory_gb) if has_gpu() else Resources()

    def outputs(self) -> Spec:
        return ["data"], ["clips.cosmos_embed1_embeddings", "clips.cosmos_embed1_embedding"]

    def process(self, task: VideoTask) -> VideoTask:
        """Add the embeddings; a clip without prepared frames has none, and says so in ``errors``."""
        texts = self.texts_to_verify or []
        vectors = [self.model.get_text_embedding(text) for text in texts]
        for clip in task.data.clips:
            if clip.cosmos_embed1_frames is None:
                clip.errors["cosmos_embed1_frames"] = "empty"
                continue
            embedding = self.model.encode_video_frames(clip.cosmos_embed1_frames)
            clip.cosmos_embed1_frames = None
            if embedding.numel() == 0:
                _log.error("Unable to compute cosmos-embed1 embedding for clip=%s", clip.uuid)
                clip.errors["cosmos_embed1_embedding"] = "failed"
                continue
            clip.cosmos_embed1_embedding = embedding.numpy()
            if texts:
                probabilities, numbers = self.model.evaluate(embedding, vectors)
                clip.cosmos_embed1_text_match = texts[numbers[0]], probabilities[0]
        if self.verbose:
            log_progress("embedded %d clips of %s", len(task.data.clips), task.data.input_video)
        return task
