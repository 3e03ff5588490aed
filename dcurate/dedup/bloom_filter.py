"""A Bloom filter in a folder, which all processes of a host put their documents into."""

from __future__ import annotations

import hashlib
import io
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.batch import BatchKey
from dcurate.dedup.bloom_size import BloomSize
from dcurate.errors import DataError, PipelineError
from dcurate.fs.errors import storage_errors
from dcurate.fs.locks import locked
from dcurate.fs.stores import Directory
from dcurate.kernels import bloom
from dcurate.kernels.layout import Words

_BITS, _ABOUT, _LOCK, _PENDING, _TMP = "filter.bin", "filter.json", "lock", "pending", "tmp"


@dataclass(frozen=True)
class BloomState:
    """The state of a filter.

    Attributes:
        capacity: the number of documents that it was made for.
        documents: number of distinct documents in it; killed processes may leave a few uncounted.
        rate: the current false positive rate, from the bits that are set.
        nbytes: its size.
    """

    capacity: int
    documents: int
    rate: float
    nbytes: int


class Claim(NamedTuple):
    """The answer to a batch.

    Attributes:
        new: mask of the rows that are.
        held: how many keys the filter holds after it.
        other: whether the batch of this name seems to have been another one before.
    """

    new: npt.NDArray[np.bool_]
    held: int
    other: bool


class BloomFolder:
    """A Bloom filter in a folder of a local disk.

    A batch that claims keys holds a lock from the lookup until its own keys are in. The answer is written to disk under
    the key of the batch before a bit is set. A batch that asks again after a failure gets the same answer, so it never
    takes its own document for a duplicate.

    Args:
        path: path of the folder; it is made, or was made with the same settings.
        capacity, rate: see `BloomSize.of`.
        settings: further settings that decide the keys.

    Raises:
        PipelineError: the filter was made with other settings.
        DataError: the folder holds something else, or cannot be written.
    """

    def __init__(self, path: str, capacity: int, rate: float, settings: Mapping[str, Any]) -> None:
        self.size = BloomSize.of(capacity, rate)
        self._directory, self._pending = Directory(path), Path(path, _PENDING)
        about = {"capacity": capacity, "false_positive_rate": rate, **settings}
        self._about = orjson.loads(orjson.dumps(about))
        with storage_errors("write", path):
            os.makedirs(path, exist_ok=True)
            self._lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT, 0o666)
        self.close = weakref.finalize(self, os.close, self._lock)
        with locked(self._lock):
            self._make()
        mapped = np.asarray(np.memmap(os.path.join(path, _BITS), np.uint64, "r+"))
        self._held, self._words = mapped[:1], mapped[bloom.BLOCK_WORDS :]

    @classmethod
    def existing(cls, path: str) -> BloomFolder:
        """The filter that is there.

        Raises:
            DataError: there is none.
        """
        known = Directory(path).read(_ABOUT)
        if known is None:
            raise DataError(f"{path!r} holds no Bloom filter; check the path")
        about = orjson.loads(known)
        return cls(path, about.pop("capacity"), about.pop("false_positive_rate"), about)

    def claim(self, name: str, keys: Words) -> Claim:
        """Ask which keys are new, the first time that each occurs, and put these in.

        Args:
            name: name of the batch: asked again under it, what it was given before is new again.
            keys: one a row, 64 bits as good as drawn at random.
        """
        first = np.zeros(len(keys), np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        with locked(self._lock):
            self._finish()
            before = self._claimed(name)
            claimed_before = np.isin(keys, before) if len(before) else np.zeros(len(keys), np.bool_)
            new = first & (claimed_before | ~bloom.query(self._words, keys, self.size.probes))
            added = keys[new & ~claimed_before]
            if len(added):
                self._pending.write_bytes(name.encode())  # a few bytes: there before the claim is, or empty
                self._keep(name, np.concatenate([before, added]))
                bloom.insert(self._words, added, self.size.probes)
                self._held[0] += np.uint64(len(added))
                self._pending.unlink()
            return Claim(new, int(self._held[0]), _is_other(keys, before))

    def state(self) -> BloomState:
        """Return the state of the filter; reads all of it."""
        rate = self.size.rate_of_fill(bloom.fill(self._words))
        return BloomState(self._about["capacity"], int(self._held[0]), rate, self.size.nbytes)

    def _make(self) -> None:
        """Make the filter if it is not there; its description is written last, when it can be used."""
        known = self._directory.read(_ABOUT)
        if known is not None:
            _check_same(self._directory.url, orjson.loads(known), self._about)
            return
        foreign = [name for name in self._directory.files() if name not in (_BITS, _LOCK) and name[:4] != f"{_TMP}/"]
        if foreign:
            raise DataError(f"{self._directory.url!r} holds {foreign[0]!r} and no Bloom filter; name an empty folder")
        path = os.path.join(self._directory.url, _BITS)
        with storage_errors("write", path), open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.size.nbytes + 8 * bloom.BLOCK_WORDS)
        self._directory.write(_ABOUT, orjson.dumps(self._about, option=orjson.OPT_INDENT_2), _TMP)

    def _finish(self) -> None:
        """Set the bits of a claim that was written by a process which died before it had set them."""
        with suppress(FileNotFoundError):
            name = self._pending.read_bytes()
            if name:
                bloom.insert(self._words, self._claimed(name.decode()), self.size.probes)
            self._pending.unlink()

    def _claimed(self, name: str) -> Words:
        data = self._directory.read(name)
        claimed: Words = np.zeros(0, np.uint64) if data is None else np.load(io.BytesIO(data))
        return claimed

    def _keep(self, name: str, keys: Words) -> None:
        buffer = io.BytesIO()
        np.save(buffer, keys)
        self._directory.write(name, buffer.getvalue(), _TMP)
        folder = os.open(os.path.dirname(self._directory.path(name)), os.O_RDONLY)
        try:
            os.fsync(folder)  # the name, too, must be there before the bits are
        finally:
            os.close(folder)


def _is_other(keys: Words, before: Words) -> bool:
    """Whether a batch shares hardly any keys with the earlier one of its name, although it is no smaller."""
    return bool(len(keys) >= len(before) > 0 and np.isin(before, keys).mean() < 0.25)


def claim_name(label: str, stage: str, key: BatchKey) -> str:
    """Return the name of the file with the claim of a batch."""
    digest = hashlib.blake2b(f"{stage}\t{key}".encode(), digest_size=16).hexdigest()
    return f"claims/{label}/{digest[:2]}/{digest[2:]}.npy"


def _check_same(path: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            raise PipelineError(
                f"the filter in {path!r} was made with {name}={before.get(name)!r}, not {now.get(name)!r}; "
                "use it as it was made, or name another folder"
            )
