"""Read folders of tokens: what they hold, their shards, and the tokens at a place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from dcurate.shuffle.chunks import READERS
from dcurate.tokens.formats import FORMATS, TokenFormat, mds_config, new_digest, shape_width
from dcurate.tokens.spans import SPANS, Span, shard_notes, span_at, spans_of

#: What a folder of tokens holds, for people and for `dcurate tokens`.
ABOUT = "tokens.json"
_NPY_HEADER = 128
#: Notes on the files of a shard, not on its tokens.
_OF_FILES = {"files": None, "digests": None}
#: Bytes that are digested at a time.
_BLOCK = 2**20


def about_of(data: bytes, url: str) -> dict[str, Any]:
    """Return what a `tokens.json` says.

    Args:
        data: its content.
        url: its folder.

    Raises:
        DataError: it is damaged.
    """
    try:
        # Earlier versions did not name the unit, and made special tokens of texts or not by the tokenizer's kind.
        about: dict[str, Any] = {"unit": "document", "special_in_text": None, **json.loads(data)}
        damaged = about["format"] not in FORMATS or not isinstance(about["shards"], list)
    except (ValueError, TypeError, KeyError):
        damaged = True
    if damaged:
        raise DataError(f"{ABOUT} of {url!r} is damaged; write the folder again")
    return about


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
        return about_of(data, self.url)

    def known(self, about: Mapping[str, Any]) -> TokenFolder:
        """Return the folder with what is in it known, so that it is not read again."""
        self.__dict__["about"] = about
        return self

    @property
    def format(self) -> TokenFormat:
        """The format of the shards."""
        return FORMATS[self.about["format"]]

    @property
    def shards(self) -> list[dict[str, Any]]:
        """Information about each shard."""
        shards: list[dict[str, Any]] = self.about["shards"]
        return shards

    def shard(self, name: str) -> dict[str, Any]:
        """Return information about a shard.

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
            raise PipelineError(f"token {token!r} is not a place; give SHARD:OFFSET, such as tokens-00000:17")
        shard = self.shard(name)
        if int(offset) >= shard["tokens"]:
            raise PipelineError(f"shard {name!r} has {shard['tokens']:,} tokens; there is none at {int(offset):,}")
        return span_at(self.directory, name, int(offset))

    def document(self, span: Span) -> list[Span]:
        """Return all pieces of the document of a span, in the order of the document."""
        if self.about["packing"] != "best_fit":  # the only packing that cuts documents
            return [span]
        same = [piece for piece in spans_of(self.directory, span.shard) if piece.document == span.document]
        return sorted(same, key=lambda piece: piece.first)

    def tokens(self, span: Span) -> npt.NDArray[Any]:
        """Return the tokens of a span.

        Raises:
            DataError: they cannot be read.
        """
        return self.stretch(span.shard, span.start, span.end, (span.document, np.array([span.end - span.start])))[0]

    def stretch(
        self, shard: str, start: int, end: int, documents: tuple[int, npt.NDArray[np.int64]] | None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return consecutive tokens of a shard, and the loss of each if the folder has losses.

        Args:
            shard: its name.
            start: first token.
            end: one past the last.
            documents: number of the first document and the tokens of each, for formats with a sample for each.

        Raises:
            DataError: they cannot be read, or are not there.
        """
        kind, window = np.dtype(self.about["dtype"]), self.about["sequence_length"]
        name, losses = f"{shard}{self.format.endings[0]}", self.about["losses"]
        if not self.format.columns:
            before = self._before(shard)
            ids = np.frombuffer(self._all_of(name, before + start * kind.itemsize, (end - start) * kind.itemsize), kind)
            if not losses:
                return ids, None
            beside = (f"{shard}.ds.loss", 0) if self.about["format"] == "ds" else (f"{SPANS}/{shard}.loss.npy", 128)
            return ids, np.frombuffer(self._all_of(beside[0], beside[1] + start, end - start), np.uint8)
        if window is not None:
            first, last = start // window, -(-end // window)
            lengths = np.full(last - first, window, np.int64)
            start, end = start - first * window, end - first * window
        else:
            assert documents is not None
            first, lengths = documents
            start, end = 0, end - start
        columns = [[np.zeros(0, kind)], [np.zeros(0, np.uint8)]]
        for column, arrays in enumerate(self._samples(name, first, lengths)):
            columns[column] += arrays
        ids, loss = (np.concatenate(arrays)[start:end] for arrays in columns)
        if len(ids) != end - start:
            raise DataError(f"{self.directory.path(name)!r} has fewer tokens than its spans; it was cut")
        return ids, loss if losses else None

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

    def damage(self) -> Iterator[str]:
        """Yield a sentence for each file that is missing, has another size than when it was written, or is of others.

        Raises:
            DataError: a table of spans cannot be read.
        """
        sizes = self.sizes
        for shard in self.shards:
            for name, size in shard["files"].items():
                if name not in sizes:
                    yield f"{name} is missing"
                elif sizes[name] != size:
                    yield f"{name} has {sizes[name]:,} bytes and was written with {size:,}"
        if self.about.get("pairs"):
            return
        directory = self.directory
        names = [f"{SPANS}/{shard['shard']}.parquet" for shard in self.shards]
        with ThreadPoolExecutor(READERS) as pool:
            notes = pool.map(lambda name: shard_notes(directory, name), names)
            for name, shard, note in zip(names, self.shards, notes, strict=True):
                if {**note, **_OF_FILES} != {**shard, **_OF_FILES}:
                    yield f"{name} is the table of another shard, or of another run"

    def changed(self) -> Iterator[str]:
        """Yield a sentence for each file that has other bytes than were written; earlier versions kept no digests.

        Raises:
            DataError: a file cannot be read.
        """
        places = {name.rpartition("/")[2]: name for name in self.directory.files()}
        wanted = {name: digest for shard in self.shards for name, digest in shard.get("digests", {}).items()}
        with ThreadPoolExecutor(READERS) as pool:
            digests = pool.map(lambda name: self._digest(places[name]), wanted)
            for (name, digest), actual in zip(wanted.items(), digests, strict=True):
                if digest != actual:
                    yield f"{name} has other bytes than were written; write it again"

    def _digest(self, name: str) -> str:
        store, path = open_store(self.directory.path(name), self.options)
        digest = new_digest()
        with storage_errors("read", self.directory.path(name)), store.open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return str(digest.hexdigest())

    def _before(self, shard: str) -> int:
        """Bytes before the first token of a file."""
        form = self.about["format"]
        if form == "litdata":
            return 4 * (int.from_bytes(self.read(f"{shard}.bin", 0, 4), "little") + 2)
        return _NPY_HEADER if form == "npy" else 0

    def _all_of(self, name: str, start: int, size: int) -> bytes:
        data = self.read(name, start, start + size)
        if len(data) != size:
            raise DataError(f"{self.directory.path(name)!r} is cut: it has no bytes {start:,} to {start + size:,}")
        return data

    def _samples(self, name: str, first: int, lengths: npt.NDArray[np.int64]) -> Iterator[list[npt.NDArray[Any]]]:
        """The tokens of some samples of given lengths, and then their losses if there are any."""
        kind, losses = np.dtype(self.about["dtype"]), self.about["losses"]
        last = first + len(lengths)
        if self.about["format"] == "parquet":
            for column, of in (("input_ids", kind), ("loss", np.dtype(np.uint8)))[: 1 + losses]:
                yield [np.array(sample, of) for sample in parquet_lists(self.directory, name, column, first, last)]
            return
        offsets = np.frombuffer(self._all_of(name, 4 * (first + 1), 4 * (len(lengths) + 1)), "<u4").astype(np.int64)
        data = self._all_of(name, int(offsets[0]), int(offsets[-1] - offsets[0]))
        ends = offsets[1:] - offsets[0]
        places = ends - lengths * kind.itemsize  # the tokens are the last column
        if (np.diff(offsets) < lengths * kind.itemsize).any():
            raise DataError(
                f"{self.directory.path(name)!r} has samples that are shorter than their tokens; it is damaged"
            )
        yield [np.frombuffer(data, kind, n, at) for n, at in zip(lengths.tolist(), places.tolist(), strict=True)]
        if losses:  # and the losses the one before
            fixed = self.about["sequence_length"] is not None
            heads = [0 if fixed else 1 + shape_width(length) for length in lengths.tolist()]
            rows = zip(lengths.tolist(), (places - lengths).tolist(), heads, strict=True)
            yield [np.frombuffer(data, np.uint8, n, at - head) for n, at, head in rows]


def mds_settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that files of MDS in a folder begin with."""
    return mds_config(about["dtype"], about["sequence_length"], about["losses"])
