"""What is secret shows nowhere, and is sent to nobody but whom it is for."""

import asyncio
import contextlib
import http.server
import io
import json
import logging
import threading
import traceback
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dcurate import (
    BatchKey,
    DaskExecutor,
    DataError,
    DcurateError,
    Decontaminate,
    DocumentReader,
    DocumentWriter,
    ExactDeduplicationWorkflow,
    FileGroup,
    FuzzyDeduplicationWorkflow,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ScoreFilter,
    SemanticDeduplicationWorkflow,
    TextDuplicatesRemovalWorkflow,
    WarcReader,
)
from dcurate.core.batch import FilePart
from dcurate.core.pipeline import AnyStage
from dcurate.core.secrets import shown
from dcurate.dedup import Benchmark, RemoveIds
from dcurate.download import CommonCrawlWarcIterator, FileDownloader, RemoteFile, Transfer
from dcurate.download.fetch import read
from dcurate.endpoints.config import Request
from dcurate.events import Observer
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.llm import AsyncOpenAIClient, Generate, GenerationConfig
from dcurate.models import TextEmbedding, Tokenize
from dcurate.recipe import load_recipe
from dcurate.redaction import without_secrets
from dcurate.run import Executor
from dcurate.runs import RunPlaces, manifest
from dcurate.text import AddId, C4BadWordsFilter, PiiModifier, TokenCountFilter, WordCountFilter
from dcurate.ui import JsonProgress, Progress

pytestmark = pytest.mark.cluster

#: Many secrets, each of which is found by this in all that a run prints, logs, writes or sends.
MARK = "hunter2"


def secret(number):
    return f"{MARK}Q{number}Q"


LOGIN = f"https://me:{secret(1)}@host.example/a.jsonl"
SIGNED = f"https://host.example/a.jsonl?X-Amz-Signature={secret(1)}&sig={secret(2)}%2F{secret(3)}&page=1"
OPTIONS = {
    "key": secret(1),
    "secret": secret(2),
    "password": 4711471147,
    "anything": secret(3),
    "client_kwargs": {"headers": {"X-Api-Key": secret(4)}, "nested": [{"deep": secret(5)}], "aws_session": secret(6)},
    "headers": {"X-Mine": secret(7)},
    "account_key": secret(8),
    "connection_string": f"AccountKey={secret(9)}",
}
KWARGS = {"storage_options": OPTIONS}
CLIENT = AsyncOpenAIClient(base_url="http://host.example", api_key=secret(1), default_headers={"X-Mine": secret(2)})

