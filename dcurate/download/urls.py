"""List the files to download: the source of a download pipeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from dcurate.core.batch import BatchKey, FileGroup
from dcurate.core.part import check_kind
from dcurate.core.resources import Resources
from dcurate.core.stage import SourceStage
from dcurate.download.transfer import RemoteFile, TransferError
from dcurate.errors import DataError, PipelineError
from dcurate.redaction import without_secrets

#: What a slot that lists or downloads takes of a core: hardly anything, it waits for the network.
WAITING = Resources(cpus=0.05)


class URLGenerator(ABC):
    """List the URLs of files; subclass it for your own source.

    Examples:
        >>> class Years(URLGenerator):
        ...     def generate_urls(self):
        ...         return [f"https://example.org/{year}.txt" for year in (2023, 2024)]
        >>> Years().generate_files()[0].url
        'https://example.org/2023.txt'
    """

    in_recipes: ClassVar[bool] = True

    @abstractmethod
    def generate_urls(self) -> list[str]:
        """Return the URLs, always in the same order.

        Raises:
            DataError: they cannot be listed.
        """

    def generate_files(self) -> list[RemoteFile]:
        """Return the files; override it if the publisher provides their sizes and checksums."""
        return [RemoteFile(url) for url in self.generate_urls()]

    def settings(self) -> dict[str, Any]:
        """The settings that affect the list: its public attributes, except for limits and transfer settings."""
        return {
            name: value
            for name, value in vars(self).items()
            if not name.startswith("_") and name not in ("limit", "transfer")
        }

    def edition(self) -> str:
        """The edition selected by default, such as the date of the latest dump.

        A run that is resumed after that has changed is refused.
        """
        return ""


class Targets(Protocol):
    """Interface for target paths, and for failed downloads."""

    def target(self, url: str) -> str:
        """The target path of a URL."""

    def failure(self, url: str) -> str:
        """A marker of the last failed download of a file, empty if it never failed."""


@dataclass
class GenerateUrls(SourceStage[FileGroup, FileGroup]):
    """Start a pipeline with files to download, each a split.

    The name of a split is the path in its address, so that it stays the same from one mirror to another.

    Args:
        url_generator: lists the files; on the driver, when the run begins.
        limit: maximum number of files.
        downloader: knows where files go, so that no two go to one place; and which files could not be fetched by an
            earlier run: if this one resumes it, they are asked for again.

    Raises:
        PipelineError: the limit is below one.

    Examples:
        >>> class Years(URLGenerator):
        ...     def generate_urls(self):
        ...         return [f"https://example.org/{year}.txt" for year in (2023, 2024)]
        >>> [str(split.key) for split in GenerateUrls(Years()).splits()]
        ['2023.txt', '2024.txt']
    """

    url_generator: URLGenerator
    limit: int | None = None
    downloader: Targets | None = None
    resources: Resources = WAITING

    def __post_init__(self) -> None:
        check_kind(type(self).__name__, "url_generator", self.url_generator, URLGenerator)
        if self.limit is not None and self.limit < 1:
            raise PipelineError(f"limit={self.limit!r} must be at least 1, or None for all files")
        self.name = f"url_generation_{type(self.url_generator).__name__.lower()}"

    def splits(self) -> Iterator[FileGroup]:
        """One split per file; a URL that is listed twice counts once.

        Raises:
            DataError: nothing is listed, or it cannot be; or two files would have one name.
        """
        files = list({file.url: file for file in self.url_generator.generate_files()}.values())
        if not files:
            raise DataError(f"stage {self.name!r}: {self.url_generator!r} lists no file; check its settings")
        files = files[: self.limit]
        for file in files:
            if not file.url.isascii() and file.url != file.url.encode(errors="replace").decode():
                raise DataError(f"stage {self.name!r}: the address {file.url!r} is not valid text; correct it")
        self._check_targets(files)
        for name, file in zip(_names([without_secrets(file.url) for file in files]), files, strict=True):
            failed = self.downloader.failure(file.url) if self.downloader else ""
            part = replace(file.part, version=f"{file.part.version};{failed}") if failed else file.part
            yield FileGroup(key=BatchKey(name), parts=(part,))

    def _check_targets(self, files: Sequence[RemoteFile]) -> None:
        """Refuse files with the same target name: the second would be mistaken for the first."""
        if self.downloader is None:
            return
        taken: dict[str, str] = {}
        for file in files:
            with suppress(TransferError):  # downloading says so again, with the address in quarantine
                path = self.downloader.target(file.url)
                earlier = taken.setdefault(path, file.url)
                if earlier != file.url:
                    raise DataError(
                        f"{earlier} and {file.url} would both be saved as {path!r}; give the downloader a "
                        "_get_output_filename that gives them different names"
                    )

    def columns(self) -> list[str]:
        return []

    def settings(self) -> dict[str, Any]:
        """The settings that affect the rows: the generator, and its edition; not the number of files."""
        generator = self.url_generator
        return {"kind": type(generator), "generator": generator.settings(), "edition": generator.edition()}

    def process(self, task: FileGroup) -> FileGroup:
        return task


def _path(url: str) -> str:
    """The path of a URL with its query; empty for invalid URLs, which fail when they are downloaded."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.path.lstrip('/')}?{parts.query}".removesuffix("?")


def _names(urls: Sequence[str]) -> list[str]:
    """A name for each URL: its path, with the query if it has one, or the whole URL where paths are equal.

    Examples:
        >>> _names(["https://host/a/b.gz", "https://host/get?id=7"])
        ['a/b.gz', 'get?id=7']
        >>> _names(["https://one/a.gz", "https://two/a.gz"])
        ['https://one/a.gz', 'https://two/a.gz']
    """
    names = [_path(url) for url in urls]
    counts = Counter(names)
    return [name if name and counts[name] == 1 else url for name, url in zip(names, urls, strict=True)]
