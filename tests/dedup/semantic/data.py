"""A dataset with embeddings, some of which are nearly copies of others, and some none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.dedup.semantic.test_kmeans import directions

Row = dict[str, Any]

#: Embeddings without a direction.
NONE: list[Any] = [None, [], [0.0] * 8, [math.nan] * 8]


def some(count: int, seed: int = 1, copies: float = 0.3) -> list[Row]:
    """Rows around ten centers; a share of them are rows before them with a little noise, or exactly."""
    draw = np.random.default_rng(seed)
    vectors = directions(10, 8, seed)[draw.integers(10, size=count)] + 0.4 * directions(count, 8, seed + 1)
    for row in range(1, count):
        if draw.random() < copies:
            vectors[row] = vectors[draw.integers(row)] + 0.02 * draw.integers(3) * directions(1, 8, row)[0]
    rows = [{"id": f"d{row}", "n": row, "text": "x" * (row % 13)} for row in range(count)]
    return [
        {**row, "embeddings": NONE[number % 4] if number % 37 == 5 else vectors[number].tolist()}
        for number, row in enumerate(rows)
    ]


def write(folder: Path, rows: list[Row], files: int = 3) -> str:
    """The rows in so many Parquet files of uneven sizes."""
    folder.mkdir(parents=True)
    bounds = [len(rows) * number * number // files**2 for number in range(files + 1)]
    schema = pa.Table.from_pylist(rows).schema if rows else pa.schema({"embeddings": pa.list_(pa.float32())})
    for number in range(files):
        table = pa.Table.from_pylist(rows[bounds[number] : bounds[number + 1]], schema)
        pq.write_table(table, folder / f"{number:02}.parquet", row_group_size=40)
    return str(folder)
