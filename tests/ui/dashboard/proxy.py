"""A proxy that serves what another server has below a path of its own, as jupyter-server-proxy does."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def below(path: str, port: int) -> Iterator[str]:
    """The address under which the proxy serves what stands at a port of this machine."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"Upgrade: websocket" not in head:  # so that each connection has one request
                head = re.sub(rb"(?i)connection: [^\r]*", b"Connection: close", head)
            there, sink = await asyncio.open_connection("127.0.0.1", port)
            sink.write(head.replace(f" {path}/".encode(), b" /", 1))
            await asyncio.gather(_pipe(reader, sink), _pipe(there, writer))
        await _close(writer)

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(passed_on, "127.0.0.1", 0)

    async def end() -> None:
        server.close()
        await asyncio.sleep(0.1)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.1)

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
    finally:
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
