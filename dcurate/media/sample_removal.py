"""Compare the samples of shards of WebDataset that have no table beside them, and take some of them out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import orjson

from dcurate.errors import DataError
from dcurate.frames.excerpts import id_column
from dcurate.fs.stores import Directory
from dcurate.io.optouts import ComparedColumns
from dcurate.io.row_removal import ComparedRows
from dcurate.media.shard_removal import copy_stretches, stretches_of

#: Bytes of a member that are read, and samples that are compared at a time.
_LARGEST, _SAMPLES = 2**26, 512
_RECORD, _TEXT = "json", "txt"
#: What the record of an interleaved sample is named by.
_SAMPLE_ID = "sample_id"


def compared_samples(
    directory: Directory, shard: str, compared: ComparedColumns, *, texts: bool
) -> Iterator[ComparedRows]:
    """Yield what the samples of a shard are known by: the values of their members ``.json`` and ``.txt``, and keys.

    Raises:
        DataError: the shard cannot be read, or the record of a sample is not one.
    """
    wanted = (_RECORD, _TEXT) if texts else (_RECORD,)
    numbers: dict[str, int] = {}
    known: dict[str, dict[str, Any]] = {}
    for stretch in stretches_of(directory, shard, lambda suffix, size: suffix in wanted and size <= _LARGEST):
        if stretch.key not in numbers:
            if len(known) >= _SAMPLES:
                yield _rows(numbers, known, compared)
                known = {}
            numbers[stretch.key] = len(numbers)
        values = known.setdefault(stretch.key, {})
        if stretch.suffix in wanted and stretch.content is None:
            raise DataError(f"{directory.path(shard)!r}: {stretch.key}.{stretch.suffix} is too large to be compared")
        if stretch.suffix == _TEXT and stretch.content is not None:
            values[compared.text] = stretch.content.decode("utf-8", "replace")
        elif stretch.suffix == _RECORD and stretch.content is not None:
            try:
                record = orjson.loads(stretch.content)
            except ValueError as error:
                raise DataError(f"{directory.path(shard)!r}: {stretch.key}.json is not JSON ({error})") from error
            values.update({**record, **values} if isinstance(record, dict) else {})
    if known:
        yield _rows(numbers, known, compared)


def write_without_samples(directory: Directory, shard: str, rows: Collection[int], staged: Directory) -> int:
    """Write a shard again under its name in another directory without some samples, by their numbers.

    The members of the others stay as they are, to the byte.

    Returns:
        The bytes that were written.

    Raises:
        DataError: the shard cannot be read, or not written.
    """
    numbers: dict[str, int] = {}
    kept = []
    for stretch in stretches_of(directory, shard):
        if numbers.setdefault(stretch.key, len(numbers)) not in rows:
            kept.append(stretch)
    return copy_stretches(directory, shard, kept, staged)


def _rows(numbers: dict[str, int], known: dict[str, dict[str, Any]], compared: ComparedColumns) -> ComparedRows:
    ids = []
    for key, values in known.items():
        name = compared.id or id_column([name for name in values if name != compared.url])
        ids.append(values.get(name or _SAMPLE_ID, key))
    return ComparedRows(
        [numbers[key] for key in known],
        [values.get(compared.url) for values in known.values()],
        ids,
        [values.get(compared.text) for values in known.values()],
    )
