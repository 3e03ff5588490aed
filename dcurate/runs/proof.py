"""Check the output of a run against the proof that the run left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.jupyter import JupyterMixin
from rich.text import Text

from dcurate.core.proof import run_root
from dcurate.errors import DataError
from dcurate.fs.stores import Directory, output_of
from dcurate.io.proof import ProvedRows, kept_rows, read_rows
from dcurate.io.proof_record import ProofRecord, ProvedSplit
from dcurate.io.rows import is_readable
from dcurate.runs.text import many

#: Changes of a file that are named one by one, and rows among which these are looked for.
_MOST, _COMPARED = 100, 2_000


@dataclass(frozen=True)
class RowChange:
    """A difference between an output and what was proved of it.

    Attributes:
        what: ``"changed"``, ``"missing"`` or ``"added"``, as it concerns a row or a file; ``"removed"``, a row that is
            missing and that a request named, see ``dcurate optout``; ``"unreadable"``, a file; ``"underived"``, a
            split of which the sources give something else; ``"record"``, the records of the run.
        file: the file in the output; empty if it is none.
        row: number of the row there, counted from 0; of a missing one, where it was. None for the file as a whole.
        split: the split that the file was written for.
        why: more of it, in a sentence.

    Examples:
        >>> str(RowChange("changed", "a.jsonl", 3, "a"))
        "changed: a.jsonl, row 3 (counted from 0), split 'a'"
    """

    what: str
    file: str = ""
    row: int | None = None
    split: str = ""
    why: str = ""

    def __str__(self) -> str:
        place = f"{self.file}, row {self.row:,} (counted from 0)" if self.row is not None else self.file
        split = f"split {self.split!r}" if self.split else ""
        return ": ".join(part for part in (self.what, ", ".join(filter(None, (place, split))), self.why) if part)


@dataclass(frozen=True)
class Proof(JupyterMixin):
    """The result of `prove` and `prove_sample`.

    Attributes:
        output: the directory.
        root: root of the run, as the records say it.
        rows: rows that were compared.
        files: files that were compared.
        splits: splits that were compared.
        changes: differences; at most 100 of a file.
        from_record: stages whose verdicts were taken from the records, as they compare rows of the whole input.

    Examples:
        >>> Proof("out", "2f6d", rows=10, files=1, splits=1).holds
        True
    """

    output: str
    root: str
    rows: int
    files: int
    splits: int
    changes: tuple[RowChange, ...] = ()
    from_record: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all rows, files and splits agree."""
        return not self.changes

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {"holds": self.holds, **asdict(self)}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        verdict = "the proof holds" if self.holds else f"{many(len(self.changes), 'difference')}"
        amounts = f"{many(self.rows, 'row')}, {many(self.files, 'file')}, {many(self.splits, 'split')}"
        yield Text(f"{verdict}: {amounts}", "bold")
        yield Text(f"root {self.root}", "dim")
        for change in self.changes:
            yield Text(str(change), "red", overflow="fold")
        if self.from_record:
            yield Text(f"taken from the record, not derived: verdicts of {', '.join(self.from_record)}", "dim")


def prove(output: str, *, root: str | None = None, storage_options: Mapping[str, Any] | None = None) -> Proof:
    """Check each row of an output against the proof that its run left.

    All files of the output are read once, one at a time. The root that the run said is the anchor: who can change the
    output can change its records, too, but not so that they have the same root.

    Args:
        output: the directory that a run with ``proof=True`` wrote to; a local path, or as fsspec opens it.
        root: the root that the run must have, as its report said it; that of the records if None.
        storage_options: for fsspec.

    Raises:
        DataError: the proof is missing, or its records cannot be read.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("demo", stages=[JsonlWriter(folder.name)])
        >>> [written] = pipeline.run(InlineExecutor(), [rows], proof=True, observers=[])
        >>> prove(folder.name).holds
        True
        >>> file = Path(written.data[0])
        >>> _ = file.write_text(file.read_text().replace("two", "too"))
        >>> [(change.what, change.row) for change in prove(folder.name).changes]
        [('changed', 1)]
        >>> folder.cleanup()
    """
    directory = Directory(output_of(output), storage_options or {})
    record = ProofRecord(directory)
    recorded, last = record.root()
    leaves: dict[tuple[int, str], bytes] = {}
    changes: list[RowChange] = []
    files: set[str] = set()
    rows = 0
    removed = record.removed_rows()
    for split in record.splits():
        leaves[split.place] = split.leaf
        if split.phase < last:
            continue
        for name, proved in roots_of_files(split).items():
            files.add(name)
            count, differences = _check(directory, name, proved, split.split, removed.get(name, {}))
            rows += count
            changes += differences
    changes += [
        RowChange("added", name) for name in sorted(directory.files()) if is_readable(name) and name not in files
    ]
    return Proof(directory.url, recorded, rows, len(files), len(leaves), (*_roots(recorded, root, leaves), *changes))


