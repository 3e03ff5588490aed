"""Dumps of a Wikipedia, and the files of the newest complete one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from dcurate.core.foreign import whole_number
from dcurate.download.fetch import read
from dcurate.download.transfer import RemoteFile, Transfer, TransferError
from dcurate.download.urls import URLGenerator
from dcurate.errors import DataError, PipelineError, listed

#: Wikimedia asks for no more connections than this.
POLITE = Transfer(connections_per_host=2)

_DATE = re.compile(r'href="(?:[^"]*/)?(\d{8})/?"')
_JOB = "articlesmultistreamdump"
_DIGESTS = ("sha1", "md5")


@dataclass
class WikipediaUrlGenerator(URLGenerator):
    """List the article files of a dump, with their sizes and checksums.

    Args:
        language: language of the Wikipedia, as in its address: ``"en"``, ``"zh-min-nan"``.
        dump_date: ``"YYYYMMDD"``, or None for the newest dump whose articles are complete.
        wikidumps_index_prefix: address of the server or of a mirror.
        transfer: retries, timeouts and rate limits.

    Raises:
        PipelineError: not a language or not a date.

    Examples:
        >>> WikipediaUrlGenerator("zh-min-nan", dump_date="20260701").dump_date
        '20260701'
    """

    language: str = "en"
    dump_date: str | None = None
    wikidumps_index_prefix: str = "https://dumps.wikimedia.org"
    transfer: Transfer = POLITE
    _found: tuple[str, Mapping[str, Any]] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*", self.language):
            raise PipelineError(f"language={self.language!r} must be that of a Wikipedia's address, such as 'en'")
        if self.dump_date is not None:
            self.dump_date = self.dump_date.strip("/")
            if not re.fullmatch(r"\d{8}", self.dump_date):
                raise PipelineError(f"dump_date={self.dump_date!r} must be YYYYMMDD, or None for the newest")

    def generate_urls(self) -> list[str]:
        return [file.url for file in self.generate_files()]

    def generate_files(self) -> list[RemoteFile]:
        """The files with articles.

        Raises:
            DataError: there is no such dump, none is complete, or the server cannot be reached.
        """
        date, files = self._dump()
        return [_file(f"{self._address}/{date}/{name}", facts) for name, facts in files.items() if ".xml" in name]

    def edition(self) -> str:
        return self.dump_date or self._dump()[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_found": None}

    @property
    def _address(self) -> str:
        return f"{self.wikidumps_index_prefix.rstrip('/')}/{self.language.replace('-', '_')}wiki"

    def _dump(self) -> tuple[str, Mapping[str, Any]]:
        """The date and the files of the dump; looked up once."""
        if self._found is None:
            self._found = self._newest() if self.dump_date is None else (self.dump_date, self._files_of(self.dump_date))
        return self._found

    def _newest(self) -> tuple[str, Mapping[str, Any]]:
        page = read(f"{self._address}/", self.transfer).decode("utf-8", "replace")
        dates = sorted(set(_DATE.findall(page)), reverse=True)
        reasons: list[str] = []
        for date in dates:
            try:
                return date, self._files_of(date)
            except DataError as error:
                reasons.append(str(error))
        detail = f": {reasons[0]}" if reasons else ""
        raise DataError(f"{self._address} has no dump whose articles are complete (looked at {listed(dates)}){detail}")

    def _files_of(self, date: str) -> Mapping[str, Any]:
        """The article files of a dump by name.

        Raises:
            DataError: the dump is not there, or its articles are not complete.
        """
        address = f"{self._address}/{date}/dumpstatus.json"
        try:
            job = orjson.loads(read(address, self.transfer))["jobs"][_JOB]
            status, files = job["status"], dict(job.get("files", {}))
        except TransferError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{address} does not list {_JOB}; name another dump_date") from error
        if status != "done":
            raise DataError(
                f"the articles of {self._address}/{date} are not complete ({status}); name an older dump_date"
            )
        return files


def _file(url: str, facts: Any) -> RemoteFile:
    facts = facts if isinstance(facts, dict) else {}
    digest = next((f"{kind}:{facts[kind]}" for kind in _DIGESTS if facts.get(kind)), "")
    return RemoteFile(url, whole_number(str(facts.get("size", ""))), digest)
