"""Read responses of endpoints: any bytes and any structure give an answer or the fault of a row."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Mapping
from typing import Any

import orjson

from dcurate.endpoints.config import Answer
from dcurate.endpoints.errors import SAID, RequestError
from dcurate.redaction import redacted

#: Bytes that are read of a response, compressed and decompressed, besides vectors, and of one with an error status.
LARGEST, LARGEST_ERROR = 2**24, 2**16
#: Bytes of a vector as JSON: 10,000 numbers of 25 characters.
LARGEST_VECTOR = 250_000
#: Largest number of tokens of a response; larger counts are ignored.
_MOST_TOKENS = 10**9
_GZIP = 16 + zlib.MAX_WBITS


async def body_of(response: Any, limit: int) -> tuple[bytes, bool]:
    """Read the body of an aiohttp response that is not decompressed yet.

    Args:
        limit: number of bytes to read at most, compressed and decompressed.

    Returns:
        The first bytes of the body, at most `limit`, and whether they are all of it.

    Raises:
        RequestError: the encoding is not the one that was asked for, or the data is damaged.
    """
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise RequestError(
            f"{response.url}: the response has Content-Encoding {encoding[:40]!r}, and gzip was asked for",
            "unreadable answer",
            again=True,
        )
    unpacker = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    body, received = bytearray(), 0
    async for chunk in response.content.iter_any():
        received += len(chunk)
        try:
            body += unpacker.decompress(chunk, limit + 1 - len(body)) if unpacker is not None else chunk
        except zlib.error as error:
            raise RequestError(
                f"{response.url}: the response is not valid gzip ({error})", "unreadable answer", again=True
            ) from error
        if max(received, len(body)) > limit:
            return bytes(body[:limit]), False
    return bytes(body), True


def parsed(content: bytes, where: str) -> dict[str, Any]:
    """Parse the body of a response, which must be a JSON object.

    Args:
        where: description of the request, the beginning of errors.

    Raises:
        RequestError: it is not.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"{where}: the response is not JSON ({error})", "unreadable answer", again=True) from error
    if not isinstance(value, dict):
        raise RequestError(f"{where}: the response is not a JSON object", "unreadable answer", again=True)
    return value


def completion(response: Mapping[str, Any], where: str, *, samples: int, chat: bool) -> Answer:
    """Read the answer to a prompt.

    Args:
        response: body of ``/chat/completions``, or of ``/completions`` if not `chat`.
        where: description of the request, the beginning of errors.
        samples: number of answers that were asked for.

    Raises:
        RequestError: an answer is missing or has no text, or the structure differs.

    Examples:
        >>> completion({"choices": [{"message": {"content": "yes"}}]}, "model 'm'", samples=1, chat=True).texts
        ('yes',)
    """
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        raise RequestError(f"{where}: the answer has no choice", "empty answer", again=True)
    choices = choices[:samples]
    texts = tuple(_text(choice, where, chat) for choice in choices)
    return Answer(
        texts,
        token_count(response, "prompt_tokens"),
        token_count(response, "completion_tokens"),
        cut=sum(choice["finish_reason"] == "length" for choice in choices if "finish_reason" in choice),
    )


def _text(choice: Any, where: str, chat: bool) -> str:
    message = choice.get("message") if chat and isinstance(choice, dict) else choice
    if not isinstance(choice, dict) or not isinstance(message, dict | None):
        raise RequestError(f"{where}: a choice of the answer is not an object", "unreadable answer", again=True)
    message = message or {}
    ended, refusal = choice.get("finish_reason"), message.get("refusal")
    if ended == "content_filter":
        raise RequestError(f"{where}: the endpoint's filter withheld the answer", "filtered")
    text = message.get("content" if chat else "text")
    if isinstance(text, str):
        return text
    if isinstance(refusal, str) and refusal:
        raise RequestError(f"{where}: the model refused to answer: {redacted(refusal)[:SAID]}", "refused")
    because = f"; finish_reason is {ended[:40]!r}" if isinstance(ended, str) else ""
    raise RequestError(f"{where}: the answer has no text{because}", "empty answer")


