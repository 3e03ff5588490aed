"""The path of one row: from its source through the stages to the output, and from there to the root of the run."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from dcurate.core.merkle import MerklePath, merkle_path
from dcurate.core.proof import path_in_run, split_statement
from dcurate.errors import DataError, PipelineError
from dcurate.frames.excerpts import id_column
from dcurate.fs.stores import Directory, output_of
from dcurate.io.proof import read_rows
from dcurate.io.proof_record import ProofRecord, ProvedSplit
from dcurate.io.rejections import REASON, SCORE, SOURCE, STAGE
from dcurate.io.rows import Row, is_readable, rows_in, rows_with
from dcurate.runs.inspect import keeps_of, score_fields
from dcurate.runs.load import RecordedRun, read_run
from dcurate.runs.proof import roots_of_files


@dataclass(frozen=True)
class RowProof(JupyterMixin):
    """The result of `prove_row`. Digests are hexadecimal.

    Attributes:
        row: as it was asked for.
        outcome: ``"kept"``, ``"dropped"`` or ``"quarantined"``.
        place: the file of the output or of the rejected rows, and the row in it, counted from 0.
        source: the file of the input and the row in it; the files that it may be in, where that is not known.
        split: split of the source.
        stage: the one that took it out, and ``reason``, ``score``; empty for a kept row.
        passed: stages that it passed, each with the scores that it keeps, where it is a filter.
        scores: of a kept row, the columns with scores.
        leaf: of a kept row, BLAKE3 of its block: the rows of its file (lines, with their ends; values in Parquet) from
            the first to the second number of ``block``, which is one past the last.
        file_root: root of the blocks of the file, and ``to_file``: digests before and after, from the leaf up.
        statement: what is proved of the split, as JSON; ``split_leaf`` its SHA-256, ``to_root`` from there to ``root``.
        holds: whether the path leads to the root of the run.

    Examples:
        >>> RowProof("a", "kept", root="2f6d", holds=True).outcome
        'kept'
    """

    row: str
    outcome: str
    place: str = ""
    source: str = ""
    split: str = ""
    stage: str = ""
    reason: str = ""
    score: Any = None
    passed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    leaf: str = ""
    block: tuple[int, int] = (0, 0)
    file_root: str = ""
    to_file: list[list[list[str]]] = field(default_factory=list)
    statement: str = ""
    split_leaf: str = ""
    to_root: list[list[list[str]]] = field(default_factory=list)
    root: str = ""
    holds: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table.grid(padding=(0, 2))
        for name, value in _lines(self):
            if value:
                table.add_row(Text(name, "bold"), Text(value, overflow="fold"))
        yield table


def _lines(proof: RowProof) -> Iterator[tuple[str, str]]:
    reason = f" ({proof.reason})" if proof.reason not in ("", proof.stage) else ""
    yield proof.row, proof.outcome + (f" by {proof.stage}{reason}" if proof.stage else "")
    yield "score", "" if proof.score is None else str(proof.score)
    for name, value in proof.scores.items():
        yield name, str(value)
    yield "source", proof.source
    yield "split", proof.split
    for stage, keeps in proof.passed.items():
        yield "passed", f"{stage}, which keeps {' and '.join(keeps)}" if keeps else stage
    yield "file", proof.place
    yield "leaf", f"{proof.leaf}, BLAKE3 of rows {proof.block[0]:,} to {proof.block[1] - 1:,}" if proof.leaf else ""
    yield "root of file", f"{proof.file_root}, {len(proof.to_file)} steps above" if proof.file_root else ""
    yield "split leaf", f"{proof.split_leaf}, SHA-256 of what is proved of the split"
    yield "root of run", f"{proof.root}, {len(proof.to_root)} steps above"
    yield "proof", "holds" if proof.holds else "does not hold: the path does not lead to the root of the run"


def prove_row(
    output: str, row: str, *, id_field: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> RowProof:
    """Show the path of one row: source, stages, place in the output or why it was taken out, and digests to the root.

    A row that was taken out is found where the run kept it: in quarantine, or in the rejected rows of a run with
    ``rejected=``. What is proved of it is what was taken out of its split, by stage and reason.

    Args:
        output: the directory that a run with ``proof=True`` wrote to; a local path, or as fsspec opens it.
        row: id of a document, or a place in the output such as ``"part-00-102f3d4d4319.jsonl:17"``, counted from 0.
        id_field: column with ids; the first of ``id``, ``doc_id``, ``url`` and the like if None.
        storage_options: for fsspec.

    Raises:
        PipelineError: the row is missing.
        DataError: the proof is missing, or files cannot be read.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("demo", stages=[JsonlWriter(folder.name)])
        >>> run = pipeline.run(InlineExecutor(), [rows], proof=True, observers=[])
        >>> proof = prove_row(folder.name, "b")
        >>> proof.outcome, len(proof.leaf), proof.holds
        ('kept', 64, True)
        >>> folder.cleanup()
    """
    directory = Directory(output_of(output), storage_options or {})
    return _RowSearch(directory, row, id_field, read_run(output, storage_options)).result()


@dataclass
class _RowSearch:
    """A search for one row."""

    output: Directory
    row: str
    id_field: str | None
    run: RecordedRun

    def __post_init__(self) -> None:
        record = ProofRecord(self.output)
        self.root, self.last = record.root()
        self.splits = {split.place: split for split in record.splits()}

    def result(self) -> RowProof:
        """The path of the row."""
        kept = self._in_output()
        if kept is not None:
            return self._kept(*kept)
        for address, outcome in self._folders():
            directory = Directory(address, self.output.options)
            row = self._in(directory, sorted(filter(is_readable, directory.files())))
            if row is not None:
                return self._taken_out(directory, row, outcome)
        kept_where = "" if self.run.report.rejected_path else "; the run kept no dropped rows (run with rejected=)"
        raise PipelineError(
            f"row {self.row!r} is not in {self.output.url!r}{kept_where}; give the id of a document, the column "
            "of ids with --id-field COLUMN (in Python id_field=), or FILE:ROW, counted from 0"
        )

    def _folders(self) -> Iterator[tuple[str, str]]:
        """The folders of rows that were taken out."""
        yield f"{self.output.records}/quarantine", "quarantined"
        if self.run.report.rejected_path is not None:
            yield self.run.report.rejected_path, "dropped"

    def _in(self, directory: Directory, names: Iterable[str]) -> Row | None:
        rows = (row for name in names for row in rows_with(directory, name, self.id_field, {self.row: None}))
        return next(rows, None)

    def _in_output(self) -> tuple[ProvedSplit, Row] | None:
        """The split and place of a row of the output."""
        files = {name: split for split in self.splits.values() for name in split.files}
        name, _, number = self.row.rpartition(":")
        if name in files and number.isdigit():
            rows = (row for row in rows_in(self.output, name) if row.number == int(number))
            row = next(rows, None)
            return None if row is None else (files[name], row)
        row = self._in(self.output, (name for name in sorted(files) if self.output.has(name)))
        return None if row is None else (files[row.file], row)

    def _kept(self, split: ProvedSplit, row: Row) -> RowProof:
        rows = read_rows(self.output, row.file)
        number = bisect_right(rows.counts, row.number)
        path = merkle_path(rows.blocks, number, rows.about)
        leaf, proved = rows.blocks[number], roots_of_files(split)[row.file]
        columns = [name for name in score_fields(self.run) if row.values.get(name) is not None]
        return RowProof(
            outcome="kept",
            place=f"{self.output.path(row.file)}, row {row.number} (counted from 0)",
            source=self._source(split, row.values),
            passed={stage.name: keeps_of(self.run, stage.name) for stage in self.run.report.stages},
            scores={name: row.values[name] for name in columns},
            leaf=leaf.hex(),
            block=((0, *rows.counts)[number], rows.counts[number]),
            file_root=proved,
            to_file=_hex(path),
            **self._to_root(split, path.root(leaf).hex() == proved),
        )

    def _taken_out(self, directory: Directory, row: Row, outcome: str) -> RowProof:
        values = row.values
        stage, reason, name = (str(values.get(key, "")) for key in (STAGE, REASON, SOURCE))
        of_name = (split for split in self.splits.values() if split.split == name)
        split = next((split for split in of_name if _took_out(split, stage, reason)), None)
        if split is None:
            raise DataError(
                f"{directory.path(row.file)!r} has row {self.row!r}, and by the proof stage {stage!r} took out none of "
                f"split {name!r}; the file was changed, or is of another run"
            )
        names = [stats.name for stats in self.run.report.stages]
        passed = names[: names.index(stage)] if stage in names else []
        return RowProof(
            outcome=outcome,
            place=f"{directory.path(row.file)}, row {row.number} (counted from 0)",
            source=self._source(split, values),
            stage=stage,
            reason=reason,
            score=values.get(SCORE),
            passed={name: keeps_of(self.run, name) for name in passed},
            **self._to_root(split, True),
        )

    def _to_root(self, split: ProvedSplit, holds: bool) -> dict[str, Any]:
        """What all rows have: the path from their split to the root."""
        path = path_in_run({place: proved.leaf for place, proved in self.splits.items()}, split.place)
        return {
            "row": self.row,
            "split": split.split,
            "statement": split_statement(split.split, split.stats).decode(),
            "split_leaf": split.leaf.hex(),
            "to_root": _hex(path),
            "root": self.root,
            "holds": holds and path.root(split.leaf).hex() == self.root,
        }

    def _source(self, split: ProvedSplit, values: Mapping[str, Any]) -> str:
        """The file of the input that a row was read from, and the row in it."""
        column = self.id_field or id_column(list(values))
        inputs = split.inputs or tuple(str(path) for path in self.run.about.get("inputs", ()))
        if column is not None and column in values:
            for path in inputs:
                directory = Directory(os.path.dirname(path), self.output.options)
                with suppress(DataError):  # it is gone, or of a format that is not searched
                    name = os.path.basename(path)
                    rows = rows_with(directory, name, column, {str(values[column]): None}) if is_readable(name) else ()
                    for row in rows:
                        return f"{path}, row {row.number} (counted from 0)"
        return ", ".join(inputs)


def _took_out(split: ProvedSplit, stage: str, reason: str) -> bool:
    counts = [stats for stats in split.stats if stats["name"] == stage]
    return any(reason in stats[kind] for stats in counts for kind in ("dropped", "faulty"))


def _hex(path: MerklePath) -> list[list[list[str]]]:
    return [[[digest.hex() for digest in side] for side in step] for step in path.steps]
