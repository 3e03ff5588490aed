"""Downloads in NeMo Curator's parts: list, download, read and extract."""

from __future__ import annotations

import copy
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

import dcurate
import dcurate.download
from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.earlier import ARGUMENTS, earlier_names
from dcurate.compat.nemo.files import resolve_filename_column
from dcurate.compat.nemo.stages import CompositeStage, Resources, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask, TaskBatch
from dcurate.compat.nemo.verbose import log_progress
from dcurate.core.batch import FileGroup, FilePart
from dcurate.core.extras import needed
from dcurate.download.common_crawl.crawls import BaseCommonCrawlUrlGenerator
from dcurate.download.iterate import FileCut, RangeIterator
from dcurate.download.transfer import RemoteFile, TransferError
from dcurate.download.urls import WAITING

__all__ = ["BaseCommonCrawlUrlGenerator"]

_log = logging.getLogger("dcurate.compat.nemo")

_URLGenerationStage: type[Any] = builtin.URLGenerationStage
_DocumentDownloadStage: type[Any] = builtin.DocumentDownloadStage
_DocumentIterateExtractStage: type[Any] = builtin.DocumentIterateExtractStage
_DocumentExtractStage: type[Any] = builtin.DocumentExtractStage

#: Archives are cut into ranges of about this many bytes, which several workers read.
_BLOCKSIZE = "32MiB"


def _files(task: Any) -> FileGroupTask | None:
    """The files of a task of NeMo Curator's; None for one of the engine's own."""
    held = task.task if isinstance(task, TaskBatch) else task
    return held if isinstance(held, FileGroupTask) else None


def _returned(task: Any, made: FileGroupTask) -> Any:
    return TaskBatch(task=made) if isinstance(task, TaskBatch) else made


class DocumentDownloader(dcurate.download.DocumentDownloader):
    """Download files to a folder, which is made; subclass it for your own protocol.

    Args:
        download_dir: target folder.
        verbose: whether each file is logged.
    """

    def __init__(self, download_dir: str, verbose: bool = False) -> None:
        super().__init__(download_dir, verbose)
        os.makedirs(self._download_dir, exist_ok=True)

    def download(self, url: str) -> str | None:
        """Download the file of a URL, unless it exists; return its path, or None if that fails, as the log says."""
        try:
            path = self.target(url)
            if self._verbose and os.path.exists(path) and os.path.getsize(path):
                log_progress("File: %s exists. Not downloading", path)
            elif self._verbose:
                made = super().download(url)
                log_progress("Successfully downloaded to %s", made)
            return super().download(url)
        except TransferError as error:
            _log.error("Failed to download to %s: %s", self._download_dir, error)
            return None

    def fetch(self, file: RemoteFile) -> str | None:
        """The same for the engine, which wants to know why it failed."""
        if type(self).download is DocumentDownloader.download:
            return super().download(file.url)
        return self.download(file.url)


DocumentDownloader.register(dcurate.download.FileDownloader)


@dataclass
class URLGenerationStage(_URLGenerationStage):  # type: ignore[misc]
    """Begin a pipeline with files to download.

    Args:
        url_generator: lists the files.
        limit: the most files.
    """

    def __post_init__(self) -> None:
        limit: int | None = vars(self)["limit"]
        self.limit: int | None = limit or None
        super().__post_init__()
        self.limit = limit
        if vars(self).get("resources", WAITING) is WAITING:
            self.resources: Any = Resources(cpus=0.5)

    def outputs(self) -> Spec:
        return ["data"], []

    def is_fanout_stage(self) -> bool:
        return True

    def num_workers(self) -> int | None:
        return 1

    def splits(self) -> Iterator[FileGroup]:
        """The files, each a split."""
        return iter(()) if self.limit == 0 else super().splits()

    def process(self, task: Any) -> Any:
        """A task for each file, if called by hand with an `EmptyTask`."""
        if not isinstance(task, EmptyTask):
            return super().process(task)
        urls = self.url_generator.generate_urls()[: self.limit]
        name = task.dataset_name
        return [FileGroupTask(dataset_name=name, data=[url], _metadata={"source_url": url}) for url in urls]


