"""Web archives made on the fly, for tests."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Sequence

import lz4.frame
import zstandard

PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def http(body: bytes, *headers: str, status: int = 200) -> bytes:
    lines = [f"HTTP/1.1 {status} OK", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def page(html: str | bytes, *headers: str) -> bytes:
    body = html.encode() if isinstance(html, str) else html
    return http(body, *(headers or ["Content-Type: text/html; charset=utf-8"]))


def warc_record(content: bytes, url: str = "http://example.org/", kind: str = "response", **headers: str) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{abs(hash(url)) % 2**32:08x}-0000-4000-8000-000000000000>",
        "WARC-Date": "2024-02-03T04:05:06Z",
        "WARC-Target-URI": url,
        "Content-Type": "application/http; msgtype=response" if kind == "response" else "text/plain",
        **{name.replace("_", "-"): value for name, value in headers.items()},
        "Content-Length": str(len(content)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + content + b"\r\n\r\n"


def arc_record(content: bytes, url: str = "http://example.org/", mime: str = "text/html") -> bytes:
    return f"{url} 192.0.2.1 20240203040506 {mime} {len(content)}\n".encode() + content + b"\n"


def arc_file(records: Sequence[bytes], pack: str = "plain") -> bytes:
    about = b"1 0 Example\nURL IP-address Archive-date Content-type Archive-length\n"
    return archive([arc_record(about, "filedesc://example.arc", "text/plain"), *records], pack)


def archive(records: Sequence[bytes], pack: str = "gzip") -> bytes:
    """Each record a member of its own."""
    return b"".join(PACK[pack](record) for record in records)
