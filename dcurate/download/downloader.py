"""The download stage: from URLs to files on disk."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import uuid
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from dcurate.core.batch import FileGroup, FilePart, Rejection
from dcurate.core.part import check_kind
from dcurate.core.resources import Resources
from dcurate.core.spec import StageSpec
from dcurate.core.stage import ProcessingStage
from dcurate.download.configured import EqualBySettings
from dcurate.download.extract import OnError, check_on_error
from dcurate.download.fetch import fetch, is_whole
from dcurate.download.transfer import RemoteFile, Transfer, TransferError
from dcurate.download.urls import WAITING
from dcurate.errors import DcurateError, PipelineError
from dcurate.frames.records import table_of
from dcurate.fs.errors import storage_errors
from dcurate.redaction import without_secrets

_FAILED = ".failed"
#: How many files one slot fetches at a time where nothing else is said: a connection alone seldom fills a line.
_AT_A_TIME = 8
#: With at least this many cores, one is reserved for downloading.
_MANY_CORES = 8

#: Bytes of a file's name; file systems allow 255, and part files have a suffix.
_LONGEST_NAME = 230
_BEGIN, _END = 150, 50

_log = logging.getLogger("dcurate.download")


class DocumentDownloader(EqualBySettings, ABC):
    """Download files to a directory; subclass it for your own protocol, or use `FileDownloader`.

    Args:
        download_dir: target folder. Every worker that reads the files should see it; otherwise the file is
            downloaded there again.
        verbose: whether each file is logged, to the logger ``dcurate.download``.

    Examples:
        >>> import shutil, tempfile
        >>> from pathlib import Path
        >>> class FromDisk(DocumentDownloader):
        ...     def _get_output_filename(self, url):
        ...         return url.rpartition("/")[2]
        ...     def _download_to_path(self, url, path):
        ...         shutil.copy(url.removeprefix("file://"), path)
        ...         return True, None
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_text("text")
        ...     Path(FromDisk(f"{folder}/files").download(f"file://{folder}/a.txt")).name
        'a.txt'
    """

    in_recipes: ClassVar[bool] = True

    def __init__(self, download_dir: str, verbose: bool = False) -> None:
        if "://" in str(download_dir):
            raise PipelineError(
                f"download_dir={download_dir!r} must be a directory on a disk of the workers, not an URL"
            )
        self._download_dir = os.path.abspath(download_dir)
        self._verbose = verbose

    def _settings(self) -> dict[str, Any]:
        return {"download_dir": self._download_dir, **super()._settings()}

    @abstractmethod
    def _get_output_filename(self, url: str) -> str:
        """The name of the file of a URL, without directory."""

    @abstractmethod
    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        """Download a file to a path; return whether it succeeded, and if not the reason."""

    def download(self, url: str) -> str | None:
        """Download the file of a URL, unless it exists; return its path.

        Raises:
            TransferError: it cannot be fetched. An override may also answer None.
        """
        path = self.target(url)
        if is_whole(path, RemoteFile(url)):
            return path
        temporary = f"{path}.{os.getpid()}.tmp"
        with storage_errors("write", path):
            os.makedirs(self._download_dir, exist_ok=True)
            well, reason = self._tried(url, temporary)
            if not well:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise TransferError(f"cannot fetch {url}: {reason or 'the downloader gave no reason'}")
            os.replace(temporary, path)
        return path

    def _tried(self, url: str, path: str) -> tuple[bool, str | None]:
        """Download a file with user code; its exceptions are the reason, unless the disk is full."""
        try:
            return self._download_to_path(url, path)
        except DcurateError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False, f"{type(error).__name__}: {error}"

    def fetch(self, file: RemoteFile) -> str | None:
        """The same for a file with more known properties than its URL."""
        return self.download(file.url)

    def note_failure(self, url: str) -> None:
        """Record that a file could not be downloaded, so that a resumed run tries again."""
        with storage_errors("write", self._mark(url)):
            os.makedirs(os.path.dirname(self._mark(url)), exist_ok=True)
            with open(self._mark(url), "w", encoding="ascii") as mark:
                mark.write(uuid.uuid4().hex[:8])

    def failure(self, url: str) -> str:
        """A marker of the last failed download of a file, empty if it never failed."""
        try:
            with open(self._mark(url), encoding="ascii") as mark:
                return mark.read()
        except FileNotFoundError:
            return ""

    def num_workers_per_node(self) -> int | None:
        """The number of slots that download on each host, or None to let the run decide."""
        return None

    @property
    def at_a_time(self) -> int:
        """The number of files that one slot downloads in parallel threads; above one only if `fetch` is thread-safe."""
        return 1

    def _mark(self, url: str) -> str:
        name = hashlib.blake2b(url.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return os.path.join(self._download_dir, _FAILED, name)

    def target(self, url: str) -> str:
        """The target path of a URL.

        Raises:
            TransferError: its name is not a valid file name.
        """
        try:
            name = self._get_output_filename(url)
        except ValueError as error:  # such as urlsplit raises for text that is no address
            raise TransferError(f"cannot fetch {url!r}: {error}; check the address") from error
        if os.path.basename(name) != name or name in ("", ".", "..") or "\0" in name:
            raise TransferError(f"cannot fetch {url!r}: {name!r} cannot be the name of a file")
        return os.path.join(self._download_dir, _short(name))


def _short(name: str) -> str:
    """The name, or if it is too long for a file its beginning and end, with a digest of all of it between them."""
    encoded = name.encode(errors="surrogatepass")
    if len(encoded) <= _LONGEST_NAME:
        return name
    digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()
    begin, end = (part.decode(errors="ignore") for part in (encoded[:_BEGIN], encoded[-_END:]))
    return f"{begin}-{digest}-{end}"


class FileDownloader(DocumentDownloader):
    """Download files over HTTP and from every fsspec store.

    Interrupted transfers resume where they stopped, also in another run, and are retried when servers are busy. Sizes
    and checksums are verified if the publisher gives them. A file gets its final name when it is complete.

    Args:
        download_dir: see `DocumentDownloader`.
        verbose: see `DocumentDownloader`.
        transfer: retries, timeouts and rate limits.

    Examples:
        >>> FileDownloader("downloads")._get_output_filename("https://host/crawl/a.warc.gz")
        'host-crawl-a.warc.gz'
    """

    def __init__(self, download_dir: str, verbose: bool = False, transfer: Transfer | None = None) -> None:
        super().__init__(download_dir, verbose)
        self.transfer = transfer or Transfer()

    def _get_output_filename(self, url: str) -> str:
        parts = urlsplit(url)
        name = f"{parts.netloc.rpartition('@')[2]}{parts.path}".strip("/").replace("/", "-")
        return f"{hashlib.blake2b(parts.query.encode(), digest_size=4).hexdigest()}-{name}" if parts.query else name

    def num_workers_per_node(self) -> int | None:
        """One slot on each host with limited connections and many cores: more would only wait.

        Such a slot has a process to itself. Where cores are few that would be a large share of them, and all processes
        download now and then instead.
        """
        limited = self.transfer.connections_per_host is not None
        return 1 if limited and (os.cpu_count() or 1) >= _MANY_CORES else None

    @property
    def at_a_time(self) -> int:
        return self.transfer.connections_per_host or _AT_A_TIME

    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        fetch(RemoteFile(url), path, self.transfer)
        return True, None

    def download(self, url: str) -> str:
        return self.fetch(RemoteFile(url))

    def fetch(self, file: RemoteFile) -> str:
        path = self.target(file.url)
        fetch(file, path, self.transfer)
        if self._verbose:
            _log.info("%s is at %s", file.url, path)
        return path


@dataclass
class DownloadedFiles(FileGroup):
    """Downloaded files, with their sources.

    Its size counts the bytes on disk: the run bounds queued data, and so how far downloads run ahead of
    reading.

    Attributes:
        origins: of each file, where it came from.
        ranges: how many batches share the one file, each with a range of it.
    """

    origins: tuple[RemoteFile, ...] = field(default=())
    ranges: int = 1

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def __sizeof__(self) -> int:
        return 512 + sum(len(part.path) for part in self.parts)


@dataclass
class DownloadFiles(ProcessingStage[FileGroup, DownloadedFiles]):
    """Download files; see `FileDownloader` for the transfer.

    Args:
        downloader: downloads the files.
        on_error: handling of failed downloads: ``"quarantine"`` records the URL and the reason in
            quarantine and continues (a resumed run tries again), ``"raise"`` ends the run. A disk that is
            full ends it in any case.

    Raises:
        PipelineError: ``on_error`` is neither.

    Examples:
        >>> from dcurate.download import FileDownloader
        >>> DownloadFiles(FileDownloader("files"), on_error="raise").on_error
        'raise'
    """

    downloader: DocumentDownloader
    on_error: OnError = "quarantine"
    resources: Resources = WAITING

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_kind(type(self).__name__, "downloader", self.downloader, DocumentDownloader)
        self.name = f"download_{type(self.downloader).__name__.lower()}"
        self.batch_size = self.downloader.at_a_time
        self.spec = StageSpec(num_workers_per_node=self.downloader.num_workers_per_node())

    def settings(self) -> dict[str, Any]:
        """The settings that affect the rows: the kind of downloader; not target folders nor transfer settings."""
        return {"downloader": type(self.downloader)}

    def process_batch(self, tasks: list[FileGroup]) -> list[DownloadedFiles]:
        """Download the files of several tasks concurrently: a slot waits for the network, not for one server."""
        with ThreadPoolExecutor(max(1, len(tasks))) as threads:
            return list(threads.map(self.process, tasks))

    def process(self, task: FileGroup) -> DownloadedFiles:
        """Download the files of the URLs.

        Raises:
            DataError: a file cannot be written, or with ``on_error="raise"`` not be fetched.
        """
        parts, origins, failures = [], [], []
        for file in map(RemoteFile.of, task.parts):
            try:
                path = self.downloader.fetch(file)
                if path is None:
                    raise TransferError(f"cannot fetch {file.url}: the downloader gave no reason")
            except TransferError as error:
                if self.on_error == "raise":
                    raise
                self.downloader.note_failure(file.url)
                failures.append({"url": without_secrets(file.url), "error": str(error)})
                continue
            parts.append(FilePart(path, size=os.stat(path).st_size, version=file.digest))
            origins.append(file)
        files = DownloadedFiles(key=task.key, parts=tuple(parts), origins=tuple(origins))
        if failures:
            data = table_of(failures)
            files.rejections = (Rejection(self.name, "not fetched", len(failures), data.nbytes, data, fault=True),)
        return files