@dataclass
class DocumentDownloadStage(_DocumentDownloadStage):  # type: ignore[misc]
    """Download files.

    Args:
        downloader: downloads a file.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if vars(self).get("resources", WAITING) is WAITING:
            self.resources: Any = Resources(cpus=0.5)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: Any) -> Any:
        """The files of a task on disk; those that cannot be downloaded are left out."""
        file_task = _files(task)
        if file_task is None:
            return super().process(task)
        paths = [path for path in map(self.downloader.download, file_task.data) if path]
        metadata = {**file_task._metadata, "source_files": paths}
        made = FileGroupTask(
            dataset_name=file_task.dataset_name, data=paths, _metadata=metadata, _stage_perf=file_task._stage_perf
        )
        return _returned(task, made)


@earlier_names(**ARGUMENTS)
@dataclass
class DocumentIterateExtractStage(_DocumentIterateExtractStage):  # type: ignore[misc]
    """Read the records of files, and make a row of each.

    Args:
        iterator: reads the records of a file.
        extractor: makes a row of a record; without it the records are the rows.
        record_limit: the most rows of a file.
        add_filename_column: keep the name of the file: True for ``file_name``, or the name of the column.
    """

    def __post_init__(self) -> None:
        limit: int | None = vars(self)["record_limit"]
        self.record_limit: int | None = limit or None
        super().__post_init__()
        self.record_limit = limit
        self.resources = Resources()

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], super().outputs()[1]

    def ray_stage_spec(self) -> dict[str, Any]:
        return {"max_calls_per_worker": self.max_calls_per_worker} if self.max_calls_per_worker is not None else {}

    def process(self, task: Any) -> Any:
        """The rows of a task's files; files that cannot be read are named in the log."""
        file_task = _files(task)
        if file_task is None:
            return super().process(task)
        batches = super().process(FileGroup(parts=tuple(map(FilePart, file_task.data))))
        for lost in batches[-1].rejections:
            for record in lost.data.to_pylist() if lost.fault else ():
                _log.error("Error iterating %s: %s", record["file"], record["error"])
        frames = [batch.to_pandas() for batch in batches]
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        made = DocumentBatch(
            dataset_name=file_task.dataset_name,
            data=frame,
            _metadata=dict(file_task._metadata),
            _stage_perf=file_task._stage_perf,
        )
        return made.plain() if isinstance(task, TaskBatch) else made


class DocumentIterateStage(DocumentIterateExtractStage):
    """Read the records of files, as version 25.09 has it.

    Args:
        iterator: reads the records of a file.
        record_limit: the most records of a file.
        add_filename_column: keep the name of the file.
    """

    def __init__(self, iterator: Any, record_limit: int | None = None, add_filename_column: bool | str = True) -> None:
        super().__init__(iterator, None, record_limit, add_filename_column)


class DocumentExtractStage(_DocumentExtractStage):  # type: ignore[misc]
    """Make a row of each record of a batch, as version 25.09 has it.

    Args:
        extractor: makes a row of a record.
        add_filename_column: keep the name of the file: True for ``file_name``, or the name of the column.
    """

    def __init__(self, extractor: Any, add_filename_column: bool | str = True) -> None:
        self.filename_col = resolve_filename_column(add_filename_column)
        super().__init__(extractor, [self.filename_col] if self.filename_col else [])
        self.add_filename_column = add_filename_column

    def inputs(self) -> Spec:
        return ["data"], super().inputs()[1]

    def outputs(self) -> Spec:
        return ["data"], super().outputs()[1]

    def process(self, task: Any) -> Any:
        """The rows of a batch; a pandas frame if called by hand."""
        made = super().process(task)
        return made.with_data(made.to_pandas()) if isinstance(task, DocumentBatch) else made


