"""The steps that near-duplicates of texts and of images share; each adds its features and comparison."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import Spec, Stage
from dcurate.frames.columns import as_text, nulls, only
from dcurate.fs.stores import Directory
from dcurate.groups.index import SeenDocuments
from dcurate.groups.keep import Keep
from dcurate.groups.pairs import KEY, PairUp
from dcurate.groups.resolve import COLUMNS, FLAGS, Action, SearchForDuplicates
from dcurate.groups.verify import NearDuplicates
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import ShuffleIndex
from dcurate.shuffle.spill import ID, SpilledRows, SpillWriter, identified

#: Settings that do not change which rows stay.
_BESIDE = ("report_path", "index_path", "source_field", "reading")
#: Target bytes of entries in one partition.
_BLOCK = 2**25


class NearDuplicateStage(SearchForDuplicates):
    """Base of stages that keep one of each group of near-duplicates, over a whole dataset.

    Rows are written to disk, and beside them entries: rows with a key. Entries of one key meet in `find_stage`, which
    pairs them; the pairs are verified as `near` says.
    """

    rounds: ClassVar[int] = 5

    action: Action
    id_field: str | None
    report_path: str | None
    index_path: str | None
    source_field: str | None
    name: str

    uses_columns_again: ClassVar[bool] = False

    #: Name of the entries, in names of stages and as a folder below that of the round.
    entries_name: ClassVar[str]

    @property
    @abstractmethod
    def chosen(self) -> Keep:
        """Which of a group to keep."""

    @property
    @abstractmethod
    def compared(self) -> str:
        """The column that is compared."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The parameters of an index."""

    @abstractmethod
    def find_stage(self, url: str, options: dict[str, Any], first: int) -> Stage:
        """The stage that pairs the entries of a range of keys; documents before `first` were seen in earlier runs."""

    @abstractmethod
    def near(self, **shared: Any) -> NearDuplicates:
        """How pairs are verified and groups made; `shared` are the arguments that do not depend on what is compared."""

    def needed(self) -> list[str]:
        """The columns that decide which rows stay."""
        metadata_columns = [name for name in (self.id_field, self.source_field) if name is not None]
        return list(dict.fromkeys([self.compared, *self.chosen.columns(self.compared), *metadata_columns]))

    def inputs(self) -> Spec:
        return [], self.needed()

    def outputs(self) -> Spec:
        if self.action == "identify":
            return [], COLUMNS
        return [], FLAGS if self.action == "flag" else []

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in _BESIDE}

    def for_writer(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of an `EntryWriter`."""
        return {
            "mode": "overwrite",
            "storage_options": dict(options),
            "spilled": self.needed() if self.action == "identify" else None,
            "index": self._index(options),
            "id_field": self.id_field,
            "action": self.action,
            "source_field": self.source_field,
            "name": f"{self.name}_to_disk",
        }

    def _index(self, options: Mapping[str, Any]) -> SeenDocuments | None:
        return None if self.index_path is None else SeenDocuments(self.index_path, self.parameters, dict(options))

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        index = self._index(options)
        generation = None if index is None else index.generation(url)
        seen = [] if index is None or generation is None else index.seen(generation)
        spilled = SpilledRows.written(folder, splits, seen)
        names = spilled.sibling_files(f"{self.entries_name}/")
        if generation is not None:
            names[spilled.seen :] = map(generation.path, names[spilled.seen :])
        entries = ShuffleIndex.of(folder, names)
        near = self.near(
            spilled=spilled,
            keep=self.chosen,
            action=self.action,
            id_field=self.id_field,
            report_path=self.report_path,
            stage=self.name,
            source_field=self.source_field,
            index=index,
            generation=generation,
        )
        partitions = entries.partitions_for(_BLOCK)

        def paired(files: ShuffleIndex) -> list[Stage]:
            return [
                files.reader(partitions, KEY, f"{self.name}_{self.entries_name}"),
                self.find_stage(url, dict(options), spilled.first),
                PairUp(near, name=f"{self.name}_pairs"),
            ]

        return with_merged_files(entries, partitions, KEY, f"{self.name}_{self.entries_name}_merged", paired)


@dataclass
class EntryWriter(SpillWriter):
    """Base of writers of rows, and beside them of entries of what is compared.

    Args:
        spilled: the columns of rows to write; all by default.
        index: where the entries and features of the documents are remembered.
        id_field: the column with ids, for the index.
        action: action of the stage.
        source_field: the column with the source of each document, if there is one.
    """

    spilled: list[str] | None = None
    index: SeenDocuments | None = None
    id_field: str | None = None
    action: str = "drop"
    source_field: str | None = None

    #: Folder of the entries, below that of the round.
    folder: ClassVar[str]

    @abstractmethod
    def read(self, table: Any) -> Any:
        """Read what is compared from the rows."""

    @abstractmethod
    def entries(self, compared: Any) -> Any:
        """Make a table with a row for each key of each document."""

    @abstractmethod
    def with_features(self, known: Any, table: Any, compared: Any) -> Any:
        """Add what the index remembers of each document to its id."""

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.rows(table if self.spilled is None else only(table, self.spilled), key, self.source_field)
        compared = self.read(table)
        if self.index is None:
            yield self.ranges(self.entries(compared), key, KEY, self.folder)
            return
        memory = self._memory(self.index)
        rows = np.arange(table.num_rows)
        known = identified(nulls(table.num_rows), table, self.id_field, key, rows, action=self.action)
        memory.rows(self.with_features(as_text(known, ID), table, compared), key)
        memory.ranges(self.entries(compared), key, KEY, self.folder)

    def prepare(self, resume: bool) -> None:
        super().prepare(resume)
        if self.index is not None:
            memory = self._memory(self.index)
            if not resume:
                self.index.begin(memory.directory)
            memory.prepare(resume)

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "index"}

    def _memory(self, index: SeenDocuments) -> SpillWriter:
        """Return the index's writer for this run."""
        folder = index.generation(self.directory.address)
        return SpillWriter(folder.address, mode="overwrite", storage_options=dict(folder.options), durable=True)