#: Everything that takes what can be secret.
HOLDERS = {
    "JsonlReader": lambda: JsonlReader([LOGIN, SIGNED], storage_options=OPTIONS, read_kwargs=KWARGS),
    "ParquetReader": lambda: ParquetReader(SIGNED, storage_options=OPTIONS, read_kwargs=KWARGS),
    "DocumentReader": lambda: DocumentReader(LOGIN, storage_options=OPTIONS),
    "WarcReader": lambda: WarcReader(LOGIN, storage_options=OPTIONS),
    "JsonlWriter": lambda: JsonlWriter(LOGIN, storage_options=OPTIONS),
    "ParquetWriter": lambda: ParquetWriter("out", storage_options=OPTIONS, write_kwargs=KWARGS),
    "DocumentWriter": lambda: DocumentWriter(LOGIN, storage_options=OPTIONS),
    "Decontaminate": lambda: Decontaminate(Benchmark(LOGIN), storage_options=OPTIONS),
    "C4BadWordsFilter": lambda: C4BadWordsFilter(SIGNED, storage_options=OPTIONS),
    "ScoreFilter": lambda: ScoreFilter(C4BadWordsFilter(LOGIN, storage_options=OPTIONS)),
    "RemoveIds": lambda: RemoveIds(SIGNED, read_kwargs=KWARGS),
    "ExactDeduplicationWorkflow": lambda: ExactDeduplicationWorkflow(
        input_path=LOGIN, output_path=SIGNED, read_kwargs=KWARGS, write_kwargs=KWARGS
    ),
    "FuzzyDeduplicationWorkflow": lambda: FuzzyDeduplicationWorkflow(
        input_path=LOGIN, output_path=SIGNED, cache_path=LOGIN, read_kwargs=KWARGS, write_kwargs=KWARGS
    ),
    "SemanticDeduplicationWorkflow": lambda: SemanticDeduplicationWorkflow(
        input_path=LOGIN, output_path=SIGNED, n_clusters=2, read_kwargs=KWARGS, write_kwargs=KWARGS
    ),
    "TextDuplicatesRemovalWorkflow": lambda: TextDuplicatesRemovalWorkflow(
        input_path=LOGIN,
        ids_to_remove_path=SIGNED,
        output_path="out",
        input_kwargs=KWARGS,
        duplicate_id_read_kwargs=KWARGS,
        output_kwargs=KWARGS,
    ),
    "CommonCrawlWarcIterator": lambda: CommonCrawlWarcIterator(storage_options=OPTIONS),
    "FileDownloader": lambda: FileDownloader("files", transfer=Transfer(headers={"X-Api-Key": secret(1)})),
    "Transfer": lambda: Transfer(headers={"X-Api-Key": secret(1)}, storage_options=OPTIONS),
    "RemoteFile": lambda: RemoteFile(SIGNED),
    "FileGroup": lambda: FileGroup(key=BatchKey("a"), parts=(FilePart(LOGIN), FilePart(SIGNED))),
    "Directory": lambda: Directory(LOGIN, OPTIONS),
    "RunPlaces": lambda: RunPlaces(output=LOGIN, storage_options=OPTIONS),
    "Tokenize": lambda: Tokenize("model", hf_token=secret(1)),
    "TextEmbedding": lambda: TextEmbedding(model="model", hf_token=secret(1)),
    "TokenCountFilter": lambda: TokenCountFilter(tokenizer="model", hf_token=secret(1)),
    "PiiModifier": lambda: PiiModifier(anonymize_action="hash", secret=secret(1)),
    "Generate": lambda: Generate(client=CLIENT, model="m", prompt="{text}", output_field="answer"),
    "AsyncOpenAIClient": lambda: CLIENT,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_nothing_that_holds_a_secret_shows_it_when_it_is_printed(name):
    holder = HOLDERS[name]()
    text = repr(holder) + str(holder) + repr([holder]) + repr({"a": holder})
    assert MARK not in text
    assert "4711471147" not in text
    assert type(holder).__name__ in text


def test_a_stage_without_secrets_prints_itself_as_a_dataclass_does():
    reader = JsonlReader(["in", "s3://bucket/in"], fields=["a"])
    assert repr(reader).startswith("JsonlReader(file_paths=['in', 's3://bucket/in'], files_per_partition=None")
    assert repr(AddId("id", id_prefix="a://b?c=d")) == (
        "AddId(id_field='id', id_prefix='a://b?c=d', overwrite=False, name='add_id')"
    )


def test_a_class_that_prints_itself_in_its_own_way_and_those_made_of_it_go_on_to():
    @dataclass
    class Own(ProcessingStage):
        storage_options: dict

        def __repr__(self):
            return "mine"

        def process(self, task):
            return task

    class Further(Own):
        pass

    @dataclass
    class Usual(ProcessingStage):
        storage_options: dict

        def process(self, task):
            return task

    @dataclass
    class FurtherUsual(Usual):
        hf_token: str = "hf"

    class Plain(Usual):
        pass

    assert repr(Own({})) == repr(Further({})) == "mine"
    assert repr(FurtherUsual({"a": "b"})).endswith("FurtherUsual(storage_options={'a': '***'}, hf_token='***')")
    assert repr(Plain({"a": "b"})).endswith("Plain(storage_options={'a': '***'})")


@pytest.mark.parametrize("url", [LOGIN, SIGNED])
def test_no_error_shows_what_is_secret_in_an_address(url):
    for error in (DataError(f"cannot read {url!r}"), PipelineError(f"no {url} and {url!r}: (in {url})")):
        assert MARK not in str(error)
        assert MARK not in "".join(traceback.format_exception_only(error))
        assert "host.example/a.jsonl" in str(error)


def test_addresses_without_secrets_stay_as_they_are():
    for text in (
        "s3://b/date=1/key=2/a?page=1",
        "C:\\a?b",
        "me@host",
        "a?x=1&y=2#z",
        "/a b/c=d?",
        "is it so? sig=1",
        "/a?key=1.jsonl",
    ):
        assert without_secrets(text) == text


def test_settings_that_cannot_be_compared_are_shown():
    frame = pd.DataFrame({"a": [1]})
    assert shown({"frames": [frame], "more": {"frame": frame}})["frames"][0] is frame
    assert manifest.shown({"storage_options": {"one": "x"}, "frame": frame}).startswith("{storage_options: {one: ...}")


def test_what_is_hidden_keeps_the_form_of_the_setting():
    assert shown({"a": [1, ("x", None)], "token": True, "hf_token": None}) == {
        "a": [1, ("x", None)],
        "token": True,
        "hf_token": None,
    }


class Server:
    """A server of this machine that notes what it is asked, and sends all that is asked of ``/away`` elsewhere."""

    def __init__(self, away=""):
        self.asked = asked = []
        body = b'{"text": "a b c d"}\n{"text": broken\n{"text": "a"}\n'

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                if self.path.startswith("/away"):
                    self.send_response(307)
                    self.send_header("Location", away + self.path.replace("/away", ""))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                data = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
                data = data if self.path.endswith("completions") else body
                self.send_response(403 if self.path.startswith("/gone") else 200)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("ETag", '"1"')
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            do_HEAD = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def servers():
    """A server, and another one that sends all of ``/away`` to it."""
    there = Server()
    here = Server(there.url)
    yield here, there
    here.close()
    there.close()


def asks_by_fsspec(url):
    options = {
        "headers": {"X-Api-Key": secret(1), "Authorization": secret(2)},
        "client_kwargs": {"headers": {"X-Mine": secret(3)}, "cookies": {"c": secret(4)}},
    }
    store, path = open_store(f"{url}/a.jsonl", options)
    store.cat_file(path)


def asks_by_fsspec_with_a_login(url):
    store, path = open_store(f"{url}/a.jsonl".replace("http://", f"http://me:{secret(1)}@"), {})
    store.cat_file(path)


def asks_for_a_list_of_words(url):
    words = C4BadWordsFilter(f"{url}/a.jsonl", storage_options={"headers": {"X-Api-Key": secret(1)}})
    words._read()


def asks_for_a_download(url):
    read(f"{url}/a.jsonl", Transfer(headers={"X-Api-Key": secret(1), "Cookie": secret(2), "Authorization": secret(3)}))


def asks_a_language_model(url):
    client = AsyncOpenAIClient(base_url=f"{url}/v1", api_key=secret(1), default_headers={"X-Api-Key": secret(2)})

    async def ask():
        await client._completed(Request([{"role": "user", "content": "?"}], "m", GenerationConfig()))
        await client.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    "ask",
    [
        asks_by_fsspec,
        asks_by_fsspec_with_a_login,
        asks_for_a_list_of_words,
        asks_for_a_download,
        asks_a_language_model,
    ],
)
def test_a_server_that_sends_one_on_to_another_hands_over_no_secret(servers, ask):
    here, there = servers
    ask(f"{here.url}/away")
    assert any(path.startswith("/away") for path, _ in here.asked)
    assert there.asked
    assert MARK not in repr(there.asked).lower()
    asked = repr(here.asked).lower()
    assert MARK in asked or "basic bwu6" in asked


