"""Serve the page for the documents of a run, to this machine alone."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from dcurate.core.foreign import whole_number
from dcurate.errors import DcurateError, PipelineError
from dcurate.ui.explore.corpus import ExploredCorpus, Query

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_PAGES = {"/": "index.html", "/explore.css": "explore.css", "/explore.js": "explore.js"}
#: Bytes of the largest request that is read.
_LARGEST = 2**16
_DIGITS = re.compile("[0-9]{1,12}")
#: The page runs its own script, and loads nothing else: a document cannot bring any.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


class ExploreServer:
    """A server on this machine's loopback address, in a thread of its own.

    Requests under another name of a host are refused, and marks from another page, so that a site that is open in the
    same browser can neither read documents nor mark them.

    Args:
        corpus: the documents.
        port: 0 for a free one.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, corpus: ExploredCorpus, port: int = 0) -> None:
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.corpus = corpus
        self._thread = threading.Thread(target=self._server.serve_forever, name="dcurate-explore", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def wait(self) -> None:
        """Wait until the server ends."""
        self._thread.join()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> ExploreServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    corpus: ExploredCorpus

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing where a browser closes a connection."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "dcurate", ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer with a page, or with values."""
        if not self._is_local():
            return
        try:
            url = urlsplit(self.path)
        except ValueError:
            self._send(HTTPStatus.NOT_FOUND, b"page not found", "text/plain")
            return
        if url.path in _PAGES:
            name = _PAGES[url.path]
            body = files("dcurate.ui.explore").joinpath("page", name).read_bytes()
            self._send(HTTPStatus.OK, body, _TYPES[name.rpartition(".")[2]])
            return
        parameters = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        if url.path == "/marks.jsonl":
            self._send(HTTPStatus.OK, self._corpus.marks.lines(), "application/x-ndjson", attachment="marks.jsonl")
            return
        self._answer(_ANSWERS.get(url.path), parameters)

    def do_POST(self) -> None:
        """Mark a document."""
        if not self._is_local():
            return
        size = whole_number(self.headers.get("Content-Length", "0"), _LARGEST)
        if self.headers.get("X-Dcurate") != "explore" or size is None:
            self._send(HTTPStatus.FORBIDDEN, b"marks come from the page alone", "text/plain")
            return
        try:
            parameters = orjson.loads(self.rfile.read(size))
        except ValueError:
            parameters = None
        self._answer(_marked if self.path == "/api/mark" and isinstance(parameters, dict) else None, parameters or {})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    @property
    def _corpus(self) -> ExploredCorpus:
        return self.server.corpus

    def _is_local(self) -> bool:
        name = (self.headers.get("Host") or "").rpartition(":")[0]
        # A browser names the origin of a request, so that other sites cannot start searches.
        if name in ("127.0.0.1", "localhost") and self.headers.get("Sec-Fetch-Site") in (None, "none", "same-origin"):
            return True
        self._send(HTTPStatus.FORBIDDEN, b"open the page under its own address", "text/plain")
        return False

    def _answer(self, function: Callable[[ExploredCorpus, Mapping[str, Any]], Any] | None, parameters: Any) -> None:
        if function is None:
            self._send(HTTPStatus.NOT_FOUND, b"page not found", "text/plain")
            return
        try:
            answer = function(self._corpus, parameters)
        except (DcurateError, ValueError, KeyError) as error:
            self._send(HTTPStatus.BAD_REQUEST, str(error).encode(), "text/plain")
            return
        self._send(HTTPStatus.OK, orjson.dumps(answer, default=str, option=orjson.OPT_NON_STR_KEYS), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, attachment: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if attachment:
            self.send_header("Content-Disposition", f'attachment; filename="{attachment}"')
        self.end_headers()
        self.wfile.write(body)


def _query(parameters: Mapping[str, Any]) -> Query:
    ranges = orjson.loads(parameters.get("ranges") or "[]")
    if not isinstance(ranges, list) or not all(map(_is_range, ranges)):
        raise PipelineError("ranges is not a list of names, each with a lowest and a highest number")
    facets = orjson.loads(parameters.get("facets") or "[]")
    if not isinstance(facets, list) or not all(map(_is_pair, facets)):
        raise PipelineError("facets is not a list of names, each with a value")
    return Query(
        outcome=parameters.get("outcome", ""),
        stage=parameters.get("stage", ""),
        reason=parameters.get("reason", ""),
        words=parameters.get("words", ""),
        ranges=tuple((str(name), float(low), float(high)) for name, low, high in ranges),
        facets=tuple((name, value) for name, value in facets),
        sort=parameters.get("sort", ""),
        descending=parameters.get("descending") == "true",
    )


def _is_range(value: Any) -> bool:
    """Whether a value is the name of a column with a lowest and a highest number."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and all(type(number) in (int, float) for number in value[1:])
    )


def _is_pair(value: Any) -> bool:
    """Whether a value is the name of a column with one of its texts."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _whole_number(parameters: Mapping[str, Any], name: str) -> int:
    """A number of documents or pages: digits in an address, or a whole number of JSON."""
    text = str(parameters.get(name, 0))
    if not _DIGITS.fullmatch(text):
        raise PipelineError(f"{name}={text[:20]} is not a number of a document or a page")
    return int(text)


def _threshold(corpus: ExploredCorpus, parameters: Mapping[str, Any]) -> Any:
    low, high = (float(parameters.get(name) or default) for name, default in (("low", "-inf"), ("high", "inf")))
    return corpus.threshold(str(parameters["stage"]), str(parameters.get("column", "")), low, high)


def _marked(corpus: ExploredCorpus, parameters: Mapping[str, Any]) -> Any:
    return corpus.mark(_whole_number(parameters, "n"), str(parameters.get("mark", "")), str(parameters.get("note", "")))


_ANSWERS: dict[str, Callable[[ExploredCorpus, Mapping[str, Any]], Any]] = {
    "/api/summary": lambda corpus, parameters: corpus.summary(),
    "/api/documents": lambda corpus, parameters: corpus.page(_query(parameters), _whole_number(parameters, "page")),
    "/api/document": lambda corpus, parameters: corpus.whole(_whole_number(parameters, "n")),
    "/api/picture": lambda corpus, parameters: corpus.picture(_whole_number(parameters, "n")),
    "/api/threshold": _threshold,
    "/api/groups": lambda corpus, parameters: corpus.groups(_whole_number(parameters, "page")),
    "/api/group": lambda corpus, parameters: corpus.group(str(parameters.get("kept", ""))),
}
