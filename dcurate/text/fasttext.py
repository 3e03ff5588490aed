"""fastText's model files (.bin and .ftz, of version 12 or 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError
from dcurate.kernels.fasttext import HIERARCHICAL, SOFTMAX, Classified, Network, classify, fill_table, find_entries
from dcurate.kernels.layout import frozen

#: Buckets that are written at a time.
_BLOCK = 2**18
_MAGIC, _VERSIONS, _SUPERVISED = 793712314, (11, 12), 3


@dataclass(frozen=True, eq=False)
class FastTextModel:
    """A classifier trained with fastText."""

    labels: tuple[str, ...]
    network: Network

    @classmethod
    def load(cls, path: str) -> FastTextModel:
        """Read a model file.

        Raises:
            DataError: it cannot be read, or is not a supervised fastText model.
        """
        try:
            return _model(_NumberReader(np.memmap(path, np.uint8, "r")))
        except (OSError, ValueError, IndexError) as error:
            raise DataError(f"{path!r} is not a fastText classifier: {error}") from error

    def classify(self, offsets: Any, data: Any, rows: Any, wanted: int = -1) -> Classified:
        """Find the most likely label of each text numbered ``rows``, and the probability of label ``wanted``."""
        return classify(offsets, data, rows, self.network, wanted)


def compile_kernels() -> None:
    """Compile the kernels without a model."""
    bounds, letters, table = _table([b"</s>", b"__label__"])
    find_entries(frozen(letters, np.uint8), 0, np.empty(0, np.int64))
    none, matrix = np.empty(0), np.zeros((1, 1))
    network = _network(bounds, letters, table, none, matrix, matrix, none, none, np.array([1, 1, 0, 0, 0, 1, SOFTMAX]))
    classify(np.array([0, 0]), letters, np.array([0]), network)


def write_model(path: str, network: Network, labels: Sequence[str], counts: npt.NDArray[Any]) -> None:
    """Write a classifier with the loss softmax as a ``.bin`` that fastText reads.

    Args:
        path: the file.
        network: its dictionary holds words alone.
        labels: its labels, with their prefix.
        counts: number of occurrences of each word.
    """
    words, _, buckets, least, most, word_ngrams, loss = (int(size) for size in network.sizes)
    rows, weights = (np.ascontiguousarray(matrix, np.float32) for matrix in (network.rows, network.weights))
    size = rows.shape[1]
    with open(path, "wb") as file:
        file.write(
            np.array([_MAGIC, 12, size, 5, 5, 1, 5, word_ngrams, loss, 3, buckets, least, most, 100], "<i4").data
        )
        file.write(np.array([1e-4], "<f8").data)
        file.write(np.array([words + len(labels), words, len(labels)], "<i4").data)
        file.write(np.array([counts.sum(), -1], "<i8").data)
        letters, ends = network.letters.tobytes(), network.names.tolist()
        for number, count in enumerate(counts.tolist()):
            file.write(letters[ends[number] : ends[number + 1]] + b"\0" + count.to_bytes(8, "little") + b"\0")
        for label in labels:
            file.write(label.encode() + b"\0" + (1).to_bytes(8, "little") + b"\1")
        file.write(b"\0" + np.array([words + buckets, size], "<i8").tobytes() + rows[:words].tobytes())
        for first in range(0, buckets, _BLOCK):
            numbers = np.arange(first, min(first + _BLOCK, buckets))
            file.write(rows[words + (network.pruned[numbers] if network.pruned.size else numbers)].tobytes())
        file.write(b"\0" + np.array([len(labels), size], "<i8").tobytes() + weights.tobytes())


class _NumberReader:
    """Read numbers from the bytes of a file, one after the other."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._data = data
        self._at = 0

    def take(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """The next numbers."""
        stop = self._at + count * np.dtype(dtype).itemsize
        if count < 0 or stop > len(self._data):
            raise ValueError("it is truncated")
        numbers = np.frombuffer(self._data[self._at : stop].tobytes(), dtype)
        self._at = stop
        return numbers

    def whole(self, dtype: Any, count: int) -> list[int]:
        """The next numbers as Python integers."""
        return [int(number) for number in self.take(dtype, count)]

    def entries(self, count: int) -> tuple[list[bytes], list[int]]:
        """The next words and labels, with their counts."""
        if count < 0:
            raise ValueError("it has no words")
        bounds = np.empty(2 * count, np.int64)
        data, begin = frozen(self._data, np.uint8), self._at
        self._at = int(find_entries(data, begin, bounds))
        if self._at > len(data):
            raise ValueError("it is truncated")
        raw, bounds = data[begin : self._at].tobytes(), bounds - begin
        names = [raw[start:stop] for start, stop in bounds.reshape(-1, 2).tolist()]
        return names, [int.from_bytes(raw[stop + 1 : stop + 9], "little") for stop in bounds[1::2].tolist()]


def _model(file: _NumberReader) -> FastTextModel:
    magic, version = file.whole(np.int32, 2)
    if magic != _MAGIC or version not in _VERSIONS:
        raise ValueError("it has no fastText header")
    _, _, _, _, _, word_ngrams, loss, kind, buckets, least, most, _ = file.whole(np.int32, 12)
    if kind != _SUPERVISED:
        raise ValueError("it was not trained to classify")
    most = 0 if version == 11 else most
    file.take(np.float64, 1)
    size, words, labels = file.whole(np.int32, 3)
    _, pruned = file.whole(np.int64, 2)
    names, counts = file.entries(size)
    kept = _kept(file, pruned, buckets)
    quantized = bool(file.take(np.uint8, 1)[0])
    rows = _quantized(file) if quantized else _dense(file)
    weights = _quantized(file) if file.take(np.uint8, 1)[0] and quantized else _dense(file)
    if not (
        words + labels == size
        and rows.shape[1] == weights.shape[1]
        and len(rows) >= words + (pruned if pruned >= 0 else buckets)
        and len(weights) >= labels > 0
        and kept.max(initial=-1) < max(pruned, 0)
        and (buckets > 0 or (word_ngrams <= 1 and most <= 0))
    ):
        raise ValueError("its parts are inconsistent")
    tree = _tree(counts[words:]) if loss == HIERARCHICAL else (np.empty(0), np.empty(0))
    sizes = np.array([words, labels, buckets, least, most, word_ngrams, loss])
    return FastTextModel(
        tuple(name.decode() for name in names[words:]), _network(*_table(names), kept, rows, weights, *tree, sizes)
    )


def new_network(
    words: Sequence[bytes], pruned: npt.NDArray[Any], rows: npt.NDArray[Any], weights: npt.NDArray[Any], sizes: Any
) -> Network:
    """Return a network with a dictionary of these words, without labels in it.

    Args:
        words: the words, as UTF-8.
        pruned, rows, weights, sizes: as in `Network`.
    """
    none = np.empty(0)
    return _network(*_table(words), pruned, rows, weights, none, none, np.array(sizes))


def _network(*parts: npt.NDArray[Any]) -> Network:
    """The parts, each in the form that kernels take."""
    kinds = (np.int64, np.uint8, np.int32, np.int32, np.float32, np.float32, np.int32, np.int32, np.int64)
    return Network(*map(frozen, parts, kinds))


def _kept(file: _NumberReader, pruned: int, buckets: int) -> npt.NDArray[np.int32]:
    """For each bucket its position among the kept ones, or -1; empty if none was removed."""
    if pruned < 0:
        return np.empty(0, np.int32)
    pairs = file.take(np.int32, 2 * pruned).reshape(-1, 2)
    kept = np.full(max(buckets, 1), -1, np.int32)
    kept[pairs[:, 0]] = pairs[:, 1]
    return kept


def _table(names: Sequence[bytes]) -> tuple[npt.NDArray[Any], ...]:
    bounds = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=bounds[1:])
    letters = np.frombuffer(b"".join(names), np.uint8)
    table = np.zeros(1 << (2 * len(names) + 1).bit_length(), np.int32)
    fill_table(frozen(bounds, np.int64), frozen(letters, np.uint8), table)
    return bounds, letters, table