def roots_of_files(split: ProvedSplit) -> dict[str, str]:
    """The root of each file that was written for a split."""
    written = split.stats[-1].get("proof", {}) if split.stats else {}
    return {name: written.get(name, "") for name in split.files}


def _roots(recorded: str, wanted: str | None, leaves: Mapping[tuple[int, str], bytes]) -> Iterator[RowChange]:
    """Compare the root of the splits, as the records have them, with that which was said."""
    present = run_root(leaves)
    if present != recorded:
        yield RowChange("record", why=f"the records of the splits have the root {present}, not that of the run")
    if wanted is not None and wanted.strip().lower() != recorded:
        yield RowChange("record", why=f"the run has the root {recorded}, and {wanted} was asked for")


def _check(
    directory: Directory, name: str, proved: str, split: str, removed: Mapping[int, str]
) -> tuple[int, list[RowChange]]:
    """The number of rows of a file, and how it differs; ``removed`` are rows that went by request, and why."""
    if not directory.has(name):
        return 0, [RowChange("missing", name, split=split)]
    try:
        rows = read_rows(directory, name)
    except DataError as error:
        return 0, [RowChange("unreadable", name, split=split, why=str(error))]
    if rows.root == proved:
        return len(rows.short), []
    before = kept_rows(directory, name)
    if removed and before is not None:
        left = [short for row, short in enumerate(before) if row not in removed]
        if left == list(rows.short):
            gone = [RowChange("removed", name, row, split, f"by request {removed[row]}") for row in sorted(removed)]
            return len(rows.short), _shortened(gone, "removed")
    return len(rows.short), changed_rows(name, before, rows, split)


def _shortened(changes: Sequence[RowChange], what: str) -> list[RowChange]:
    """The changes of a file, at most `_MOST`, and how many more there are."""
    more = len(changes) - _MOST
    rest = [RowChange(what, changes[0].file, split=changes[0].split, why=f"and {many(more, 'row')} more")]
    return [*changes[:_MOST], *(rest if more > 0 else [])]


def changed_rows(name: str, before: Sequence[bytes] | None, rows: ProvedRows, split: str) -> list[RowChange]:
    """Which rows of a file differ from those that were written, at most `_MOST`.

    Args:
        name: its name.
        before: the short hashes of the rows that were written; None if they are not known.
        rows: its rows.
        split: the split that it was written for.
    """
    if before is None:
        return [RowChange("changed", name, split=split, why="which rows is not known, as the short hashes are gone")]
    places = [RowChange(what, name, row, split) for what, row in _differences(before, rows.short)]
    if not places:
        return [RowChange("changed", name, split=split, why="names or order of columns, or a row that is not found")]
    return _shortened(places, "changed")


def _differences(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[tuple[str, int]]:
    """What happened to rows, and where."""
    least = min(len(before), len(after))
    if len(before) == len(after):
        yield from (("changed", row) for row in range(least) if before[row] != after[row])
        return
    start = next((row for row in range(least) if before[row] != after[row]), least)
    same = next((row for row in range(least - start) if before[-1 - row] != after[-1 - row]), least - start)
    old, new = before[start : len(before) - same], after[start : len(after) - same]
    if max(len(old), len(new)) > _COMPARED:  # to align them takes time that grows with the square
        paired = min(len(old), len(new))
        yield from (("changed", start + row) for row in range(paired))
        yield from (("missing", start + row) for row in range(paired, len(old)))
        yield from (("added", start + row) for row in range(paired, len(new)))
        return
    for tag, low, high, new_low, new_high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        paired = 0 if tag == "equal" else min(high - low, new_high - new_low)
        yield from (("changed", start + new_low + row) for row in range(paired))
        if tag != "equal":
            yield from (("missing", start + row) for row in range(low + paired, high))
            yield from (("added", start + row) for row in range(new_low + paired, new_high))
