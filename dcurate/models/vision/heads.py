"""Filters by how pleasing a picture is and whether it is safe for work: small networks upon embeddings of CLIP.

Embeddings are those of OpenAI's CLIP ViT-L/14. The layers follow from the published weights: LAION's predictor of
aesthetics as NeMo Curator takes it (https://huggingface.co/ttj/sac-logos-ava1-l14-linearMSE) and LAION's detector
upon CLIP (https://github.com/LAION-AI/CLIP-based-NSFW-Detector). They are small enough for a CPU, for embeddings
of any model.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import fsspec
import numpy as np
import numpy.typing as npt

from dcurate.core.batch import Scored
from dcurate.core.extras import needed
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError, ResourceError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import embeddings
from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors
from dcurate.hub.loading import read
from dcurate.hub.weights import Weights
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.image.pixels import decode
from dcurate.media.refs import BYTES, REF, check_has_media, fetched
from dcurate.models.vision.classifier import ImageClassifier, LoadedClassifier

Array = npt.NDArray[np.float32]
#: The tensors of a network by name.
Tensors = Mapping[str, Array]

_LAYER = re.compile(r"layers\.(\d+)\.weight")
_LARGEST_ZIP = 2**28


@dataclass
class EmbeddingScoreFilter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Score rows by a small network upon their embeddings, and drop those with a bad score; the base of these.

    Rows without an embedding go to quarantine.
    """

    model_dir: str | None = None
    score_threshold: float = 0.5
    embedding_field: str = "embeddings"
    score_field: str | None = None
    name: str = "embedding_score_filter"

    _tensors: Tensors | None = field(default=None, init=False, repr=False, compare=False)

    #: The model's id, its revision, and the file with its weights.
    model: ClassVar[str]
    revision: ClassVar[str | None] = None
    file: ClassVar[str]
    #: What rows are dropped for.
    reason: ClassVar[str]

    def __post_init__(self) -> None:
        if isinstance(self.score_threshold, bool) or not isinstance(self.score_threshold, int | float):
            raise PipelineError(f"{self.name}: score_threshold={self.score_threshold!r} must be a number")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_tensors"}

    def inputs(self) -> Spec:
        return ["data"], [self.embedding_field]

    def outputs(self) -> Spec:
        return ["data"], [] if self.score_field is None else [self.score_field]

    def settings(self) -> dict[str, Any]:
        """All settings but the folder of the weights."""
        return {name: value for name, value in super().settings().items() if name not in ("model_dir", "_tensors")}

    @abstractmethod
    def scores(self, vectors: Array, tensors: Tensors) -> Array:
        """Score embeddings of length one, a row for each."""

    @abstractmethod
    def keeps(self, scores: Array) -> npt.NDArray[np.bool_]:
        """Return which scores are good."""

    @abstractmethod
    def fetch(self) -> str:
        """Download the weights to this host, where they are not yet; return their path."""

    @abstractmethod
    def loaded(self, path: str) -> Tensors:
        """Read the weights."""

    @property
    def path(self) -> str | None:
        """Where the weights are in `model_dir`, as NeMo Curator puts them or directly; None if they are not there."""
        if self.model_dir is None:
            return None
        places = (
            os.path.join(self.model_dir, *self.model.split("/"), self.file),
            os.path.join(self.model_dir, self.file),
        )
        return next(filter(os.path.isfile, places), None)

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the weights to this host."""
        if self.path is None:
            self.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the weights."""
        path = self.path or self.fetch()
        tensors = self.loaded(path)
        self._tensors = {name: np.asarray(values, np.float32) for name, values in tensors.items()}
        self._check(self._tensors, path)

    def _check(self, tensors: Tensors, path: str) -> None:
        try:
            self.scores(np.zeros((1, self._width(tensors)), np.float32), tensors)
        except (KeyError, ValueError, StopIteration) as error:
            raise DataError(
                f"{self.name}: {path} has other weights than {self.model} ({error}); fetch it again"
            ) from error

    @abstractmethod
    def _width(self, tensors: Tensors) -> int:
        """How many numbers an embedding must have."""

    def scores_of(self, vectors: Array) -> Array:
        """Score embeddings of length one, a row for each.

        Raises:
            DataError: they are of another model.
            PipelineError: the stage is not set up.
        """
        if self._tensors is None:
            raise PipelineError(f"stage {self.name!r} is not set up; run it in a pipeline, or call setup() first")
        wanted = self._width(self._tensors)
        if len(vectors) and vectors.shape[1] != wanted:
            raise DataError(
                f"{self.name}: the embeddings have {vectors.shape[1]} numbers, and the model wants {wanted}; make them "
                "with ImageEmbedding('openai/clip-vit-large-patch14')"
            )
        return self.scores(vectors, self._tensors) if len(vectors) else np.zeros(0, np.float32)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        vectors, rows = embeddings(table, self.embedding_field)
        missing = np.setdiff1d(np.arange(table.num_rows), rows)
        return self._judged(task, dict.fromkeys(missing.tolist(), MediaFault("no embedding")), self.scores_of(vectors))

    def _judged(self, task: DocumentBatch, faults: Mapping[int, MediaFault], raw_scores: Array) -> DocumentBatch:
        """Set the rows with faults aside, and keep of the others those with good scores."""
        remaining, scores = quarantined(task, faults, self.name), raw_scores.astype(np.float64)
        if self.score_field is not None:
            remaining = replace(remaining, data=with_column(remaining.to_arrow(), self.score_field, scores))
        kept = remaining.keep(self.keeps(raw_scores), self.name, self.reason)
        return replace(
            kept,
            rejections=(*remaining.rejections, *kept.rejections),
            scored=(Scored(self.name, self.reason, scores),) if len(scores) else (),
        )


