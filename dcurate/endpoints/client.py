"""Clients of language models: their interface, with shared retries and rate limits."""

from __future__ import annotations

import asyncio
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dcurate.endpoints.cache import AnswerCache
from dcurate.endpoints.config import (
    Answer,
    EmbeddingRequest,
    GenerationConfig,
    Messages,
    Question,
    Request,
    SpeechRequest,
)
from dcurate.endpoints.errors import RequestError
from dcurate.endpoints.rate_limit import Limits, RateLimiter
from dcurate.endpoints.settings import Configured
from dcurate.errors import PipelineError, ResourceError

#: Longest wait between two attempts, and the longest that is honoured when the server asks for it.
LONGEST_WAIT_S = 60.0
LONGEST_ASKED_S = 600.0

_PER_MILLION = 1e6


class ConversationFormatter(ABC):
    """Format a conversation as one text, for a client whose model needs a template."""

    in_recipes: ClassVar[bool] = True

    @abstractmethod
    def format_conversation(self, conv: Messages) -> str:
        """Return the text."""


class LLMClient(Configured, ABC):
    """A synchronous client; subclass it for your own endpoint.

    A stage asks it one question at a time. `AsyncLLMClient` asks many at once.

    Examples:
        >>> class Parrot(LLMClient):
        ...     def setup(self):
        ...         pass
        ...     def query_model(self, *, messages, model, conversation_formatter=None, generation_config=None):
        ...         return [messages[-1]["content"]]
        >>> Parrot().query_model(messages=[{"role": "user", "content": "Hi"}], model="any")
        ['Hi']
    """

    in_recipes: ClassVar[bool] = True

    @abstractmethod
    def setup(self) -> None:
        """Open resources; called on the worker."""

    @abstractmethod
    def query_model(
        self,
        *,
        messages: Messages,
        model: str,
        conversation_formatter: ConversationFormatter | None = None,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
    ) -> list[str]:
        """The answers to a prompt, as many as configured."""

    def asynchronous(self) -> AsyncLLMClient:
        """An asynchronous client that sends the same requests."""
        return _OneByOne(self)


@dataclass
class _Live:
    """State of a client on one event loop."""

    loop: asyncio.AbstractEventLoop
    turns: asyncio.Semaphore
    pace: RateLimiter
    dice: random.Random = field(default_factory=random.Random)


