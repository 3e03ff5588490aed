"""The base of stages that embed pictures, and the stage that adds embeddings as a column. Untested on a GPU."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from dcurate.core.backoff import Backoff
from dcurate.core.resources import Resources
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import with_vectors
from dcurate.hub import device as devices
from dcurate.hub.shared import SHARED
from dcurate.hub.weights import Weights, named_after
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.image.pixels import Pixels, decode
from dcurate.media.stage import FileStage
from dcurate.models.vision.encoder import Inputs, Pooling, Vectors, VisionEncoder, load_encoder, normalized

#: OpenAI's CLIP, in the revision that NeMo Curator uses.
CLIP, CLIP_REVISION = "openai/clip-vit-large-patch14", "32bd64288804d66eefd0ccbe215aa642df71cc41"

_OF_SLOT = ("_encoder", "_key", "_torch_device", "_backoff", "_memory")
_NO_ROWS = {"cache_dir", "hf_token", "device", "resources", "model_inference_batch_size"}


@dataclass
class VisionStage(FileStage):
    """A stage that embeds pictures with a model of transformers; the base of these.

    Args:
        model: an id at the Hugging Face hub, or a local folder: CLIP, SigLIP, DINO, ViT and others.
        cache_dir: where files of the hub are kept.
        hf_token: for models that ask for one.
        model_inference_batch_size: pictures that the model is given at once.
        autocast: precision, as in `ModelStage`.
        revision: revision of the model at the hub.
        trust_remote_code: whether code that comes with the model may be run; one of the hub needs a commit as
            `revision`.
        device: device of the model, as in `ModelStage`.
        reading: limits of each file.
        name: name of the stage; after the model if not given.
    """

    model: str = CLIP
    _: KW_ONLY
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    model_inference_batch_size: int = 32
    autocast: bool | str = True
    revision: str | None = None
    trust_remote_code: bool = False
    device: str = "auto"
    name: str = ""

    #: The end of the name of the stage, and whether it embeds texts.
    suffix: ClassVar[str] = "_vision"
    embeds_texts: ClassVar[bool] = False

    _encoder: VisionEncoder | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)
    _memory: devices.MemoryShare | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.name or named_after(self.model, self.suffix)
        if not isinstance(self.model_inference_batch_size, int) or self.model_inference_batch_size < 1:
            number = self.model_inference_batch_size
            raise PipelineError(f"stage {self.name!r}: model_inference_batch_size={number!r} must be at least 1")
        devices.check_autocast(self.name, self.autocast)
        devices.check_device(self.name, self.device)
        if self.model == CLIP and self.revision is None:
            self.revision = CLIP_REVISION
        _ = self.weights  # refuses a revision that does not pin trusted code
        if type(self).resources is ProcessingStage.resources:
            self.resources = Resources(cpus=1.0, gpus=0.0 if self.device == "cpu" else 0.25)
            self.spec = replace(self.spec, gpu_optional=self.device == "auto")
        super().__post_init__()

    @classmethod
    def in_folder(cls, folder: str | None, **settings: Any) -> Self:
        """Make the stage with CLIP from a folder of models, as NeMo Curator keeps it, or with the model of a folder.

        Args:
            folder: if it holds neither, it is where CLIP is downloaded to.
            settings: the other arguments.
        """
        places = () if folder is None else (os.path.join(folder, *CLIP.split("/")), folder)
        place = next((place for place in places if os.path.isfile(os.path.join(place, "config.json"))), None)
        return cls(cache_dir=folder, **settings) if place is None else cls(place, **settings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return Weights(self.model, self.revision, self.cache_dir, self.hf_token, self.trust_remote_code)

    def requires(self) -> dict[str, str]:
        return {"torch": "models", "PIL": "images", "simplejpeg": "images"}

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in _NO_ROWS}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the model to this host."""
        self.weights.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the model, unless another slot of this process has; the network is not used."""
        folder = self.weights.folder()
        self._torch_device = devices.device_of(self.name, self.device, worker_metadata)
        key: Hashable = (folder, str(self._torch_device), self.embeds_texts, self._pooling, self.trust_remote_code)
        self._memory = devices.MemoryShare(self._torch_device, self.resources)
        self._encoder = SHARED.hold(key, lambda: self._load(folder))
        self._key = key
        free = (lambda: devices.emptied(self._torch_device)) if self._torch_device.type == "cuda" else None
        self._backoff = Backoff(f"{self._torch_device} {hash(key):x}", free)

    @property
    def _pooling(self) -> Pooling:
        return "auto"

    def _load(self, folder: str) -> VisionEncoder:
        with devices.current(self._torch_device):
            encoder: VisionEncoder = load_encoder(
                self.weights, folder, self._torch_device, texts=self.embeds_texts, pooling=self._pooling
            )
        return encoder

    def teardown(self) -> None:
        """Release the model; the last slot of the process frees its memory."""
        key, self._key, self._encoder = vars(self).get("_key"), None, None
        if key is not None and SHARED.release(key):
            devices.emptied(self._torch_device)
        if self._memory is not None:
            self._memory.release()

    @property
    def encoder(self) -> VisionEncoder:
        """The loaded model, once the stage is set up.

        Raises:
            PipelineError: it is not.
        """
        encoder: VisionEncoder | None = vars(self).get("_encoder")
        if encoder is None:
            raise PipelineError(f"stage {self.name!r} is not set up; run it in a pipeline, or call setup() first")
        return encoder

    def embed(self, prepared: Sequence[Inputs]) -> Vectors:
        """Embed prepared pictures, of length one, as many at once as memory allows."""
        return self._run(lambda part: self.encoder.images(part, self._torch_device), prepared)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, of length one."""
        return self._run(lambda part: self.encoder.texts(part, self._torch_device), texts)

    def _run(self, embed: Any, items: Sequence[Any]) -> Vectors:
        exact = devices.precision(self.autocast, self._torch_device)
        with (
            devices.current(self._torch_device),
            devices.threads(self.resources.cpus),
            devices.without_gradients(exact),
            devices.casting(exact, self._torch_device),
        ):
            size = self.model_inference_batch_size
            parts = [self._backoff.run(embed, items[start : start + size]) for start in range(0, len(items), size)]
        return normalized(np.concatenate([vectors for part in parts for vectors in part]))

    def pixels(self, data: bytes) -> Pixels:
        """Decode a picture.

        Raises:
            MediaError: it cannot be decoded.
        """
        return decode(data).pixels

    def prepared(self, file: Any) -> Inputs:
        """Prepare what is embedded of a row.

        Raises:
            MediaError: it cannot be decoded.
        """
        return self.encoder.prepared(self.pixels(file.data))

    def answers(self, rows: Any) -> list[Any]:
        """Return the embedding of the picture of each row, or what is wrong with it."""
        self.check_media(rows.column_names)
        return self.embedded(file for files in self.files(rows) for file in files)

    def embedded(self, items: Iterable[Any]) -> list[Any]:
        """Return the embedding of each item, or what is wrong with it.

        Args:
            items: what `prepared` takes, or the `MediaFault` of a row.
        """
        answers: list[Any] = []
        waiting: list[int] = []
        prepared: list[Inputs] = []
        for item in items:
            answer: Any = item
            if not isinstance(item, MediaFault):
                try:
                    prepared.append(self.prepared(item))
                    waiting.append(len(answers))
                except MediaError as error:
                    answer = error.fault
            answers.append(answer if isinstance(answer, MediaFault) else None)
            if len(waiting) == self.model_inference_batch_size:
                self._embed_into(answers, waiting, prepared)
        if waiting:
            self._embed_into(answers, waiting, prepared)
        return answers

    def _embed_into(self, answers: list[Any], waiting: list[int], prepared: list[Inputs]) -> None:
        for row, vector in zip(waiting, self.embed(prepared), strict=True):
            answers[row] = vector
        waiting.clear()
        prepared.clear()


