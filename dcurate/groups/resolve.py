"""Drop, flag or list duplicates once the groups are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import (
    as_text,
    numbers,
    only,
    rows_at,
    table_of,
    values,
    with_column,
    with_taken,
    with_text,
)
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.groups.giant_clusters import GiantCluster, LargeGroups, giant_clusters_of, large_groups
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.io.rejections import DUPLICATE_OF
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import ShuffleIndex, ShufflePartitions
from dcurate.shuffle.spill import DOC_ID, ID, SpilledRows
from dcurate.shuffle.writer import ShuffleWriter

#: What to do with duplicates: drop them, keep all rows and say which they are, or make a row of each member of a group.
Action = Literal["drop", "flag", "identify"]

Ints = npt.NDArray[np.int64]

#: Columns of the members of groups after their ids, as ``action="identify"`` and reports have them.
GROUP, SIZE, KEPT, KEPT_ID, SIMILARITY = "group_id", "group_size", "kept", "kept_id", "similarity"
COLUMNS = [ID, GROUP, SIZE, KEPT, KEPT_ID, SIMILARITY]
#: Columns that ``action="flag"`` adds.
FLAGS = ["duplicate_group", "is_duplicate"]
_KEY, _SOURCE = "_dcurate_key", "_dcurate_source"
_BLOCK = 2**26
_MOST_GIANTS, _SAMPLE = 5, 80


def check_action(stage: str, action: str) -> None:
    """Refuse an unknown action.

    Raises:
        PipelineError: it is not valid.
    """
    if action not in get_args(Action):
        raise PipelineError(f"{stage}: no action {action!r}{nearest(str(action), get_args(Action))}")


@dataclass(frozen=True)
class Members:
    """Documents that belong to groups of two or more, as arrays of equal length.

    Args:
        numbers: numbers of the documents.
        groups: the number of the first document of the group of each.
        sizes: how many documents that group has.
        kept: whether each document stays.
        keepers: the place in these arrays of the document of the group that is kept.
        similarity: to the one that stays; NaN if it was not worked out.
        sources: the number of the source of each, in the order of `SpilledRows.sources`; None without sources.
    """

    numbers: Ints
    groups: Ints
    sizes: Ints
    kept: npt.NDArray[np.bool_]
    keepers: Ints
    similarity: npt.NDArray[np.float32]
    sources: Ints | None = None

    def table(self, ids: Any | None, documents: int) -> Any:
        """The table of them that `ApplyClusters` takes.

        Args:
            ids: a table with the column of ids, a row for each member; None if they are not asked for.
            documents: how many there are in the whole dataset.
        """
        columns: dict[str, npt.NDArray[Any]] = {
            _KEY: scale_keys(self.numbers, documents),
            DOC_ID: self.numbers,
            GROUP: self.groups,
            SIZE: self.sizes,
            KEPT: self.kept,
            SIMILARITY: self.similarity,
        }
        if self.sources is not None:
            columns[_SOURCE] = self.sources
        table = table_of(columns) if ids is None else ids
        if ids is not None:
            for name, column in columns.items():
                table = with_column(table, name, column)
            table = with_taken(table, KEPT_ID, ID, self.keepers)
        return table


class SearchForDuplicates(BarrierStage[DocumentBatch]):
    """A search for duplicates: with ``action="identify"`` rows about the documents take their place."""

    action: str

    def new_columns(self) -> list[str]:
        return [] if self.action == "identify" else super().new_columns()

    def columns_after(self, columns: Sequence[str]) -> list[str] | None:
        return self.outputs()[1] if self.action == "identify" else super().columns_after(columns)


@dataclass
class ApplyClusters(BarrierStage[DocumentBatch]):
    """The last round of a search for duplicates: takes `Members` from all sides to the splits of their documents.

    Args:
        spilled: the rows of the documents.
        action: what to do with them.
        reason: for which duplicates are dropped.
        report_path: a folder for the groups as Parquet.
        text_field: the column of texts.
        stage: the name of the stage that a person wrote.
        name: name of the round.
        when_known: called when all duplicates are known.
        hidden: columns that were added for the search, and are left out in the end.
    """

    spilled: SpilledRows
    action: Action
    reason: str
    report_path: str | None
    text_field: str
    stage: str
    name: str
    when_known: Callable[[], None] | None = None
    hidden: tuple[str, ...] = ()
    _giants: list[GiantCluster] = field(default_factory=list, init=False, repr=False, compare=False)

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            GroupMemberWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                by=_KEY,
                report_path=self.report_path,
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        files = ShuffleIndex.written(Directory(url, options), splits)
        large = (LargeGroups(*index.notes["large"]) for index in files.indexes)
        self._giants = giant_clusters_of(large, self.spilled.documents, self.spilled.sources)
        if self.when_known is not None:
            self.when_known()
        if self.action == "identify":
            return [
                files.reader(files.partitions_for(_BLOCK), _KEY, f"{self.stage}_groups"),
                GroupRows(name=self.stage),
            ]
        edges = self.spilled.edges()

        def marked(key_files: ShuffleIndex) -> list[Stage]:
            kind = DropMarked if self.action == "drop" else FlagMarked
            marks = key_files.partitions(edges, _KEY, f"{self.name}_of_splits")
            mark = kind(marks, self.spilled.documents, self.reason, self.hidden, name=self.stage)
            return [self.spilled.reader(f"{self.stage}_from_disk"), mark]

        return with_merged_files(files, len(edges), _KEY, f"{self.name}_merged", marked)

    def notices(self) -> list[str]:
        """Warn of groups that are too large to be plausible, with the text of their first documents."""
        shown = [f"{self.stage}: {self._sampled(giant)}" for giant in self._giants[:_MOST_GIANTS]]
        more = len(self._giants) - len(shown)
        return [*shown, f"{self.stage}: {more:,} more groups are as large as that"] if more else shown

    def _sampled(self, giant: GiantCluster) -> GiantCluster:
        text = self.spilled.value(giant.group_id, self.text_field)
        return giant if not text else replace(giant, sample_text=" ".join(str(text).split())[:_SAMPLE])


@dataclass
class GroupMemberWriter(ShuffleWriter):
    """Writes the members of groups for the shuffle, and as a report where one is wanted."""

    report_path: str | None = None
    name: str = "mark_writer"

    def prepare(self, resume: bool) -> None:
        super().prepare(resume)
        if self.report_path is not None:
            report = self._report(self.report_path)
            report.prepare(resume)
            self.report_path = report.path

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "report_path"}

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        sources = numbers(table, _SOURCE) if _SOURCE in table.column_names else None
        large = np.stack(large_groups(numbers(table, GROUP), sources))
        yield self.ranges(table, key, self.by, folder, large=large)
        if self.report_path is not None:
            self._report(self.report_path).process(DocumentBatch(data=_reported(table), key=key))

    def _report(self, path: str) -> ParquetWriter:
        return ParquetWriter(path, mode="overwrite", storage_options=self.storage_options)


def _reported(table: Any) -> Any:
    """Return the columns of the report, ids first."""
    return table.select(COLUMNS)


@dataclass
class GroupRows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Makes rows for a person of the members of groups."""

    name: str = "group_rows"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(_reported(task.to_arrow()))


