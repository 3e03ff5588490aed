"""Receipts of documents that were removed from an output by request."""

from __future__ import annotations

from collections.abc import Mapping
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
