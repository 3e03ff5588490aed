"""Stages that ask a language model, and clients as a person subclasses them for NeMo Curator."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import dcurate
import dcurate.llm
from dcurate.compat.nemo.earlier import ARGUMENTS, earlier_names
from dcurate.endpoints.batch_client import BatchClient
from dcurate.endpoints.config import Answer, GenerationConfig, Messages, Question, Request
from dcurate.endpoints.errors import RequestError

#: Words in an error of a client of a person's own for which NeMo Curator asks again.
_RATE = ("429", "rate")
_CONNECTION = ("connection", "readerror", "brokenresourceerror")


@earlier_names(**ARGUMENTS)
class AsyncLLMClient(dcurate.llm.AsyncLLMClient):
    """dcurate's base of clients; any error that reads like a rate limit or a lost connection is retried, too.

    Examples:
        >>> import asyncio
        >>> class Busy(AsyncLLMClient):
        ...     calls = 0
        ...     def setup(self):
        ...         pass
        ...     async def _query_model_impl(self, *, messages, **_):
        ...         self.calls += 1
        ...         if self.calls == 1:
        ...             raise Exception("429: too many requests")
        ...         return ["answer"]
        >>> asyncio.run(Busy(base_delay=0).query_model(messages=[], model="any"))
        ['answer']
    """

    async def query_model(self, **asked: Any) -> list[str]:
        """Return the answers to a prompt; retry failures that may pass, then raise what the client raised."""
        try:
            return await super().query_model(**asked)
        except RequestError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None
            raise

    async def _tried(self, request: Question) -> Answer | RequestError:
        try:
            return await super()._tried(request)
        except Exception as error:  # of a person's client
            message = f"{type(error).__name__} {error}".lower()
            reason = "rate limit" if _has(message, _RATE) else "connection" if _has(message, _CONNECTION) else None
            if reason is None:
                raise
            failure = RequestError(str(error) or type(error).__name__, reason, again=True)
            failure.__cause__ = error
            return failure


AsyncLLMClient.register(dcurate.llm.AsyncOpenAIClient)


def _has(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


class GivenClient:
    """A client that a slot uses itself instead of a copy: the slot has a copy of the whole stage."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __deepcopy__(self, memo: Any) -> GivenClient:
        return self

    def asynchronous(self) -> Any:
        """The client, asynchronous."""
        return self.client.asynchronous()


class AsksModel:
    """A stage that asks a model, with a client of its own in each slot."""

    client: Any
    model_name: str
    generation_config: GenerationConfig | Mapping[str, Any] | None
    max_concurrent_requests: int | None = None
    _batch_client: BatchClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_batch_client"}

    def _check_model(self, when: str = "") -> None:
        if self.client is None:
            raise ValueError(f"{type(self).__name__} requires a non-None 'client' (AsyncLLMClient){when}")
        if not self.model_name:
            raise ValueError(f"{type(self).__name__} requires a non-empty 'model_name'{when}")

    def _open(self) -> BatchClient:
        if self._batch_client is None:
            client = self.client.asynchronous()
            most = self.max_concurrent_requests
            if most is not None and most < client.max_concurrent_requests:
                client = copy.copy(client)
                client.max_concurrent_requests = most
            self._batch_client = BatchClient(GivenClient(client))  # type: ignore[arg-type]
        return self._batch_client

    def _ask(self, messages: Sequence[Messages], configs: Sequence[GenerationConfig]) -> list[Answer | RequestError]:
        """The answer to each conversation, or its error."""
        requests = [
            Request(conversation, self.model_name, config)
            for conversation, config in zip(messages, configs, strict=True)
        ]
        outcomes = self._open().ask(requests)
        return [outcome for outcome in outcomes if outcome is not None]

    def teardown(self) -> None:
        """Close the client."""
        if self._batch_client is not None:
            self._batch_client.close()
            self._batch_client = None


def answered(outcome: Answer | RequestError) -> tuple[str, str]:
    """The text of an answer, or what went wrong."""
    return (outcome.texts[0] or "", "") if isinstance(outcome, Answer) else ("", str(outcome))
