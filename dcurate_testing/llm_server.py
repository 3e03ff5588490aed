"""Start a real server process that speaks the OpenAI interface with made-up answers, and fails on request.

``python -m dcurate_testing.llm_server`` prints its port and serves until its standard input closes. What it answers
follows from the request alone. `served` starts it; `Endpoint` asks it what it has seen, and tells it how to behave.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

ROOT = Path(__file__).parents[1]

#: Numbers in the vectors of the embeddings.
DIMENSIONS = 4


@dataclass
class Behaviour:
    """How the server behaves; each is set by its name through ``/_control``.

    Attributes:
        latency: seconds that an answer takes, on average.
        spread: by what share of it one takes more or less, as its text says.
        key: the only API key that is let in; empty for any.
        models: the models that there are; empty for any.
        replies: what is answered where a message holds a text: ``[text, reply]``, the first that fits.
        faults: ``{"match": text, "times": n, "status": 429, "retry_after": "1", "message": "..."}``; one without a
            status has a ``kind``: ``"hang"``, ``"trickle"``, ``"truncated"``, ``"dropped"``, ``"empty"``,
            ``"filtered"``, ``"length"``.
        most_choices: a request is given no more choices than this.
    """

    latency: float = 0.0
    spread: float = 0.0
    key: str = ""
    models: list[str] = field(default_factory=list)
    replies: list[list[str]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    most_choices: int = 1000

    def seconds(self, text: str) -> float:
        """How long the answer to a text takes."""
        drawn = hashlib.blake2b(text.encode(), digest_size=1).digest()[0] / 127.5 - 1
        return self.latency * (1 + self.spread * drawn)

    def fault(self, text: str) -> dict[str, Any] | None:
        """The fault that a request with this text meets, if any; it counts down."""
        for fault in self.faults:
            if fault.get("match", "") in text and fault.get("times", 1):
                fault["times"] = fault.get("times", 1) - 1
                return fault
        return None


@dataclass
class Seen:
    """What the server has seen.

    Attributes:
        requests: all that came; ``paid`` those that were answered, ``asked`` how often each text was.
        busiest: most requests at any one time.
        bodies: the last hundred.
    """

    requests: int = 0
    paid: int = 0
    busy: int = 0
    busiest: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: Counter[str] = field(default_factory=Counter)


def reply_to(behaviour: Behaviour, body: Mapping[str, Any], text: str, choice: int) -> str:
    """What is answered; it follows from the request alone."""
    for wanted, reply in behaviour.replies:
        if wanted in text:
            return reply
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema:
        return json.dumps(instance_of(schema, text))
    seed = (body.get("seed") or 0) + choice
    return f"echo: {text}" if not seed else f"echo {seed}: {text}"


def instance_of(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Values that a schema allows, that follow from a text."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    made: dict[str, Any] = {}
    for name, of in schema["properties"].items():
        low, high = of.get("minimum", 0), of.get("maximum", 9)
        kinds = {"integer": low + number % (high - low + 1), "number": number % 100 / 10, "boolean": number % 2 == 0}
        made[name] = (
            of["enum"][number % len(of["enum"])] if "enum" in of else kinds.get(of["type"], f"{name} of {text}")
        )
    return made


def text_of(content: str | list[dict[str, Any]]) -> str:
    """The text of a message, in which a picture is its media type and the beginning of its hash."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] if part["type"] == "text" else _shown(part["image_url"]["url"]) for part in content)


def _shown(url: str) -> str:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return f"<{kind} {hashlib.sha256(base64.b64decode(data, validate=True)).hexdigest()[:8]}>" if data else f"<{url}>"


