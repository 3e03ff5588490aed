"""Request parameters besides the messages."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import orjson

from dcurate.endpoints.images import characters
from dcurate.errors import PipelineError, nearest

#: The messages to a chat model, each with a ``role`` and a ``content``.
Messages: TypeAlias = Sequence[Mapping[str, Any]]


def encoded(value: Any) -> bytes:
    """A value as JSON, the same for equal ones; lone surrogates become question marks.

    Examples:
        >>> encoded({"b": 1, "a": "x" + chr(0xD800)})
        b'{"a": "x?", "b": 1}'
        >>> encoded({"b": 1, "a": "x"})
        b'{"a":"x","b":1}'
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")


@dataclass
class GenerationConfig:
    """Generation parameters; None leaves a setting to the endpoint.

    Args:
        max_tokens: no answer has more.
        n: how many answers to one prompt.
        seed: for an endpoint that can repeat itself; None for answers that differ.
        stop: text, or texts, at which an answer ends.
        stream: accepted for NeMo Curator's sake; answers are not streamed.
        temperature: 0 for the likeliest answer.
        top_k: sent unchanged; vLLM, NIM and Ollama support it, OpenAI does not.
        top_p: the share of likely words that are drawn from.
        extra_kwargs: further fields of the request's body; they override the others.

    Raises:
        PipelineError: ``stream=True``, or ``n`` below 1.

    Examples:
        >>> GenerationConfig(max_tokens=64).body()
        {'max_tokens': 64, 'n': 1, 'seed': 0, 'temperature': 0.0, 'top_p': 0.95}
    """

    max_tokens: int | None = 2048
    n: int | None = 1
    seed: int | None = 0
    stop: str | list[str] | None = None
    stream: bool = False
    temperature: float | None = 0.0
    top_k: int | None = None
    top_p: float | None = 0.95
    extra_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.stream:
            raise PipelineError(
                "GenerationConfig: stream=True is not supported, answers are read as a whole; leave it out"
            )
        if self.n is not None and self.n < 1:
            raise PipelineError(f"GenerationConfig: n={self.n} must be at least 1")

    @property
    def samples(self) -> int:
        """The number of answers."""
        return self.n or 1

    def body(self) -> dict[str, Any]:
        """The request fields of this configuration."""
        names = ("max_tokens", "n", "seed", "stop", "temperature", "top_k", "top_p")
        settings = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return settings | (self.extra_kwargs or {})

    @classmethod
    def of(cls, given: GenerationConfig | Mapping[str, Any] | None) -> GenerationConfig:
        """Make one from a mapping of its fields, or the default.

        Raises:
            PipelineError: an unknown field.
        """
        if isinstance(given, GenerationConfig):
            return given
        names = list(cls.__dataclass_fields__)
        for name in given or ():
            if name not in names:
                raise PipelineError(
                    f"GenerationConfig has no {name!r}{nearest(name, names)}; or give it in extra_kwargs"
                )
        return cls(**(given or {}))


@dataclass(frozen=True)
class Request:
    """The request for one row.

    Args:
        messages: the messages sent to the model.
        model: its name, as the endpoint knows it.
        config: the generation parameters.
    """

    messages: Messages
    model: str
    config: GenerationConfig

    @property
    def key(self) -> bytes:
        """A key that is the same for the same messages, model and settings, in any process."""
        asked = [self.model, self.messages, self.config.body()]
        return hashlib.blake2b(encoded(asked), digest_size=20).digest()

    @property
    def most(self) -> float:
        """Maximum number of answer tokens."""
        return float(self.config.max_tokens or math.inf) * self.config.samples

    def rest(self, done: int) -> Request:
        """The request for the remaining answers; with another seed, so that they differ."""
        seed = None if self.config.seed is None else self.config.seed + done
        return replace(self, config=replace(self.config, n=self.config.samples - done, seed=seed))

    @property
    def repeats(self) -> bool:
        """Whether a repeated request gives the same answer: a seed is set."""
        return self.config.seed is not None

    @property
    def size(self) -> int:
        """Approximate number of message tokens: a quarter of their characters, OpenAI's rule of thumb."""
        return 1 + sum(map(characters, self.messages)) // 4


