"""Write rejected rows as JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from dcurate.core.batch import BatchKey, Rejection
from dcurate.core.names import file_safe
from dcurate.frames.convert import to_arrow
from dcurate.fs.stores import Directory
from dcurate.io.json_write import JsonForm, anything
from dcurate.io.opted_out import StandingLists, rows_but
from dcurate.rows import without_origins

#: Columns that rejected rows have besides their own.
STAGE, REASON, SOURCE, SCORE = "_dcurate_stage", "_dcurate_reason", "_dcurate_source", "_dcurate_score"
#: The column of dropped duplicates with the id of the document that was kept instead.
DUPLICATE_OF = "_dcurate_duplicate_of"

_SCRATCH = ".tmp"


@dataclass(frozen=True)
class DirectoryRejections:
    """Keeps rejected rows in directories, a file for each batch and operator.

    The rows have the columns that they had, and ``_dcurate_stage``, ``_dcurate_reason``, ``_dcurate_source``, and
    ``_dcurate_score`` where the stage is one that scores. Dropped duplicates have ``_dcurate_duplicate_of`` as well, if
    the deduplication knows ids.

    Args:
        rejected: where rows that rules dropped go; None drops them.
        quarantine: where rows that could not be processed go; None for ``rejected``.
        storage_options: for fsspec.
        mark: end of the names, by which files of runs that append differ.
        output: where the run writes; rows that were removed from it, or from a directory of these, are not kept.
    """

    rejected: str | None = None
    quarantine: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""
    output: str | None = None
    _removed: dict[str, StandingLists] = field(default_factory=dict, init=False, repr=False, compare=False)

    def keep(self, key: BatchKey, operator: str, rejections: list[Rejection]) -> str:
        """Write the rows under a name that follows from key and operator, whole or not at all.

        Returns:
            The name of the file in quarantine; empty if there is none.

        Raises:
            DataError: they cannot be written.
        """
        name, quarantined = f"{key.digest}-{file_safe(operator)}{self.mark}.jsonl", ""
        in_quarantine = self.quarantine is not None
        for url, faults in ((self.quarantine, [True]), (self.rejected, [False] if in_quarantine else [False, True])):
            if url is None:
                continue
            kept = [
                rest
                for rejection in rejections
                if rejection.fault in faults and rejection.rows and rejection.data is not None
                if (rest := self._without_removed(url, rejection)).rows
            ]
            if kept:
                with Directory(url, self.storage_options or {}).writing(name, _SCRATCH) as file:
                    for piece in _pieces(key, kept):
                        file.write(piece)
                quarantined = name if url is self.quarantine else quarantined
        return quarantined

    def _without_removed(self, url: str, rejection: Rejection) -> Rejection:
        """The rows but those that were removed on request."""
        urls = dict.fromkeys([url] if self.output is None else [url, self.output])
        lists = self._removed.setdefault(
            url, StandingLists([Directory(place, self.storage_options or {}) for place in urls])
        )
        if not lists.lists:
            return rejection
        table = to_arrow(rejection.data)
        gone = lists.named(table)
        if not gone:
            return rejection
        kept = [row for row in range(table.num_rows) if row not in gone]
        scores = None if rejection.scores is None else [rejection.scores[row] for row in kept]
        return replace(rejection, data=rows_but(table, gone), rows=len(kept), scores=scores)


def clear_stale(
    rejections: DirectoryRejections,
    operators: Iterable[str],
    written: Container[str],
    is_done: Callable[[str], bool],
) -> None:
    """Remove files of quarantine that an attempt left which did not count: a later one wrote none, or others.

    Args:
        rejections: what wrote them.
        operators: those whose files are looked at, as `DirectoryRejections.keep` is given them.
        written: names of files that count.
        is_done: whether a split was done by this run, or is not in the input any more.

    Raises:
        DataError: they cannot be read or removed.
    """
    if rejections.quarantine is None:
        return
    quarantine = Directory(rejections.quarantine, rejections.storage_options)
    stale, endings = [], {f"{file_safe(operator)}{rejections.mark}.jsonl" for operator in operators}
    for name in quarantine.files():
        if name in written or name.partition("-")[2] not in endings:
            continue
        first = (quarantine.read(name) or b"").partition(b"\n")[0]
        source = orjson.loads(first).get(SOURCE) if first else None
        if isinstance(source, str) and is_done(source):
            stale.append(name)
    quarantine.remove(stale)


def _pieces(key: BatchKey, rejections: list[Rejection]) -> Iterator[bytes | memoryview]:
    for rejection in rejections:
        table = without_origins(to_arrow(rejection.data))
        marks = {STAGE: rejection.stage, REASON: rejection.reason, SOURCE: key.split}
        for column, value in marks.items():
            table = _with(table, column, pa.repeat(pa.scalar(value, pa.string()), table.num_rows))
        if rejection.scores is not None:
            table = _with(table, SCORE, _scores(rejection.scores))
        yield from JsonForm(anything).pieces(table)


def _scores(scores: Sequence[Any]) -> pa.Array:
    """Return scores as a column; values of mixed types as text."""
    try:
        return pa.array(scores)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([str(score) for score in scores], pa.string())


def _with(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    if column in table.column_names:
        return table.set_column(table.column_names.index(column), column, values)
    return table.append_column(column, values)
