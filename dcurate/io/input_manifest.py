"""The input files of the splits of a run, and finished splits of earlier runs that the input does not have any more."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from dcurate.core.batch import Batch, FileGroup
from dcurate.core.disk_map import DiskMap
from dcurate.core.ledger import SplitRecord
from dcurate.errors import DataError
from dcurate.io.input_list import InputList, ListedFile
from dcurate.redaction import without_secrets

#: The files of a split that a barrier made: it may hold rows of all files.
WHOLE = "*"


class _Cover(NamedTuple):
    """How much of a file the splits hold.

    Args:
        missing: bytes of the file that are in no split.
        parts: number of its parts.
        least: bytes of the smallest part.
    """

    missing: int
    parts: int
    least: int

    def with_part(self, nbytes: int) -> _Cover:
        return _Cover(self.missing - nbytes, self.parts + 1, min(self.least, nbytes))

    def encode(self) -> bytes:
        return struct.pack("<3q", *self)

    @classmethod
    def decode(cls, data: bytes) -> _Cover:
        return cls(*struct.unpack("<3q", data))


class InputManifest:
    """Records the files of the splits of a source as they are listed.

    Args:
        fingerprint: fingerprint of the pipeline, by stage.

    Attributes:
        files: the paths of the files of each split, without what is secret in an address; none for one that is not of
            files.
        list: those files, each once, with their versions.
    """

    def __init__(self, fingerprint: Mapping[str, str]) -> None:
        self.files = DiskMap.of_names()
        self.list = InputList()
        self._cover: DiskMap[_Cover] = DiskMap(_Cover.encode, _Cover.decode)
        self._digest = hashlib.blake2b(orjson.dumps(dict(fingerprint), option=orjson.OPT_SORT_KEYS), digest_size=16)

    def record(self, splits: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the splits, each recorded first."""
        for split in splits:
            self._digest.update(f"{split.key}\t{split.version}\n".encode())
            parts = split.parts if isinstance(split, FileGroup) else ()
            paths = [without_secrets(part.path) for part in parts]
            self.files.add(str(split.key), tuple(dict.fromkeys(paths)))
            for path, part in zip(paths, parts, strict=True):
                cover = _Cover(part.size - part.nbytes, 1, part.nbytes)
                if not self._cover.add(path, cover):
                    self._cover.put(path, self._cover[path].with_part(part.nbytes))
                self.list.add(ListedFile(path, part.size, part.version))
            yield split

    @property
    def digest(self) -> str:
        """Identifies the pipeline and every split with the version of its files."""
        return self._digest.hexdigest()

    def of(self, split: str) -> tuple[str, ...]:
        """Return the files that a split has rows of."""
        files = self.files.get(split)
        return (WHOLE,) if files is None else files

    def paths(self) -> set[str]:
        """Return the paths of the input files; none if the rows are not from files."""
        return {path for path, _ in self._cover.items()}

    def has(self, path: str) -> bool:
        """Whether the splits hold all of a file; not so where a limit cuts it off."""
        cover = self._cover.get(path) or _Cover(0, 0, 0)
        # Shares of a file are rounded down.
        return path == WHOLE or cover.missing < min(cover.parts, max(cover.least, 1))


@dataclass
class Vanished:
    """Finished splits that the input does not have any more.

    Args:
        regrouped: those whose files are all in the input still, in other splits.
        removed: those whose files are not; or it is not known what they were.
        torn: splits with some files present and at least one missing.
    """

    regrouped: list[SplitRecord] = field(default_factory=list)
    removed: list[SplitRecord] = field(default_factory=list)
    torn: list[tuple[SplitRecord, str]] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[SplitRecord], splits: Container[str], input_manifest: InputManifest) -> Vanished:
        """Return the entries of the records.

        Args:
            splits: the names of those that there are now.
        """
        vanished = cls()
        for record in records:
            if record.split in splits:
                continue
            missing = [path for path in record.inputs if not input_manifest.has(path)]
            if not record.inputs or len(missing) == len(record.inputs):
                vanished.removed.append(record)
            elif missing:
                vanished.torn.append((record, missing[0]))
            else:
                vanished.regrouped.append(record)
        return vanished

    def check(self, url: str, advice: str) -> None:
        """Refuse to go on where rows would be lost or doubled in any case.

        Args:
            url: the output.
            advice: how to start over.

        Raises:
            DataError: some of the files of a split are in other splits now, and some are removed.
        """
        if self.torn:
            record, path = self.torn[0]
            raise DataError(
                f"{url!r} holds {len(self.torn):,} finished splits of which some files are not in the input now, and "
                f"others are in other splits now (first: {record.split!r}, without {path!r}); put the files back, or "
                f"{advice}"
            )

    def notices(self, appends: bool) -> Iterator[str]:
        """Sentences for the report.

        Args:
            appends: whether rows of earlier input are meant to stay.
        """
        if self.regrouped:
            yield (
                f"output of {len(self.regrouped):,} splits of earlier runs was removed, and its rows were made again: "
                "files came or changed, so that the input is grouped or cut in another way now"
            )
        if self.removed:
            advice = "" if appends else "; start afresh with mode='overwrite' if that is not wanted"
            unknown = sum(not record.inputs for record in self.removed)
            twice = ", or are in other splits now, which puts their rows there twice" if unknown else ""
            yield (
                f"the output also holds what earlier runs made of {len(self.removed):,} splits that the input does not "
                f"have any more: their files were removed{twice}{advice}"
            )
