"""Downloads and pages with mathematics, in NeMo Curator's parts, from a real server."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dcurate
import dcurate.download
from dcurate.compat.nemo import download
from dcurate.compat.nemo.executors import RayClient
from dcurate.compat.nemo.math_stages.content import LynxExtractor, MathContentExtractor, MathExtractStage
from dcurate.compat.nemo.names import names
from dcurate.compat.nemo.pipeline import Pipeline
from dcurate.compat.nemo.stages import ProcessingStage, Resources
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask

pytestmark = pytest.mark.cluster

PAGES = {"a.txt": "one\ntwo\n", "b.txt": "three\nskip\n"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that logs nothing."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a server with files."""
    folder = tmp_path / "served"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Urls(dcurate.download.URLGenerator):
    """List two files, and one that is not there."""

    def __init__(self, address: str) -> None:
        self.address = address

    def generate_urls(self) -> list[str]:
        return [f"{self.address}/{name}" for name in (*PAGES, "none.txt")]


class Downloader(download.DocumentDownloader):
    """Download with the standard library, as tutorials do."""

    def _get_output_filename(self, url: str) -> str:
        return url.rpartition("/")[2]

    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        try:
            urllib.request.urlretrieve(url, path)
        except OSError as error:
            return False, str(error)
        return True, None


class Lines(dcurate.download.DocumentIterator):
    """A record of each line."""

    def iterate(self, file_path: str) -> Iterator[dict[str, Any]]:
        yield from ({"line": line} for line in Path(file_path).read_text().splitlines())

    def output_columns(self) -> list[str]:
        return ["line"]


class Words(dcurate.download.DocumentExtractor):
    """A row of each record but one."""

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | None:
        return None if record["line"] == "skip" else {"text": record["line"].upper()}

    def input_columns(self) -> list[str]:
        return ["line"]

    def output_columns(self) -> list[str]:
        return ["text"]


EXPECTED = [("ONE", "a.txt"), ("TWO", "a.txt"), ("THREE", "b.txt")]


def stage(address: str, folder: Path, **settings: Any) -> Any:
    parts = (Urls(address), Downloader(str(folder)), Lines(), Words())
    return download.DocumentDownloadExtractStage(*parts, **settings)


def test_a_composite_of_parts_runs_by_the_names_of_its_stages(client: RayClient, address: str, tmp_path: Path) -> None:
    made = stage(address, tmp_path / "files")
    names = [inner.name for inner in made.decompose()]
    assert names == ["url_generation_urls", "download_downloader", "iterate_extract_lines_words"]
    made.with_({names[1]: {"resources": Resources(cpus=0.25)}})
    tasks = Pipeline("files", stages=[made]).run() or []
    rows = sorted((row.text, row.file_name) for task in tasks for row in task.data.itertuples())
    assert rows == sorted(EXPECTED)
    few = Pipeline("few", stages=[stage(address, tmp_path / "files", url_limit=1, record_limit=0)]).run()
    assert [list(task.data.text) for task in few or ()] == [["ONE", "TWO"]]


class Look(ProcessingStage[FileGroupTask, FileGroupTask]):
    """A stage of a person's own between two of these."""

    name = "look"

    def process(self, task: FileGroupTask) -> FileGroupTask:
        assert all(Path(path).exists() for path in task.data)
        return FileGroupTask(dataset_name=task.dataset_name, data=task.data, _metadata=task._metadata)


def test_own_stages_stand_between_them_and_all_run_by_hand(client: RayClient, address: str, tmp_path: Path) -> None:
    urls, fetch, read = stage(address, tmp_path / "files").decompose()
    tasks = Pipeline("own", stages=[urls, fetch, Look(), read]).run() or []
    assert sorted(text for task in tasks for text in task.data.text) == sorted(text for text, _ in EXPECTED)
    listed = urls.process(EmptyTask(dataset_name="mine"))
    assert [task._metadata["source_url"] for task in listed] == [task.data[0] for task in listed]
    files = [fetch.process(task) for task in listed]
    assert [len(task.data) for task in files] == [1, 1, 0]
    batch = read.process(files[0])
    assert isinstance(batch, DocumentBatch)
    assert (batch.dataset_name, list(batch.data.text)) == ("mine", ["ONE", "TWO"])


