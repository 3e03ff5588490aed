"""Events of OpenLineage, held against its schemas, by a real HTTP server and real files."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from dcurate import (
    DataError,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    TableReader,
    TableWriter,
    processing_stage,
)
from dcurate.datasets import Blend
from dcurate.events import OperatorSample, RunEnded, RunStarted, Sampled
from dcurate.text import WordCountFilter
from dcurate.ui import OpenLineage, OpenLineageSettings, openlineage, poster
from tests.conftest import free_port
from tests.forked import finished

KEY = "k-much-too-secret-1234"
PARENT = "airflow/dag.task/3f5e83fa-3480-44ff-99c5-ff943904e5e8"
VARIABLES = ("URL", "API_KEY", "NAMESPACE", "PARENT_ID", "ENDPOINT", "DISABLED")
SCHEMAS = [json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "openlineage").glob("*.json"))]
REGISTRY: Registry[Any] = Registry().with_resources(
    [(entry["$id"], Resource.from_contents(entry)) for entry in SCHEMAS]
)


def check(event: dict[str, Any]) -> None:
    """Hold an event and all of its facets against the schemas that they name."""
    validate(event["schemaURL"], event)
    datasets = [*event["inputs"], *event["outputs"]]
    held = [event["run"]["facets"], event["job"]["facets"]]
    held += [dataset.get(kind, {}) for dataset in datasets for kind in ("facets", "inputFacets", "outputFacets")]
    for facets in held:
        for name, facet in facets.items():
            validate(facet["_schemaURL"], facet)
            validate(facet["_schemaURL"].partition("#")[0], {name: facet})


def validate(schema: str, value: Any) -> None:
    Draft202012Validator(
        {"$ref": schema}, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    ).validate(value)


class Server:
    """A server of OpenLineage: it takes events, and answers as a test asks it to."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.answers: deque[int] = deque()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = server.answers.popleft() if server.answers else 201
                if status == 201:
                    server.events.append(event)
                server.paths.append(self.path)
                server.keys.append(self.headers["Authorization"])
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def kinds(self) -> list[str]:
        for event in self.events:
            check(event)
        return [event["eventType"] for event in self.events]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"OPENLINEAGE_{name}", raising=False)


def corpus(folder: Path, files: int = 2, rows: int = 10) -> str:
    folder.mkdir(parents=True)
    for number in range(files):
        lines = [json.dumps({"id": f"{number}-{row}", "text": "word " * (row + 1)}) for row in range(rows)]
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def run(observer: OpenLineage, *stages: Any) -> None:
    Pipeline("clean", stages=list(stages)).run(InlineExecutor(), observers=[observer])


def test_a_run_is_told_with_what_it_read_and_wrote(server: Server, tmp_path: Path) -> None:
    source, words = corpus(tmp_path / "in"), ScoreFilter(WordCountFilter(min_words=4), score_field="words")
    run(OpenLineage(server.url), JsonlReader(source), words, JsonlWriter(str(tmp_path / "out")))
    assert server.kinds == ["START", "COMPLETE"]
    assert server.paths == ["/api/v1/lineage"] * 2
    start, end = server.events
    assert start["run"]["runId"] == end["run"]["runId"]
    assert [(event["job"]["namespace"], event["job"]["name"]) for event in server.events] == [("default", "clean")] * 2
    assert [(entry["namespace"], entry["name"]) for entry in start["inputs"]] == [("file", source)]
    [read], [written] = end["inputs"], end["outputs"]
    assert (written["namespace"], written["name"]) == ("file", str(tmp_path / "out"))
    figures = read["inputFacets"]["inputStatistics"]
    size = sum(path.stat().st_size for path in Path(source).iterdir())
    assert (figures["rowCount"], figures["size"], figures["fileCount"]) == (20, size, 2)
    figures = written["outputFacets"]["outputStatistics"]
    size = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert (figures["rowCount"], figures["size"], figures["fileCount"]) == (14, size, 2)
    assert read["facets"]["schema"]["fields"] == [{"name": "id", "type": "string"}, {"name": "text", "type": "string"}]
    assert [entry["name"] for entry in written["facets"]["schema"]["fields"]] == ["id", "text", "words"]
    [record] = (tmp_path / "out.dcurate" / "lineage").glob("*.json")
    assert read["facets"]["version"]["datasetVersion"] == json.loads(record.read_text())["inputs"]["digest"]
    assert read["facets"]["dataSource"]["uri"] == Path(source).as_uri()


