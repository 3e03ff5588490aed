"""Services of a person's own that translate."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from dcurate.endpoints.event_loop import Loop

T = TypeVar("T")

_LONGEST_WAIT_S = 60.0
_ATTEMPTS = 5

#: Services that NeMo Curator has and dcurate has not.
_MISSING = ("google", "aws", "nmt")

_registered: dict[str, type[TranslationBackend]] = {}


def run_async_safe(coro_fn: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for a coroutine, also where an event loop runs.

    Examples:
        >>> async def answer():
        ...     return 42
        >>> run_async_safe(answer)
        42
    """
    loop = Loop()
    try:
        return loop.run(coro_fn())
    finally:
        loop.close()


async def retry_with_backoff(
    fn: Callable[[], Awaitable[T]],
    *,
    max_retries: int = _ATTEMPTS,
    backend_name: str = "",
    non_retryable: tuple[type[BaseException], ...] = (),
) -> T:
    """Call `fn` until it succeeds, with longer and longer waits.

    Args:
        max_retries: how often in all.
        backend_name: not used.
        non_retryable: errors that are raised at once.

    Raises:
        ValueError: `max_retries` is below 1.
    """
    if max_retries < 1:
        raise ValueError(f"max_retries must be >= 1, got {max_retries}")
    for attempt in range(max_retries - 1):
        try:
            return await fn()
        except non_retryable:
            raise
        except Exception:
            await asyncio.sleep(min(random.uniform(0, 2**attempt), _LONGEST_WAIT_S))
    return await fn()


class TranslationBackend(ABC):
    """A service that translates; subclass it, and give it a name with `register_backend`.

    Args:
        max_concurrent_requests: maximum number of concurrent requests of each slot.
    """

    def __init__(self, max_concurrent_requests: int = 32) -> None:
        self.max_concurrent_requests = max_concurrent_requests
        self._semaphore: asyncio.Semaphore | None = None

    @abstractmethod
    def setup(self) -> None:
        """Open connections; called on the worker."""

    @abstractmethod
    def check_server(self) -> bool:
        """Whether the service answers."""

    @abstractmethod
    async def translate_batch_async(self, texts: list[str], source_lang: str, target_lang: str) -> list[str]:
        """The translation of each text."""

    def translate_batch(self, texts: list[str], source_lang: str, target_lang: str) -> list[str]:
        """The translation of each text."""
        return run_async_safe(lambda: self.translate_batch_async(texts, source_lang, target_lang))

    def close(self) -> None:
        """Close connections."""
        self._semaphore = None

    def _get_semaphore(self) -> asyncio.Semaphore:
        if self._semaphore is None:
            self._semaphore = asyncio.Semaphore(self.max_concurrent_requests)
        return self._semaphore


class ExecutorTranslationBackend(TranslationBackend):
    """A service with a synchronous call for one text, which runs on threads and is tried again if it fails."""

    backend_name: str = "backend"
    health_check_text: str = "Hello"
    health_check_source_lang: str = "en"
    health_check_target_lang: str = "es"

    @abstractmethod
    def _translate_single_sync(self, text: str, source_lang: str, target_lang: str) -> str:
        """The translation of one text."""

    def check_server(self) -> bool:
        """Whether a word can be translated."""
        languages = self.health_check_source_lang, self.health_check_target_lang
        try:
            return bool(self._translate_single_sync(self.health_check_text, *languages))
        except self._health_check_exceptions():
            return False

    async def translate_batch_async(self, texts: list[str], source_lang: str, target_lang: str) -> list[str]:
        """The translation of each text."""
        turns = asyncio.Semaphore(self.max_concurrent_requests)

        async def one(text: str) -> str:
            async def attempt() -> str:
                async with turns:
                    return await asyncio.to_thread(self._translate_single_sync, text, source_lang, target_lang)

            if not text or not text.strip():
                return ""
            return await retry_with_backoff(attempt, non_retryable=self._non_retryable_exceptions())

        return list(await asyncio.gather(*map(one, texts)))

    def _non_retryable_exceptions(self) -> tuple[type[BaseException], ...]:
        return ()

    def _health_check_exceptions(self) -> tuple[type[BaseException], ...]:
        return (Exception,)


def register_backend(name: str, backend_class: type[TranslationBackend]) -> None:
    """Give a backend of your own a name for ``backend_type``.

    Raises:
        TypeError: it is no subclass of `TranslationBackend`.
    """
    if not (isinstance(backend_class, type) and issubclass(backend_class, TranslationBackend)):
        raise TypeError(f"backend_class must be a subclass of TranslationBackend, got {backend_class!r}")
    _registered[name.lower()] = backend_class


def get_backend(backend_type: str, config: Mapping[str, Any]) -> TranslationBackend:
    """The backend of a name, made with some arguments.

    Raises:
        ValueError: there is none of that name.
        NotImplementedError: it is one of NeMo Curator's that dcurate has not.
    """
    name = backend_type.lower()
    if name in _registered:
        return _registered[name](**config)
    if name in _MISSING:
        raise NotImplementedError(
            f"dcurate translates by a language model: TranslationStage(backend_type='llm'); for {backend_type!r} "
            "subclass TranslationBackend, and give it a name with register_backend"
        )
    raise ValueError(f"Unknown backend type: {backend_type!r}; registered are: {', '.join(_registered) or 'none'}")