@dataclass(frozen=True)
class EmbeddingRequest:
    """An embedding request for a few rows: a vector for each text.

    Args:
        texts: at least one.
        model: its name, as the endpoint knows it.
        dimensions: numbers in a vector, for a model that lets one choose.
    """

    texts: tuple[str, ...]
    model: str
    dimensions: int | None = None

    #: A vector has no tokens, and is the same each time.
    most: ClassVar[float] = 0.0
    repeats: ClassVar[bool] = True

    @property
    def key(self) -> bytes:
        """A key that is the same for the same texts and model, in any process."""
        asked = ["embeddings", self.model, self.dimensions, self.texts]
        return hashlib.blake2b(encoded(asked), digest_size=20).digest()

    @property
    def size(self) -> int:
        """Approximate number of tokens of the texts."""
        return 1 + sum(map(len, self.texts)) // 4


@dataclass(frozen=True)
class SpeechRequest:
    """The request for what is spoken in a recording.

    Args:
        audio: the recording, as a file.
        model: its name, as the endpoint knows it.
        language: the language, ISO 639-1; None if the model finds it out.
        words: whether words and their times are asked for.
        says_language: whether the language that was heard is asked for.
    """

    audio: bytes
    model: str
    language: str | None = None
    words: bool = True
    says_language: bool = False

    #: Sound has no tokens that are known before, and the temperature is 0.
    most: ClassVar[float] = 0.0
    repeats: ClassVar[bool] = True
    size: ClassVar[int] = 1

    @property
    def key(self) -> bytes:
        """A key that is the same for the same sound and settings, in any process."""
        sound = hashlib.blake2b(self.audio, digest_size=20).hexdigest()
        asked = ["transcriptions", self.model, self.language, self.words, sound]
        asked += ["says_language"] if self.says_language else []
        return hashlib.blake2b(encoded(asked), digest_size=20).digest()

    def form(self) -> tuple[bytes, str]:
        """The body of the request and its type, the same for the same request."""
        fields = {"model": self.model, "temperature": "0"}
        fields |= {"language": self.language} if self.language else {}
        fields["response_format"] = "verbose_json" if self.words or self.says_language else "json"
        fields |= {"timestamp_granularities[]": "word"} if self.words else {}
        boundary = f"dcurate-{self.key.hex()}"
        names = [f'name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
        names.append('name="file"; filename="sound.wav"\r\nContent-Type: audio/wav\r\n\r\n')
        parts = [f"--{boundary}\r\nContent-Disposition: form-data; {name}" for name in names]
        body = "\r\n".join(parts).encode("utf-8", "replace") + self.audio + f"\r\n--{boundary}--\r\n".encode()
        return body, f"multipart/form-data; boundary={boundary}"


#: Any request.
Question: TypeAlias = Request | EmbeddingRequest | SpeechRequest


@dataclass(frozen=True)
class Answer:
    """A response.

    Args:
        texts: the answers, as many as were asked for.
        prompt_tokens: number of prompt tokens over all requests, as counted by the endpoint.
        completion_tokens: likewise.
        requests: number of requests sent, including failed ones.
        retries: number of them that repeat a failed one.
        cut: answers that ended at ``max_tokens``.
        cached: whether nothing was sent.
        vectors: embeddings, each as the bytes of its float32 numbers.
    """

    texts: tuple[str, ...]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 1
    retries: int = 0
    cut: int = 0
    cached: bool = False
    vectors: tuple[bytes, ...] = ()

    def with_more(self, more: Answer) -> Answer:
        """This answer and another, as one.

        Examples:
            >>> both = Answer(("a",), requests=2, retries=1).with_more(Answer(("b",), prompt_tokens=3))
            >>> both.texts, both.prompt_tokens, both.requests, both.retries
            (('a', 'b'), 3, 3, 1)
        """
        summed = ("prompt_tokens", "completion_tokens", "requests", "retries", "cut")
        return replace(
            self, texts=self.texts + more.texts, **{name: getattr(self, name) + getattr(more, name) for name in summed}
        )
