"""Stages that download, by hand and in a pipeline."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dcurate import InlineExecutor, Pipeline
from dcurate.compat.nemo.bridge import engine_stages
from dcurate.compat.nemo.download_stages import (
    CommonCrawlDownloadExtractStage,
    DocumentDownloader,
    DocumentDownloadExtractStage,
    DocumentDownloadStage,
    DocumentIterateExtractStage,
    URLGenerationStage,
    WikipediaDownloadExtractStage,
)
from dcurate.compat.nemo.stages import processing_stage
from dcurate.compat.nemo.tasks import EmptyTask, FileGroupTask, TaskBatch
from dcurate.core.batch import BatchKey
from dcurate.download.extract import DocumentExtractor
from dcurate.download.iterate import DocumentIterator
from dcurate.download.urls import URLGenerator


class Files(URLGenerator):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def generate_urls(self):
        return [str(path) for path in sorted(self.folder.iterdir())] + [f"{self.folder}/gone.txt"]


class Copy(DocumentDownloader):
    def _get_output_filename(self, url: str) -> str:
        return Path(url).name

    def _download_to_path(self, url: str, path: str):
        if not Path(url).exists():
            return False, "no such file"
        shutil.copy(url, path)
        return True, None


class Lines(DocumentIterator):
    def iterate(self, file_path: str):
        with open(file_path) as file:
            yield from ({"line": line.strip()} for line in file)

    def output_columns(self):
        return ["line"]


class Upper(DocumentExtractor):
    def extract(self, record):
        return {"text": record["line"].upper()} if record["line"] else None

    def input_columns(self):
        return ["line"]

    def output_columns(self):
        return ["text"]


@pytest.fixture
def stage(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "in" / "b.txt").write_text("three\n")
    return DocumentDownloadExtractStage(Files(tmp_path / "in"), Copy(str(tmp_path / "out")), Lines(), Upper())


ROWS = [("ONE", "a.txt"), ("TWO", "a.txt"), ("THREE", "b.txt")]


def rows_of(batches):
    return [row for batch in batches for row in batch.to_pandas()[["text", "file_name"]].itertuples(False, None)]


def names_of(stages):
    return [type(stage).__name__ for stage in stages]


def test_stages_called_by_hand(stage):
    urls, download, read = stage.decompose()
    tasks = urls.process(EmptyTask(dataset_name="mine"))
    assert [task._metadata["source_url"] for task in tasks] == [task.data[0] for task in tasks]
    files = [download.process(task) for task in tasks]
    assert [Path(path).name for task in files for path in task._metadata["source_files"]] == ["a.txt", "b.txt"]
    assert rows_of(map(read.process, files[:2])) == ROWS
    assert {task.dataset_name for task in files} == {"mine"}


def test_a_pipeline_runs_dcurates_stages_and_sets_aside_what_cannot_be_downloaded(stage):
    own: list[Any] = engine_stages(stage.decompose())
    assert names_of(own) == ["URLGenerationStage", "DocumentDownloadStage", "DocumentIterateExtractStage"]
    assert own[0].downloader is stage.downloader
    result = Pipeline("download", stages=own).run(InlineExecutor(), observers=[])
    assert rows_of(result) == ROWS
    assert result.report.stages[1].faulty == {"not fetched": 1}


def test_after_a_persons_own_source_the_stages_run_as_they_are(stage, tmp_path):
    @processing_stage(name="source")
    def source(task):
        return [FileGroupTask(dataset_name="mine", data=[str(path)]) for path in sorted((tmp_path / "in").iterdir())]

    own = engine_stages([source, *stage.decompose()[1:]])
    assert names_of(own) == ["ForeignStage"] * 3
    begin = [TaskBatch(task=EmptyTask(), key=BatchKey("0"))]
    result = Pipeline("download", stages=own).run(InlineExecutor(), begin, observers=[])
    assert rows_of(result) == ROWS


def test_large_files_are_cut_and_pages_extracted_apart(tmp_path):
    crawl = CommonCrawlDownloadExtractStage("2020-50", "2020-50", str(tmp_path))
    assert names_of(engine_stages(crawl.decompose())) == [
        "URLGenerationStage",
        "DocumentDownloadStage",
        "FileCutStage",
        "DocumentIterateExtractStage",
        "DocumentExtractStage",
    ]
    limited = CommonCrawlDownloadExtractStage("2020-50", "2020-50", str(tmp_path), record_limit=2)
    assert len(engine_stages(limited.decompose())) == 3
    wiki = WikipediaDownloadExtractStage("de", str(tmp_path))
    assert names_of(engine_stages(wiki.decompose()))[2:] == ["FileCutStage", "DocumentIterateExtractStage"]


def test_a_limit_of_zero_and_errors(stage, caplog):
    assert URLGenerationStage(stage.url_generator, limit=0).process(EmptyTask()) == []
    assert DocumentDownloadStage(stage.downloader).process(FileGroupTask(dataset_name="x", data=["/gone"])).data == []
    assert "Failed to download" in caplog.text
    batch = DocumentIterateExtractStage(Lines(), Upper()).process(FileGroupTask(dataset_name="x", data=["/gone"]))
    assert batch.num_items == 0
    assert "Error iterating /gone" in caplog.text
    with pytest.raises(ValueError, match="crawl_type"):
        CommonCrawlDownloadExtractStage("2020-50", "2020-50", "x", crawl_type="old")  # type: ignore[arg-type]