class AsyncLLMClient(Configured, ABC):
    """An asynchronous client; subclass it for your own endpoint.

    Write `setup` and `_query_model_impl`. The base class adds retries, rate limits, costs and the answer cache. Raise
    `RequestError` with ``again=True``, or any `OSError`, for failures worth a retry.

    Args:
        max_concurrent_requests: maximum number for each slot; ``stage.with_(num_workers=1)`` makes it that of the run.
        max_retries: attempts after the first, at rate limits, errors of the server and broken connections.
        base_delay_s: seconds before the second attempt. The delay doubles with each attempt, with 50 % jitter. If the
            server sends ``Retry-After``, all requests of the slot wait that long.
        requests_per_minute: limit of the stage; see `Limits`.
        tokens_per_minute: limit of the stage.
        prices: prices of models by name: for a million tokens of prompts, and of answers.
        cache: a folder for answers, or an `AnswerCache`.
        max_cost: the cost of all answers in the cache, over all runs that use it, in the currency of ``prices``; before
            a request could exceed it the run ends, and what was paid for is kept. It needs ``prices`` and ``cache``.
        max_total_tokens: the same for tokens of prompts and answers; it needs ``cache``.

    A stage whose client has limits runs in one slot, unless a number of slots is set; they share the limits.

    Raises:
        PipelineError: a number out of range.

    Examples:
        >>> class Parrot(AsyncLLMClient):
        ...     def setup(self):
        ...         pass
        ...     async def _query_model_impl(
        ...         self, *, messages, model, conversation_formatter=None, generation_config=None
        ...     ):
        ...         return [messages[-1]["content"]]
        >>> asyncio.run(Parrot().query_model(messages=[{"role": "user", "content": "Hi"}], model="any"))
        ['Hi']
    """

    in_recipes: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - NeMo Curator's arguments, then ours
        self,
        max_concurrent_requests: int = 5,
        max_retries: int = 3,
        base_delay_s: float = 1.0,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        cache: AnswerCache | str | None = None,
        max_cost: float | None = None,
        max_total_tokens: float | None = None,
    ) -> None:
        for name, number, least in (
            ("max_concurrent_requests", max_concurrent_requests, 1),
            ("max_retries", max_retries, 0),
            ("base_delay_s", base_delay_s, 0),
        ):
            if number < least:
                raise PipelineError(f"{type(self).__name__}: {name}={number!r} must be at least {least}")
        self.max_concurrent_requests = max_concurrent_requests
        self.max_retries = max_retries
        self.base_delay_s = base_delay_s
        self.limits = Limits(requests_per_minute, tokens_per_minute, max_cost, max_total_tokens)
        self.prices = dict(prices or {})
        self.cache = AnswerCache(cache) if isinstance(cache, str) else cache
        if max_cost is not None and not self.prices:
            raise PipelineError(f"max_cost={max_cost!r} needs prices=, for a million tokens of prompts and of answers")
        if self.limits.of_all and self.cache is None:
            raise PipelineError("max_cost and max_total_tokens need cache=, which keeps what was paid for")

    @abstractmethod
    def setup(self) -> None:
        """Open resources; called on the worker."""

    @abstractmethod
    async def _query_model_impl(
        self,
        *,
        messages: Messages,
        model: str,
        conversation_formatter: ConversationFormatter | None = None,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Ask once."""

    async def query_model(
        self,
        *,
        messages: Messages,
        model: str,
        conversation_formatter: ConversationFormatter | None = None,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Return ``n`` answers to a prompt; retry failures that may pass.

        Raises:
            RequestError: there is no answer, also after all attempts.
            ResourceError: no request will be answered: the key is refused, there is no such model.
        """
        return list((await self.ask(Request(messages, model, GenerationConfig.of(generation_config)))).texts)

    async def ask(self, request: Question) -> Answer:
        """Return the answer with its usage; see `query_model`.

        Raises:
            RequestError: there is no answer, also after all attempts.
            ResourceError: no request will be answered.
        """
        live = self._live()
        async with live.turns:
            answer = await self._answered(live, request)
            while isinstance(request, Request) and len(answer.texts) < request.config.samples:
                # Some servers answer once, however many answers are asked for.
                answer = answer.with_more(await self._answered(live, request.rest(len(answer.texts))))
            return answer

    async def _answered(self, live: _Live, request: Question) -> Answer:
        """Ask until there is an answer, or until a retry cannot help."""
        for attempt in itertools.count():
            taken = await live.pace.turn(request.size, request.most)
            answer = await self._tried(request)
            if isinstance(answer, Answer):
                live.pace.settle(taken, answer.prompt_tokens, answer.completion_tokens)
                return replace(answer, requests=1 + attempt, retries=attempt)
            live.pace.settle(taken, 0, 0)
            answer.attempts = attempt + 1
            if not answer.again or attempt >= self.max_retries:
                raise answer
            await self._wait(live, attempt, answer)
        raise AssertionError("a client asks until it has an answer or an error")

    async def models(self) -> list[str] | None:
        """The models that the endpoint has, or None if that cannot be known.

        Raises:
            RequestError: it does not answer.
            ResourceError: it refuses to answer.
        """
        return None

    async def close(self) -> None:
        """Close what was opened on the running event loop."""

    def cost(self, answer: Answer, model: str) -> float:
        """The cost of an answer; 0 without a price, or if nothing was sent."""
        prompt, completion = self.prices.get(model, (0.0, 0.0))
        paid = not answer.cached
        return paid * (answer.prompt_tokens * prompt + answer.completion_tokens * completion) / _PER_MILLION

    def asynchronous(self) -> AsyncLLMClient:
        """The client itself."""
        return self

    async def _ask_once(self, request: Question) -> Answer:
        """Send one request, and return its usage, if known."""
        if isinstance(request, EmbeddingRequest):
            raise PipelineError(f"{type(self).__name__} returns only text; embeddings need an AsyncOpenAIClient")
        if isinstance(request, SpeechRequest):
            raise PipelineError(f"{type(self).__name__} sends only text; recordings need an AsyncOpenAIClient")
        texts = await self._query_model_impl(
            messages=request.messages, model=request.model, generation_config=request.config
        )
        if not texts:
            raise RequestError(f"model {request.model!r}: the answer has no text", "empty answer", again=True)
        return Answer(tuple(texts))

    async def _tried(self, request: Question) -> Answer | RequestError:
        try:
            return await self._ask_once(request)
        except RequestError as error:
            return error
        except TimeoutError:
            return RequestError(f"model {request.model!r}: no answer in time", "timeout", again=True)
        except OSError as error:
            return RequestError(f"model {request.model!r}: {error or type(error).__name__}", "connection", again=True)

    async def _wait(self, live: _Live, attempt: int, failure: RequestError) -> None:
        """Before the next attempt."""
        if failure.after is not None:
            if failure.after > LONGEST_ASKED_S:
                raise ResourceError(
                    f"{failure}; the server asks to wait {failure.after:.0f} s, which is too long; resume the run later"
                )
            live.pace.hold(failure.after)
        seconds = min(LONGEST_WAIT_S, self.base_delay_s * 2.0**attempt)
        await asyncio.sleep(seconds * live.dice.uniform(0.5, 1.5))

    def _live(self) -> _Live:
        """State for the running event loop; state of a closed loop cannot be reused."""
        loop = asyncio.get_running_loop()
        live: _Live | None = vars(self).get("_at_work")
        if live is None or live.loop is not loop:
            live = _Live(loop, asyncio.Semaphore(self.max_concurrent_requests), RateLimiter(self.limits))
            self._at_work = live
        return live


class _OneByOne(AsyncLLMClient):
    """Send requests with a synchronous client, one at a time."""

    def __init__(self, client: LLMClient) -> None:
        super().__init__(max_concurrent_requests=1, max_retries=0)
        self.client = client

    def setup(self) -> None:
        self.client.setup()

    async def _query_model_impl(
        self,
        *,
        messages: Messages,
        model: str,
        conversation_formatter: ConversationFormatter | None = None,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
    ) -> list[str]:
        return await asyncio.to_thread(
            self.client.query_model,
            messages=messages,
            model=model,
            conversation_formatter=conversation_formatter,
            generation_config=generation_config,
        )