@dataclass
class FilterByAesthetics(EmbeddingScoreFilter):
    """Drop pictures that are not pleasing: by LAION's predictor upon embeddings of CLIP ViT-L/14.

    Args:
        model_dir: a folder with ``ttj/sac-logos-ava1-l14-linearMSE/model.safetensors``, as NeMo Curator has it; from
            the Hugging Face hub if not given, or not there.
        score_threshold: the least score that is kept.
        embedding_field: the column of embeddings, as `ImageEmbedding` makes it.
        score_field: a column for the score, or None.

    Examples:
        >>> FilterByAesthetics(score_field="aesthetic_score").outputs()[1]
        ['aesthetic_score']
    """

    name: str = "image_aesthetic_filter"

    model: ClassVar[str] = "ttj/sac-logos-ava1-l14-linearMSE"
    revision: ClassVar[str | None] = "1e77fa0"
    file: ClassVar[str] = "model.safetensors"
    reason: ClassVar[str] = "aesthetic_score"

    def requires(self) -> dict[str, str]:
        return {"safetensors": "models"}

    def fetch(self) -> str:
        """Download the weights from the hub: to `model_dir` if given, else to where it keeps files.

        Raises:
            ResourceError: it cannot be reached.
        """
        hub = needed("huggingface_hub", f"stage {self.name!r}", "models")
        folder = None if self.model_dir is None else os.path.join(self.model_dir, *self.model.split("/"))
        try:
            return str(hub.hf_hub_download(self.model, self.file, revision=self.revision, local_dir=folder))
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"{self.name}: {self.file} of {self.model} cannot be fetched ({str(error).partition(chr(10))[0]}); "
                "fetch it where there is a network, and name its folder with model_dir="
            ) from error

    def loaded(self, path: str) -> Tensors:
        reader = needed("safetensors.numpy", f"stage {self.name!r}", "models")
        return dict(read(Weights(self.model), path, lambda: reader.load_file(path)))

    def scores(self, vectors: Array, tensors: Tensors) -> Array:
        for name in _layers(tensors):
            vectors = vectors @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]
        return vectors[:, 0]

    def keeps(self, scores: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(scores >= self.score_threshold)

    def _width(self, tensors: Tensors) -> int:
        return int(tensors[f"{_layers(tensors)[0]}.weight"].shape[1])


def _layers(tensors: Tensors) -> list[str]:
    """The layers by number; those between them are dropouts, which do nothing here."""
    numbers = sorted(int(match[1]) for match in map(_LAYER.fullmatch, tensors) if match)
    if not numbers:
        raise KeyError("layers.0.weight")
    return [f"layers.{number}" for number in numbers]


@dataclass
class FilterByNsfw(EmbeddingScoreFilter):
    """Drop pictures that are not safe for work: by LAION's detector upon embeddings of CLIP ViT-L/14, or a classifier.

    With ``classifier=ImageClassifier()`` Yahoo's open_nsfw judges the pictures themselves, which the rows refer to or
    hold; it needs no embeddings and no torch. Pictures that cannot be decoded go to quarantine.

    Args:
        model_dir: a folder with ``laion/clip-autokeras-binary-nsfw/clip_autokeras_binary_nsfw.pth``, as NeMo Curator
            has it; fetched to it from LAION's release if it is not there.
        score_threshold: pictures with this probability, or a higher one, are dropped.
        embedding_field: the column of embeddings, as `ImageEmbedding` makes it.
        score_field: a column for the probability, or None.
        classifier: judges the pictures, not the embeddings; `model_dir` and `embedding_field` do not matter then.
        storage_options: for fsspec, where pictures are fetched.

    Examples:
        >>> FilterByNsfw("weights", 0.3).name
        'image_nsfw_filter'
    """

    name: str = "image_nsfw_filter"
    classifier: ImageClassifier | None = None
    storage_options: dict[str, Any] | None = None

    _loaded: LoadedClassifier | None = field(default=None, init=False, repr=False, compare=False)

    model: ClassVar[str] = "laion/clip-autokeras-binary-nsfw"
    file: ClassVar[str] = "clip_autokeras_binary_nsfw.pth"
    reason: ClassVar[str] = "nsfw_score"
    #: A zip archive with the file.
    url: ClassVar[str] = (
        "https://github.com/LAION-AI/CLIP-based-NSFW-Detector/files/10250461/clip_autokeras_binary_nsfw.zip"
    )

    def requires(self) -> dict[str, str]:
        if self.classifier is None:
            return {"torch": "models"}
        return {"PIL": "images", "simplejpeg": "images", "onnxruntime": "images"}

    def inputs(self) -> Spec:
        return super().inputs() if self.classifier is None else (["data"], [])

    def optional_inputs(self) -> Sequence[str]:
        return () if self.classifier is None else (REF, BYTES)

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        if self.classifier is not None:
            check_has_media(columns, self.name)

    def settings(self) -> dict[str, Any]:
        """All settings but the folder of the weights, and what only a classifier needs where there is none."""
        left_out = {"_loaded", "storage_options"} | ({"classifier"} if self.classifier is None else {"embedding_field"})
        return {name: value for name, value in super().settings().items() if name not in left_out}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the weights to this host; those of a classifier must be there."""
        if self.classifier is None:
            super().setup_on_node(node_info, worker_metadata)
        else:
            self.classifier.path  # noqa: B018 - raises here if there is none

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the weights."""
        if self.classifier is None:
            super().setup(worker_metadata)
        else:
            self._loaded = LoadedClassifier(self.classifier)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self.classifier is None:
            return super().process(task)
        faults: dict[int, MediaFault] = {}
        scores: list[float] = []
        for start, files in fetched(task.to_arrow(), storage_options=self.storage_options):
            for row, data in enumerate(files, start):
                try:
                    scores.append(self._score(data))
                except MediaError as error:
                    faults[row] = error.fault
        return self._judged(task, faults, np.array(scores, np.float32))

    def _score(self, data: bytes | MediaFault) -> float:
        if self._loaded is None:
            raise PipelineError(f"stage {self.name!r} is not set up; run it in a pipeline, or call setup() first")
        if isinstance(data, MediaFault):
            raise MediaError(*data)
        return self._loaded.score(decode(data).pixels)

    def fetch(self) -> str:
        """Download the weights to `model_dir`.

        Raises:
            ResourceError: no folder is given, or they cannot be fetched.
        """
        hint = f"fetch {self.url}, unpack it, and name its folder with model_dir="
        if self.model_dir is None:
            raise ResourceError(f"{self.name}: no folder for the weights is given; {hint}")
        path = os.path.join(self.model_dir, *self.model.split("/"), self.file)
        try:
            with fsspec.open(self.url, "rb") as file:
                packed = file.read(_LARGEST_ZIP)
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                name = next(name for name in archive.namelist() if name.rpartition("/")[2] == self.file)
                content = archive.read(name)
        except Exception as error:  # of the network, of the archive
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ResourceError(f"{self.name}: {self.file} cannot be fetched ({reason}); {hint}") from error
        with storage_errors("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with atomic_write(path, os.path.dirname(path)) as file:
                file.write(content)
        return path

    def loaded(self, path: str) -> Tensors:
        torch = needed("torch", f"stage {self.name!r}", "models")
        tensors = read(Weights(self.model), path, lambda: torch.load(path, map_location="cpu", weights_only=True))
        return {name: tensor.float().numpy() for name, tensor in tensors.items() if hasattr(tensor, "numpy")}

    def scores(self, vectors: Array, tensors: Tensors) -> Array:
        activations = (vectors - tensors["norm.mean"]) / np.sqrt(tensors["norm.variance"])
        for number in range(1, 5):
            activations = activations @ tensors[f"linear_{number}.weight"].T + tensors[f"linear_{number}.bias"]
            activations = np.maximum(activations, 0) if number < 4 else activations
        exact = activations[:, 0].astype(np.float64)
        return np.asarray((1 + np.tanh(exact / 2)) / 2, np.float32)  # the logistic function

    def keeps(self, scores: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(scores < self.score_threshold)

    def _width(self, tensors: Tensors) -> int:
        return int(tensors["linear_1.weight"].shape[1])
