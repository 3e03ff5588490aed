"""Stages with vision models, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcurate.compat.nemo.image_tasks import ImageBatch, ImageObject
from dcurate.compat.nemo.stages import ProcessingStage, Resources, Spec
from dcurate.compat.nemo.verbose import log_progress
from dcurate.errors import DataError
from dcurate.hub import device as devices
from dcurate.models.vision import heads
from dcurate.models.vision import stage as vision

_log = logging.getLogger("dcurate.compat.nemo")


def has_gpu() -> bool:
    """Whether Torch is here, and sees a GPU."""
    try:
        return bool(devices.torch_for("image").cuda.is_available())
    except Exception:  # Torch is not installed: setup says so
        return False


def gpu_share(share: float) -> Resources:
    """Return the resources of a stage: a share of a GPU where there is one."""
    return Resources(gpus=share) if has_gpu() else Resources()


@dataclass
class ImageEmbeddingStage(ProcessingStage[ImageBatch, ImageBatch]):
    """Embed pictures with OpenAI's CLIP ViT-L/14, on a GPU where there is one; vectors have length one.

    A picture that cannot be decoded has no embedding, and is logged. Untested on a GPU.

    Args:
        model_dir: a folder with ``openai/clip-vit-large-patch14``, which is fetched from the Hugging Face hub if it is
            not there; or the folder of any vision model of transformers.
        num_gpus_per_worker: the share of a GPU.
        model_inference_batch_size: pictures that the model is given at once.
        verbose: whether the number of pictures that are embedded is logged for each batch.
        remove_image_data: whether pixels are released; files are written unchanged in any case.
    """

    model_dir: str | None = None
    num_gpus_per_worker: float = 0.25
    model_inference_batch_size: int = 32
    verbose: bool = False
    remove_image_data: bool = False
    name: str = "image_embedding"
    _own: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.resources = gpu_share(self.num_gpus_per_worker)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": None}

    def _stage(self) -> vision.ImageEmbedding:
        return vision.ImageEmbedding.in_folder(
            self.model_dir, model_inference_batch_size=self.model_inference_batch_size
        )

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the model to this host, if it is not there."""
        self._stage().setup_on_node()

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the model."""
        self._own = self._stage()
        self._own.setup()

    def teardown(self) -> None:
        """Free the memory of the model."""
        if self._own is not None:
            self._own.teardown()
            self._own = None

    def process(self, task: ImageBatch) -> ImageBatch:
        """Embed the pictures of a batch."""
        for start in range(0, len(task.data), self.model_inference_batch_size):
            self._embed(task.data[start : start + self.model_inference_batch_size])
        if self.verbose:
            embedded = sum(picture.embedding is not None for picture in task.data)
            log_progress("embedded %d of %d pictures", embedded, len(task.data))
        return task

    def _embed(self, pictures: Sequence[ImageObject]) -> None:
        good, prepared = [], []
        for picture in pictures:
            try:
                pixels = picture.pixels()
            except DataError as error:
                _log.warning("%s", error)
                continue
            prepared.append(self._own.encoder.prepared(np.asarray(pixels)[..., :3]))
            good.append(picture)
        vectors = self._own.embed(prepared) if prepared else ()
        for picture, vector in zip(good, vectors, strict=True):
            picture.embedding = vector
        if self.remove_image_data:
            for picture in pictures:
                picture.image_data = None


@dataclass
class BaseFilterStage(ProcessingStage[ImageBatch, ImageBatch]):
    """Drop pictures by a score of their embeddings; the base of two filters.

    Args:
        model_dir: the folder of models, in which weights are kept.
        num_gpus_per_worker: without effect: the networks are small enough for a CPU.
        model_inference_batch_size: without effect.
        score_threshold: see the filters.
        verbose: whether dropped pictures are logged.
    """

    model_dir: str | None = None
    num_gpus_per_worker: float = 0.25
    model_inference_batch_size: int = 32
    score_threshold: float = 0.5
    verbose: bool = False
    name: str = "image_filter"
    _own: Any = field(default=None, init=False, repr=False, compare=False)

    #: dcurate's stage, and the attribute for the score.
    _kind = heads.EmbeddingScoreFilter
    _score = ""

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": None}

    def _stage(self) -> heads.EmbeddingScoreFilter:
        return self._kind(self.model_dir, self.score_threshold)  # type: ignore[abstract]

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the weights to this host, if they are not there."""
        self._stage().setup_on_node()

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the weights."""
        self._own = self._stage()
        self._own.setup()

    def process(self, task: ImageBatch) -> ImageBatch:
        """Score the pictures, and return those with a good score; pictures without an embedding are left out."""
        scored = [picture for picture in task.data if picture.embedding is not None]
        without = len(task.data) - len(scored)
        if without:
            _log.warning("stage %r: %d pictures have no embedding, and are left out", self.name, without)
        kept = []
        if scored:
            vectors = np.stack([np.asarray(picture.embedding, np.float32) for picture in scored])
            scores = self._own.scores_of(vectors)
            for picture, score, keep in zip(scored, scores, self._own.keeps(scores), strict=True):
                setattr(picture, self._score, float(score))
                kept += [picture] if keep else []
                if self.verbose and not keep:
                    log_progress("%s is dropped: %s is %.3f", picture.image_id, self._score, score)
        return ImageBatch(
            data=kept, dataset_name=task.dataset_name, _metadata=task._metadata, _stage_perf=task._stage_perf
        )


@dataclass
class ImageAestheticFilterStage(BaseFilterStage):
    """Keep pictures whose aesthetic score is `score_threshold` or more."""

    name: str = "image_aesthetic_filter"

    _kind = heads.FilterByAesthetics
    _score = "aesthetic_score"


@dataclass
class ImageNSFWFilterStage(BaseFilterStage):
    """Keep pictures whose probability of not being safe for work is below `score_threshold`."""

    weights_path: str | None = None
    name: str = "image_nsfw_filter"

    _kind = heads.FilterByNsfw
    _score = "nsfw_score"
