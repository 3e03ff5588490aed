"""Receipts of documents that were removed from an output by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory

#: Folder of the lists that were applied to an output, and of their receipts.
OPTOUTS = f"{META_DIR}/optouts/"


def receipts(directory: Directory) -> list[dict[str, Any]]:
    """Return the receipts of the lists that were applied to an output, in their order.

    Raises:
        DataError: one is damaged.
    """
    known = []
    for name in sorted(directory.files(OPTOUTS.rstrip("/"))):
        if name.endswith(".json"):
            try:
                known.append(dict(orjson.loads(directory.read(name) or b"")))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"{directory.path(name)!r} is damaged; put it back from a copy, or delete it"
                ) from error
    return known


def removed_rows(directory: Directory, first: int = 0) -> dict[str, dict[int, str]]:
    """Return the rows of each file of an output that went by request, as the run had numbered them, and when and why.

    Args:
        first: number of the first receipt of rows that it wrote; those before it are of earlier runs.

    Raises:
        DataError: a receipt is damaged.
    """
    removed: dict[str, dict[int, str]] = {}
    for receipt in receipts(directory)[first:]:
        why = f"on {receipt['when']}" + (f" ({receipt['why']})" if receipt["why"] else "")
        rows: dict[str, list[int]] = {}
        for entry in receipt["removed"]:
            rows.setdefault(entry["file"], []).append(entry["row"])
        for name, numbers in rows.items():
            earlier = removed.setdefault(name, {})
            earlier |= dict.fromkeys(_as_written(sorted(numbers), sorted(earlier)), why)
    return removed


def _as_written(numbers: Sequence[int], earlier: Sequence[int]) -> list[int]:
    """The numbers of rows before earlier ones went.

    Examples:
        >>> _as_written([0, 2, 3], earlier=[0, 3])
        [1, 4, 5]
    """
    written: list[int] = []
    gone = 0
    for number in numbers:
        while gone < len(earlier) and earlier[gone] <= number + gone:
            gone += 1
        written.append(number + gone)
    return written


def removal_sentence(receipt: Mapping[str, Any]) -> str:
    """Describe a receipt for the report of a run.

    Examples:
        >>> removal_sentence({"when": "2026-11-29", "why": "mail 17", "removed": [{}, {}]})
        '2 documents were removed by request on 2026-11-29 (mail 17); the counts are those of the run'
    """
    why = f" ({receipt['why']})" if receipt["why"] else ""
    count = len(receipt["removed"])
    documents = "1 document was" if count == 1 else f"{count:,} documents were"
    return f"{documents} removed by request on {receipt['when']}{why}; the counts are those of the run"
