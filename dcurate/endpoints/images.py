"""Pictures in the messages to a vision model: as data URLs, which every OpenAI-compatible endpoint reads."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from dcurate.endpoints.errors import RequestError
from dcurate.errors import PipelineError
from dcurate.frames.columns import values
from dcurate.isolate.errors import MediaFault
from dcurate.media.refs import REF, fetch

#: A picture: the bytes of its file, or an address that the endpoint itself fetches.
Picture: TypeAlias = bytes | str

#: The beginnings of files that vision models read: https://platform.openai.com/docs/guides/images-vision
_KINDS: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_ADDRESSES: Final = ("http://", "https://", "data:")
#: Tokens that a picture counts as where a rate is limited: OpenAI's for a square of 1024 pixels are 765.
TOKENS: Final = 765


def media_type(data: bytes) -> str | None:
    """Return the media type of a picture by its first bytes; None for a file that vision models do not read.

    Examples:
        >>> media_type(b"RIFF....WEBPVP8 "), media_type(b"II*.")
        ('image/webp', None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS if data.startswith(start)), None)


def data_url(picture: Picture) -> str:
    """Return a picture as a URL that holds its bytes; an address stays as it is.

    Args:
        picture: the bytes of a PNG, JPEG, GIF or WebP file, or an address with http, https or data.

    Raises:
        RequestError: vision models do not read it.

    Examples:
        >>> data_url(b"GIF89a"), data_url("https://example.org/a.png")
        ('data:image/gif;base64,R0lGODlh', 'https://example.org/a.png')
    """
    if isinstance(picture, str):
        if not picture.lower().startswith(_ADDRESSES):
            raise RequestError(f"{picture[:80]!r} is not an address of a picture; give its bytes", "no picture")
        return picture
    kind = media_type(picture)
    if kind is None:
        detail = "it is empty" if not picture else f"it begins with {bytes(picture[:8])!r}"
        raise RequestError(
            f"a vision model reads PNG, JPEG, GIF and WebP, and this is not one of them: {detail}; convert it",
            "no picture",
        )
    return f"data:{kind};base64,{base64.b64encode(picture).decode()}"


def content(text: str, pictures: Sequence[Picture], detail: str | None = None) -> list[dict[str, Any]]:
    """Return the content of a user message: pictures in order, then the text.

    Args:
        text: the question about them; left out if empty.
        pictures: at least one.
        detail: ``"low"``, ``"high"`` or ``"auto"``, for endpoints that know it.

    Raises:
        RequestError: vision models do not read a picture.

    Examples:
        >>> content("What is this?", [b"GIF89a"])[0]["image_url"]["url"]
        'data:image/gif;base64,R0lGODlh'
        >>> content("What is this?", [b"GIF89a"])[1]
        {'type': 'text', 'text': 'What is this?'}
    """
    wanted = {} if detail is None else {"detail": detail}
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": data_url(picture), **wanted}} for picture in pictures
    ]
    return [*parts, {"type": "text", "text": text}] if text else parts


def characters(message: Mapping[str, Any]) -> int:
    """Return how long a message is for a limit of tokens, of which four characters are one; a picture is `TOKENS`.

    Examples:
        >>> characters({"content": "word"}), characters({"content": content("word", [b"GIF89a"])})
        (4, 3064)
    """
    held = message.get("content", "")
    if not isinstance(held, Sequence) or isinstance(held, str):
        return len(str(held))
    texts = sum(len(str(part.get("text", ""))) for part in held)
    return texts + 4 * TOKENS * sum("image_url" in part for part in held)


def pictures_of(table: Any, name: str) -> list[list[Picture] | RequestError]:
    """Return the pictures of each row, or why they cannot be had; nulls are left out.

    Args:
        table: an Arrow table.
        name: a column of bytes, addresses, references as in `media_ref`, Hugging Face's ``{bytes, path}``, or lists of
            bytes or addresses.

    Raises:
        DataError: the column does not exist, or a store does not answer.
        PipelineError: the column holds something else.

    Examples:
        >>> import pyarrow as pa
        >>> pictures_of(pa.table({"image": [b"GIF89a", None]}), "image")
        [[b'GIF89a'], []]
    """
    held = values(table, name)
    if any(isinstance(value, Mapping) and "offset" in value for value in held):
        return _fetched(table, name, held)
    rows: list[list[Picture] | RequestError] = []
    for value in held:
        several = map(_bytes, value if isinstance(value, list) else [value])
        pictures = [picture for picture in several if picture is not None]
        wrong = next((picture for picture in pictures if not isinstance(picture, bytes | str)), None)
        if wrong is not None:
            raise PipelineError(
                f"column {name!r} holds {type(wrong).__name__}, not pictures; name one of bytes, addresses, or lists"
            )
        rows.append(pictures)
    return rows


def _fetched(table: Any, name: str, held: Sequence[Any]) -> list[list[Picture] | RequestError]:
    """The pictures that rows refer to."""
    files = fetch(table.select([name]).rename_columns([REF]))
    return [
        []
        if value is None
        else RequestError(f"the picture cannot be had: {file.detail or file.reason}", file.reason)
        if isinstance(file, MediaFault)
        else [file]
        for value, file in zip(held, files, strict=True)
    ]


def _bytes(value: Any) -> Any:
    """The bytes of a picture in Hugging Face's layout, ``{"bytes": ..., "path": ...}``; anything else as it is."""
    return value.get("bytes") or value.get("path") if isinstance(value, Mapping) else value
