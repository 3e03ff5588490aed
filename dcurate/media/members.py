"""From the bytes at a reference to the file that they hold, by the kind of container."""

from __future__ import annotations

import base64
import binascii
import bz2
import re
import struct
import zlib
from io import BytesIO
from typing import Any

from dcurate.io.json_parse import row_of
from dcurate.io.warc import Record, iterate_records
from dcurate.io.warc_http import response
from dcurate.isolate.errors import MediaError
from dcurate.media.names import compression_of, container_of
from dcurate.media.zips import IN_EXTRA, widened

_LOCAL, _DESCRIPTOR = struct.Struct("<4s5H3I2H"), b"PK\7\x08"
_DATA_URL = re.compile(r"data:[^,;]*(;[^,;]*)*;base64,", re.IGNORECASE)


def is_sequential(path: str, member: str | None) -> bool:
    """Whether references into a container are ranges of its unpacked content, which is read in turn.

    Examples:
        >>> is_sequential("a.tar.gz", "x.png"), is_sequential("a.tar.gz", None), is_sequential("a.warc.gz", "x")
        (True, False, False)
    """
    return member is not None and bool(compression_of(path)) and container_of(path) != "warc"


def content_of(path: str, member: str | None, data: bytes, limit: int) -> bytes:
    """Return the file that the bytes at a reference hold.

    Args:
        path: path of the file or container.
        member: in the container; None for a file of its own.
        data: the bytes at the reference.
        limit: bytes that the file may have unpacked.

    Raises:
        MediaError: they hold none, or a larger one.

    Examples:
        >>> content_of("a.jsonl", "image", b'{"image": "aGk="}', 10)
        b'hi'
    """
    if member is None:
        return data
    match container_of(path):
        case "zip":
            return _unzipped(data, limit)
        case "warc":
            return _payload(data, member, limit)
        case "lines":
            return decoded_value(data, member, limit)
    return data


def decoded_value(line: bytes, column: str, limit: int) -> bytes:
    """Return the file that a line of JSON holds in base64.

    Raises:
        MediaError: it holds none.
    """
    try:
        value: Any = row_of(line)
    except ValueError as error:
        raise MediaError("bad line", str(error)) from error
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return from_base64(value, limit)


def from_base64(value: Any, limit: int) -> bytes:
    r"""Return the bytes that a text has in base64, also with line ends or as a ``data:`` URL.

    Raises:
        MediaError: it is no base64, or longer than `limit`.

    Examples:
        >>> from_base64("aG\nk=", 10), from_base64("data:image/png;base64,aGk=", 10)
        (b'hi', b'hi')
    """
    if not isinstance(value, str):
        raise MediaError("no bytes", "the value is not text" if value is not None else "the value is missing")
    if value[:5].lower() == "data:" and (prefix := _DATA_URL.match(value)):
        value = value[prefix.end() :]
    if len(value) > limit * 2:
        raise MediaError("too large", f"{len(value):,} characters of base64, for a limit of {limit:,} bytes")
    try:
        text = "".join(value.split()) if any(space in value for space in " \r\n\t") else value
        text = text.rstrip("=")
        if "-" in text or "_" in text:
            text = text.replace("-", "+").replace("_", "/")
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise MediaError("bad base64", str(error)) from error
    if len(data) > limit:
        raise MediaError("too large", f"{len(data):,} bytes, more than the limit of {limit:,}")
    return data


def _unzipped(data: bytes, limit: int) -> bytes:
    """Unpack a member of a zip archive from its local header and packed content."""
    if len(data) < _LOCAL.size:
        raise MediaError("damaged", "the zip archive has no header there")
    signature, _, flags, method, _, _, crc, size, unpacked, name, extra = _LOCAL.unpack_from(data)
    if signature != b"PK\3\4":
        raise MediaError("damaged", "the zip archive has no header there")
    if flags & 1:
        raise MediaError("encrypted", "the member of the zip archive has a password")
    packed = memoryview(data)[_LOCAL.size + name + extra :]
    if method == 0:
        if size == IN_EXTRA:
            at = _LOCAL.size + name
            _, size = widened(data[at : at + extra], unpacked, size)
        packed = _described(data, _LOCAL.size + name + extra) if flags & 8 else packed[:size]
    try:
        content = _inflated(packed, method, limit)
    except (zlib.error, OSError, EOFError) as error:
        raise MediaError("damaged", f"the member of the zip archive cannot be unpacked: {error}") from error
    if not flags & 8 and zlib.crc32(content) != crc:
        raise MediaError("damaged", "the checksum of the member of the zip archive is wrong")
    return content


def _described(data: bytes, start: int) -> memoryview:
    """The content of an uncompressed member whose length and checksum follow it.

    Members with damaged entries may follow, so the length is searched for. The last match counts, as the content may
    contain matches, too.
    """
    view, end, position, crc = memoryview(data), start, data.find(_DESCRIPTOR, start), 0
    last = -1
    while position >= 0:
        crc, end = zlib.crc32(view[end:position], crc), position
        for form in ("<4s3I", "<4sI2Q"):
            if len(data) - end >= struct.calcsize(form):
                _, expected, stored, _ = struct.unpack_from(form, data, end)
                if stored == end - start and expected == crc:
                    last = end
        position = data.find(_DESCRIPTOR, end + 1)
    if last < 0:
        raise MediaError("damaged", "the zip archive does not say where the member ends")
    return view[start:last]


def _inflated(packed: memoryview, method: int, limit: int) -> bytes:
    if method == 0:
        return bytes(packed)
    if method == 8:
        unpacker: Any = zlib.decompressobj(-15)
    elif method == 12:
        unpacker = bz2.BZ2Decompressor()
    else:
        raise MediaError("unknown compression", f"method {method} of zip archives")
    content = unpacker.decompress(packed, limit + 1)
    if len(content) > limit:
        raise MediaError("too large", f"more than the limit of {limit:,} bytes when unpacked")
    if not unpacker.eof:
        raise MediaError("truncated", "the member of the zip archive ends too soon")
    return bytes(content)


def _payload(data: bytes, member: str, limit: int) -> bytes:
    """Return the body of a record of a web archive."""
    for record in iterate_records(BytesIO(data)):
        if isinstance(record, Record) and member in (record.id, record.url):
            http_response = response(record.content, limit + 1) if record.kind in ("response", "revisit") else None
            body = record.content if http_response is None else http_response.body
            if len(body) > limit:
                raise MediaError("too large", f"more than the limit of {limit:,} bytes")
            return body
    raise MediaError("damaged", f"the archive has no record {member!r} there")