class Server:
    """The handlers, and what they share."""

    def __init__(self) -> None:
        self.behaviour, self.seen = Behaviour(), Seen()

    def application(self) -> web.Application:
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_post("/v1/chat/completions", self.chat)
        application.router.add_post("/v1/completions", self.complete)
        application.router.add_post("/v1/embeddings", self.embed)
        application.router.add_get("/v1/models", self.list_models)
        application.router.add_post("/_control", self.control)
        application.router.add_get("/_seen", self.told)
        return application

    async def control(self, request: web.Request) -> web.Response:
        self.behaviour = Behaviour(**(await request.json()))
        self.seen = Seen()
        return web.json_response({})

    async def told(self, _: web.Request) -> web.Response:
        return web.json_response(vars(self.seen))

    async def list_models(self, request: web.Request) -> web.Response:
        refused = self._refused(request, "")
        data = [{"id": name, "object": "model"} for name in self.behaviour.models or ["made-up"]]
        return refused or web.json_response({"object": "list", "data": data})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        texts = [text_of(each["content"]) for each in body["messages"]]
        return await self._answered(request, body, texts[-1], " ".join(texts))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return await self._answered(request, body, body["prompt"], body["prompt"])

    async def embed(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        return await self._answered(request, body, "\n".join(texts), " ".join(texts))

    async def _answered(
        self, request: web.Request, body: dict[str, Any], text: str, all_text: str
    ) -> web.StreamResponse:
        seen = self.seen
        seen.requests += 1
        seen.busy += 1
        seen.busiest = max(seen.busiest, seen.busy)
        seen.asked[text] += 1
        seen.keys[request.headers.get("Authorization", "")] += 1
        seen.bodies = [*seen.bodies[-99:], body]
        try:
            if self.behaviour.latency:
                await asyncio.sleep(self.behaviour.seconds(text))
            fault = self.behaviour.fault(all_text)
            refused = self._refused(request, body.get("model", ""))
            if refused is not None:
                return refused
            if fault is not None and (failed := await self._failed(request, fault)) is not None:
                return failed
            seen.paid += 1
            return web.json_response(self._content(request.path, body, text, all_text, fault or {}))
        finally:
            seen.busy -= 1

    def _refused(self, request: web.Request, model: str) -> web.Response | None:
        if self.behaviour.key and request.headers.get("Authorization") != f"Bearer {self.behaviour.key}":
            return web.json_response(
                {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, status=401
            )
        models = {name for full in self.behaviour.models for name in (full, full.removesuffix(":latest"))}
        if model and models and model not in models:
            message = f"The model `{model}` does not exist"
            return web.json_response({"error": {"message": message, "code": "model_not_found"}}, status=404)
        return None

    async def _failed(self, request: web.Request, fault: Mapping[str, Any]) -> web.StreamResponse | None:
        if "status" in fault:
            headers = {"Retry-After": fault["retry_after"]} if "retry_after" in fault else {}
            error = {"message": fault.get("message", "made up"), "code": fault.get("code")}
            return web.json_response({"error": error}, status=fault["status"], headers=headers)
        if fault["kind"] == "hang":
            await asyncio.sleep(fault.get("seconds", 60))
        if fault["kind"] == "trickle":
            return await _trickle(request)
        if fault["kind"] == "truncated":
            return web.Response(text='{"choices": [{"message": {"cont', content_type="application/json")
        if fault["kind"] == "dropped" and request.transport is not None:
            request.transport.close()
        return None

    def _content(
        self, path: str, body: dict[str, Any], text: str, all_text: str, fault: Mapping[str, Any]
    ) -> dict[str, Any]:
        usage = {"prompt_tokens": len(all_text.split()), "completion_tokens": 0}
        if path.endswith("embeddings"):
            data = [{"index": number, "embedding": vector_of(each)} for number, each in enumerate(text.split("\n"))]
            return {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}
        count = min(body.get("n") or 1, self.behaviour.most_choices)
        replies = [reply_to(self.behaviour, body, text, choice) for choice in range(count)]
        usage["completion_tokens"] = sum(len(reply.split()) for reply in replies)
        kind = fault.get("kind")
        reason = {"filtered": "content_filter", "length": "length"}.get(str(kind), "stop")
        choices = []
        for number, reply in enumerate(replies):
            said = None if kind in ("empty", "filtered") else reply
            content = (
                {"text": said}
                if path.endswith("/completions") and "prompt" in body
                else {"message": {"role": "assistant", "content": said}}
            )
            choices.append({"index": number, "finish_reason": reason, **content})
        return {
            "id": "made-up",
            "object": "chat.completion",
            "model": body["model"],
            "choices": choices,
            "usage": usage,
        }


async def _trickle(request: web.Request) -> web.StreamResponse:
    """Send a byte every 0.1 s, for 10 s or until the client closes the connection."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionResetError):
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.1)
    return response


def vector_of(text: str) -> list[float]:
    """A vector that follows from a text."""
    return [byte / 255 for byte in hashlib.blake2b(text.encode(), digest_size=DIMENSIONS).digest()]


@dataclass(frozen=True)
class Endpoint:
    """The server as a test sees it."""

    address: str

    @property
    def url(self) -> str:
        """What a client takes as ``base_url``."""
        return f"{self.address}/v1"

    def behave(self, **behaviour: Any) -> None:
        """How to behave from now on; forgets what was seen."""
        self._ask("/_control", json.dumps(behaviour).encode())

    @property
    def seen(self) -> Seen:
        """What came since the last `behave`."""
        return Seen(**self._ask("/_seen"))

    def _ask(self, path: str, content: bytes | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, content, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())


@contextmanager
def served() -> Iterator[Endpoint]:
    """A server process, for as long as a ``with`` statement lasts."""
    command = [sys.executable, "-m", "dcurate_testing.llm_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield Endpoint(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


async def _serve() -> None:
    runner = web.AppRunner(Server().application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(over.set)), daemon=True).start()
    await over.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