@pytest.mark.parametrize(("column", "name"), [(True, "file_name"), ("source", "source"), (False, None)])
def test_records_are_read_and_extracted_apart_as_in_25_09(
    client: RayClient, address: str, tmp_path: Path, column: bool | str, name: str | None
) -> None:
    base = "nemo_curator.stages.text.download.base"
    iterate_stage = names().get(f"{base}.iterator", "DocumentIterateStage")
    extract_stage = names().get(f"{base}.extract", "DocumentExtractStage")
    extract = extract_stage(extractor=Words(), add_filename_column=column)
    added = [name] if name else []
    assert (extract.name, extract.inputs()) == ("extract_words", (["data"], ["line", *added]))
    assert extract.outputs() == (["data"], ["text", *added])
    stages = [
        download.URLGenerationStage(Urls(address)),
        download.DocumentDownloadStage(Downloader(str(tmp_path / "files"))),
        iterate_stage(Lines(), None, column),
        extract,
    ]
    tasks = Pipeline("apart", stages=stages).run() or []
    assert {tuple(task.data) for task in tasks} == {("text", *added)}
    rows = sorted(tuple(row) for task in tasks for row in task.data.to_numpy())
    assert rows == sorted(row[: 1 + len(added)] for row in EXPECTED)
    records = pd.DataFrame({"line": ["a", "skip"], **({name: ["f", "f"]} if name else {})})
    made = extract.process(DocumentBatch(dataset_name="mine", data=records))
    assert made.data.to_dict("records") == [{"text": "A", **({name: "f"} if name else {})}]


def test_archives_are_cut_and_pages_extracted_apart(tmp_path: Path) -> None:
    crawl = download.CommonCrawlDownloadExtractStage("2021-23", "2021-26", str(tmp_path))
    assert [inner.name for inner in crawl.decompose()] == [
        "url_generation_maincommoncrawlurlgenerator",
        "download_commoncrawlwarcdownloader",
        "iterate_extract_commoncrawlwarciterator_commoncrawlhtmlextractor",
    ]
    run = crawl.decompose_and_apply_with()
    assert [inner.name for inner in run[2:]] == [
        "cut_files",
        "iterate_commoncrawlwarciterator",
        "extract_commoncrawlhtmlextractor",
    ]
    assert download.WikipediaDownloadExtractStage("de").get_description() == "Wikipedia de pipeline for dump latest"


NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 2,
    "cells": [
        {"cell_type": "markdown", "source": ["# Mean\n"]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": ["2"]}}, {"text": "\nprinted"}]},
    ],
}


def test_pages_with_mathematics_become_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lynx = tmp_path / "lynx"
    lynx.write_text("#!/bin/sh\nprintf 'shown: '\ncat\n")
    lynx.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    pages = [b"plain text", b"<html><p>x", json.dumps(NOTEBOOK).encode(), b"", "Grüße".encode("latin-1")]
    frame = pd.DataFrame(
        {"binary_content": pages, "url": list("abcde"), "mime_type": ["text/plain", "", "", "", "text/plain"]}
    )
    made = MathExtractStage(MathContentExtractor()).process(DocumentBatch(dataset_name="mine", data=frame))
    rows = made.data.to_dict("records")
    assert [(row["url"], row["type"], row["text"]) for row in rows] == [
        ("a", "text", "plain text"),
        ("b", "html", "shown: <html><p>x"),
        ("c", "notebook", "# Mean\n1 + 12\nprinted"),
        ("e", "text", "Grüße"),
    ]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="lynx"):
        LynxExtractor()
