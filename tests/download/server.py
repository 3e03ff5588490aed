"""A real HTTP server of files, that can fail on request as servers do."""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    time: float

    @property
    def start(self) -> int:
        """The first byte asked for."""
        return int(self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])


@dataclass
class Files:
    """What the server serves, and how it fails.

    Attributes:
        content: bytes by path.
        faults: for a path, what becomes of the next requests: a status, ``("cut", bytes)`` to break the connection off
            after so many of the body, ``("slow", seconds)`` a piece of 1,000 bytes, ``("silent", seconds)`` before
            anything, ``("packed", 0)`` to say that the content is encoded, or None to serve well.
        retry_after: header sent with a status of `faults`.
        ranges: whether ranges are served.
        tags: whether ETags are sent.
        headers: further headers by path.
        together: how many requests must be here at once, one time, before any is answered; a minute is waited for them.
    """

    content: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, deque] = field(default_factory=dict)
    headers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    retry_after: str = ""
    ranges: bool = True
    tags: bool = True
    together: int = 0
    address: str = ""
    busy: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, path: str, *faults: object) -> None:
        """What becomes of the next requests of a path."""
        self.faults[path] = deque(faults)

    def starts(self, path: str) -> list[int]:
        """The first bytes that were asked for of a file, request by request."""
        return [one.start for one in self.asked if one.path == path]

    def url(self, path: str) -> str:
        return f"{self.address}{path}"


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    files: Files
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        files = self.files
        with files.lock:
            files.asked.append(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, time.monotonic()))
            files.busy += 1
            files.busiest = max(files.busiest, files.busy)
            queue = files.faults.get(self.path)
            fault = queue.popleft() if queue else None
        self.counted = True
        end = time.monotonic() + 60
        while files.busiest < files.together and time.monotonic() < end:
            time.sleep(0.005)
        try:
            self._serve(fault)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Count as served; before the last bytes are sent, since the client may go on as soon as it has them."""
        with self.files.lock:
            self.files.busy -= self.counted
        self.counted = False

    def _serve(self, fault: Any) -> None:
        if isinstance(fault, tuple) and fault[0] == "silent":
            time.sleep(fault[1])
        data = self.files.content.get(self.path)
        if isinstance(fault, int) or data is None:
            self._status(fault if isinstance(fault, int) else 404)
            return
        start = self._start(data)
        if start >= len(data) > 0 and start:
            self._status(416, f"bytes */{len(data)}")
            return
        stop = self._stop(data)
        partial = start or stop < len(data)
        self.send_response(206 if partial else 200)
        body = data[start:stop]
        self.send_header("Content-Length", str(len(body)))
        if self.files.tags:
            self.send_header("ETag", _etag(data))
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        if fault == ("packed", 0):
            self.send_header("Content-Encoding", "gzip")
        for name, value in self.files.headers.get(self.path, ()):
            self.send_header(name, value)
        self.end_headers()
        if fault is None or fault == ("packed", 0):
            self.wfile.write(body)
            return
        kind, amount = fault
        if kind == "cut":
            self.wfile.write(body[:amount])
            self.wfile.flush()
            self.close_connection = True
            return
        for place in range(0, len(body), 1000):
            if place + 1000 >= len(body):
                self._leave()
            self.wfile.write(body[place : place + 1000])
            self.wfile.flush()
            time.sleep(amount)

    def _start(self, data: bytes) -> int:
        wanted = self.headers.get("Range")
        if not wanted or not self.files.ranges or self.headers.get("If-Range", _etag(data)) != _etag(data):
            return 0
        return int(wanted.removeprefix("bytes=").partition("-")[0])

    def _stop(self, data: bytes) -> int:
        last = self.headers.get("Range", "").partition("-")[2] if self.files.ranges else ""
        return min(len(data), int(last) + 1) if last else len(data)

    def _status(self, status: int, content_range: str = "") -> None:
        self.send_response(status)
        if self.files.retry_after and status != 404:
            self.send_header("Retry-After", self.files.retry_after)
        if content_range:
            self.send_header("Content-Range", content_range)
        for name, value in self.files.headers.get(self.path, ()):
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore a client that went away."""


def certified(folder: Path) -> Path:
    """Write the key of a server on this machine and its certificate, which vouches for itself, into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / "certificate.pem"
    path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    return path


@contextmanager
def served(certificate: Path | None = None) -> Iterator[Files]:
    """A server of files on this machine, for as long as a ``with`` statement lasts; by HTTPS with a certificate."""
    files = Files()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"files": files}))
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    files.address = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def dripping(head: bytes, drop: bytes) -> Iterator[str]:
    """A server that answers with a head, and then a few bytes every hundredth of a second, for as long as it can."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.recv(65536)
                self.request.sendall(head)
                while True:
                    self.request.sendall(drop)
                    time.sleep(0.01)

    class Server(ThreadingTCPServer):
        daemon_threads, block_on_close = True, False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@contextmanager
def answering(answers: Mapping[str, bytes]) -> Iterator[str]:
    """A server that answers a request for a path with raw bytes, and then hangs up."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, IndexError):
                path = self.request.recv(65536).split()[1].decode()
                self.request.sendall(answers.get(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))

    class Server(ThreadingTCPServer):
        daemon_threads, block_on_close = True, False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
