"""List arXiv's source archives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dcurate.core.foreign import whole_number
from dcurate.download.fetch import read
from dcurate.download.markup import fields
from dcurate.download.transfer import RemoteFile, Transfer, TransferError
from dcurate.download.urls import URLGenerator
from dcurate.errors import DataError
from dcurate.fs.stores import Directory

#: arXiv's bucket is paid for by whoever reads it.
REQUESTER_PAYS = Transfer(storage_options={"requester_pays": True})

_MANIFEST = "src/arXiv_src_manifest.xml"
_MD5 = re.compile(r"[0-9a-fA-F]{32}")


@dataclass
class ArxivUrlGenerator(URLGenerator):
    """List the archives of LaTeX sources, with sizes and checksums from arXiv's manifest if there is one.

    Args:
        arxiv_prefix: address of the bucket ``arxiv`` or of a copy: ``s3://``, ``https://``, a directory.
        transfer: retries, rate limits, and credentials in ``storage_options``, since the bucket's
            readers pay.

    Examples:
        >>> ArxivUrlGenerator("https://mirror.example.org/arxiv").arxiv_prefix
        'https://mirror.example.org/arxiv'
    """

    arxiv_prefix: str = "s3://arxiv"
    transfer: Transfer = REQUESTER_PAYS

    def generate_urls(self) -> list[str]:
        return [file.url for file in self.generate_files()]

    def generate_files(self) -> list[RemoteFile]:
        """The archives in name order, which is chronological.

        Raises:
            DataError: neither the manifest nor the directory can be read.
        """
        address = f"{self._prefix}/{_MANIFEST}"
        try:
            manifest = read(address, self.transfer)
        except TransferError:
            if self._prefix.startswith(("http://", "https://")):
                raise
            return self._in_directory()
        files = [self._file(entry) for entry in fields(manifest, "file", address) if entry.get("filename", "").strip()]
        return sorted(files, key=lambda file: file.url)

    @property
    def _prefix(self) -> str:
        return self.arxiv_prefix.rstrip("/")

    def _in_directory(self) -> list[RemoteFile]:
        directory = Directory(self._prefix, self.transfer.storage_options)
        entries = directory.files("src")
        if not entries:
            raise DataError(f"{self._prefix}/src holds no archive and no manifest; check arxiv_prefix and credentials")
        return [
            RemoteFile(directory.path(name), entry.size)
            for name, entry in sorted(entries.items())
            if name.endswith(".tar")
        ]

    def _file(self, facts: dict[str, str]) -> RemoteFile:
        size, digest = facts.get("size", "").strip(), facts.get("md5sum", "").strip()
        return RemoteFile(
            f"{self._prefix}/{facts['filename'].strip()}",
            whole_number(size),
            f"md5:{digest}" if _MD5.fullmatch(digest) else "",
        )
