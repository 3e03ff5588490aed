"""Signs of a run for orchestrators, by a real file and a real HTTP server."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dcurate import DataError, PipelineError, RunError
from dcurate.ui import heartbeat, poster
from dcurate.ui.heartbeat import Heartbeat
from tests.conftest import free_port
from tests.forked import finished

SECRET = "T0KEN/B0KEN/sk-much-too-secret"


class Hook:
    """A server that takes POSTs, and answers as a test asks it to."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.answers: deque[int] = deque()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.posts.append({"path": self.path, "type": self.headers["Content-Type"], **json.loads(body)})
                self.send_response(hook.answers.popleft() if hook.answers else 204)
                self.send_header("Location", f"http://127.0.0.1:{hook.port}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/{SECRET}?key=qwertyuiopasdfgh"

    @property
    def states(self) -> list[str]:
        return [post["state"] for post in self.posts]


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    threading.Thread(target=hook.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


def recipe(folder: Path, seconds: float = 0.0) -> Path:
    (folder / "in").mkdir()
    for number in range(20):
        (folder / "in" / f"{number}.jsonl").write_text('{"text": "one two"}\n')
    (folder / "slow.py").write_text(
        "import time\nfrom dcurate import processing_stage\n\n"
        f"@processing_stage(name='slow')\ndef slow(batch):\n    time.sleep({seconds})\n    return batch\n"
    )
    path = folder / "recipe.yaml"
    path.write_text("stages:\n- JsonlReader: {file_paths: in}\n- slow:slow\n- JsonlWriter: {path: out}\n")
    return path


def dcurate(folder: Path, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-m", "dcurate.cli", *command], cwd=folder, env={**os.environ, **environment})


@pytest.mark.program
def test_a_run_tells_its_states(hook: Hook, tmp_path: Path) -> None:
    options = ["--trust", "--mode", "inline", "--heartbeat", "beat.json", "--webhook", hook.url]
    done = dcurate(tmp_path, "run", recipe(tmp_path), *options)
    assert done.returncode == 0, done.stderr
    beat = json.loads((tmp_path / "beat.json").read_text())
    assert (beat["state"], beat["why"], beat["splits_done"], beat["rows_out"]) == ("done", "", 20, 20)
    assert hook.states == ["running", "done"]
    assert {post["type"] for post in hook.posts} == {"application/json"}
    assert {post["run"] for post in hook.posts} == {beat["run"]}
    again = dcurate(tmp_path, "run", tmp_path / "recipe.yaml", *options[:-1], hook.url)  # the output is there
    assert again.returncode == 1
    beat = json.loads((tmp_path / "beat.json").read_text())
    assert (beat["state"], hook.states[2:]) == ("failed", ["failed"])
    assert "holds the output of a finished" in beat["why"]
    written = [path for path in tmp_path.rglob("*") if path.is_file() and b"T0KEN" in path.read_bytes()]
    assert written == []
    assert "T0KEN" not in done.stdout + done.stderr + again.stdout + again.stderr


@pytest.mark.program
def test_a_run_that_is_stopped_says_so_and_one_that_is_killed_leaves_an_old_file(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "dcurate.cli", "run", str(recipe(tmp_path, 0.5))]
    command = [*run, "--trust", "--mode", "inline"]
    beat = tmp_path / "beat.json"
    for number, state in ((signal.SIGTERM, "stopped"), (signal.SIGKILL, "running")):
        process = subprocess.Popen([*command, "--resume", "--heartbeat", str(beat)], cwd=tmp_path)
        end = time.monotonic() + 120
        while not beat.exists() or json.loads(beat.read_text())["state"] != "running":
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(60)
        assert json.loads(beat.read_text())["state"] == state


def test_the_file_is_renewed_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    path = tmp_path / "beat"
    with Heartbeat(str(path)):
        first, end = path.stat().st_mtime_ns, time.monotonic() + 30
        while path.stat().st_mtime_ns == first:
            assert time.monotonic() < end
            time.sleep(0.02)
    assert [path] == list(tmp_path.iterdir())


def test_a_webhook_that_fails_is_tried_again_and_fails_no_run(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(poster, "RETRY_S", 0.01)
    hook.answers.extend([503, 500, 204])
    with Heartbeat(webhook=hook.url):
        pass
    assert hook.states == ["done"] * 3
    assert caplog.messages == []
    hook.answers.extend([503] * 3)
    with Heartbeat(webhook=hook.url):
        pass
    hook.answers.extend([307, 302])  # redirects are not followed
    with Heartbeat(webhook=hook.url), Heartbeat(webhook=f"http://127.0.0.1:{free_port()}/{SECRET}"):
        pass
    assert len(hook.posts) == 3 + 3 + 1
    assert "/elsewhere" not in [post["path"] for post in hook.posts]
    why = [message.partition("state: ")[2] for message in caplog.messages]
    assert why == [
        "it answered 503; the run goes on",
        "Connection refused; the run goes on",
        "it answered 307; the run goes on",
    ]
    assert "T0KEN" not in caplog.text


def test_a_webhook_that_does_not_answer_holds_the_end_up_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(heartbeat, "END_S", 0.5)
    caplog.set_level(logging.WARNING)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # listens, and never accepts
    begun = time.monotonic()
    try:
        with Heartbeat(webhook=f"http://127.0.0.1:{server.server_address[1]}/"):
            pass
    finally:
        server.server_close()
    assert time.monotonic() - begun < 30


def test_states_of_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "beat"
    with pytest.raises(RunError), Heartbeat(str(path), about={"job": "7"}):
        raise RunError("the cluster is gone")
    content = json.loads(path.read_text())
    assert (content["state"], content["why"], content["job"]) == ("failed", "the cluster is gone", "7")


@pytest.mark.parametrize("webhook", ["", "host/path", "file:///etc/passwd", "http://", "ftp://host/x", "http://a b/"])
def test_what_is_no_webhook_is_refused_without_being_shown(webhook: str) -> None:
    with pytest.raises(PipelineError, match="the webhook is not an HTTP address; give one such as") as caught:
        Heartbeat(webhook=webhook)
    assert not webhook or webhook not in str(caught.value)


@pytest.mark.parametrize("path", ["", ".", "/", "/tmp"])
def test_a_folder_is_no_heartbeat_file(path: str) -> None:
    with pytest.raises(PipelineError, match="is not the name of a file; give one such as run.json"):
        Heartbeat(path)


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written: No such file or directory; name a file in a folder"):
        Heartbeat(str(tmp_path / "no" / "beat")).start()
