"""A small server that answers as the Hugging Face hub does, for models in local folders, and counts its requests."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: The commit of each model.
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the server has and what it was asked.

    Args:
        models: folders by id.
        gated: ids that need the token.
        token: that opens them.
        status: that every request is answered with, if given.
    """

    models: Mapping[str, Path]
    gated: set[str] = field(default_factory=set)
    token: str = "hf_secret"
    status: int | None = None
    url: str = ""
    tokens: set[str | None] = field(default_factory=set)
    files: Counter[str] = field(default_factory=Counter)
    requests: int = 0


class _Answers(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.hub.requests += 1
        self.hub.tokens.add(self.headers.get("authorization"))
        path = urlsplit(self.path).path.strip("/")
        if self.hub.status is not None:
            return self._send(self.hub.status, b"{}")
        if path.startswith("api/models/"):
            org, name, *rest = path.removeprefix("api/models/").split("/")
            return self._api(f"{org}/{name}", rest)
        if "/resolve/" not in path:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        model, _, place = path.partition("/resolve/")
        revision, _, name = place.partition("/")
        return self._file(model, revision, name)

    def _api(self, model: str, rest: list[str]) -> None:
        revision = rest[1] if len(rest) > 1 else "main"
        if not self._open(model, revision):
            return None
        names = sorted(
            str(path.relative_to(self.hub.models[model]))
            for path in self.hub.models[model].rglob("*")
            if path.is_file()
        )
        if rest[:1] == ["tree"]:
            folder = self.hub.models[model]
            found: Any = [
                {"type": "file", "path": name, "size": (folder / name).stat().st_size, "oid": _etag(folder / name)}
                for name in names
            ]
        else:
            found = {"id": model, "modelId": model, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
        return self._send(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

    def _file(self, model: str, revision: str, name: str) -> None:
        if not self._open(model, revision):
            return
        path = self.hub.models[model] / name
        if not path.is_file():
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        if self.command == "GET":
            self.hub.files[name] += 1
        self._send(200, path.read_bytes(), {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": COMMIT})

    def _open(self, model: str, revision: str) -> bool:
        if model not in self.hub.models:
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif model in self.hub.gated and self.headers.get("authorization") != f"Bearer {self.hub.token}":
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif revision not in ("main", COMMIT):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            return True
        return False

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def served(models: Mapping[str, Path], gated: set[str] | None = None) -> Iterator[Hub]:
    """A hub with these models, until the end of the block."""
    hub = Hub(models, gated or set())
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answers", (_Answers,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
