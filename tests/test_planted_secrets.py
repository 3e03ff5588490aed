"""Secrets that are planted wherever a run takes them show in none of its files, nor on the terminal."""

import base64
import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import pytest
import yaml

from tests.forked import FORKS, finished

pytestmark = pytest.mark.cluster

MARK = "hunter2"


def secret(number: int) -> str:
    """One of many, with letters that encodings change."""
    return f"{MARK}-{number:02d}/Q+z="


#: Environment of the command; and what a person gives to it.
ENVIRONMENT = {"PLANTED_DB_PASS": secret(1), "PLANTED_KEY": secret(2), "PLANTED_PAT": secret(3), "HF_TOKEN": secret(4)}
SETTINGS = {"api_key": secret(5), "address": f"https://me:{quote(secret(6), safe='')}@host.example/a?sig={secret(7)}"}
#: In the data: addresses of rows, which are in outputs, as they came.
SIGNED = f"https://host.example/a?X-Amz-Signature={secret(20)}&page=1"
ROWS = [
    {"text": "one two three", "url": SIGNED},
    {"text": "tell", "url": SIGNED},
    {"text": f"{SIGNED} short", "url": SIGNED},
    {"text": "ask me now", "url": SIGNED},
]


class Echo(http.server.BaseHTTPRequestHandler):
    """Refuses each request, with all that it was sent."""

    asked: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = "\n".join(f"{name}: {value}" for name, value in self.headers.items())
        self.asked.append(headers)
        packed = base64.b64encode((self.headers["Authorization"].partition(" ")[2]).encode()).decode()
        message = f"bad request: {quote(headers)} {headers} {headers.lower()} {packed}"
        body: dict[str, object] = {"error": {"message": message}}
        status = 400
        if "one two" in text:
            body, status = {"choices": [{"message": {"content": f"yes: {headers}"}}]}, 200
        data = json.dumps(body).replace("/", "\\/").encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def recipe_in(folder: Path, endpoint: str, mode: str, ignore: bool) -> Path:
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    headers = {"X-Mine": secret(8), "Cookie": f"session={secret(9)}"}
    client = {
        "base_url": endpoint,
        "api_key": "${api_key}",
        "default_headers": {"X-Other": secret(10)},
        "max_retries": 0,
    }
    tells = {
        "address": "${address}",
        "password": secret(11),
        "headers": headers,
        "storage_options": {"anything": secret(12)},
    }
    stages = [
        {"JsonlReader": {"file_paths": str(folder / "in.jsonl")}},
        {"tests.telling:Tells": tells},
        {"ScoreFilter": {"filter_obj": {"WordCountFilter": {"min_words": 3}}}},
        {
            "Generate": {
                "client": {"AsyncOpenAIClient": client},
                "model": "m",
                "prompt": "{text}",
                "output_field": "answer",
            }
        },
        {"JsonlWriter": {"path": str(folder / "out")}},
    ]
    content = {
        "params": {"api_key": None, "address": None},
        "stages": stages,
        "executor": {"execution_mode": mode, **({"ignore_failures": True} if ignore else {})},
        "rejected": str(folder / "rejected"),
    }
    path = folder / "r.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def leaks(text: str, where: str) -> list[str]:
    """Where a text shows a secret, in any encoding."""
    marks = [MARK, base64.b64encode(MARK.encode()).decode()[:8], MARK.encode().hex()]
    lower = text.lower()
    places = [(lower.find(mark.lower()), mark) for mark in marks]
    return [f"{where}: ...{text[max(0, at - 100) : at + 40]}" for at, _ in places if at >= 0]


@pytest.mark.parametrize(("mode", "ignore"), [("inline", False), ("streaming", False), ("streaming", True)])
def test_planted_secrets_show_nowhere(tmp_path: Path, echo: str, mode: str, ignore: bool) -> None:
    path = recipe_in(tmp_path, echo, mode, ignore)
    command = ["python", "-m", "dcurate.cli", "run", path, "--trust", "--debug"]
    for name, value in SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    root = str(Path(__file__).parents[1])
    ended = finished(command, tmp_path, {**os.environ, **FORKS, **ENVIRONMENT, "PYTHONPATH": root})
    assert ended.returncode == (0 if ignore else 1), ended.stderr
    found = leaks(ended.stdout, "stdout") + leaks(ended.stderr, "stderr")
    names = set()
    for file in tmp_path.rglob("*"):
        if not file.is_file() or file.name in ("r.yaml", "in.jsonl"):
            continue
        text = file.read_text("latin1")
        names.add(file.name)
        if file.suffix == ".jsonl":  # rows are as they came: what dcurate adds to them is looked at
            rows = [json.loads(line) for line in text.splitlines()]
            text = json.dumps([{**row, "text": "", "url": ""} for row in rows if "text" in row])
        found += leaks(text, str(file.relative_to(tmp_path)))
    assert found == []
    assert {"report.json", "report.html", "history.json"} <= names
    if ignore:
        assert Echo.asked
        assert secret(5) in Echo.asked[-1]
        assert "yes: " in "".join(file.read_text() for file in (tmp_path / "out").glob("*.jsonl"))
        report = json.loads((tmp_path / "out.dcurate" / "report.json").read_text())
        assert "host.example" in json.dumps(report)
        quarantine = "".join(file.read_text() for file in (tmp_path / "out.dcurate" / "quarantine").rglob("*.jsonl"))
        assert "RuntimeError: told" in quarantine
        assert "bad request" in quarantine
    else:
        assert "told" in ended.stderr
