"""The proof of a run among the records of its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from dcurate.core.ledger import SplitRecord
from dcurate.core.proof import run_root, split_leaf
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.io.ledger import saved_records
from dcurate.io.proof import PROOF
from dcurate.io.receipts import receipts, removed_rows

_BEGUN, _ROOT = f"{PROOF}/begun", f"{PROOF}/root.json"


class ProvedSplit(NamedTuple):
    """A split of a round, and what is proved of it.

    Args:
        phase: number of the round.
        split: its name.
        version: version of its files when they were read.
        stats: counts of each stage, with roots.
        files: the files written for it; none before the last round.
        inputs: files of the input that it holds rows of.
    """

    phase: int
    split: str
    version: str
    stats: tuple[dict[str, Any], ...]
    files: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the tree of the run."""
        return self.phase, self.split

    @property
    def leaf(self) -> bytes:
        """Its leaf there."""
        return split_leaf(self.split, self.stats)


@dataclass(frozen=True)
class ProofRecord:
    """Reads and writes the proof of a run: rounds but the last, whose splits are in the ledger, and the root.

    Args:
        directory: the output.
    """

    directory: Directory

    @property
    def begun(self) -> bool:
        """Whether a run with a proof has begun."""
        return self.directory.has(_BEGUN)

    def begin(self) -> None:
        """Note that a run with a proof begins, and how many requests had removed rows of earlier runs."""
        if not self.begun:
            self.directory.write(_BEGUN, str(len(receipts(self.directory))).encode())

    def removed_rows(self) -> dict[str, dict[int, str]]:
        """The rows of the run that went by request since it began, see `dcurate.io.receipts.removed_rows`.

        Raises:
            DataError: a receipt is damaged.
        """
        earlier = self.directory.read(_BEGUN) or b""
        return removed_rows(self.directory, int(earlier) if earlier.isdigit() else 0)

    def keep_round(self, phase: int, records: Iterable[SplitRecord]) -> None:
        """Keep the splits of a round whose ledger goes when the run ends."""
        with self.directory.writing(f"{PROOF}/round-{phase}.jsonl") as file:
            for record in records:
                file.write(orjson.dumps([record.split, record.version, record.stats, record.inputs]) + b"\n")

    def close(self, phase: int, records: Iterable[SplitRecord]) -> tuple[str, int]:
        """Write the root of the run; return it and the number of splits.

        Args:
            phase: number of the last round.
            records: its splits.
        """
        last = (ProvedSplit(phase, record.split, "", record.stats) for record in records)
        leaves = {split.place: split.leaf for splits in (self._rounds(phase), last) for split in splits}
        root = run_root(leaves)
        self.directory.write(_ROOT, orjson.dumps({"root": root, "splits": len(leaves), "last_round": phase}))
        return root, len(leaves)

    def root(self) -> tuple[str, int]:
        """The root of the run, and the number of its last round.

        Raises:
            DataError: there is none.
        """
        data = self.directory.read(_ROOT)
        if data is None:
            why = "the run has not ended; resume it" if self.begun else "run the pipeline with proof=True or --proof"
            raise DataError(f"{self.directory.url!r} has no proof: {why}")
        try:
            known = orjson.loads(data)
            return str(known["root"]), int(known["last_round"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.directory.path(_ROOT)!r} is damaged ({error}); run the pipeline again") from error

    def splits(self) -> Iterator[ProvedSplit]:
        """The splits of all rounds.

        Raises:
            DataError: a record is damaged, or there is none.
        """
        _, last = self.root()
        yield from self._rounds(last)
        saved = saved_records(self.directory)
        for record in saved.records():
            yield ProvedSplit(last, record.split, record.version, record.stats, record.files, record.inputs)

    def _rounds(self, phases: int) -> Iterator[ProvedSplit]:
        for phase in range(phases):
            name = f"{PROOF}/round-{phase}.jsonl"
            data = self.directory.read(name)
            if data is None:
                raise DataError(f"{self.directory.path(name)!r} is missing, a part of the proof; run again")
            for line in data.splitlines():
                try:
                    split, version, stats, inputs = orjson.loads(line)
                except ValueError as error:
                    raise DataError(f"{self.directory.path(name)!r} is damaged ({error}); run again") from error
                yield ProvedSplit(phase, split, version, tuple(stats), (), tuple(inputs))
