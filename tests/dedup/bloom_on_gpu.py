"""A Bloom pass over a batch of a stand-in for cuDF, beside the same rows on the host; see `tests.frames.stand_in`."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from typing import Any

import pyarrow as pa

from dcurate import BatchKey, DocumentBatch, Resources
from dcurate.dedup import BloomDuplicates
from tests.frames import stand_in

TEXTS = ["one", "two", None, "one", "", "é " * 200, "two", "é " * 200, "é" * 9]


def passed(data: Any, **settings: Any) -> tuple[list[str | None], int, str, list[str]]:
    """The texts that stay, how many go, which library holds those that stay, and the calls of cuDF for that."""
    stage = BloomDuplicates(tempfile.mkdtemp(), capacity=1000, **settings)
    stand_in.CALLS.clear()
    kept = stage.with_(resources=Resources(gpus=1)).process(DocumentBatch(key=BatchKey("a"), data=data))
    calls = list(stand_in.CALLS)
    (rejection,) = kept.rejections
    library = type(kept.data).__module__.partition(".")[0]
    return kept.to_arrow()["text"].to_pylist(), rejection.rows, library, calls


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap around
    stand_in.install()
    with_nulls = pa.table({"text": TEXTS})
    tables = [*[with_nulls] * 3, with_nulls.drop_null()]
    settings: list[dict[str, Any]] = [{}, {"normalize": ["case"]}, {"fields": ["text"]}, {}]
    passes = [
        [passed(rows, **chosen) for rows in (table, stand_in.DataFrame(table))]
        for table, chosen in zip(tables, settings, strict=True)
    ]
    sys.stdout.write(json.dumps(passes))