@dataclass
class ImageEmbedding(VisionStage):
    """Add a column of embeddings of pictures: similar pictures have similar vectors, of length one.

    The rows hold pictures by reference or as bytes, as `WebDatasetReader` and `MediaReader` make them. Pictures are
    decoded and prepared as the model's folder says, one at a time; those that cannot be decoded go to quarantine.
    `SemanticDuplicates` finds duplicates by the embeddings.

    Untested on a GPU.

    Args:
        model: an id at the Hugging Face hub, or a local folder: CLIP, SigLIP, DINO, ViT and others.
        embedding_field: the new column: lists of one length, float32.
        pooling: how the vectors of parts of a picture become one: ``"auto"`` as the model was trained; ``"cls"``,
            ``"mean"``, ``"pooler"``.
        overwrite: replace a column of that name that is there already instead of refusing.
        cache_dir, hf_token, model_inference_batch_size, autocast, revision, trust_remote_code, device: settings of the
            model, as in `ModelStage`.
        reading: limits of each file.

    Raises:
        PipelineError: a setting that cannot be.

    Examples:
        >>> stage = ImageEmbedding("google/siglip-base-patch16-224")
        >>> stage.name, stage.outputs()[1]
        ('siglip_base_patch16_224_embedding', ['embeddings'])
    """

    _: KW_ONLY
    embedding_field: str = "embeddings"
    pooling: Pooling = "auto"
    overwrite: bool = False

    suffix: ClassVar[str] = "_embedding"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in ("auto", "cls", "mean", "pooler"):
            raise PipelineError(f"{self.name}: pooling={self.pooling!r} must be 'auto', 'cls', 'mean' or 'pooler'")

    @property
    def _pooling(self) -> Pooling:
        return self.pooling

    def outputs(self) -> Spec:
        return ["data"], [self.embedding_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        return super().process(task)

    def with_values(self, batch: DocumentBatch, rows: Sequence[Any]) -> DocumentBatch:
        if not rows:
            return batch
        return replace(batch, data=with_vectors(batch.to_arrow(), self.embedding_field, np.stack(rows)))