def test_a_run_with_rounds_is_one_run_and_several_inputs_are_all_named(server: Server, tmp_path: Path) -> None:
    readers: list[Any] = [JsonlReader(corpus(tmp_path / name)) for name in ("web", "books")]
    run(OpenLineage(server.url), Blend(30, readers, [0.5, 0.5]), ExactDuplicates(), JsonlWriter(str(tmp_path / "out")))
    assert server.kinds == ["START", "COMPLETE"]
    assert [Path(entry["name"]).name for entry in server.events[-1]["inputs"]] == ["web", "books"]
    assert server.events[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10


def test_a_failure_is_told_with_its_reason_and_one_that_a_person_stopped_as_an_abort(
    server: Server, tmp_path: Path
) -> None:
    source = corpus(tmp_path / "in")
    (tmp_path / "in" / "9.jsonl").write_text("{no\n")
    with pytest.raises(DataError):
        run(OpenLineage(server.url), JsonlReader(source), JsonlWriter(str(tmp_path / "out")))
    assert server.kinds == ["START", "FAIL"]
    assert "9.jsonl" in server.events[-1]["run"]["facets"]["errorMessage"]["message"]

    @processing_stage(name="stop")
    def stop(batch: Any) -> Any:
        raise KeyboardInterrupt

    (tmp_path / "in" / "9.jsonl").unlink()
    with pytest.raises(KeyboardInterrupt):
        run(OpenLineage(server.url), JsonlReader(source), stop, JsonlWriter(str(tmp_path / "stopped")))
    assert server.kinds[2:] == ["START", "ABORT"]
    assert server.events[0]["run"]["runId"] != server.events[2]["run"]["runId"]


def test_a_run_that_goes_on_is_told_of_now_and_then(server: Server) -> None:
    observer = OpenLineage(server.url)
    observer.on_event(RunStarted(1000.0, "7f3a", "demo", "inline", (("read",),)))
    for second in range(1, 150):
        sample = OperatorSample("read", 1, 0, 0, 0)
        observer.on_event(Sampled(1000.0 + second, (sample,), 0, 0))
    observer.on_event(RunEnded(1150.0, ""))
    assert server.kinds == ["START", "RUNNING", "RUNNING", "COMPLETE"]


def test_the_environment_says_who_and_where_as_for_clients_of_openlineage(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"URL": server.url, "API_KEY": KEY, "NAMESPACE": "corpora", "PARENT_ID": PARENT, "ENDPOINT": "v9/events"}
    for name, value in values.items():
        monkeypatch.setenv(f"OPENLINEAGE_{name}", value)
    observer = OpenLineage()
    server.answers.extend([403])
    observer.on_event(RunStarted(1.0, "7f3a", "demo", "inline", (("read",),)))
    observer.on_event(RunEnded(2.0, f"cannot read: the key {KEY} is unknown"))
    assert server.kinds == ["FAIL"]
    assert (server.paths, server.keys) == (["/v9/events"] * 2, [f"Bearer {KEY}"] * 2)
    [event] = server.events
    assert event["job"]["namespace"] == "corpora"
    parent = event["run"]["facets"]["parent"]
    assert (parent["job"], parent["run"]["runId"]) == (
        {"namespace": "airflow", "name": "dag.task"},
        PARENT.rpartition("/")[2],
    )
    assert caplog.messages == ["an event did not reach OpenLineage: it answered 403; the run goes on"]
    assert KEY not in json.dumps(event) + repr(observer.settings) + caplog.text
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "TRUE")
    run_of = OpenLineage()
    run_of.on_event(RunStarted(1.0, "7f3a", "demo", "inline", (("read",),)))
    assert len(server.paths) == 2


