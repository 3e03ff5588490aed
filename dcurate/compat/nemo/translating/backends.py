"""Services of a person's own that translate."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from dcurate.endpoints.event_loop import Loop

#: Services that NeMo Curator has and dcurate has not.
_MISSING = ("google", "aws", "nmt")

_registered: dict[str, type[TranslationBackend]] = {}


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
        loop = Loop()  # of its own, so that it works where another one runs
        try:
            return loop.run(self.translate_batch_async(texts, source_lang, target_lang))
        finally:
            loop.close()

    def close(self) -> None:
        """Close connections."""
        self._semaphore = None

    def _get_semaphore(self) -> asyncio.Semaphore:
        if self._semaphore is None:
            self._semaphore = asyncio.Semaphore(self.max_concurrent_requests)
        return self._semaphore


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
