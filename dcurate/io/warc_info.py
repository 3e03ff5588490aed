"""What web archives say of the crawl that they are of: their first records, of type ``warcinfo``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.io.files import Format, list_files
from dcurate.io.warc import Record, iterate_records

_WARC = Format("WARC", (".warc", ".warc.lz4", ".wet", ".wet.lz4"), compressed=True)
#: The longest description that is read; a crawler's has less than 2,000 bytes.
_LARGEST = 2**16


def crawl_descriptions(
    file_paths: list[str], most: int, options: Mapping[str, Any] | None = None
) -> Iterator[Mapping[str, str]]:
    """Yield the fields of the description of each archive, by their names in lower case; empty without one.

    Args:
        file_paths: files, directories and globs.
        most: archives that are looked at.
        options: fsspec's ``storage_options``.

    Raises:
        DataError: there are no archives, or they cannot be read.
    """
    for file in list_files(file_paths, _WARC, options)[:most]:
        store, path = open_store(file.path, options)
        with storage_errors("read", file.path), store.open(path, "rb") as opened:
            first = next(iterate_records(opened, largest=_LARGEST), None)
        yield _fields(first) if isinstance(first, Record) and first.kind == "warcinfo" else {}


def _fields(record: Record) -> dict[str, str]:
    lines = record.content.decode("utf-8", "replace").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon and value.strip()}
