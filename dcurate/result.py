"""The result of a run: its outputs, and tables of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from dcurate.core.batch import Batch
from dcurate.core.report import RunReport
from dcurate.errors import DataError, RunError, nearest
from dcurate.frames.document import DocumentBatch
from dcurate.frames.tables import frame_of, with_seconds
from dcurate.runs import records
from dcurate.runs.history import History
from dcurate.runs.rejected import rejected_frame
from dcurate.ui.notebook import summary_html


@dataclass(frozen=True)
class RunResult(Sequence[Batch]):
    """The result of a run: a sequence of the last stage's outputs, the report, and tables of it.

    Of a pipeline that ends with a writer each item is a `FileGroup` that names the files of one source split; of one
    without, each is a batch of rows, in the order of the source. Tables are pandas frames, made when asked for.

    Attributes:
        outputs: the items of the sequence.
        report: what each stage did, and where the output is.
        history: how it stood over time, and what happened.
        about: its stages and their settings, thresholds, versions: see `dcurate.runs.manifest.provenance`.
        without_rows: Arrow table with the columns, of a run that left no row; None where they are not known.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one two", "one"]}))
        >>> pipeline = Pipeline("demo").add_stage(ScoreFilter(WordCountFilter(min_words=2)))
        >>> result = pipeline.run(InlineExecutor(), initial_tasks=[rows])
        >>> result.to_pandas().to_dict("list")
        {'text': ['one two']}
        >>> result.stages[["stage", "rows_in", "rows_out"]].to_dict("records")[-1]
        {'stage': 'word_count', 'rows_in': 2, 'rows_out': 1}
        >>> result.dropped.to_dict("records")
        [{'stage': 'word_count', 'reason': 'word_count', 'rows': 1, 'faulty': False}]
    """

    outputs: tuple[Batch, ...]
    report: RunReport
    history: History = field(default_factory=History, repr=False, compare=False)
    about: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    without_rows: Any = field(default=None, repr=False, compare=False)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Batch, ...]: ...
    def __getitem__(self, index: int | slice) -> Batch | tuple[Batch, ...]:
        return self.outputs[index]

    def __len__(self) -> int:
        return len(self.outputs)

    def __getattr__(self, name: str) -> Any:
        """Say what there is instead of an attribute that other libraries have."""
        advice = dict.fromkeys(("df", "data", "frame", "table", "pandas", "columns"), "to_pandas() or to_arrow()")
        advice |= {"head": "to_pandas().head(), or before the run pipeline.head(n)"}
        more = (
            f"; use {advice[name]}" if name in advice else nearest(name, [at for at in dir(type(self)) if at[0] != "_"])
        )
        raise AttributeError(f"a RunResult has no {name!r}{more}")

    def __repr__(self) -> str:
        where = f", in {self.report.output_path!r}" if self.report.output_path is not None else ""
        return f"RunResult{repr(self.report).removeprefix('RunReport')[:-1]}{where})"

    def __str__(self) -> str:
        """The result on a line, and each notice of the report on one of its own."""
        return "\n".join([repr(self), *(f"notice: {notice}" for notice in self.report.notices)])

    def to_pandas(self) -> Any:
        """The rows of a pipeline without a writer as one pandas frame, in the order of the source.

        Raises:
            RunError: the pipeline wrote its rows, or made something else than rows.
            DataError: a column holds what no one type can.
        """
        return self._rows().to_pandas()

    def to_arrow(self) -> Any:
        """The same rows as one Arrow table."""
        return self._rows().to_arrow()

    def _rows(self) -> DocumentBatch:
        """All rows in one batch; a run that left no row has its columns where its stages give them."""
        if self.report.output_path is not None:
            raise RunError(f"the rows of this run were written; read them from {self.report.output_path!r}")
        made = [DocumentBatch(data=output.to_arrow()) for output in self.outputs if isinstance(output, DocumentBatch)]
        if len(made) < len(self.outputs):
            unsupported = next(output for output in self.outputs if not isinstance(output, DocumentBatch))
            raise RunError(
                f"the last stage made {type(unsupported).__name__}, which has no rows; take the result's items"
            )
        empty = frame_of([], []) if self.without_rows is None else self.without_rows
        rows = DocumentBatch.joined(made or [DocumentBatch(data=empty)])
        if rows is None:
            raise DataError(
                "a column holds values of types that do not go together; take batch by batch: "
                "[batch.to_pandas() for batch in result]"
            )
        return rows

    def rejected(
        self,
        *,
        stage: str | None = None,
        reason: str | None = None,
        limit: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """The rows that the run took out, with stage and reason, as one pandas frame.

        Arguments and columns are those of `dcurate.read_rejected`. Run with ``rejected="FOLDER"`` to have what rules
        drop, and, in a run without a writer, the rows that could not be processed.

        Raises:
            RunError: the run did not keep what it dropped.
            DataError: the rows cannot be read, or do not fit into memory.
        """
        folders = [path for path in (self.report.rejected_path, self.report.quarantine_path) if path is not None]
        if not folders and any(counted.dropped or counted.faulty for counted in self.report.stages):
            raise RunError("this run did not keep what it dropped; run it with rejected='FOLDER'")
        return rejected_frame(folders, stage, reason, limit, storage_options)

    @property
    def stages(self) -> Any:
        """A row a stage: rows and bytes in and out, rows dropped and faulty, seconds, cost, and its own metrics."""
        return frame_of(records.stages(self.report), [*records.STAGES, *records.metric_names(self.report)])

    @property
    def dropped(self) -> Any:
        """A row a stage and reason for which rows were taken out, most first; ``faulty`` ones went to quarantine."""
        return frame_of(records.dropped(self.report), records.DROPPED)

    @property
    def operators(self) -> Any:
        """A row an operator: batches, seconds in its stages' code, idle seconds of its slots, busy share."""
        return frame_of(records.operators(self.history), records.OPERATORS)

    @property
    def decisions(self) -> Any:
        """A row a change of slots that the balancer decided on, with the reason; ``seconds`` are since the start."""
        return self._since_start(frame_of(records.decisions(self.history), records.DECISIONS))

    @property
    def notes(self) -> Any:
        """A row for everything that happened and that a person may want to know: decisions, lost workers, errors."""
        return self._since_start(frame_of(records.notes(self.history), records.NOTES))

    @property
    def rates(self) -> Any:
        """A row a moment: rows and bytes so far and a second, bytes between operators, CPUs and memory in use."""
        return self._since_start(frame_of(list(records.rates(self.history.points)), records.RATES))

    @property
    def timeline(self) -> Any:
        """A frame with a row for each moment and operator: slots, running calls, queue, batches so far, busy share."""
        return self._since_start(frame_of(list(records.timeline(self.history.points)), records.TIMELINE))

    def _repr_html_(self) -> str:
        """Show the run in a notebook: its figures, what became of the rows, why, and the scores."""
        return summary_html(self.report, self.history, self.about)

    def _since_start(self, frame: Any) -> Any:
        return with_seconds(frame, self.history.snapshot().started)
