"""Clients of OpenAI-compatible HTTP endpoints: OpenAI, NIM, vLLM, Ollama, TGI, llama.cpp, SGLang.

Requests are sent with aiohttp and not with the ``openai`` package: `benchmarks/README.md` says why.
"""

from __future__ import annotations

import asyncio
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dcurate.core.extras import needed
from dcurate.core.redirects import opened_session
from dcurate.endpoints.cache import AnswerCache
from dcurate.endpoints.client import AsyncLLMClient, ConversationFormatter, LLMClient
from dcurate.endpoints.config import (
    Answer,
    EmbeddingRequest,
    GenerationConfig,
    Messages,
    Question,
    Request,
    SpeechRequest,
    encoded,
)
from dcurate.endpoints.errors import RequestError, failed
from dcurate.endpoints.event_loop import Loop
from dcurate.endpoints.response import (
    LARGEST,
    LARGEST_ERROR,
    LARGEST_VECTOR,
    body_of,
    completion,
    model_names,
    parsed,
    token_count,
    transcription,
    vectors,
)
from dcurate.endpoints.settings import Secret
from dcurate.errors import PipelineError, ResourceError, nearest
from dcurate.redaction import is_secret, without_values

OPENAI_URL = "https://api.openai.com/v1"
#: Sent if there is no key; many self-hosted servers need none.
_NO_KEY = "none"
#: Characters of a key that is looked for in answers, and what looks like one.
_LEAST_SECRET, _KEY = 8, re.compile(r"(?!.*://)(?=.*\d)\S+")


