"""Work on matrices asks CuPy for nothing that CuPy does not have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from dcurate.dedup.semantic.compare import most_similar
from dcurate.dedup.semantic.kmeans import nearest, seeds, sums_of
from tests.frames.stand_in import like

#: NumPy under the signatures of CuPy, and with nothing else.
CUPY: Any = SimpleNamespace(
    asarray=like("cupy.asarray")(np.asarray),
    take_along_axis=like("cupy.take_along_axis")(np.take_along_axis),
    tri=like("cupy.tri")(np.tri),
)


def vectors() -> Any:
    rows = np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_clusters_are_found_with_what_cupy_has() -> None:
    rows = vectors()
    begun = seeds(rows, 5, 0, True, CUPY)
    assert (begun == seeds(rows, 5, 0, True)).all()
    assert (nearest(rows, begun, CUPY)[0] == nearest(rows, begun)[0]).all()
    assert (sums_of(rows, begun, 16, CUPY).totals == sums_of(rows, begun, 16).totals).all()


def test_similar_rows_are_found_with_what_cupy_has() -> None:
    rows = vectors()
    found, expected = (
        most_similar(lambda start, stop: rows[start:stop], (0, 50), 8, 16, library) for library in (CUPY, np)
    )
    assert (found[0] == expected[0]).all()
    assert (found[1] == expected[1]).all()
