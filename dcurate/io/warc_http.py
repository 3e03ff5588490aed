"""HTTP responses as archives hold them: status, headers, and the body as the server meant it."""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import zstandard

from dcurate.errors import ResourceError

#: A body that unpacks to more bytes than this is cut there, and said to be.
LARGEST_BODY = 2**28

_FOLDED = re.compile(r"\r?\n[ \t]+")
_STATUS = re.compile(rb"HTTP/\S{1,8} +(\d{3})")
_HEADER = re.compile(rb"(?:[^\s:]+[ \t]*:|[ \t]).*\n|\r?\n")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_IDENTITY = ("", "identity", "none", "utf-8", "binary", "8bit", "7bit")
_FEED = 2**13
_FEED_BROTLI = 2**6  # as a few bytes may expand to very many
_BROKEN = (EOFError, ValueError, zlib.error, zstandard.ZstdError)
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class Response(NamedTuple):
    """An HTTP response.

    Args:
        status: such as 200.
        headers: the values by the names in lower case; the first, where a name comes again.
        body: its content, with chunks and compression undone as far as that can be done.
        damage: why the body is not what was sent, if it is not.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    damage: str = ""


def response(message: bytes, largest: int = LARGEST_BODY) -> Response | None:
    r"""The HTTP response that a record holds; None if it holds none.

    Accepts ``Transfer-Encoding`` and ``Content-Encoding`` headers that servers or crawlers left over a decoded body. A
    truncated body gives as much as can be decoded.

    Args:
        message: status line, headers and body.
        largest: a body that unpacks to more bytes is cut there, and counts as damaged.

    Raises:
        ResourceError: the body is compressed with Brotli, and its package is not installed.

    Examples:
        >>> chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
        >>> response(chunked).body
        b'hi'
        >>> response(b"no HTTP") is None
        True
    """
    status = _STATUS.match(message)
    if status is None:
        return None
    end = _END_OF_HEAD.search(message)
    head, body = (message, b"") if end is None else (message[: end.start()], message[end.end() :])
    if end is None and b"\n" in message and not all(map(_HEADER.match, message.splitlines(keepends=True)[1:])):
        return Response(int(status[1]), {}, b"", "the HTTP header does not end")
    headers = header_fields(head.partition(b"\n")[2])
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _unchunked(body)
    codings = [coding.strip().lower() for coding in headers.get("content-encoding", "").split(",")]
    damage = ""
    for coding in reversed([coding for coding in codings if coding not in _IDENTITY]):
        body, damage = _decoded(body, coding, largest)
        if damage:
            break
    return Response(int(status[1]), headers, body, damage)


def header_fields(lines: bytes) -> dict[str, str]:
    r"""Header lines as values by names in lower case; the first value, where a name comes again.

    Examples:
        >>> header_fields(b"Content-Type: text/html;\r\n charset=utf-8\r\nno colon\r\n")
        {'content-type': 'text/html; charset=utf-8'}
    """
    text = _text(lines)
    if "\n " in text or "\n\t" in text:
        text = _FOLDED.sub(" ", text)
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def header_text(message: bytes) -> str | None:
    r"""The status line and headers of an HTTP response as they were sent; None if a record holds none.

    Examples:
        >>> header_text(b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\n<p>")
        'HTTP/1.1 200 OK\r\nServer: a'
    """
    if _STATUS.match(message) is None:
        return None
    end = _END_OF_HEAD.search(message)
    return _text(message if end is None else message[: end.start()])


def _text(lines: bytes) -> str:
    try:
        return lines.decode()
    except UnicodeDecodeError:
        return lines.decode("latin-1")


def _unchunked(body: bytes) -> bytes:
    """Join the chunks; return the body itself if it is not chunked, and the available part if it is truncated."""
    chunks: list[bytes] = []
    at = 0
    while size := _CHUNK_SIZE.match(body, at):
        end = size.end() + int(size[1], 16)
        chunks.append(body[size.end() : end])
        if end == size.end() or end > len(body):
            break
        at = end + 2 if body.startswith(b"\r\n", end) else end + body.startswith(b"\n", end)
    return b"".join(chunks) if at or chunks else body


def _decoded(body: bytes, coding: str, largest: int) -> tuple[bytes, str]:
    """The body with one compression undone, and why that could not be."""
    if coding in ("gzip", "x-gzip"):
        return _inflated(body, 31, largest) if body.startswith(_GZIP) else (body, "")
    if coding == "deflate":
        data, damage = _inflated(body, 15, largest)
        return _inflated(body, -15, largest) if damage and not data else (data, damage)
    if coding == "zstd":
        unpack = zstandard.ZstdDecompressor().decompressobj().decompress
        return _fed(body, unpack, largest)[:2] if body.startswith(_ZSTD) else (body, "")
    if coding == "br":
        return _fed(body, _unbrotli(), largest, feed=_FEED_BROTLI)[:2]
    return body, f"Content-Encoding {coding[:40]!r} is not known"


def _inflated(body: bytes, window: int, largest: int) -> tuple[bytes, str]:
    """Decompress the body with zlib, all members of gzip."""
    pieces, damage = [], ""
    size, at, more = 0, 0, bool(body)
    while more and not damage:
        unpacker = zlib.decompressobj(window)
        data, damage, fed = _fed(
            body, unpacker.decompress, largest - size, at=at, ended=partial(getattr, unpacker, "eof")
        )
        pieces.append(data)
        size += len(data)
        at = fed - len(unpacker.unused_data)
        more = window == 31 and unpacker.eof and body.startswith(_GZIP, at)
    return b"".join(pieces), damage if not size or size >= largest else ""


def _fed(
    body: bytes,
    decompress: Callable[[bytes], bytes],
    largest: int,
    *,
    feed: int = _FEED,
    at: int = 0,
    ended: Callable[[], bool] = bool,
) -> tuple[bytes, str, int]:
    """Return the decompressed body, the error or limit that stopped it, and how many bytes were consumed."""
    pieces, size, damage = [], 0, ""
    while at < len(body) and not ended():
        begin, at = at, min(at + feed, len(body))
        try:
            piece = decompress(body[begin:at])
        except _BROKEN as error:
            damage = "" if size else str(error)
            break
        pieces.append(piece)
        size += len(piece)
        if size > largest:
            return b"".join(pieces)[:largest], f"the body unpacks to more than {largest} bytes", at
    return b"".join(pieces), damage, at


def _unbrotli() -> Callable[[bytes], bytes]:
    try:
        brotli = importlib.import_module("brotli")
    except ImportError as error:
        raise ResourceError("a body is compressed with Brotli: pip install 'dcurate[html]'") from error
    unpacker = brotli.Decompressor()

    def unpack(data: bytes) -> bytes:
        try:
            return bytes(unpacker.process(data))
        except brotli.error as error:
            raise ValueError(str(error)) from error

    return unpack