def _dense(file: _NumberReader) -> npt.NDArray[np.float32]:
    rows, columns = file.whole(np.int64, 2)
    return file.take(np.float32, rows * columns).reshape(rows, columns)


def _quantized(file: _NumberReader) -> npt.NDArray[np.float32]:
    """A quantized matrix, and possibly its quantized norms, as plain numbers."""
    has_lengths = file.take(np.uint8, 1)[0]
    rows, _ = file.whole(np.int64, 2)
    codes = file.take(np.uint8, *file.whole(np.int32, 1))
    matrix = _decoded(file, codes.reshape(rows, -1))
    if has_lengths:
        codes = file.take(np.uint8, rows)
        matrix *= _decoded(file, codes.reshape(rows, 1))
    return matrix


def _decoded(file: _NumberReader, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    width, parts, part_width, last = file.whole(np.int32, 4)
    centroids = file.take(np.float32, width * 256)
    decoded = np.empty((len(codes), width), np.float32)
    for part in range(parts):
        wide = last if part == parts - 1 else part_width
        book = centroids[part * 256 * part_width :][: 256 * wide].reshape(256, wide)
        decoded[:, part * part_width : part * part_width + wide] = book[codes[:, part]]
    return decoded


def _tree(counts: list[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The Huffman tree of labels in order of frequency: children of each node."""
    labels = len(counts)
    weights = [*counts, *[10**15] * (labels - 1)]
    left, right = np.full((2, len(weights)), -1, np.int32)
    leaf, node = labels - 1, labels
    for parent in range(labels, len(weights)):
        children = []
        for _ in range(2):
            if leaf >= 0 and weights[leaf] < weights[node]:
                children.append(leaf)
                leaf -= 1
            else:
                children.append(node)
                node += 1
        left[parent], right[parent] = children
        weights[parent] = weights[children[0]] + weights[children[1]]
    return left, right