@dataclass
class DocumentDownloadExtractStage(CompositeStage[EmptyTask, DocumentBatch]):
    """List files, download them, read their records, and make a row of each.

    Args:
        url_generator: lists the files.
        downloader: downloads a file.
        iterator: reads the records of a file.
        extractor: makes a row of a record; without it the records are the rows.
        url_limit: the most files.
        record_limit: the most rows of a file.
        add_filename_column: keep the name of the file: True for ``file_name``, or the name of the column.
        extractor_max_calls_per_worker: not used; processes whose memory grows are restarted anyway.
    """

    url_generator: Any
    downloader: Any
    iterator: Any
    extractor: Any = None
    url_limit: int | None = None
    record_limit: int | None = None
    add_filename_column: bool | str = True
    extractor_max_calls_per_worker: int | None = None

    #: See `_BLOCKSIZE`; and whether pages are extracted in a stage of their own, so that one that crashes is isolated.
    _blocksize: ClassVar[str | None] = None
    _extracts_apart: ClassVar[bool] = False

    def __post_init__(self) -> None:
        kinds = [type(part).__name__ for part in (self.url_generator, self.downloader)]
        self.name = f"document_download_extract_{'_'.join(kinds).lower()}_composite"
        self._description = f"URL-Download-Iterate-Extract pipeline using {' and '.join(kinds)}"
        self.stages: list[Any] = [
            URLGenerationStage(self.url_generator, self.url_limit, self.downloader),
            DocumentDownloadStage(self.downloader),
            DocumentIterateExtractStage(
                iterator=self.iterator,
                extractor=self.extractor,
                record_limit=self.record_limit,
                add_filename_column=self.add_filename_column,
                max_calls_per_worker=self.extractor_max_calls_per_worker,
                downloader=self.downloader,
            ),
        ]

    def decompose(self) -> list[Any]:
        """The inner stages, for `with_`."""
        return self.stages

    def decompose_and_apply_with(self) -> list[Any]:
        """The stages that run: large files are cut where they can be, and pages are extracted apart."""
        urls, download, reading = super().decompose_and_apply_with()
        if self.record_limit:
            return [urls, download, reading]
        blocksize = self._blocksize if isinstance(self.iterator, RangeIterator) else None
        cut = [FileCut(blocksize).with_(resources=WAITING)] if blocksize is not None else []
        if not self._extracts_apart or self.extractor is None:
            return [urls, download, *cut, reading]
        combined, reading = reading, copy.copy(reading)
        reading.extractor, reading.name = None, f"iterate_{type(self.iterator).__name__.lower()}"
        extract = DocumentExtractStage(self.extractor, combined.filename_col or False)
        extract.resources = combined.resources
        return [urls, download, *cut, reading, extract]

    def get_description(self) -> str:
        return self._description


class CommonCrawlDownloadExtractStage(DocumentDownloadExtractStage):
    """Download Common Crawl, and extract the text of its pages; see `dcurate.download.DownloadCommonCrawl`.

    Args:
        settings: those of dcurate's stage.
    """

    _blocksize, _extracts_apart = _BLOCKSIZE, True

    def __init__(  # noqa: PLR0913, PLR0917 - NeMo Curator's order
        self,
        start_snapshot: str,
        end_snapshot: str,
        download_dir: str,
        crawl_type: str = "main",
        html_extraction: Any = None,
        html_extraction_kwargs: Mapping[str, Any] | None = None,
        stop_lists: Mapping[str, frozenset[str]] | None = None,
        use_aws_to_download: bool = False,
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        extractor_max_calls_per_worker: int | None = None,
        **settings: Any,
    ) -> None:
        self.crawl_type, self.start_snapshot, self.end_snapshot = crawl_type, start_snapshot, end_snapshot
        base = dcurate.download.DownloadCommonCrawl(
            start_snapshot,
            end_snapshot,
            download_dir,
            crawl_type,  # type: ignore[arg-type]
            html_extraction,
            html_extraction_kwargs,
            stop_lists,
            use_aws_to_download,
            verbose,
            url_limit,
            record_limit,
            add_filename_column,
            **settings,
        )
        base.extractor = builtin.CommonCrawlHTMLExtractor(html_extraction, html_extraction_kwargs, stop_lists)
        _take(self, base, extractor_max_calls_per_worker)
        self._description = f"Common Crawl {crawl_type} pipeline: {start_snapshot} to {end_snapshot}"


