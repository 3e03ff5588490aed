"""A small server that answers as the Hugging Face Hub does: it serves models, and takes uploads of data sets.

It speaks what `huggingface_hub` asks for without Xet. For data sets: create a repository or a branch, list a tree,
preupload, the LFS batch with uploads of one part, commits of ndjson, and files by name. For models in local folders:
what there is of one, and its files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: The token that opens data sets and gated models.
TOKEN = "hf_hunter2secret"
#: The commit of each model.
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the server holds and was asked.

    Attributes:
        models: folders of models by id.
        gated: ids of models that need the token.
        downloads: how often each file of a model was fetched.
        tokens: the authorizations of all requests.
        files: content by path, for each branch, by data set.
        commits: paths that were added and deleted, in order.
        objects: large files that were uploaded, by SHA-256.
        private: whether each data set is.
        asked: how often each kind of request came: ``create``, ``tree``, ``preupload``, ``batch``, ``put``, ``commit``,
            ``model``, ``weights`` and others.
        fault: called with the kind of a request and the number of it, from 1; returns a status and headers to answer
            with, None to go on. A status below 0 is that which is answered after the request was carried out.
    """

    models: Mapping[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    downloads: Counter[str] = field(default_factory=Counter)
    tokens: set[str | None] = field(default_factory=set)
    files: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    commits: list[tuple[list[str], list[str]]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    fault: Callable[[str, int], tuple[int, dict[str, str]] | None] = lambda kind, number: None
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Answers(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._route("", b"")

    def do_GET(self) -> None:
        self._route("", b"")

    def do_POST(self) -> None:
        self._route("POST", self._body())

    def do_PUT(self) -> None:
        self._route("PUT", self._body())

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _route(self, method: str, body: bytes) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        kind = _kind(method, path)
        with self.hub.lock:
            self.hub.tokens.add(self.headers.get("authorization"))
            self.hub.asked[kind] += 1
            fault = self.hub.fault(kind, self.hub.asked[kind])
        if fault is not None and fault[0] > 0:
            return self._send(fault[0], {"error": "please wait"}, fault[1])
        if kind not in ("put", "model", "weights") and self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"error": "who are you"}, {"X-Error-Code": "RepoNotFound"})
        with self.hub.lock:
            status, answer, headers = getattr(self, f"_{kind}")(path, body)
        if fault is not None:
            return self._send(-fault[0], {"error": "the answer was lost"}, fault[1])
        return self._send(status, answer, headers)

    def _model(self, path: str, body: bytes) -> Any:
        org, name, *rest = path.removeprefix("api/models/").split("/")
        model = f"{org}/{name}"
        closed = self._closed(model, rest[1] if len(rest) > 1 else "main")
        if closed:
            return closed
        folder = self.hub.models[model]
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if rest[:1] == ["tree"]:
            return 200, [_entry(path, str(path.relative_to(folder))) for path in files], {}
        names = [{"rfilename": str(path.relative_to(folder))} for path in files]
        return 200, {"id": model, "modelId": model, "sha": COMMIT, "siblings": names}, {}

    def _weights(self, path: str, body: bytes) -> Any:
        model, _, place = path.partition("/resolve/")
        revision, _, name = place.partition("/")
        closed = self._closed(model, revision)
        if closed:
            return closed
        file = self.hub.models[model] / name
        if not file.is_file():
            return 404, {}, {"X-Error-Code": "EntryNotFound"}
        if self.command == "GET":
            self.hub.downloads[name] += 1
        content = file.read_bytes()
        return 200, content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}

    def _closed(self, model: str, revision: str) -> Any:
        """The answer for a model that is not there or not shown; None for one that is."""
        if model not in self.hub.models:
            return 401, {}, {"X-Error-Code": "RepoNotFound"}
        if model in self.hub.gated and self.headers.get("authorization") != f"Bearer {TOKEN}":
            return 403, {}, {"X-Error-Code": "GatedRepo"}
        if revision not in ("main", COMMIT):
            return 404, {}, {"X-Error-Code": "RevisionNotFound"}
        return None

    def _create(self, path: str, body: bytes) -> Any:
        asked = json.loads(body)
        repo = f"{asked['organization']}/{asked['name']}"
        if repo in self.hub.files:
            return 409, {"url": f"{self.hub.url}/datasets/{repo}"}, {}
        self.hub.files[repo] = {"main": {}}
        self.hub.private[repo] = asked.get("visibility") == "private" or asked.get("private", False)
        return 200, {"url": f"{self.hub.url}/datasets/{repo}"}, {}

    def _branch(self, path: str, body: bytes) -> Any:
        repo, _, branch = path.removeprefix("api/datasets/").partition("/branch/")
        if branch in self.hub.files[repo]:
            return 409, {"error": "exists"}, {}
        self.hub.files[repo][branch] = dict(self.hub.files[repo]["main"])
        return 200, {}, {}

    def _tree(self, path: str, body: bytes) -> Any:
        repo, _, branch = path.removeprefix("api/datasets/").partition("/tree/")
        found: list[dict[str, Any]] = []
        for name, content in sorted(self.hub.files[repo][branch].items()):
            blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
            one: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": blob}
            if is_large(name):
                one |= {"oid": hashlib.sha1(blob.encode()).hexdigest()}
                one |= {"lfs": {"oid": _sha(content), "size": len(content), "pointerSize": 130}}
            found.append(one)
        return 200, found, {}

    def _preupload(self, path: str, body: bytes) -> Any:
        files = json.loads(body)["files"]
        modes = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if is_large(one["path"]) else "regular",
                "shouldIgnore": False,
            }
            for one in files
        ]
        return 200, {"files": modes}, {}

    def _batch(self, path: str, body: bytes) -> Any:
        objects = []
        for one in json.loads(body)["objects"]:
            upload = {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}?X-Amz-Signature=hunter2signature"}}
            objects.append(one if one["oid"] in self.hub.objects else {**one, "actions": upload})
        return 200, {"objects": objects, "transfer": "basic"}, {"Content-Type": "application/vnd.git-lfs+json"}

    def _put(self, path: str, body: bytes) -> Any:
        self.hub.objects[path.removeprefix("lfs/")] = body
        return (200, {}, {}) if _sha(body) == path.removeprefix("lfs/") else (400, {"error": "wrong content"}, {})

    def _commit(self, path: str, body: bytes) -> Any:
        repo, _, branch = path.removeprefix("api/datasets/").partition("/commit/")
        files = dict(self.hub.files[repo][branch])
        added, deleted = [], []
        for line in body.splitlines():
            one = json.loads(line)
            about = one["value"]
            if one["key"] == "file":
                files[about["path"]] = base64.b64decode(about["content"])
                added.append(about["path"])
            elif one["key"] == "lfsFile":
                if about["oid"] not in self.hub.objects:
                    return 422, {"error": f"no object for {about['path']}"}, {}
                files[about["path"]] = self.hub.objects[about["oid"]]
                added.append(about["path"])
            elif one["key"] == "deletedFile":
                if files.pop(about["path"], None) is None:
                    return 404, {"error": "no such file"}, {"X-Error-Code": "EntryNotFound"}
                deleted.append(about["path"])
        self.hub.files[repo][branch] = files
        self.hub.commits.append((added, deleted))
        commit = f"{len(self.hub.commits):040x}"
        return 200, {"commitUrl": f"{self.hub.url}/datasets/{repo}/commit/{commit}", "commitOid": commit}, {}

    def _validate(self, path: str, body: bytes) -> Any:
        return 200, {"errors": [], "warnings": []}, {}

    def _file(self, path: str, body: bytes) -> Any:
        repo, _, place = path.removeprefix("datasets/").partition("/resolve/")
        branch, _, name = place.partition("/")
        content = self.hub.files.get(repo, {}).get(branch, {}).get(name)
        if content is None:
            return 404, {}, {"X-Error-Code": "EntryNotFound"}
        return 200, content, {"ETag": f'"{_sha(content)}"', "X-Repo-Commit": f"{len(self.hub.commits):040x}"}

    def _send(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def is_large(name: str) -> bool:
    """Whether the server wants a file in large file storage."""
    return name.endswith((".parquet", ".bin", ".zst", ".gz"))


def _entry(path: Path, name: str) -> dict[str, Any]:
    content = path.read_bytes()
    return {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _kind(method: str, path: str) -> str:
    if method == "PUT":
        return "put"
    if path == "api/repos/create":
        return "create"
    if path == "api/validate-yaml":
        return "validate"
    if path.startswith("api/models/"):
        return "model"
    if "/resolve/" in path and not path.startswith("datasets/"):
        return "weights"
    if path.endswith("info/lfs/objects/batch"):
        return "batch"
    known = ("branch", "tree", "preupload", "commit")
    return next((kind for kind in known if f"/{kind}/" in path and path.startswith("api/")), "file")


@contextmanager
def hub_server(models: Mapping[str, Path] | None = None, gated: Iterable[str] = ()) -> Iterator[Hub]:
    """Serve a hub with some models and without data sets until the end of the block."""
    hub = Hub(models or {}, set(gated))
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