def test_a_server_that_fails_or_hangs_fails_no_run_and_holds_it_up_for_a_limited_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(poster, "RETRY_S", 0.01)
    monkeypatch.setattr(openlineage, "END_S", 0.5)
    caplog.set_level(logging.WARNING)
    source = corpus(tmp_path / "in")
    server.answers.extend([500, 503, 201])
    run(OpenLineage(server.url), JsonlReader(source), JsonlWriter(str(tmp_path / "a")))
    assert server.kinds == ["START", "COMPLETE"]
    assert caplog.messages == []
    silent = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # listens, and never accepts
    gone = [f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{silent.server_address[1]}"]
    begun = time.monotonic()
    for number, url in enumerate(gone):
        run(OpenLineage(url), JsonlReader(source), JsonlWriter(str(tmp_path / str(number))))
        assert len(list((tmp_path / str(number)).iterdir())) == 2
    silent.server_close()
    assert time.monotonic() - begun < 30


def test_events_are_added_to_a_file_and_one_that_cannot_be_written_fails_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, file = corpus(tmp_path / "in"), tmp_path / "events.jsonl"
    for name in "ab":
        run(OpenLineage(str(file)), JsonlReader(source), JsonlWriter(str(tmp_path / name)))
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        check(event)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 2
    run(OpenLineage(str(tmp_path / "no" / "events")), JsonlReader(source), JsonlWriter(str(tmp_path / "c")))
    messages = [message for message in caplog.messages if "did not reach" not in message]  # of other tests' senders
    assert messages == ["events of OpenLineage cannot be written: No such file or directory; the run goes on"]


def test_a_table_is_told_with_its_version_and_stores_by_their_names(server: Server, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    for number in range(2):
        run(OpenLineage(), JsonlReader(corpus(tmp_path / f"in{number}")), TableWriter(table, mode="append"))
    place = f"memory://bucket-{os.getpid()}/out put"
    run(OpenLineage(server.url), TableReader(table, version=0), JsonlWriter(place))
    assert server.kinds == ["START", "COMPLETE"]
    [read], [written] = server.events[-1]["inputs"], server.events[-1]["outputs"]
    assert read["facets"]["version"]["datasetVersion"] == "0"
    assert (written["namespace"], written["name"]) == ("memory://", f"bucket-{os.getpid()}/out put")


@pytest.mark.parametrize("target", ["ftp://host/x", "http://", "http://a b", "/", "/tmp", ""])
def test_what_is_neither_a_server_nor_a_file_is_refused(target: str) -> None:
    with pytest.raises(PipelineError, match="HTTP address"):
        OpenLineageSettings(target)


@pytest.mark.parametrize("parent", ["a/b", "a/b/c", PARENT[:-1]])
def test_a_parent_of_another_form_is_refused(parent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", parent)
    with pytest.raises(PipelineError, match="is not namespace/name/run id, with a UUID as the id"):
        OpenLineage("events.jsonl")


@pytest.mark.program
def test_the_command_tells_a_server_of_the_environment_or_a_file(server: Server, tmp_path: Path) -> None:
    corpus(tmp_path / "in")
    (tmp_path / "recipe.yaml").write_text(
        "name: tidy\nparams: {output: out}\n"
        "stages:\n- JsonlReader: {file_paths: in}\n- JsonlWriter: {path: '${output}'}\n"
    )
    command = [sys.executable, "-m", "dcurate.cli", "run", "recipe.yaml", "--mode", "inline"]
    variables = {"OPENLINEAGE_URL": server.url, "OPENLINEAGE_API_KEY": KEY}
    done = finished(command, cwd=tmp_path, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    assert server.kinds == ["START", "COMPLETE"]
    assert server.events[0]["job"]["name"] == "tidy"
    assert KEY not in done.stdout + done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert written == []
    to_file = finished(
        [*command, "--output", "more", "--openlineage", "events.jsonl"], cwd=tmp_path, env={**os.environ}
    )
    assert to_file.returncode == 0, to_file.stderr
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 2
    wrong = finished([*command, "--openlineage", "ftp://x"], cwd=tmp_path, env={**os.environ})
    assert wrong.returncode == 2
    assert "the address of OpenLineage is not an HTTP address" in wrong.stderr
