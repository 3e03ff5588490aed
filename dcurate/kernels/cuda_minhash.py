"""Hashes of texts and of bands of signatures on a GPU: the functions of `hashing`, `xxh3` and `minhash`.

Bits equal those of the CPU in numba's CUDA simulator; not tested on a GPU.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels import hashing, xxh3
from dcurate.kernels.cuda import CudaColumn, TextFunction, launch, on_gpu
from dcurate.kernels.hashing import hash_bytes
from dcurate.kernels.layout import INLINE, Bytes, Rows, Words
from dcurate.kernels.minhash import Signatures, hash_bands
from dcurate.kernels.xxh3 import digest_text

Span = tuple[int, int]


@njit(**INLINE)
def _bands(signatures: Signatures, span: Span, rows: int, scratch: Bytes, out: Words) -> None:
    hash_bands(signatures[span[0] : span[1]], rows, out)


@njit(**INLINE)
def _hash(data: Bytes, span: Span, tables: int, scratch: Bytes, out: Words) -> None:
    out[0] = hash_bytes(data, span[0], span[1])


@njit(**INLINE)
def _digest(data: Bytes, span: Span, tables: int, scratch: Bytes, out: Words) -> None:
    digest_text(data, span, out)


def band_keys(signatures: Signatures, bands: int, rows: int) -> Words:
    """Do as `dcurate.kernels.minhash.band_keys`."""
    number, places = signatures.shape
    out = np.empty((number, bands), np.uint64)
    launch(
        TextFunction(_bands),
        on_gpu(np.arange(number + 1) * places, signatures.reshape(-1)),
        np.arange(number),
        rows,
        out=out,
    )
    return out


def text_hashes(column: CudaColumn, rows: Rows) -> Words:
    """Do as `dcurate.kernels.hashing.text_hashes`."""
    out = np.empty((len(rows), 1), np.uint64)

    def on_cpu(long: Rows) -> Words:
        return np.stack([hashing.text_hashes(column.offsets[row : row + 2], _host(column)) for row in long])

    launch(TextFunction(_hash, on_cpu=on_cpu), column, rows, 0, out=out)
    return out[:, 0]


def text_digests(column: CudaColumn, rows: Rows) -> Words:
    """Do as `dcurate.kernels.xxh3.text_digests`."""
    out = np.empty((len(rows), 2), np.uint64)

    def on_cpu(long: Rows) -> Words:
        return np.concatenate([xxh3.text_digests(column.offsets[row : row + 2], _host(column)) for row in long])

    launch(TextFunction(_digest, on_cpu=on_cpu), column, rows, 0, out=out)
    return out


def _host(column: CudaColumn) -> Bytes:
    assert column.host is not None
    return column.host
