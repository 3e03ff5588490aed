"""Read folders of tokens: what they hold, their shards, and the tokens at a place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError, PipelineError, nearest
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.parquet_stream import parquet_lists
from dcurate.tokens.formats import FORMATS, TokenFormat, mds_config
from dcurate.tokens.spans import Span, span_at, spans_of

#: What a folder of tokens holds, for people and for `dcurate tokens`.
ABOUT = "tokens.json"
_NPY_HEADER = 128


@dataclass(frozen=True)
class TokenFolder:
    """A folder that `dcurate.TokenWriter` wrote.

    Args:
        url: its address.
        options: fsspec's ``storage_options``.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def directory(self) -> Directory:
        """The directory."""
        return Directory(self.url, self.options)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What is in it.

        Raises:
            DataError: it is no folder of tokens.
        """
        data = self.directory.read(ABOUT)
        if data is None:
            raise DataError(f"{self.url!r} has no {ABOUT}; name a folder in which a run of TokenWriter has ended")
        found: dict[str, Any] = json.loads(data)
        return found

    @property
    def format(self) -> TokenFormat:
        """The format of the shards."""
        return FORMATS[self.about["format"]]

    @property
    def shards(self) -> list[dict[str, Any]]:
        """What is known of each shard."""
        found: list[dict[str, Any]] = self.about["shards"]
        return found

    def shard(self, name: str) -> dict[str, Any]:
        """Return what is known of a shard.

        Raises:
            PipelineError: there is no such shard.
        """
        names = [shard["shard"] for shard in self.shards]
        if name not in names:
            raise PipelineError(f"{self.url!r} has no shard {name!r}{nearest(name, names)}")
        return self.shards[names.index(name)]

    def span(self, token: str) -> Span | None:
        """Return the span of a token, by ``SHARD:OFFSET``; None for padding.

        Raises:
            PipelineError: there is no such place.
        """
        name, _, offset = token.rpartition(":")
        if not name or not offset.isdecimal():
            raise PipelineError(f"token {token!r} is no place; give SHARD:OFFSET, such as tokens-00000:17")
        shard = self.shard(name)
        if int(offset) >= shard["tokens"]:
            raise PipelineError(f"shard {name!r} has {shard['tokens']:,} tokens; there is none at {int(offset):,}")
        return span_at(self.directory, name, int(offset))

    def document(self, span: Span) -> list[Span]:
        """Return all pieces of the document of a span, in the order of the document."""
        if self.about["packing"] != "best_fit":  # the only packing that cuts documents
            return [span]
        same = [one for one in spans_of(self.directory, span.shard) if one.document == span.document]
        return sorted(same, key=lambda one: one.first)

    def tokens(self, span: Span) -> npt.NDArray[Any]:
        """Return the tokens of a span.

        Raises:
            DataError: they cannot be read.
        """
        kind, window = np.dtype(self.about["dtype"]), self.about["sequence_length"]
        ending = self.format.endings[0]
        name = f"{span.shard}{ending}"
        if not self.format.columns:
            before = self._before(span.shard)
            data = self.read(name, before + span.start * kind.itemsize, before + span.end * kind.itemsize)
            return np.frombuffer(data, kind)
        first, last = span.document, span.document + 1
        if window is not None:
            first, last = span.start // window, -(-span.end // window)
        found = [np.zeros(0, kind), *self._samples(name, first, last, window or span.end - span.start)]
        start = 0 if window is None else span.start - first * window
        return np.concatenate(found)[start : start + span.end - span.start]

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Read some bytes of a file.

        Raises:
            DataError: it cannot be read.
        """
        store, path = open_store(self.directory.path(name), self.options)
        with storage_errors("read", self.directory.path(name)):
            data: bytes = store.cat_file(path, start=start, end=stop)
        return data

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The bytes of each file, by name without folders."""
        return {name.rpartition("/")[2]: entry.size for name, entry in self.directory.files().items()}

    def _before(self, shard: str) -> int:
        """Bytes before the first token of a file."""
        form = self.about["format"]
        if form == "litdata":
            return 4 * (int(self.shard(shard)["sequences"]) + 2)
        return _NPY_HEADER if form == "npy" else 0

    def _samples(self, name: str, first: int, last: int, length: int) -> Iterator[npt.NDArray[Any]]:
        """The tokens of some samples, each of a length."""
        kind = np.dtype(self.about["dtype"])
        if self.about["format"] == "parquet":
            yield from (np.array(one, kind) for one in parquet_lists(self.directory, name, "input_ids", first, last))
            return
        offsets = np.frombuffer(self.read(name, 4 * (first + 1), 4 * (last + 2)), "<u4")
        for stop in offsets[1:].tolist():  # the tokens are the last column
            yield np.frombuffer(self.read(name, stop - length * kind.itemsize, stop), kind)


def mds_settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that files of MDS in a folder begin with."""
    return mds_config(about["dtype"], about["sequence_length"], about["losses"])
