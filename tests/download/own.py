"""A source of a user's own, as it was written for NeMo Curator; in a module, so that worker processes can load it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dcurate.download import DocumentDownloader, DocumentExtractor, DocumentIterator, URLGenerator


@dataclass
class OwnUrls(URLGenerator):
    """Addresses that are known."""

    urls: list[str]

    def generate_urls(self) -> list[str]:
        return self.urls


class OwnDownloader(DocumentDownloader):
    """Downloads with the standard library."""

    def _get_output_filename(self, url: str) -> str:
        return url.rpartition("/")[2]

    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        try:
            with urllib.request.urlopen(url) as response, open(path, "wb") as file:
                file.write(response.read())
        except OSError as error:
            return False, str(error)
        return True, None

    def num_workers_per_node(self) -> int | None:
        return 1


class OwnIterator(DocumentIterator):
    """Records from JSON lines; raises at one that is none."""

    def iterate(self, file_path: str) -> Iterator[dict[str, Any]]:
        with open(file_path) as file:
            for line in file:
                yield json.loads(line)

    def output_columns(self) -> list[str]:
        return ["id", "raw"]


class OwnExtractor(DocumentExtractor):
    """Upper case; nothing for what is short, and an error for what is no text."""

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | None:
        if len(record["raw"]) < 2:
            return None
        return {"id": record["id"], "text": record["raw"].upper()}

    def input_columns(self) -> list[str]:
        return ["id", "raw"]

    def output_columns(self) -> list[str]:
        return ["id", "text"]
