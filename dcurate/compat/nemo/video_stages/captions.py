"""Windows of clips, their previews and captions, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcurate.compat.nemo.llm_client import AsksModel, answered
from dcurate.compat.nemo.missing import MissingError
from dcurate.compat.nemo.stages import Spec
from dcurate.compat.nemo.temporary import make_pipeline_temporary_dir
from dcurate.compat.nemo.verbose import log_progress
from dcurate.compat.nemo.video_stages.films import (
    ClipRecoder,
    FilmLooker,
    clips_of_file,
    looked_at,
    making_previews,
    said,
)
from dcurate.compat.nemo.video_stages.tasks import CaptionWindow, Clip, VideoTask, VideoTaskStage
from dcurate.endpoints.config import GenerationConfig
from dcurate.endpoints.images import content
from dcurate.endpoints.openai_client import AsyncOpenAIClient
from dcurate.isolate.errors import MediaFault
from dcurate.video.captions import CaptionWindows
from dcurate.video.clips.encoders import encoders_of

_log = logging.getLogger("dcurate.compat.nemo")

#: What a vision model is asked, by variant of the prompt.
_PROMPTS = {
    "default": "Elaborate on the visual and narrative elements of the video in detail.",
    "av": (
        "The video depicts the view from a camera mounted on a car as it is driving. Pay special attention to the "
        "motion of the cars, including the primary car whose point-of-view we observe in the video. Also note "
        "important factors that would relate to driving safety like the relative positions of pedestrians, lane "
        "markers, road signs, traffic signals, and any aggressive driving behavior of other vehicles. Also pay "
        "attention to interesting landmarks and describe them in detail."
    ),
    "av-surveillance": (
        "The video depicts the view from a surveillance camera. Pay special attention to the motion of the cars and "
        "other important factors that would relate to driving safety like the relative positions of pedestrians, lane "
        "markers, road signs, traffic signals, and any aggressive driving behavior of vehicles. Also pay attention to "
        "interesting landmarks and describe them in detail."
    ),
}
_LONGER = "The output should be longer than the provided input caption."
_ENHANCE_PROMPTS = {
    "default": (
        f"You are a chatbot that enhances video caption inputs, adding more color and details to the text. {_LONGER}"
    ),
    "av-surveillance": (
        "You are a chatbot that enhances video captions from vehicle dashboard cameras or surveillance cameras. Add "
        f"more details and generate a summary from the original text. {_LONGER}"
    ),
}
_STAGE2 = "Please refine this caption: "
_NANO = "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL"
#: Names of vision models at the endpoint, and of language models.
_VISION = {
    "qwen2.5": "Qwen/Qwen2.5-VL-7B-Instruct",
    "qwen3": "Qwen/Qwen3-VL-8B-Instruct",
    "nemotron": f"{_NANO}-BF16",
    "nemotron-bf16": f"{_NANO}-BF16",
    "nemotron-fp8": f"{_NANO}-FP8",
    "nemotron-nvfp4": f"{_NANO}-NVFP4-QAD",
    "nemotron-3-nano-omni": "nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning",
}
_LANGUAGE = {"qwen2.5": "Qwen/Qwen2.5-14B-Instruct", "qwen3": "Qwen/Qwen3-14B"}


def _prompt(prompts: Mapping[str, str], variant: str, text: str | None) -> str:
    if text is not None:
        return text
    if variant not in prompts:
        raise ValueError(f"Invalid prompt variant: {variant}")
    return prompts[variant]


@dataclass
class CaptionPreparationStage(VideoTaskStage):
    """Add windows to clips, with the frames that a vision model gets, as `dcurate.video.CaptionWindows` has them.

    Args:
        model_variant: name of the model.
        prompt_variant: ``"default"``, ``"av"`` or ``"av-surveillance"``.
        prompt_text: what the model is asked, instead of that.
        verbose: not used.
        sampling_fps, window_size, remainder_threshold: see `dcurate.video.CaptionWindows`.
        preprocess_dtype: without effect: frames are JPEG files.
        generate_previews: whether windows are files, too, for `PreviewStage`.

    Raises:
        ValueError: there is no such variant of the prompt, or a number is out of range.
    """

    model_variant: str = "qwen2.5"
    prompt_variant: str = "default"
    prompt_text: str | None = None
    verbose: bool = False
    sampling_fps: float = 2.0
    window_size: int = 256
    remainder_threshold: int = 128
    preprocess_dtype: str = "float32"
    generate_previews: bool = True
    name: str = "caption_preparation"
    _stages: tuple[CaptionWindows, ClipRecoder] | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stages": None}

    def inputs(self) -> Spec:
        return [], []

    def outputs(self) -> Spec:
        return [], []

    def setup(self, worker_metadata: Any = None) -> None:
        """Check the settings."""
        _prompt(_PROMPTS, self.prompt_variant, self.prompt_text)
        windows = CaptionWindows(self.window_size, self.remainder_threshold, self.sampling_fps, height=None)
        self._stages = windows, ClipRecoder(fallback_codec="h264" if encoders_of("h264") else "vp9")

    def teardown(self) -> None:
        """End the child processes."""
        for stage in self._stages or ():
            stage.teardown()
        self._stages = None

    def process(self, task: VideoTask) -> VideoTask:
        """Add the windows; a clip that cannot be decoded gets none, and the reason in ``errors``."""
        if self._stages is None:
            self.setup()
        assert self._stages is not None
        prompt = _prompt(_PROMPTS, self.prompt_variant, self.prompt_text)
        for clip in task.data.clips:
            if clip.buffer is None:
                _log.warning("No buffer found for clip %s", clip.uuid)
                clip.errors["buffer"] = "empty"
                continue
            [answer] = looked_at(self._stages[0], [clip.buffer])
            if isinstance(answer, MediaFault):
                _log.error("Error in caption preparation of clip %s: %s", clip.uuid, said(answer))
                clip.errors[f"{self.model_variant}_input"] = said(answer)
                continue
            files = self._files(clip.buffer, [times for _, times, *_ in answer]) if self.generate_previews else {}
            for frames, _, number, start, end in answer:
                asked = {self.model_variant: {"prompt": prompt, "frames": frames}}
                clip.windows.append(CaptionWindow(start, end, mp4_bytes=files.get(number), llm_inputs=asked))
        return task

    def _files(self, clip: bytes, times: list[list[float]]) -> dict[int, bytes]:
        """The windows as files, by number."""
        if len(times) == 1:
            return {0: clip}
        assert self._stages is not None
        starts = [seconds[0] for seconds in times]
        with make_pipeline_temporary_dir(sub_dir="windowing") as folder:
            path = folder / "input"
            path.write_bytes(clip)
            spans = list(zip(starts, [*starts[1:], times[-1][-1] + 1.0], strict=True))
            answers = clips_of_file(self._stages[1], path, spans)
        return {number: answer[0] for number, answer in enumerate(answers) if not isinstance(answer, MediaFault)}


@dataclass
class PreviewStage(VideoTaskStage):
    """Add a preview to each window: an animated WebP.

    Args:
        target_fps: frames a second.
        target_height: height in pixels.
        verbose: not used.
        num_cpus_per_worker: without effect: a slot takes one CPU.
        compression_level: effort, 0 to 6.
        quality: quality, 0 to 100.
    """

    target_fps: float = 1.0
    target_height: int = 240
    verbose: bool = False
    num_cpus_per_worker: float = 4.0
    compression_level: int = 6
    quality: int = 50
    _looker: FilmLooker | None = field(default=None, init=False, repr=False, compare=False)

    def inputs(self) -> Spec:
        return ["data"], ["clips"]

    def outputs(self) -> Spec:
        return ["data"], ["clips"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looker": None}

    def teardown(self) -> None:
        """End the child process."""
        if self._looker is not None:
            self._looker.teardown()
            self._looker = None

    def process(self, task: VideoTask) -> VideoTask:
        """Add the previews."""
        video = task.data
        for name, least in (("framerate", self.target_fps), ("height", self.target_height)):
            value = getattr(video.metadata, name)
            if value is not None and value < least:
                _log.warning("Video %s has %s %s < %s: previews are worse", video.input_video, name, value, least)
        if self._looker is None:
            self._looker = making_previews(self.target_fps, self.target_height, self.quality, self.compression_level)
        windows = [window for clip in video.clips for window in clip.windows if window.mp4_bytes]
        answers = looked_at(self._looker, [window.mp4_bytes or b"" for window in windows])
        for window, answer in zip(windows, answers, strict=True):
            if isinstance(answer, MediaFault):
                _log.error("A window of %s has no preview: %s", video.input_video, said(answer))
            else:
                window.webp_bytes = answer[1]
        return task


class AsksCaptions(AsksModel):
    """A stage that asks the endpoint of ``OPENAI_BASE_URL``, which has the GPU and the model."""

    max_output_tokens: int
    _address: str | None

    def _note_endpoint(self) -> None:
        """Keep the address, as the environment of workers may be another."""
        self._address = os.environ.get("OPENAI_BASE_URL")

    def open_endpoint(self, models: Mapping[str, str], variant: str) -> None:
        """Look for the model and the endpoint.

        Raises:
            ValueError: the model does not exist.
            MissingError: there is no endpoint.
        """
        if variant not in models:
            raise ValueError(f"Unsupported model variant: {variant}")
        if not self._address:
            raise MissingError(
                f"dcurate does not run vLLM itself: start `vllm serve {models[variant]}`, and set OPENAI_BASE_URL to "
                "its address, such as http://localhost:8000/v1"
            )
        self.client = AsyncOpenAIClient(base_url=self._address, max_concurrent_requests=64)
        self.model_name = models[variant]

    def texts_of(self, questions: list[list[dict[str, Any]]]) -> list[tuple[str, str]]:
        """Return the answer to each conversation, and what went wrong."""
        config = GenerationConfig(max_tokens=self.max_output_tokens, temperature=0.1, top_p=0.001)
        return [answered(outcome) for outcome in self._ask(questions, [config] * len(questions))] if questions else []


@dataclass
class CaptionGenerationStage(AsksCaptions, VideoTaskStage):
    """Ask a vision model for a caption of each window, at the endpoint that ``OPENAI_BASE_URL`` names.

    A window for which there is no answer has no caption, and its clip the reason in ``errors``.

    Args:
        model_dir, fp8, disable_mmcache, vllm_kwargs, caption_batch_size: without effect: the endpoint has the model.
        model_variant: name of the model, as for `CaptionPreparationStage`.
        max_output_tokens: tokens of a caption at most.
        verbose: whether captions are logged.
        generate_stage2_caption: whether the model is asked again, to refine its caption.
        stage2_prompt_text: what it is asked then, before the caption.
    """

    model_dir: str = "models/qwen"
    model_variant: str = "qwen2.5"
    caption_batch_size: int = 16
    fp8: bool = False
    max_output_tokens: int = 512
    disable_mmcache: bool = False
    vllm_kwargs: dict[str, Any] = field(default_factory=dict)
    verbose: bool = False
    generate_stage2_caption: bool = False
    stage2_prompt_text: str | None = None
    name: str = "caption_generation"

    def __post_init__(self) -> None:
        self._note_endpoint()

    def inputs(self) -> Spec:
        return ["data"], ["clips"]

    def outputs(self) -> Spec:
        return ["data"], ["clips"]

    def setup(self, worker_metadata: Any = None) -> None:
        """Look for the endpoint."""
        self.open_endpoint(_VISION, self.model_variant)

    def process(self, task: VideoTask) -> VideoTask:
        """Add the captions."""
        asked: list[tuple[Clip, int, CaptionWindow]] = []
        for clip in task.data.clips:
            if not clip.windows:
                _log.warning("Clip %s has no windows", clip.uuid)
                clip.errors["windows"] = "empty"
            for number, window in enumerate(clip.windows):
                if window.llm_inputs.get(self.model_variant) is None:
                    clip.errors[f"window-{number}"] = f"no_{self.model_variant}_input"
                else:
                    asked.append((clip, number, window))
        windows = [window.llm_inputs.pop(self.model_variant) for *_, window in asked]
        answers = self.texts_of([_about(window["prompt"], window["frames"]) for window in windows])
        if self.generate_stage2_caption:
            refine = _STAGE2 if self.stage2_prompt_text is None else self.stage2_prompt_text
            again = [number for number, (text, _) in enumerate(answers) if text]
            refined = self.texts_of([_about(refine + answers[n][0], windows[n]["frames"]) for n in again])
            for number, answer in zip(again, refined, strict=True):
                answers[number] = answer
        for (clip, number, window), (text, error) in zip(asked, answers, strict=True):
            window.mp4_bytes = None
            if error:
                clip.errors[f"window-{number}"] = error
                continue
            window.caption[self.model_variant] = text
            if self.verbose:
                log_progress("Caption of clip %s, window %d: %s", clip.uuid, number, text)
        return task


def _about(prompt: str, frames: list[bytes]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content(prompt, frames)}]


@dataclass
class CaptionEnhancementStage(AsksCaptions, VideoTaskStage):
    """Ask a language model for a longer caption of each window, at the endpoint that ``OPENAI_BASE_URL`` names.

    Args:
        model_dir, model_batch_size, fp8, vllm_kwargs: without effect: the endpoint has the model.
        model_variant: ``"qwen2.5"`` or ``"qwen3"``.
        captioning_model_variant: model of the captions.
        prompt_variant: ``"default"`` or ``"av-surveillance"``.
        prompt_text: what the model is asked, instead of that.
        max_output_tokens: tokens of a caption at most.
        verbose: whether captions are logged.

    Raises:
        ValueError: there is no such variant of the prompt.
    """

    model_dir: str = "models/qwen"
    model_variant: str = "qwen2.5"
    captioning_model_variant: str = "qwen2.5"
    prompt_variant: str = "default"
    prompt_text: str | None = None
    model_batch_size: int = 128
    fp8: bool = False
    vllm_kwargs: dict[str, Any] = field(default_factory=dict)
    max_output_tokens: int = 512
    verbose: bool = False
    name: str = "caption_enhancement"

    def __post_init__(self) -> None:
        self._note_endpoint()
        self.prompt = _prompt(_ENHANCE_PROMPTS, self.prompt_variant, self.prompt_text)

    def inputs(self) -> Spec:
        return ["data"], ["clips"]

    def outputs(self) -> Spec:
        return ["data"], ["clips"]

    def setup(self, worker_metadata: Any = None) -> None:
        """Look for the endpoint."""
        self.open_endpoint(_LANGUAGE, self.model_variant)

    def process(self, task: VideoTask) -> VideoTask:
        """Add the captions."""
        asked: list[tuple[Clip, int, CaptionWindow]] = []
        for clip in task.data.clips:
            if not clip.windows:
                clip.errors["windows"] = "empty"
            captioned = [
                (clip, n, w) for n, w in enumerate(clip.windows) if w.caption.get(self.captioning_model_variant)
            ]
            asked += captioned
        questions = [
            [
                {"role": "system", "content": self.prompt},
                {"role": "user", "content": window.caption[self.captioning_model_variant]},
            ]
            for *_, window in asked
        ]
        for (clip, number, window), (text, error) in zip(asked, self.texts_of(questions), strict=True):
            if error:
                clip.errors[f"window-{number}"] = error
                continue
            window.enhanced_caption["qwen_lm"] = text
            if self.verbose:
                log_progress("Longer caption of clip %s, window %d: %s", clip.uuid, number, text)
        return task