@dataclass
class DropMarked(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drops the rows that are copies of others that stay."""

    marks: ShufflePartitions
    documents: int
    reason: str
    hidden: tuple[str, ...] = ()
    name: str = "drop_marked"

    def settings(self) -> dict[str, Any]:
        return {"reason": self.reason}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        dropped = np.zeros(table.num_rows, np.bool_)
        places, members = members_of(table, self.marks, self.documents)
        gone = np.flatnonzero(~numbers(members, KEPT)) if len(places) else places
        dropped[places[gone]] = True
        batch = task.with_data(table.drop_columns([DOC_ID, *self.hidden])).keep(~dropped, self.name, self.reason)
        return naming_twins(batch, places[gone], rows_at(members, gone) if len(gone) else members, KEPT_ID)


@dataclass
class FlagMarked(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Says of each row to which group it belongs, by the number of its first document, and whether it would go."""

    marks: ShufflePartitions
    documents: int
    reason: str
    hidden: tuple[str, ...] = ()
    name: str = "flag_marked"

    def outputs(self) -> Spec:
        return [], FLAGS

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        groups, dropped = numbers(table, DOC_ID).copy(), np.zeros(table.num_rows, np.bool_)
        places, members = members_of(table, self.marks, self.documents)
        if len(places):
            groups[places], dropped[places] = numbers(members, GROUP), ~numbers(members, KEPT)
        flagged = with_column(table.drop_columns([DOC_ID, *self.hidden]), FLAGS[0], groups)
        return task.with_data(with_column(flagged, FLAGS[1], dropped))


def naming_twins(batch: DocumentBatch, places: Ints, members: Any, column: str) -> DocumentBatch:
    """Return a batch whose dropped rows name the document that was kept instead, if ids are known.

    Args:
        batch: rows that stay, with one rejection.
        places: places of the dropped rows in the batch before.
        members: a row for each of these.
        column: column with the ids of the documents that were kept.
    """
    if not batch.rejections or column not in members.column_names:
        return batch
    [rejection] = batch.rejections
    texts = values(as_text(only(rows_at(members, np.argsort(places)), [column]), column), column)
    data = with_text(rejection.data, DUPLICATE_OF, texts)
    batch.rejections = (replace(rejection, data=data),)
    return batch


def members_of(table: Any, marks: ShufflePartitions, documents: int) -> tuple[Ints, Any]:
    """Return the places of group members in a spilled split, and the members."""
    if not table.num_rows:
        return np.zeros(0, np.int64), table
    doc_ids = numbers(table, DOC_ID)
    members = marks.read(marks.partition_with(int(scale_keys(doc_ids[:1], documents)[0])))
    return (numbers(members, DOC_ID) - doc_ids[0] if members.num_rows else np.zeros(0, np.int64)), members
