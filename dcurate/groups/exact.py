"""Documents with the same content, over a whole dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import ProcessingStage, Spec, Stage
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import nulls, numbers, table_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.hashes import NORMAL_FORMS, content_hashes, row_hashes
from dcurate.fs.stores import Directory
from dcurate.groups.keep import First, Keep, keep_of, ranks_in, with_ranks
from dcurate.groups.resolve import COLUMNS, FLAGS, Action, ApplyClusters, Members, SearchForDuplicates, check_action
from dcurate.io.files import is_names
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import FILE, ShuffleIndex
from dcurate.shuffle.spill import SpilledRows, SpillWriter, identified, ids_at, read_row_offsets

REASON = "exact_duplicate"

#: Folder of the hashes, below that of the round.
HASHES = "hashes/"
_HIGH, _LOW, _ROW = "high", "low", "row"
#: Target bytes of hashes in one partition.
_BLOCK = 2**25


@dataclass
class ExactDuplicates(SearchForDuplicates):
    """Keep one of all documents with the same content, over a whole dataset.

    Args:
        text_field: the column to compare. A row whose text is null is kept, and is a copy of nothing; empty texts are
            copies of each other.
        fields: compare these columns instead, such as ``["url"]``; rows that are null in all of them are kept.
        normalize: differences to ignore when texts are compared: ``"case"``, ``"whitespace"`` (how much there is, and
            of what kind), ``"unicode"`` (its normal form NFKC). Texts themselves stay as they are.
        keep: rule for the copy to keep: ``"first"`` in the order of the source, ``"longest"``, ``Highest("score")``,
            ``Lowest("perplexity")`` or ``Preferred("source", ["books", "web"])``; or a list of rules, of which the next
            decides where those before it find no difference: ``[Highest("fetched"), Highest("score"), "longest"]``.
        action: ``"drop"`` the others; ``"flag"`` to keep all rows and add the columns ``duplicate_group`` (the number
            of the first document of the group) and ``is_duplicate``; ``"identify"`` to have a row for each member of a
            group of two or more instead of the documents, with ``id``, ``group_id``, ``group_size``, ``kept``,
            ``kept_id`` and ``similarity``.
        id_field: the column with ids, by which `dcurate.trace` names the document that was kept instead of one that was
            dropped. Without it ``"identify"`` gives ids as `AddId` makes them, and reports name a row and its batch.
        report_path: a folder for Parquet files of the rows that ``action="identify"`` gives.
        name: name of the stage.

    The result is the same for any number of workers and any partitioning of the files. Contents are compared by a
    128-bit hash (XXH3). Rows are spilled to disk beside the output, and hashes are shuffled by range, so that memory
    does not grow with the dataset.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> ExactDuplicates().inputs()
        ([], ['text'])
        >>> ExactDuplicates(fields=["url"], keep="longest").inputs()
        ([], ['url', 'text'])
    """

    rounds: ClassVar[int] = 2

    text_field: str = "text"
    fields: list[str] | None = None
    normalize: Sequence[str] = ()
    keep: str | Keep | Sequence[str | Keep] = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    name: str = "exact_duplicates"
    _hidden: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)

    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_action(self.name, self.action)
        keep_of(self.keep, self.name)
        self.normalize = tuple(self.normalize)
        for form in self.normalize:
            if form not in NORMAL_FORMS:
                raise PipelineError(f"{self.name}: no normalize {form!r}{nearest(form, NORMAL_FORMS)}")
        if self.fields is not None and not is_names(self.fields):
            raise PipelineError(f"{self.name}: fields={self.fields!r} must be a list of column names, or None for text")
        if self.fields is not None and self.normalize:
            raise PipelineError(f"{self.name}: normalize is for texts; leave it out, or leave out fields")

    def hiding(self, *columns: str) -> Self:
        """Leave columns that were added for the search out of the rows in the end; returns the stage."""
        self._hidden = columns
        return self

    def inputs(self) -> Spec:
        compared = [self.text_field] if self.fields is None else list(self.fields)
        auxiliary_columns = [
            *keep_of(self.keep, self.name).columns(self.text_field),
            *([self.id_field] if self.id_field else []),
        ]
        return [], list(dict.fromkeys([*compared, *auxiliary_columns]))

    def outputs(self) -> Spec:
        if self.action == "identify":
            return [], COLUMNS
        return [], FLAGS if self.action == "flag" else []

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in ("report_path", "_hidden")}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            HashWriter(url, mode="overwrite", storage_options=dict(options), exact=self, name=f"{self.name}_to_disk")
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        spilled = SpilledRows.written(folder, splits)
        hashes = ShuffleIndex.of(folder, spilled.sibling_files(HASHES))
        partitions = hashes.partitions_for(_BLOCK)

        def grouped(files: ShuffleIndex) -> list[Stage]:
            return [
                files.reader(partitions, _HIGH, f"{self.name}_hashes"),
                EqualHashes(url, dict(options), name=f"{self.name}_groups"),
                ApplyClusters(
                    spilled=spilled,
                    action=self.action,
                    reason=REASON,
                    report_path=self.report_path,
                    text_field=self.text_field,
                    stage=self.name,
                    name=f"{self.name}_marks",
                    hidden=self._hidden,
                ),
            ]

        return with_merged_files(hashes, partitions, _HIGH, f"{self.name}_hashes_merged", grouped)


@dataclass
class HashWriter(SpillWriter):
    """Write the rows, and beside them the hash of the compared columns of each."""

    exact: ExactDuplicates = field(default_factory=ExactDuplicates)
    name: str = "hash_writer"

    def inputs(self) -> Spec:
        return self.exact.inputs()

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "exact": self.exact.settings()}

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        exact = self.exact
        yield self.rows(nulls(table.num_rows) if exact.action == "identify" else table, key)
        if exact.fields is None:
            hashes, rows = content_hashes(table, exact.text_field, exact.normalize)
        else:
            hashes, rows = row_hashes(table, exact.fields)
        entries = table_of({_HIGH: hashes[:, 0], _LOW: hashes[:, 1], _ROW: rows.astype(np.uint32)})
        rule = keep_of(exact.keep, exact.name)
        if not isinstance(rule, First):
            entries = with_ranks(entries, rule, table, exact.text_field, rows)
        if exact.action == "identify" or exact.report_path is not None or exact.id_field is not None:
            entries = identified(entries, table, exact.id_field, key, rows, action=exact.action)
        yield self.ranges(entries, key, _HIGH, HASHES)


@dataclass
class EqualHashes(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Finds the groups among the hashes of one range, and which document of each stays."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    name: str = "equal_hashes"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        table = task.to_arrow()
        row_offsets = read_row_offsets(self.url, self.options)
        documents = row_offsets[numbers(table, FILE)] + numbers(table, _ROW)
        ranks = ranks_in(table)
        high, low = numbers(table, _HIGH), numbers(table, _LOW)
        order = np.lexsort((documents, ranks, low, high))
        differs = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
        sizes = np.diff(np.flatnonzero(np.concatenate([[True], differs, [True]])))
        many = sizes > 1
        if not many.any():
            return None
        order, sizes = order[np.repeat(many, sizes)], sizes[many]
        starts = np.cumsum(sizes) - sizes
        keepers = np.repeat(starts, sizes)
        members = Members(
            numbers=documents[order],
            groups=np.repeat(np.minimum.reduceat(documents[order], starts), sizes),
            sizes=np.repeat(sizes, sizes),
            kept=keepers == np.arange(len(order)),
            keepers=keepers,
            similarity=np.ones(len(order), np.float32),
        )
        return task.with_data(members.table(ids_at(table, order), int(row_offsets[-1])))
