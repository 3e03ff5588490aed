"""Sums of vectors by cluster, and how far each is from the middle of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import OPTIONS


@njit(**OPTIONS)
def add_rows(vectors: npt.NDArray[np.float32], labels: npt.NDArray[np.int32], totals: npt.NDArray[np.float64]) -> None:
    """Add each row of a matrix to the row of ``totals`` that its label says, in the order of the rows."""
    for row in range(len(labels)):
        total = totals[labels[row]]
        for place in range(vectors.shape[1]):
            total[place] += vectors[row, place]


@njit(**OPTIONS)
def held_against(
    vectors: npt.NDArray[np.float32], labels: npt.NDArray[np.int32], centroids: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The squared distance of each row to the centroid that its label says, and the product of the two."""
    squares, products = np.empty(len(labels)), np.empty(len(labels))
    for row in range(len(labels)):
        square = product = 0.0
        for place in range(vectors.shape[1]):
            value, middle = np.float64(vectors[row, place]), np.float64(centroids[labels[row], place])
            square += (value - middle) * (value - middle)
            product += value * middle
        squares[row], products[row] = square, product
    return squares, products
