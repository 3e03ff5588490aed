"""Cut the tokens of all batches into shards, in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import read_index, read_indexes
from dcurate.tokens.layout import Ints


@dataclass
class TokenShard(FileGroup):
    """The documents of a shard: ranges of rows of files of chunks.

    Args:
        number: number of the shard.
        documents: how many.
        tokens: number of tokens of all of them.
        label: name of its files; made of the number if empty.
    """

    number: int = 0
    documents: int = 0
    tokens: int = 0
    label: str = ""

    @property
    def num_items(self) -> int:
        return self.documents


def file_order(folder: Directory, splits: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the addresses of the files of chunks in the order of the source.

    Args:
        splits: splits as given to `BarrierStage.reduce_stages`; of one split several batches may have been made.
    """
    ordered: list[str] = []
    for _, paths in splits:
        places = [read_index(folder, path).notes["path"].tolist() for path in paths] if len(paths) > 1 else [[]]
        ordered += [path for _, path in sorted(zip(places, paths, strict=False))]
    return ordered


def plan_shards(folder: Directory, files: Sequence[str], most: int) -> ShardPlan:
    """Plan the shards of files of chunks.

    Args:
        files: files of chunks, in the order of the source.
        most: tokens of a shard.
    """
    plan = ShardPlan(most)
    for path, index in zip(files, read_indexes(folder, files), strict=True):
        plan.add(FilePart(path, size=int(index.bounds[-1])), index.notes["lengths"])
        plan.special_documents += int(index.notes["special"][0])
        plan.special_tokens += int(index.notes["special"][1])
    return plan


@dataclass
class ShardPlan:
    """Shards that take documents until the next one would be too many tokens.

    Args:
        most: tokens of a shard.
        special_documents: number of documents in whose text special tokens are spelled.
        special_tokens: number of these tokens.
    """

    most: int
    special_documents: int = 0
    special_tokens: int = 0
    shards: list[TokenShard] = field(default_factory=list)
    parts: list[FilePart] = field(default_factory=list)
    documents: int = 0
    tokens: int = 0

    def add(self, part: FilePart, lengths: Ints) -> None:
        """Add the documents of a file, with the tokens of each."""
        before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        row, rows = 0, len(before) - 1
        while row < rows:
            space = self.most - self.tokens
            stop = int(np.searchsorted(before, before[row] + space, "right")) - 1
            if stop > row:
                version = f"{part.size}:{row}:{stop}"
                self.parts.append(replace(part, version=version, rows=(row, stop)))
                self.documents += stop - row
                self.tokens += int(before[stop] - before[row])
                row = stop
            if row < rows:
                self._close()

    def finished(self) -> list[TokenShard]:
        """All shards."""
        self._close()
        return self.shards

    def _close(self) -> None:
        if self.parts:
            number = len(self.shards)
            self.shards.append(TokenShard(tuple(self.parts), number, self.documents, self.tokens))
        self.parts, self.documents, self.tokens = [], 0, 0


@dataclass
class TokenShards(SourceStage[TokenShard, TokenShard]):
    """The shards of a plan; what is in them is read by the writer."""

    shards: list[TokenShard] = field(repr=False)
    name: str = "token_shards"

    def settings(self) -> dict[str, Any]:
        return {}

    def splits(self) -> Iterator[TokenShard]:
        for shard in self.shards:
            shard.key = BatchKey(f"{self.name}-{shard.number:05}")
            yield shard

    def process(self, task: TokenShard) -> TokenShard:
        return task
