"""The stage that translates segments."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dcurate.compat.nemo.llm_client import AsksModel, answered
from dcurate.compat.nemo.rows import stripped, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.compat.nemo.translating.backends import TranslationBackend, get_backend
from dcurate.compat.nemo.translating.prompts import language, load_prompt_template
from dcurate.compat.nemo.translating.reassembly import ERROR, TIME, TRANSLATED
from dcurate.compat.nemo.translating.segmentation import SEGMENTS
from dcurate.endpoints.config import GenerationConfig, Messages
from dcurate.llm.segmenting import is_translatable
from dcurate.llm.translate import CLOSES, OPENS

_log = logging.getLogger("dcurate.compat.nemo")


@dataclass(kw_only=True)
class SegmentTranslationStage(AsksModel, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Translate the rows of `SegmentationStage`; a segment that cannot be translated is empty, beside its error.

    Args:
        source_lang: ISO 639 code.
        target_lang: ISO 639 code.
        client: client that asks the model.
        model_name: name of the model at the endpoint.
        backend_type: ``"llm"``, or a name given to `register_backend`.
        backend_config: arguments of that backend.
        generation_config: how to answer.
        prompt_path: a YAML file with another question; see `load_prompt_template`.
        max_concurrent_requests: maximum number of concurrent requests of each slot; the client's own limit holds, too.
        health_check: translate a word first, so that a wrong address fails at once.
        dry_run: write the first prompts to the log instead.
        dry_run_log_count: how many.

    Raises:
        ValueError: an argument is missing.
    """

    name: str = "SegmentTranslationStage"
    source_lang: str
    target_lang: str
    client: Any = None
    model_name: str = ""
    backend_type: str = "llm"
    backend_config: dict[str, Any] = field(default_factory=dict)
    generation_config: GenerationConfig | None = None
    prompt_path: str | None = None
    max_concurrent_requests: int = 64
    health_check: bool = True
    dry_run: bool = False
    dry_run_log_count: int = 5

    _system_prompt: str = field(init=False, repr=False, default="")
    _user_template: str = field(init=False, repr=False, default="")
    _backend: TranslationBackend | None = field(init=False, repr=False, default=None)
    _initialized: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        self.model_name = self.model_name.strip()
        stripped(self, "source_lang", "target_lang")
        if self.backend_type == "llm":
            self._check_model(" when backend_type='llm'")

    def inputs(self) -> Spec:
        return ["data"], [SEGMENTS]

    def outputs(self) -> Spec:
        return ["data"], [TRANSLATED, TIME, ERROR]

    def setup(self, worker_metadata: Any = None) -> None:
        """Open the client or backend, and see whether it answers.

        Raises:
            RuntimeError: it does not.
        """
        if self._initialized:
            return
        self._system_prompt, self._user_template = load_prompt_template(self.prompt_path or "translate.yaml")
        if self.backend_type != "llm":
            self._backend = get_backend(self.backend_type, self.backend_config)
            self._backend.setup()
            if self.health_check and not self._backend.check_server():
                raise RuntimeError(f"{self.backend_type!r} backend health check failed: the service does not answer")
        elif self.health_check and not self.dry_run:
            [(answer, error)] = self._ask_model(["Hello"])
            if not answer:
                raise RuntimeError(f"LLM health check failed: {error or 'the answer is empty'}")
        self._initialized = True

    def teardown(self) -> None:
        """Close the client or backend."""
        super().teardown()
        if self._backend is not None:
            self._backend.close()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Translate each row."""
        frame = task.to_pandas().copy()
        segments = [segment or "" for segment in frame[SEGMENTS]]
        asked = [place for place, segment in enumerate(segments) if is_translatable(segment)]
        translated = [segment if segment.strip() else "" for segment in segments]
        errors = [""] * len(segments)
        seconds = [0.0] * len(segments)
        if self.dry_run:
            translated = [""] * len(segments)
            for segment in segments[: self.dry_run_log_count]:
                _log.info("dry run: %s", self._build_messages(segment) if self.backend_type == "llm" else segment)
            asked = []
        if asked:
            ask = self._ask_model if self.backend_type == "llm" else self._ask_backend
            started = time.monotonic()
            results = ask([segments[place] for place in asked])
            mean_seconds = (time.monotonic() - started) / len(asked)
            for place, (text, error) in zip(asked, results, strict=True):
                translated[place], errors[place], seconds[place] = text, error, mean_seconds
        columns: dict[str, Any] = {TRANSLATED: translated, TIME: seconds, ERROR: errors}
        return with_rows(task, frame.assign(**columns))

    def _ask_model(self, segments: list[str]) -> list[tuple[str, str]]:
        config = GenerationConfig.of(self.generation_config)
        outcomes = self._ask([self._build_messages(segment) for segment in segments], [config] * len(segments))
        return [(self._unwrap_translation(text), error) for text, error in map(answered, outcomes)]

    def _ask_backend(self, segments: list[str]) -> list[tuple[str, str]]:
        """All segments in one call; one by one if it fails."""
        try:
            return [(text, "") for text in self._translated(segments)]
        except Exception as error:
            _log.warning(
                "%r failed for %d segments: %s; they are tried one by one", self.backend_type, len(segments), error
            )
        return [_caught(lambda segment=segment: self._translated([segment])[0]) for segment in segments]  # type: ignore[misc]

    def _translated(self, segments: list[str]) -> list[str]:
        if self._backend is None:
            raise RuntimeError(f"Backend {self.backend_type!r} was not initialized")
        # Every backend has the asynchronous form; the synchronous one calls it.
        translations = TranslationBackend.translate_batch(self._backend, segments, self.source_lang, self.target_lang)
        if len(translations) != len(segments):
            raise RuntimeError(f"Backend returned {len(translations)} translations for {len(segments)} segments")
        return translations

    def _build_messages(self, segment: str) -> Messages:
        names = {"source_lang": language(self.source_lang), "target_lang": language(self.target_lang)}
        question = self._user_template.format(**names, src=segment)
        return [{"role": "system", "content": self._system_prompt}, {"role": "user", "content": question}]

    @staticmethod
    def _unwrap_translation(text: str) -> str:
        """The text between the last marks; all of it if there are none."""
        start, stop = text.rfind(OPENS), text.rfind(CLOSES)
        return text[start + 1 : stop if stop > start else None] if start >= 0 else text


def _caught(ask: Callable[[], str]) -> tuple[str, str]:
    try:
        return ask(), ""
    except Exception as error:
        return "", str(error)
