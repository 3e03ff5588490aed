"""Rate limits per server, shared by all processes of a machine."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO
from urllib.parse import urlsplit

from dcurate.download.transfer import Transfer
from dcurate.fs.locks import lock, try_lock
from dcurate.fs.temporary import own_folder

_POLL_S = 0.05
#: Characters of a host that name its locks; no host has more.
_LONGEST_HOST = 200


@contextmanager
def turn(url: str, transfer: Transfer) -> Iterator[None]:
    """Wait for a free connection and request slot of a URL's server, and hold them."""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", urlsplit(url).netloc.rpartition("@")[2])[:_LONGEST_HOST]
    with ExitStack() as stack:
        if transfer.connections_per_host:
            stack.enter_context(_one_of(host, transfer.connections_per_host))
        if transfer.requests_per_second:
            _wait_for_turn(host, 1 / transfer.requests_per_second)
        yield


@contextmanager
def _one_of(host: str, connections: int) -> Iterator[None]:
    """One of a number of connections; those of other processes are known by their locks."""
    while True:
        for number in range(connections):
            with _opened(f"{host}.{number}") as file:
                if not try_lock(file):
                    continue
                yield
                return
        time.sleep(_POLL_S)


def _wait_for_turn(host: str, interval: float) -> None:
    with _opened(f"{host}.next") as file:
        lock(file)
        text = file.read()
        now = time.time()
        mine = max(now, min(float(text), now + 1000 * interval) if text else now)
        file.seek(0)
        file.truncate()
        file.write(repr(mine + interval))
        file.flush()
    time.sleep(max(0.0, mine - time.time()))


def _opened(name: str) -> IO[str]:
    path = own_folder("servers") / name
    return open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii")