def found(text, where):
    """The places of secrets in a text."""
    return [f"{where}: ...{text[max(0, at - 80) : at + 20]}" for at in [text.find(MARK)] if at >= 0]


class Spy(Observer):
    def __init__(self):
        self.seen = []

    def on_event(self, event):
        self.seen.append(repr(event))


@pytest.mark.parametrize("mode", ["inline", "dask"])
def test_a_run_prints_logs_writes_and_tells_no_secret(servers, tmp_path, monkeypatch, caplog, mode):
    here, _ = servers
    address = here.url.replace("http://", f"http://me:{secret(1)}@")
    url = f"{address}/a.jsonl?sig={secret(2)}/{secret(3)}&X-Amz-Signature={secret(4)}&page=1"
    monkeypatch.setenv("MY_SECRET", secret(9))
    monkeypatch.setattr("sys.argv", ["dcurate", "run", "r.yaml", "--input", url, "--set", f"api_key={secret(5)}"])
    out, rejected = tmp_path / "out", tmp_path / "rejected"
    stages: list[AnyStage] = [
        JsonlReader(
            url,
            on_bad_line="quarantine",
            storage_options={"headers": {"X-Api-Key": secret(6)}, "client_kwargs": {"cookies": {"c": secret(7)}}},
        ),
        ScoreFilter(WordCountFilter(min_words=2)),
        JsonlWriter(str(out), storage_options={"key": secret(7), "client_kwargs": {"x": {"y": secret(8)}}}),
    ]
    params = {"input": url, "api_key": secret(5)}
    pipeline = Pipeline("p", "reads it", stages, {"recipe": "r.yaml", "params": params})
    spy, printed, pages = Spy(), io.StringIO(), ""
    caplog.set_level(logging.DEBUG, logger="distributed")
    caplog.set_level(logging.DEBUG, logger="dcurate")
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        observers: list[Any] = [spy, JsonProgress(interval_s=0.01), stack.enter_context(Progress(interval_s=0.01))]
        executor: Executor = InlineExecutor()
        if mode == "dask":
            cluster = stack.enter_context(LocalCluster(n_workers=1, dashboard=True))
            executor = DaskExecutor(cluster=cluster)
        result = pipeline.run(executor, rejected=str(rejected), observers=observers)
        shows = (result, result.report, result.report.to_dict(), pipeline, pipeline.describe(), pipeline.stages)
        printed.write(repr(shows))
        if mode == "dask":
            link = cluster.client.dashboard_link.removesuffix("/status")
            for page in ("curation", "metrics", "info/main/workers.html", "json/counts.json"):
                with urllib.request.urlopen(f"{link}/{page}", timeout=30) as answer:
                    pages += answer.read().decode()
            assert "jsonl_reader" in pages
    shown_in = {"printed": printed.getvalue(), "logged": caplog.text, "events": "".join(spy.seen), "pages": pages}
    leaks = [place for where, text in shown_in.items() for place in found(text, where)]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    names = {path.relative_to(tmp_path).parts[0] + "/" + path.name for path in files}
    records = {f"out.dcurate/{name}" for name in ("report.html", "report.json", "history.json")}
    assert records <= names
    assert [name for name in names if name.startswith("out/") and name.endswith(".jsonl")]
    assert [path for path in files if path.parent.name == "quarantine"]
    assert [path for path in files if path.parent == rejected]
    for path in files:
        leaks += [*found(str(path), "name"), *found(path.read_text("latin1"), str(path.relative_to(tmp_path)))]
    assert leaks == []
    assert result.report.stages[-1].rows_out == 1
    assert MARK in repr(here.asked)  # the server was given them


