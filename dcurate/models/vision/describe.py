"""`DescribeImages`: captions of images, or of frames of films, by a model from a folder. Untested on a GPU."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from dcurate.core.backoff import Backoff
from dcurate.core.gpu_errors import is_out_of_memory
from dcurate.core.resources import Resources
from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.images import Picture, pictures_of
from dcurate.endpoints.prompt import Prompt
from dcurate.errors import PipelineError, ResourceError
from dcurate.frames.columns import values, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.hub import device as devices
from dcurate.hub.shared import SHARED
from dcurate.hub.weights import Weights, named_after
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.image.pixels import decode
from dcurate.models.vision.qwen import ImageQuestion, QwenVision, load_qwen

_OF_SLOT = ("_qwen", "_key", "_torch_device", "_memory", "_backoff")
_NO_ROWS = ("cache_dir", "hf_token", "device", "resources", "model_inference_batch_size", *_OF_SLOT)


@dataclass
class DescribeImages(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Ask a vision language model of Qwen about the images of each row: Qwen2-VL, Qwen2.5-VL or Qwen3-VL, in the slot.

    It takes the prompt, the columns and the rows that `Generate` takes with ``images_field=``, where the model is
    behind an endpoint; behind `CaptionWindows`, images are the frames of a window. Images come before the prompt, each
    by itself and not as a film. The likeliest token is taken each time. Rows without images, and those in which all
    columns of the prompt are null, are not asked about and have a null. Rows with an image that cannot be decoded, or
    one that is an address, go to quarantine, and so do those whose text holds a token of images, as ``bad prompt``.

    Questions of equal length share a batch, so that none is padded. The model is that of transformers; code that comes
    with a folder is never run. Tested on made weights only, and not on a GPU, which models of real size need.

    Args:
        model: an id at the Hugging Face hub, or a local folder.
        prompt: the user message. ``{column}`` is replaced by the row's value, ``{{`` by a brace.
        system_prompt: the system message, or None.
        images_field: the column of images: bytes of files, references, or lists of bytes.
        output_field: the new column of answers.
        max_tokens: no answer has more.
        cache_dir: where files of the hub are kept.
        hf_token: for models that ask for one.
        model_inference_batch_size: rows that the model is given at once.
        revision: a branch, tag or commit of the hub.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        name: name of the stage; after the model if not given.

    Raises:
        PipelineError: arguments that cannot be.
        DataError: from `setup`, if the folder holds another kind of model.
        ResourceError: from `setup`, if a library or the model is missing.

    Examples:
        >>> stage = DescribeImages("Qwen/Qwen2.5-VL-7B-Instruct", "What happens here?")
        >>> stage.name, stage.inputs()[1], stage.outputs()[1]
        ('qwen2.5_vl_7b_instruct_images', ['window_frames'], ['caption'])
    """

    model: str
    prompt: str
    _: KW_ONLY
    system_prompt: str | None = None
    images_field: str = "window_frames"
    output_field: str = "caption"
    max_tokens: int = 512
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    model_inference_batch_size: int = 4
    revision: str | None = None
    device: str = "auto"
    name: str = ""

    _qwen: QwenVision | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)
    _torch_device: Any = field(default=None, init=False, repr=False, compare=False)
    _memory: devices.MemoryShare | None = field(default=None, init=False, repr=False, compare=False)
    _backoff: Backoff | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.name or named_after(self.model, "_images")
        if not self.prompt:
            raise PipelineError(f"{self.name}: prompt= is empty; write what to ask about the images")
        for setting in ("max_tokens", "model_inference_batch_size"):
            number = getattr(self, setting)
            if type(number) is not int or number < 1:
                raise PipelineError(f"{self.name}: {setting}={number!r} must be a whole number, at least 1")
        devices.check_device(self.name, self.device)
        _ = self._prompts  # so that a wrong one is refused here
        if type(self).resources is ProcessingStage.resources:
            self.resources = Resources(cpus=1.0, gpus=0.0 if self.device == "cpu" else 1.0)
            self.spec = replace(self.spec, gpu_optional=self.device == "auto")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return Weights(self.model, self.revision, self.cache_dir, self.hf_token)

    @property
    def _prompts(self) -> tuple[Prompt | None, Prompt]:
        return None if self.system_prompt is None else Prompt(self.system_prompt), Prompt(self.prompt)

    @property
    def _read(self) -> list[str]:
        columns = [name for prompt in self._prompts if prompt is not None for name in prompt.columns]
        return list(dict.fromkeys(columns))

    def requires(self) -> dict[str, str]:
        return {"torch": "models", "transformers": "models", "PIL": "images", "simplejpeg": "images"}

    def inputs(self) -> Spec:
        return ["data"], list(dict.fromkeys([*self._read, self.images_field]))

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in _NO_ROWS}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the model to this host."""
        self.weights.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the model, unless another slot of this process has; the network is not used."""
        if self._qwen is not None:
            return
        folder = self.weights.folder()
        device = self._torch_device = devices.device_of(self.name, self.device, worker_metadata)
        self._memory = devices.MemoryShare(device, self.resources)
        key: Hashable = (type(self), folder, str(device))
        with devices.current(device):
            self._qwen = SHARED.hold(key, lambda: load_qwen(self.weights, folder, device))
        self._key = key
        free = (lambda: devices.emptied(device)) if device.type == "cuda" else None
        self._backoff = Backoff(f"{device} {hash(key):x}", free)

    def teardown(self) -> None:
        """Release the model; the last slot of the process frees its memory."""
        key, self._key, self._qwen = self._key, None, None
        if key is not None and SHARED.release(key):
            devices.emptied(self._torch_device)
        if self._memory is not None:
            self._memory.release()
            self._memory = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        self.setup()
        columns = {name: values(table, name) for name in self._read}
        images = pictures_of(table, self.images_field)
        answers: list[str | None] = [None] * table.num_rows
        faults: dict[int, MediaFault] = {}
        for first in range(0, table.num_rows, self.model_inference_batch_size):
            rows = range(first, min(first + self.model_inference_batch_size, table.num_rows))
            asked: dict[int, ImageQuestion] = {}
            for row in rows:
                values_of_row = {name: column[row] for name, column in columns.items()}
                if images[row] == [] or (columns and all(value is None for value in values_of_row.values())):
                    continue
                try:
                    asked[row] = self._question(images[row], values_of_row)
                except MediaError as error:
                    faults[row] = error.fault
            self._answer(asked, answers)
        kept = quarantined(task, faults, self.name)
        rest = [answer for row, answer in enumerate(answers) if row not in faults]
        return replace(kept, data=with_text(kept.to_arrow(), self.output_field, rest))

    def _question(self, images: list[Picture] | RequestError, row: dict[str, Any]) -> ImageQuestion:
        if isinstance(images, RequestError):
            raise MediaError(images.reason, str(images))
        pixels = []
        for image in images:
            if isinstance(image, str):
                raise MediaError("no picture", f"{image[:80]!r} is an address; give the bytes of the image")
            pixels.append(decode(image).pixels)
        system, prompt = self._prompts
        assert self._qwen is not None
        return self._qwen.prepared(pixels, prompt.filled(row), None if system is None else system.filled(row))

    def _answer(self, asked: dict[int, ImageQuestion], answers: list[str | None]) -> None:
        """Answer prepared questions, those of one length together."""
        lengths: dict[int, list[int]] = {}
        for row, question in asked.items():
            lengths.setdefault(len(question.tokens), []).append(row)
        for rows in lengths.values():
            parts = self._run([asked[row] for row in rows])
            for row, answer in zip(rows, parts, strict=True):
                answers[row] = answer

    def _run(self, questions: Sequence[ImageQuestion]) -> list[str]:
        assert self._qwen is not None
        assert self._backoff is not None
        qwen = self._qwen
        with (
            devices.current(self._torch_device),
            devices.threads(self.resources.cpus),
            devices.without_gradients(None),
        ):
            try:
                parts = self._backoff.run(lambda some: qwen.answers(some, self.max_tokens), questions)
            except Exception as error:  # raised again
                if not is_out_of_memory(error):
                    raise
                raise ResourceError(
                    f"{self.name}: the images of a row alone are too much for the memory of {self._torch_device}; give "
                    "fewer or smaller ones, as by sampling_fps= and height= of CaptionWindows"
                ) from error
        return [answer for part in parts for answer in part]
