"""A real browser without a window, told what to do over its own protocol (CDP)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Browser:
    """A browser with one tab after another."""

    def __init__(self, socket: WebSocketClientConnection, loop: asyncio.Runner) -> None:
        self._socket, self._loop = socket, loop
        self._numbers = iter(range(1, 1 << 30))
        self._session = self._target = ""
        #: What the page complained of: errors, warnings, and what it could not load.
        self.complaints: list[str] = []

    def open(self, url: str, width: int = 1440, height: int = 900) -> None:
        """Open a page in a new tab, and close the one before."""
        self.close()
        self.complaints.clear()
        self._target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.resize(width, height)
        self._call("Page.navigate", url=url)

    def close(self) -> None:
        """Close the tab."""
        if self._target:
            self._session, target, self._target = "", self._target, ""
            self._call("Target.closeTarget", targetId=target)

    def resize(self, width: int, height: int) -> None:
        """Make the window so many pixels large."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, scheme: str) -> None:
        """Prefer the colour scheme ``"light"`` or ``"dark"``, as a person chooses it for the whole system."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression: str) -> Any:
        """What a piece of JavaScript gives."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """What a person reads in the first element that matches; nothing where there is none."""
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait(self, expression: str, seconds: float = 90.0) -> Any:
        """What a piece of JavaScript gives as soon as that is true."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"{expression} did not come true in {seconds} s; {self.complaints}"
            time.sleep(0.05)
        return value

    def hover(self, x: float, y: float) -> None:
        """Move the pointer."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        options: dict[str, Any] = {"captureBeyondViewport": whole}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", **options)["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._loop.run(asyncio.wait_for(self._answer(method, params), 120))

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        request = {"id": number, "method": method, "params": params}
        await self._socket.write_message(json.dumps(request | ({"sessionId": self._session} if self._session else {})))
        while True:
            message = await self._socket.read_message()
            assert message is not None, "the browser is gone"
            said = json.loads(message)
            if said.get("id") == number:
                assert "error" not in said, f"{method}: {said['error']}"
                return dict(said["result"])
            self._heed(said.get("method", ""), said.get("params", {}))

    def _heed(self, event: str, params: dict[str, Any]) -> None:
        match event:
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                said = [one.get("value") for one in params["args"]]
                if "not connected so cannot send" not in said:  # Bokeh's, of a page that is being left
                    self.complaints.append(f"{params['type']}: {said}")
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.responseReceived" if params["response"]["status"] >= 400:
                self.complaints.append(f"{params['response']['status']} {params['response']['url']}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of a test's own, with a profile of its own."""
    assert CHROMIUM is not None, "Chromium is not installed: apt-get install chromium"
    with tempfile.TemporaryDirectory(prefix="dcurate-chromium-", ignore_cleanup_errors=True) as folder:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
            try:
                with asyncio.Runner() as loop:
                    socket = loop.run(_connected(Path(folder) / "DevToolsActivePort"))
                    try:
                        yield Browser(socket, loop)
                    finally:
                        loop.run(_closed(socket))
            finally:
                started.terminate()
                try:
                    started.wait(30)
                except subprocess.TimeoutExpired:
                    os.kill(started.pid, 9)


async def _connected(port_file: Path) -> WebSocketClientConnection:
    end = time.monotonic() + 120
    while not (port_file.exists() and len(said := port_file.read_text().split()) == 2):
        assert time.monotonic() < end, "Chromium did not start within 120 s"
        await asyncio.sleep(0.05)
    port, path = said
    return await websocket_connect(f"ws://127.0.0.1:{port}{path}", max_message_size=1 << 28)


async def _closed(socket: WebSocketClientConnection) -> None:
    socket.close()
    while await asyncio.wait_for(socket.read_message(), 60) is not None:
        pass