def test_a_run_that_fails_shows_no_secret_either(servers, tmp_path):
    here, _ = servers
    options = {"headers": {"X-Api-Key": secret(5)}}
    for url in (f"{here.url}/gone.jsonl?sig={secret(1)}", f"http://me:{secret(2)}@127.0.0.1:1/a.jsonl"):
        stages: list[AnyStage] = [
            JsonlReader(url, storage_options=options),
            JsonlWriter(str(tmp_path / "out"), mode="overwrite"),
        ]
        with pytest.raises(DcurateError) as caught:
            Pipeline("p", stages=stages).run(InlineExecutor(), observers=[])
        assert found(str(caught.value), "error") == []
        assert found("".join(traceback.format_exception(caught.value)), "traceback") == []
    for path in tmp_path.rglob("*"):
        assert found(path.read_text("latin1") if path.is_file() else "", str(path)) == []


RECIPES = [
    f"JsonlReader: {{file_paths: 3, storage_options: {{key: {secret(1)}, other: {secret(2)}}}}}",
    f"JsonlReader: {{file_paths: '{LOGIN}', fields: 3}}",
    f"JsonlReader: {{file_paths: '{SIGNED}', field: 3}}",
    f"JsonlReader: '{LOGIN}'",
    f"ScoreFilter: {{filter_obj: '{SIGNED}'}}",
    f"Generate: {{client: {{OpenAIClient: {{api_key: {secret(1)}, timeout: x}}}}}}",
    f"Generate: {{client: {{OpenAIClient: {{api_key: {secret(1)}, default_headers: {{a: {secret(2)}}}, chat: [], "
    "timeout: 0}}}",
    f"Generate: {{client: {{OpenAIClient: {{base_url: 'http://me:{secret(1)}@host'}}}}}}",
    f"Tokenize: {{model: 3, hf_token: {secret(1)}, max_chars: x}}",
    f"Modify: {{modifier_fn: {{PiiModifier: {{secret: [{secret(1)}], anonymize_action: pseudonym}}}}}}",
    f"JsonlReader: {{file_paths: a, blocksize: {secret(1)}, storage_options: {{any: {secret(1)}}}}}",
]


@pytest.mark.parametrize("entry", RECIPES)
@pytest.mark.parametrize("trust", [False, True])
def test_no_sentence_about_a_recipe_shows_a_secret(tmp_path, entry, trust):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"stages:\n  - {entry}\n")
    with pytest.raises(PipelineError) as caught:
        load_recipe(recipe, trust=trust)
    assert found(str(caught.value), "error") == []


def test_a_recipe_that_is_read_shows_no_secret(tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("params: {api_key: x, input: y}\nstages:\n  - JsonlReader: {file_paths: '${input}'}\n")
    assert found(repr(load_recipe(recipe, {"api_key": secret(1), "input": SIGNED})), "recipe") == []


def test_two_files_that_only_secrets_tell_apart_are_both_read_under_names_of_their_own(servers):
    here, _ = servers
    urls = [f"{here.url}/a.jsonl?token={secret(number)}" for number in range(3)]
    splits = list(JsonlReader(urls, on_bad_line="quarantine").splits())
    keys = [split.key.split for split in splits]
    assert len(set(keys)) == 3
    assert MARK not in repr(keys)
    assert sorted(part.path for split in splits for part in split.parts) == urls


def test_the_file_of_a_download_is_not_named_after_its_login():
    assert Path(FileDownloader("files").target(LOGIN)).name == "host.example-a.jsonl"
