"""Vision models of films: functions from the frames of a clip to a vector, and the stage. Untested on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.core.stage import Spec
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.images import pictures_of
from dcurate.errors import DataError, PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import with_vectors
from dcurate.hub.loading import pretrained, read
from dcurate.hub.weights import Weights
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.image.pixels import Pixels
from dcurate.models.vision.encoder import Inputs, Vectors, VisionEncoder, image_processor, rows_of
from dcurate.models.vision.stage import VisionStage

_KINDS = "give an X-CLIP, VideoMAE, TimeSformer, ViViT or Cosmos-Embed1"


@dataclass(frozen=True)
class FilmEncoder(VisionEncoder):
    """A loaded model of films.

    Args:
        frames: how many frames of a clip the model takes.
    """

    frames: int = 8

    def film(self, frames: Sequence[npt.NDArray[np.uint8]]) -> Inputs:
        """Scale, crop and normalize frames of a clip, as the model's folder says.

        Args:
            frames: each height x width x 3, RGB, in order; as many as the model takes.

        Raises:
            MediaError: frames are of several sizes, which the model does not take.
        """
        if not _is_cosmos(self.model):
            made = self.processor(list(frames), return_tensors="np", input_data_format="channels_last")
            return {"pixel_values": np.asarray(made["pixel_values"])}
        if len({frame.shape for frame in frames}) > 1:
            raise MediaError("frames of several sizes", f"{self.model.config.model_type} takes frames of one size")
        batch = np.stack(frames)[None].transpose(0, 1, 4, 2, 3)
        return {"pixel_values": np.asarray(self.processor(videos=batch, return_tensors="pt")["videos"])}

    def images(self, prepared: Sequence[Inputs], device: Any) -> Vectors:
        """Embed prepared clips; a row for each, not normalized."""
        torch = needed("torch", "a vision model", "models")
        values = torch.from_numpy(np.concatenate([clip["pixel_values"] for clip in prepared]))
        values = values.to(device, dtype=self.model.dtype)
        if _is_cosmos(self.model):
            return rows_of(self.model.get_video_embeddings(videos=values).visual_proj)
        if hasattr(self.model, "get_video_features"):
            return rows_of(self.model.get_video_features(pixel_values=values))
        return rows_of(self._pooled(self.model(pixel_values=values)))

    def texts(self, texts: Sequence[str], device: Any) -> Vectors:
        """Embed texts in the space of clips; a row for each, not normalized.

        Raises:
            DataError: the model has no texts.
        """
        if not _is_cosmos(self.model):
            raise DataError(f"{type(self.model).__name__} embeds films only; give Cosmos-Embed1")
        tokens = self.processor(text=list(texts), return_tensors="pt")
        return rows_of(self.model.get_text_embeddings(**{name: t.to(device) for name, t in tokens.items()}).text_proj)


def _is_cosmos(model: Any) -> bool:
    """Whether a model has the functions of Cosmos-Embed1, whose code comes with its weights."""
    return callable(getattr(model, "get_video_embeddings", None))


def spread(total: int, count: int) -> list[int]:
    """Return the places of frames spread evenly over a clip: the middle of each of `count` equal parts of it.

    Where there are fewer frames, some are repeated.

    Args:
        total: number of frames of the clip.
        count: number of frames to choose.

    Examples:
        >>> spread(15, 8), spread(3, 8)
        ([0, 2, 4, 6, 8, 10, 12, 14], [0, 0, 0, 1, 1, 2, 2, 2])
    """
    return [(2 * part + 1) * total // (2 * count) for part in range(count)]


def load_film_encoder(weights: Weights, folder: str, device: Any) -> FilmEncoder:
    """Load a model of films and its processor from a folder; the network is not used.

    Raises:
        DataError: the folder cannot be read, holds another kind of model, or code that is not trusted.
        ResourceError: a library is not installed.
    """
    model = pretrained("AutoModel", weights, folder, device, optional=("pooler.",)).eval().to(device)
    if _is_cosmos(model):
        processor = film_processor(weights, folder)
        return FilmEncoder(model, processor, frames=int(processor.num_video_frames))
    config = getattr(model.config, "vision_config", model.config)
    frames = getattr(config, "num_frames", None)
    if not isinstance(frames, int):
        raise DataError(f"{weights} is of the kind {model.config.model_type!r}, not a model of films; {_KINDS}")
    return FilmEncoder(model, image_processor(weights, folder), frames=frames)


def film_processor(weights: Weights, folder: str) -> Any:
    """The processor of Cosmos-Embed1 in a folder, whose code comes with it.

    Raises:
        DataError: the folder cannot be read, or holds code that is not trusted.
    """
    transformers = needed("transformers", str(weights), "models")

    def load() -> Any:
        return transformers.AutoProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=weights.trust_remote_code
        )

    return read(weights, folder, load)


@dataclass
class VideoEmbedding(VisionStage):
    """Add a column of embeddings of clips, by a model that looks at several frames at once.

    Behind `CaptionWindows`, the frames are those of a window. The model takes as many as it was made for, spread evenly
    over them; where there are fewer, some are repeated. Only the chosen frames are decoded. Vectors have length one, so
    that `SemanticDuplicates` finds duplicates by them. A row without frames, or with a chosen frame that cannot be
    decoded, goes to quarantine.

    X-CLIP, VideoMAE, TimeSformer and ViViT are models of transformers. The weights of Cosmos-Embed1
    (``nvidia/Cosmos-Embed1-224p``, ``-336p``, ``-448p``) come with Python code, which runs with
    ``trust_remote_code=True`` only: read it, and name the commit that you read in `revision`. It needs ``einops`` and
    the version of transformers that its page names. Recipes cannot ask for it.

    Tested on small models of random weights, Cosmos-Embed1 by a stand-in with its functions; untested on a GPU.

    Args:
        model: an id at the Hugging Face hub, or a local folder.
        images_field: the column of frames: lists of bytes of image files.
        embedding_field: the new column: lists of one length, float32.
        overwrite: replace a column of that name that is there already instead of refusing.
        cache_dir, hf_token, model_inference_batch_size, autocast, revision, trust_remote_code, device: settings of the
            model, as in `ModelStage`.
        reading: ``max_file_bytes`` is a limit of each chosen frame.

    Raises:
        PipelineError: a setting that cannot be.
        DataError: from `setup`, if the folder holds another kind of model, or code that is not trusted.

    Examples:
        >>> stage = VideoEmbedding("microsoft/xclip-base-patch32")
        >>> stage.name, stage.inputs()[1], stage.outputs()[1]
        ('xclip_base_patch32_video_embedding', ['window_frames'], ['embeddings'])
    """

    model: str = "microsoft/xclip-base-patch32"
    _: KW_ONLY
    images_field: str = "window_frames"
    embedding_field: str = "embeddings"
    overwrite: bool = False

    suffix: ClassVar[str] = "_video_embedding"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading.storage_options is not None:
            raise PipelineError(f"{self.name}: frames are in column {self.images_field!r}; leave out storage_options")

    def inputs(self) -> Spec:
        return ["data"], [self.images_field]

    def outputs(self) -> Spec:
        return ["data"], [self.embedding_field]

    def check_media(self, columns: Sequence[str]) -> None:
        """Accept all columns: that of frames is in `inputs`."""

    def _load(self, folder: str) -> VisionEncoder:
        return load_film_encoder(self.weights, folder, self._torch_device)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        return super().process(task)

    def answers(self, rows: Any) -> list[Any]:
        """Return the embedding of the frames of each row, or what is wrong with them."""
        clips = pictures_of(rows, self.images_field)
        return self.embedded(MediaFault(c.reason, str(c)) if isinstance(c, RequestError) else c for c in clips)

    def prepared(self, file: Any) -> Inputs:
        if not file:
            raise MediaError("no frames", f"column {self.images_field!r} has none")
        encoder = self.encoder
        assert isinstance(encoder, FilmEncoder)
        places = spread(len(file), encoder.frames)
        decoded = {place: self._decoded(file[place]) for place in dict.fromkeys(places)}
        return encoder.film([decoded[place] for place in places])

    def _decoded(self, frame: Any) -> Pixels:
        limit = parse_bytes(self.reading.max_file_bytes)
        if isinstance(frame, str):
            raise MediaError("no picture", f"{frame[:80]!r} is an address; give the bytes of the frame")
        if len(frame) > limit:
            raise MediaError("too large", f"a frame has {len(frame)} bytes, and the limit is {limit}")
        return self.pixels(frame)

    def with_values(self, batch: DocumentBatch, rows: Sequence[Any]) -> DocumentBatch:
        if not rows:
            return batch
        return replace(batch, data=with_vectors(batch.to_arrow(), self.embedding_field, np.stack(rows)))