class WikipediaDownloadExtractStage(DocumentDownloadExtractStage):
    """Download a Wikipedia, and extract the text of its articles; see `dcurate.download.DownloadWikipedia`.

    Args:
        settings: those of dcurate's stage.
    """

    _blocksize = _BLOCKSIZE

    def __init__(  # noqa: PLR0913, PLR0917 - NeMo Curator's order
        self,
        language: str = "en",
        download_dir: str = "./wikipedia_downloads",
        dump_date: str | None = None,
        wikidumps_index_prefix: str = "https://dumps.wikimedia.org",
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        log_frequency: int = 1000,
        **settings: Any,
    ) -> None:
        self.language, self.download_dir, self.dump_date = language, download_dir, dump_date
        self.wikidumps_index_prefix, self.verbose, self.log_frequency = wikidumps_index_prefix, verbose, log_frequency
        base = dcurate.download.DownloadWikipedia(
            language,
            download_dir,
            dump_date,
            wikidumps_index_prefix,
            verbose,
            url_limit,
            record_limit,
            add_filename_column,
            log_frequency,
            **settings,
        )
        _take(self, base)
        self._description = f"Wikipedia {language} pipeline for dump {dump_date or 'latest'}"


class ArxivDownloadExtractStage(DocumentDownloadExtractStage):
    """Download arXiv's sources, and extract the text of the papers; see `dcurate.download.DownloadArxiv`.

    Args:
        settings: those of dcurate's stage.
    """

    def __init__(  # noqa: PLR0917 - NeMo Curator's order
        self,
        download_dir: str = "./arxiv_downloads",
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        log_frequency: int = 1000,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        base = dcurate.download.DownloadArxiv(
            download_dir, url_limit, record_limit, add_filename_column, log_frequency, verbose, **settings
        )
        _take(self, base)
        self._description = "Arxiv pipeline"


def _take(stage: DocumentDownloadExtractStage, base: Any, max_calls: int | None = None) -> None:
    """Make a stage of the parts of dcurate's."""
    parts = (base.url_generator, base.downloader, base.iterator, base.extractor)
    DocumentDownloadExtractStage.__init__(
        stage, *parts, base.url_limit, base.record_limit, base.add_filename_field, max_calls
    )
    stage.name = base.name


_WITHOUT_LIST = ("THAI", "CHINESE", "JAPANESE")

#: jusText's names that are not those of the language detector.
_OTHER_NAMES = {
    "Haitian": "HAITIAN_CREOLE",
    "Norwegian_Bokmal": "NORWEGIAN",
    "Norwegian_Nynorsk": "NORWEGIAN_N",
    "Waray_Waray": "WARAY_PHILIPPINES",
}


def get_stop_list_dict(languages: Sequence[str] | None = None) -> dict[str, frozenset[str]]:
    """Stop words by the name of their language in capitals.

    For Thai, Chinese and Japanese, which jusText has no list of, there are none: extractors keep all paragraphs.

    Args:
        languages: by jusText's names; all but Latin if not given.
    """
    justext = needed("justext", "get_stop_list_dict", "html")
    names = languages or [*(name for name in sorted(justext.get_stoplists()) if name != "Latin"), *_WITHOUT_LIST]
    keys = {name: _OTHER_NAMES.get(name, name.upper()) for name in names}
    return {
        key: frozenset() if key in _WITHOUT_LIST else frozenset(justext.get_stoplist(name))
        for name, key in keys.items()
    }


def check_s5cmd_installed() -> bool:
    """Whether the command s5cmd is on the PATH; dcurate does not use it."""
    return shutil.which("s5cmd") is not None
