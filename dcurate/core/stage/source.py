"""`SourceStage`: lists the splits of the input and reads each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from dcurate.core.batch import Batch, FileGroup, FilePart, FileRows
from dcurate.core.stage.processing import ProcessingStage, X, Y
from dcurate.core.stage.tables import TableAt


@dataclass(frozen=True)
class SkippedInput:
    """Files that a source does not read, as none of their rows can match its filter.

    Args:
        files: number of files that are not read; ``nbytes`` is their size in bytes.
        all_files: number of all files; ``all_bytes`` is their size.
    """

    files: int = 0
    nbytes: int = 0
    all_files: int = 0
    all_bytes: int = 0


class SourceStage(ProcessingStage[X, Y]):
    """A stage that a pipeline begins with: it lists splits, and makes a batch of each.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import BatchKey, DocumentBatch, InlineExecutor, Pipeline
        >>> class Numbers(SourceStage):
        ...     def splits(self):
        ...         yield from (DocumentBatch(key=BatchKey(str(n)), data=pd.DataFrame({"n": [n]})) for n in range(2))
        ...     def columns(self):
        ...         return ["n", "square"]
        ...     def process(self, task):
        ...         return task.with_data(task.to_pandas().assign(square=lambda rows: rows.n**2))
        >>> made = Pipeline("squares", stages=[Numbers()]).run(InlineExecutor(), observers=[])
        >>> [int(batch.to_pandas().square[0]) for batch in made]
        [0, 1]

    Attributes:
        lists_ahead: whether a run may list all splits while the first ones are processed, to say how many there are.
            Set it where listing neither waits nor depends on what was processed.
    """

    lists_ahead: ClassVar[bool] = False

    def advice(self, columns: Sequence[str]) -> str:
        """What to change in the reader if its columns lack one that is looked for, as the end of a sentence.

        Args:
            columns: those that it has.
        """
        return ""

    @abstractmethod
    def splits(self) -> Iterator[X]:
        """The splits of the input, each with its key, always in the same order; called on the driver.

        Raises:
            DataError: there is nothing to read, or it cannot be listed.
        """

    def columns(self) -> list[str] | None:
        """Columns that the source yields, or None if that is not known before the run."""
        return None

    def column_types(self) -> Mapping[str, str]:
        """Types of the columns by name, as a plan shows them; empty if they are not known before the run."""
        return {}

    def divided(self, task: X) -> FileRows | None:
        """The split as one that can be read in parts, with its rows counted; None for one that cannot.

        Where failures are ignored and reading a split raises, or ends its process, the engine reads parts of it, so
        that only the rows at fault are lost; ``process`` is then given such parts. It must not do what may have failed,
        such as parsing, nor hold all of the split in memory. A split that cannot be divided is lost whole and does not
        count as finished.

        Raises:
            DataError: it cannot be read.
        """
        return None

    def unread(self, task: X) -> list[dict[str, Any]]:
        """Return the quarantine records of a split, or of rows of one, that cannot be read: one for each file or part.

        A record says where it is; ``rows`` is how many rows there are, where that is known.
        """
        return places(task)

    def notices(self) -> list[str]:
        """Return sentences about the input for the report; called after `splits`."""
        return []

    def roots(self) -> list[str]:
        """Return the addresses of the files and folders that are read; none if it reads no files."""
        return []

    def reads(self, path: str) -> bool:
        """Return whether a new file of this address would be part of the input."""
        return False

    def tables_read(self) -> Sequence[TableAt]:
        """Return the tables that are read, with their versions; called after `splits`."""
        return ()

    def skipped(self) -> SkippedInput:
        """Return what a filter leaves unread; called after `splits`."""
        return SkippedInput()

    def forecast(self) -> list[str]:
        """Return the notices, as far as the columns are known from the input."""
        return self.notices()


def places(batch: Batch) -> list[dict[str, Any]]:
    """Return the files of a batch, or parts of them, as records; its key if it has no files.

    Examples:
        >>> places(FileGroup(parts=(FilePart("a.parquet", 2, 3, rows=(10, 20)),)))
        [{'file': 'a.parquet', 'start': 2, 'stop': 3, 'first_row': 10, 'last_row': 19, 'rows': 10}]
    """
    parts = batch.parts if isinstance(batch, FileGroup) else ()
    return [_place(part) for part in parts] or [{"batch": str(batch.key)}]


def _place(part: FilePart) -> dict[str, Any]:
    start = part.start if part.start or part.stop is not None else None
    first, last = part.rows or (None, None)
    return {
        "file": part.path,
        "start": start,
        "stop": part.stop,
        "first_row": first,
        "last_row": None if last is None else last - 1,
        "rows": None if first is None or last is None else last - first,
    }


@dataclass(frozen=True)
class RowNeeds:
    """What the later stages of a run need of the rows that a stage makes.

    Args:
        columns: columns that they look at; None if they may look at any.
        lines: whether rows keep the lines of JSON from which they are read, and no other columns have to be parsed.
        origins: whether rows say where they were read, and how often they came before.
    """

    columns: tuple[str, ...] | None = None
    lines: bool = False
    origins: bool = False


@runtime_checkable
class AdaptsRows(Protocol):
    """A stage that can keep lines, leave texts in them, or say where rows were read."""

    def adapted(self, needs: RowNeeds) -> Self | None:
        """Return the stage that makes such rows; None if its rows cannot keep their lines."""