class AsyncOpenAIClient(AsyncLLMClient):
    """Call an OpenAI-compatible endpoint, with concurrent requests.

    Args:
        max_concurrent_requests: maximum number for each slot.
        max_retries: attempts after the first, at rate limits, server errors and broken connections.
        base_delay_s: seconds before the second attempt; the delay doubles with each attempt.
        base_url: up to ``/v1``; by default ``OPENAI_BASE_URL`` of the environment, or OpenAI's own.
        api_key: by default from the environment of the workers, see ``api_key_variable``. A key given here travels
            with the pipeline; it appears in no print, log, report or fingerprint.
        api_key_variable: the environment variable that holds the key.
        timeout_s: time that one request may take.
        chat: False to continue texts (``/completions``), for a model that was not trained to chat.
        default_headers: sent with each request; their values are hidden like a key.
        requests_per_minute, tokens_per_minute, prices, cache, max_cost, max_total_tokens: see `AsyncLLMClient`.

    Raises:
        PipelineError: an invalid address, or a number out of range.

    Examples:
        >>> AsyncOpenAIClient(base_url="http://localhost:8000/v1", api_key="sk-123").api_key
        Secret('***')
    """

    def __init__(  # noqa: PLR0913 - NeMo Curator's arguments, then ours
        self,
        max_concurrent_requests: int = 5,
        max_retries: int = 3,
        base_delay_s: float = 1.0,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        api_key_variable: str = "OPENAI_API_KEY",
        timeout_s: float = 120.0,
        chat: bool = True,
        default_headers: Mapping[str, str] | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        cache: AnswerCache | str | None = None,
        max_cost: float | None = None,
        max_total_tokens: float | None = None,
    ) -> None:
        super().__init__(
            max_concurrent_requests,
            max_retries,
            base_delay_s,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            prices=prices,
            cache=cache,
            max_cost=max_cost,
            max_total_tokens=max_total_tokens,
        )
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise PipelineError(f"base_url={base_url!r} is not a URL; give one such as 'http://localhost:8000/v1'")
        if base_url is not None and "@" in base_url.split("/")[2]:
            raise PipelineError(
                "base_url holds a password, which would show in errors; give api_key= or default_headers="
            )
        if not timeout_s > 0:
            raise PipelineError(f"timeout_s={timeout_s!r} must be above zero")
        self.base_url = base_url
        self.api_key = Secret(api_key) if isinstance(api_key, str) else api_key
        self.api_key_variable = api_key_variable
        self.timeout_s = timeout_s
        self.chat = chat
        self.default_headers = {name: Secret(value) for name, value in (default_headers or {}).items()}

    @property
    def address(self) -> str:
        """The URL of the endpoint."""
        return (self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")

    def requires(self) -> dict[str, str]:
        """Return the library that it needs."""
        return {"aiohttp": "llm"}

    def setup(self) -> None:
        """Load libraries, and find the key.

        Raises:
            ResourceError: aiohttp is not installed, or there is no key for OpenAI.
        """
        self._aiohttp = needed("aiohttp", type(self).__name__, "llm")
        self._key()

    def _key(self) -> str:
        if self.api_key is not None:
            return self.api_key.reveal()
        key = os.environ.get(self.api_key_variable, "")
        if not key and self.address == OPENAI_URL:
            raise ResourceError(
                f"{OPENAI_URL} needs an API key: set {self.api_key_variable} where the workers run, or name another "
                "endpoint with base_url="
            )
        return key or _NO_KEY

    def _secrets(self) -> tuple[str, ...]:
        """The secrets that requests send, without words that answers may contain."""
        headers = {name: value.reveal() for name, value in self.default_headers.items()}
        keys = [value for name, value in headers.items() if is_secret(name) or _KEY.fullmatch(value)]
        return tuple(value for value in (self._key(), *keys) if len(value) >= _LEAST_SECRET)

    async def _query_model_impl(
        self,
        *,
        messages: Messages,
        model: str,
        conversation_formatter: ConversationFormatter | None = None,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
    ) -> list[str]:
        return list((await self._completed(Request(messages, model, GenerationConfig.of(generation_config)))).texts)

    async def _ask_once(self, request: Question) -> Answer:
        if isinstance(request, EmbeddingRequest):
            return await self._embedded(request)
        if isinstance(request, SpeechRequest):
            return await self._transcribed(request)
        return await self._completed(request)

    async def _completed(self, request: Request) -> Answer:
        if self.chat:
            prompt: Any = request.messages
            path, name = "/chat/completions", "messages"
        else:
            prompt = "\n\n".join(message["content"] for message in request.messages)
            path, name = "/completions", "prompt"
        body = {"model": request.model, name: prompt, **request.config.body()}
        response = await self._post(path, body, request.model)
        answer = completion(response, self._where(request.model), samples=request.config.samples, chat=self.chat)
        # An endpoint that repeats the request would put the key into the output.
        return replace(answer, texts=tuple(without_values(text, self._secrets()) for text in answer.texts))

    async def _embedded(self, request: EmbeddingRequest) -> Answer:
        asked: dict[str, Any] = {"model": request.model, "input": request.texts, "encoding_format": "float"}
        if request.dimensions is not None:
            asked["dimensions"] = request.dimensions
        count = len(request.texts)
        response = await self._post("/embeddings", asked, request.model, LARGEST + count * LARGEST_VECTOR)
        embedded = vectors(response, self._where(request.model), count)
        return Answer((), token_count(response, "prompt_tokens"), vectors=embedded)

    async def _transcribed(self, request: SpeechRequest) -> Answer:
        body, kind = request.form()
        response = await self._post("/audio/transcriptions", body, request.model, content_type=kind)
        answer = transcription(response, self._where(request.model), says_language=request.says_language)
        return replace(answer, texts=tuple(without_values(text, self._secrets()) for text in answer.texts))

    async def models(self) -> list[str] | None:
        status, headers, content = await self._exchange("GET", "/models", None)
        if status in (404, 405):
            return None
        if status >= 400:
            raise failed(status, headers, content, self.address)
        return model_names(parsed(content, self.address))

    async def close(self) -> None:
        session, loop = vars(self).pop("_session", None), vars(self).pop("_session_loop", None)
        if session is not None and loop is asyncio.get_running_loop():
            await session.close()

    def _where(self, model: str) -> str:
        return f"model {model!r} at {self.address}"

    async def _post(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        model: str,
        limit: int = LARGEST,
        content_type: str | None = None,
    ) -> dict[str, Any]:
        content = body if isinstance(body, bytes) else encoded(body)
        status, headers, content = await self._exchange("POST", path, content, limit, content_type)
        if status == 404:
            raise await self._no_such_model(model, failed(status, headers, content, self._where(model)))
        if status >= 400:
            raise failed(status, headers, content, self._where(model))
        return parsed(content, self._where(model))

    async def _no_such_model(self, model: str, error: Exception) -> Exception:
        """The error, with a suggestion if the endpoint lists its models."""
        try:
            names = await self.models()
        except (RequestError, ResourceError):
            return error
        return ResourceError(f"{error}{nearest(model, names)}") if names and model not in names else error

    async def _exchange(
        self, method: str, path: str, content: bytes | None, limit: int = LARGEST, content_type: str | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; return status, headers and content of the response.

        Raises:
            RequestError: it cannot be sent, or the response is damaged or larger than `limit` bytes.
        """
        url = self.address + path
        headers = {} if content_type is None else {"Content-Type": content_type}
        try:
            async with self._opened().request(method, url, data=content, headers=headers) as response:
                failed = response.status >= 400
                body, complete = await body_of(response, LARGEST_ERROR if failed else limit)
                if not complete and not failed:
                    raise RequestError(f"{url}: the response has more than {limit:,} bytes", "answer too large")
                return response.status, response.headers, body
        except TimeoutError as error:
            raise RequestError(
                f"{url}: no answer within timeout_s={self.timeout_s:g}", "timeout", again=True
            ) from error
        except (self._aiohttp.ClientError, ValueError) as error:  # ValueError: an invalid address
            detail = str(error) or type(error).__name__
            raise RequestError(f"{url} cannot be reached: {detail}", "connection", again=True) from error

    def _opened(self) -> Any:
        """A session on the running loop, with persistent connections."""
        loop, session = vars(self).get("_session_loop"), vars(self).get("_session")
        if session is not None and not session.closed and loop is asyncio.get_running_loop():
            return session
        if "_aiohttp" not in vars(self):
            self.setup()
        aiohttp = self._aiohttp
        self._session_loop = asyncio.get_running_loop()
        self._session = opened_session(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
            auto_decompress=False,  # aiohttp would unpack a small response without a limit
            headers={
                "Authorization": f"Bearer {self._key()}",
                "Content-Type": "application/json",
                "Accept-Encoding": "gzip",
                **{name: value.reveal() for name, value in self.default_headers.items()},
            },
            # trust_env=True of aiohttp would read the environment in a thread before each request.
            proxy=_proxy_of(self.address),
        )
        return self._session


class OpenAIClient(LLMClient):
    """Call an OpenAI-compatible endpoint, one request after the other.

    Its arguments are those of `AsyncOpenAIClient`.

    Examples:
        >>> OpenAIClient(base_url="http://localhost:8000/v1").timeout_s
        120.0
    """

    def __init__(  # noqa: PLR0913 - NeMo Curator's arguments, then ours
        self,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        api_key_variable: str = "OPENAI_API_KEY",
        timeout_s: float = 120.0,
        chat: bool = True,
        default_headers: Mapping[str, str] | None = None,
        max_retries: int = 3,
        base_delay_s: float = 1.0,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        cache: AnswerCache | str | None = None,
        max_cost: float | None = None,
        max_total_tokens: float | None = None,
    ) -> None:
        self.inner = AsyncOpenAIClient(
            1,
            max_retries,
            base_delay_s,
            base_url=base_url,
            api_key=api_key,
            api_key_variable=api_key_variable,
            timeout_s=timeout_s,
            chat=chat,
            default_headers=default_headers,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            prices=prices,
            cache=cache,
            max_cost=max_cost,
            max_total_tokens=max_total_tokens,
        )

    def requires(self) -> dict[str, str]:
        """Return the library that it needs."""
        return self.inner.requires()

    @property
    def timeout_s(self) -> float:
        """Timeout of one request in seconds."""
        return self.inner.timeout_s

    def setup(self) -> None:
        self.inner.setup()

    def query_model(
        self,
        *,
        messages: Messages,
        model: str,
        conversation_formatter: ConversationFormatter | None = None,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
    ) -> list[str]:
        """The answers to a prompt.

        Raises:
            RequestError: there is no answer, also after all attempts.
            ResourceError: no request will be answered.
        """
        loop = Loop()
        try:
            return loop.run(self._queried(messages, model, generation_config))
        finally:
            loop.close()

    async def _queried(
        self, messages: Messages, model: str, config: GenerationConfig | Mapping[str, Any] | None
    ) -> list[str]:
        try:
            return await self.inner.query_model(messages=messages, model=model, generation_config=config)
        finally:
            await self.inner.close()

    def asynchronous(self) -> AsyncLLMClient:
        return self.inner


def _proxy_of(address: str) -> str | None:
    """The proxy for a URL from the environment, if any."""
    parts = urllib.parse.urlsplit(address)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