def token_count(response: Mapping[str, Any], name: str) -> int:
    """The number of tokens that a response says it took; 0 where that is not a number of tokens.

    Examples:
        >>> [token_count({"usage": {"n": value}}, "n") for value in (7, -1, 1e308, "many")]
        [7, 0, 0, 0]
    """
    usage = response.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return int(count) if isinstance(count, int | float) and 0 <= count <= _MOST_TOKENS else 0


def transcription(response: Mapping[str, Any], where: str, *, says_language: bool = False) -> Answer:
    """Read an answer of ``/audio/transcriptions``: its text, its words as JSON if it has any, and the language.

    Args:
        response: body of the response, ``json`` or ``verbose_json``.
        where: description of the request, the beginning of errors.
        says_language: whether the language is asked for: it is the third text then, empty if the answer has none, and
            the second is empty if it has no words.

    Raises:
        RequestError: it has no text, or words without times.

    Examples:
        >>> transcription({"text": "hi", "words": [{"word": "hi", "start": 0, "end": 0.5}]}, "model 'm'").texts
        ('hi', '[{"word":"hi","start":0.0,"end":0.5}]')
        >>> transcription({"text": "hi", "language": "english"}, "model 'm'", says_language=True).texts
        ('hi', '', 'english')
    """
    text, words = response.get("text"), response.get("words")
    if not isinstance(text, str):
        raise RequestError(f"{where}: the answer has no text", "empty answer", again=True)
    usage = response.get("usage")
    tokens = token_count(response, "input_tokens") if isinstance(usage, dict) else 0
    timed = ""
    if words is not None:
        kept = [_spoken(word, where) for word in words] if isinstance(words, list) else [_spoken(None, where)]
        timed = orjson.dumps(kept).decode()
    if says_language:
        language = response.get("language")
        return Answer((text, timed, language if isinstance(language, str) else ""), tokens)
    return Answer((text, timed) if timed else (text,), tokens)


def _spoken(word: Any, where: str) -> dict[str, Any]:
    value = word if isinstance(word, dict) else {}
    times: list[Any] = [value.get("start"), value.get("end")]
    good = all(type(time) in (int, float) and 0 <= time < math.inf for time in times)
    if not good or not isinstance(value.get("word"), str):
        raise RequestError(f"{where}: a word of the answer has no text or times", "unreadable answer", again=True)
    return {"word": value["word"], "start": float(times[0]), "end": float(times[1])}


def vectors(response: Mapping[str, Any], where: str, count: int) -> tuple[bytes, ...]:
    """Read the vectors of an answer of ``/embeddings``, each as the bytes of its float32 numbers.

    Args:
        where: description of the request, the beginning of errors.
        count: number of texts.

    Raises:
        RequestError: it is not one vector of numbers for each text.
    """
    data = response.get("data")
    if not isinstance(data, list) or len(data) != count:
        number = len(data) if isinstance(data, list) else "no"
        raise RequestError(
            f"{where}: {number} vectors were returned for {count} texts", "unreadable answer", again=True
        )
    by_index: dict[int, bytes] = {}
    for place, entry in enumerate(data):
        index = entry.get("index", place) if isinstance(entry, dict) else place
        vector = _vector(entry.get("embedding")) if isinstance(entry, dict) else None
        if vector is None or type(index) is not int or not 0 <= index < count or index in by_index:
            raise RequestError(
                f"{where}: vector {place}, counted from 0, is not an index and numbers", "unreadable answer", again=True
            )
        by_index[index] = vector
    return tuple(by_index[index] for index in range(count))


def _vector(numbers: Any) -> bytes | None:
    """A vector as float32; None where it is not a list of finite numbers."""
    if not isinstance(numbers, list) or not numbers or not all(type(number) in (int, float) for number in numbers):
        return None
    try:
        vector = array("f", numbers)
    except OverflowError:
        return None
    return vector.tobytes() if all(map(math.isfinite, vector)) else None


def model_names(response: Mapping[str, Any]) -> list[str] | None:
    """The models in an answer of ``/models``; None where it is not a list of models."""
    data = response.get("data")
    if not isinstance(data, list):
        return None
    names = [entry.get("id") for entry in data if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str)]
