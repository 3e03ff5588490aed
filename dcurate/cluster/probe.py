"""Check whether a Dask scheduler may answer at an address, before Dask waits for one."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NoReturn, TypeVar

from distributed import Security
from distributed.comm import connect
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.registry import backends
from distributed.core import send_recv

from dcurate.errors import RunError

#: Schemes of Dask that need a host and a port; those where the scheduler sends the first message.
BY_PORT, GREETS = ("tcp", "tls", "ws", "wss"), ("tcp",)
#: Seconds of silence after which a server is asked whether it is a web server.
SILENT_S = 2.0
#: Seconds in which a worker must accept a connection, and of how many hosts one is tried.
REACH_S, MAX_HOSTS = 2.0, 16
#: Upper limit of a scheduler's first message, in bytes.
GREETING_BYTES = 1 << 20

#: How a client of WebSocket begins; the key may be any 16 bytes.
_UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: scheduler\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\n\r\n"
)

_T = TypeVar("_T")

_ADVICE = "give the address that 'dask scheduler' prints, such as 'tcp://10.0.0.1:8786'"


def check_answers(address: str, timeout_s: float, security: Security | None = None) -> None:
    """Refuse an address at which no scheduler answers, as soon as that is known.

    Args:
        address: the address.
        timeout_s: longest time, in seconds.
        security: certificates; by default those of Dask's configuration.

    Raises:
        RunError: it cannot be an address, there is no such host, nothing listens there, or something else does.
    """
    scheme, host, port = _parsed(address)
    if scheme == "inproc":
        return
    end = time.monotonic() + timeout_s
    certificates = Security() if security is None else security
    try:
        if scheme in ("tls", "wss"):
            _check_certificate(certificates)
        if scheme in BY_PORT:
            with _within(timeout_s, lambda: socket.create_connection((host, port), timeout_s)) as connection:
                if scheme in GREETS:
                    _check_greeting(address, connection, end)
                elif scheme == "ws":
                    _check_upgrade(address, connection, end)
        kind = _within(timeout_s, lambda: asyncio.run(_kind_of(address, end - time.monotonic(), certificates)))
        if kind != "Scheduler":
            _refuse(address, f"it is the address of a {kind}", _ADVICE)
    except socket.gaierror as error:
        _refuse(address, f"host {host!r} is not known ({error.strerror})")
    except TimeoutError:
        _refuse(address, f"nothing answers within {timeout_s:g} seconds")
    except TypeError as error:
        raise RunError(
            f"cannot connect to {shown(address)!r} ({error}); if it needs certificates, give them: "
            "--tls-ca-file, --tls-cert and --tls-key, or AttachedCluster(address, security=Security(...))"
        ) from error
    except RunError:
        raise
    except Exception as error:  # of any library that talks in this way
        _refuse(address, getattr(error, "strerror", None) or str(error) or type(error).__name__)


def all_reachable(addresses: Iterable[str], seconds: float = REACH_S) -> bool:
    """Whether this process can connect to workers; tries one worker on each of a few hosts.

    A process outside of the workers' network cannot, such as on a laptop with a forwarded port to a scheduler on
    Kubernetes.
    """
    places = {host: port for host, port in map(_place, addresses) if host}
    with ThreadPoolExecutor(MAX_HOSTS) as threads:
        return all(threads.map(lambda place: _connects(place, seconds), list(places.items())[:MAX_HOSTS]))


def _place(address: str) -> tuple[str, int]:
    """Host and port of an address; an empty host where the scheme has none."""
    scheme, location = parse_address(address)
    host, port = parse_host_port(location) if scheme in BY_PORT else ("", 0)
    return host, int(port or 0)


def _connects(place: tuple[str, int], seconds: float) -> bool:
    with suppress(OSError), socket.create_connection(place, seconds):
        return True
    return False


def _check_certificate(security: Security) -> None:
    """Raise Dask's error for TLS without a certificate before connecting.

    Raises:
        TypeError: there is none.
    """
    if security.get_connection_args("client")["ssl_context"] is None:
        raise TypeError("TLS expects a certificate, and none is given")


def shown(address: str) -> str:
    """Return an address without user and password.

    Examples:
        >>> shown("me:secret@10.0.0.1:8786"), shown("tcp://10.0.0.1:8786")
        ('10.0.0.1:8786', 'tcp://10.0.0.1:8786')
    """
    return re.sub(r"^([^/]*://)?.*@", r"\1", address, flags=re.DOTALL)


def _refuse(address: str, why: str, advice: str = "start one with 'dask scheduler', or " + _ADVICE) -> NoReturn:
    raise RunError(f"no Dask scheduler answers at {shown(address)!r}: {why}; {advice}")


def _parsed(address: str) -> tuple[str, str, int]:
    """Return scheme, host and port; empty host and port where the scheme has none."""
    scheme, location = parse_address(address)
    if scheme in ("http", "https"):
        _refuse(address, "it is the address of a web page, such as Dask's dashboard", _ADVICE)
    if scheme not in backends:
        _refuse(address, f"Dask knows no scheme {scheme!r}, but {', '.join(map(repr, sorted(backends)))}", _ADVICE)
    if scheme not in BY_PORT:
        return scheme, "", 0
    if "@" in location:
        _refuse(address, "addresses of schedulers have no user and password", _ADVICE)
    try:
        host, port = parse_host_port(location)
    except ValueError:
        _refuse(address, "it has no host and port", _ADVICE)
    if not host or any(sign.isspace() or not sign.isprintable() for sign in host) or not 0 < port < 1 << 16:
        _refuse(address, "it has no host and port that can be", _ADVICE)
    return scheme, host, port


def _within(seconds: float, function: Callable[[], _T]) -> _T:
    """Call a function with a time limit; it continues in the background if it takes longer, as a DNS lookup may.

    Raises:
        TimeoutError: it took longer.
    """
    results: list[_T] = []
    raised: list[Exception] = []

    def call() -> None:
        try:
            results.append(function())
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not results:
        raise TimeoutError
    return results[0]


async def _kind_of(address: str, seconds: float, security: Security) -> str:
    """Ask which type of Dask server answers."""
    return await asyncio.wait_for(_asked(address, seconds, security), seconds)


async def _asked(address: str, seconds: float, security: Security) -> str:
    comm = await connect(address, timeout=seconds, **security.get_connection_args("client"))
    try:
        answer = await send_recv(comm, op="identity")
        return str(answer["type"])
    finally:
        await comm.close()


def _check_greeting(address: str, connection: socket.socket, end: float) -> None:
    """Refuse a server that does not send first, as a scheduler does, or sends something else."""
    head = b""
    connection.settimeout(max(0.01, min(SILENT_S, end - time.monotonic())))
    with suppress(TimeoutError):
        head = _read(connection, 8)
    if not head:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        connection.settimeout(max(0.01, end - time.monotonic()))
        head = _read(connection, 8)
    if head.startswith(b"HTTP/"):
        _refuse(address, "a web server does, which may be Dask's dashboard", _ADVICE)
    if len(head) < 8 or struct.unpack("<Q", head)[0] > GREETING_BYTES:
        _refuse(address, "something else does", _ADVICE)


def _check_upgrade(address: str, connection: socket.socket, end: float) -> None:
    """Whether what listens goes over to WebSocket; Dask would ask again and again where a web server refuses."""
    connection.sendall(_UPGRADE)
    connection.settimeout(max(0.01, end - time.monotonic()))
    head = _read(connection, len("HTTP/1.1 101"))
    if not head.startswith(b"HTTP/"):
        _refuse(address, "something else does", _ADVICE)
    if not head.endswith(b" 101"):
        _refuse(address, "a web server does, which may be Dask's dashboard", _ADVICE)


def _read(connection: socket.socket, count: int) -> bytes:
    """Read `count` bytes, or fewer if the other side closes first."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data
