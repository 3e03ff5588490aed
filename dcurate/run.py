"""Run a pipeline: the whole of it, or batch by batch."""

from __future__ import annotations

import copy
import os
from collections.abc import Generator, Sequence
from html import escape
from typing import Any

from dask.system import CPU_COUNT

from dcurate.cluster.local import LocalCluster
from dcurate.core.batch import Batch
from dcurate.core.pipeline import PipelineDefinition, with_source
from dcurate.core.secrets import remember_secrets
from dcurate.core.shard import Shard
from dcurate.core.stage import SinkStage, SourceStage, Stage
from dcurate.engine.config import ExecutorConfig
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.engine.finished import FinishedExecutor
from dcurate.engine.inline import InlineExecutor
from dcurate.errors import DcurateError, PipelineError, shown
from dcurate.estimates import estimate_run
from dcurate.events import Observer
from dcurate.frames.batches import batches_of
from dcurate.frames.document import DocumentBatch
from dcurate.io.head import FirstRows
from dcurate.plan.compile import compile_plan
from dcurate.result import RunResult
from dcurate.rows import adapt_rows
from dcurate.running.executor import Executor, Session
from dcurate.running.pipeline_run import PipelineRun, RunOptions
from dcurate.runs.estimate import Estimate, keep
from dcurate.runs.preview import Preview
from dcurate.ui.notebook import NotebookProgress, in_notebook
from dcurate.ui.pipeline_html import picture
from dcurate.ui.progress import IntervalLines

AnyStage = Stage

#: Bytes of rows in memory that `Pipeline.head` reads at most, about.
_HEAD_BYTES = 2**28


class Pipeline(PipelineDefinition):
    """Stages in a row that can be run.

    Examples:
        >>> from dcurate import DocumentBatch, InlineExecutor, processing_stage
        >>> @processing_stage(name="shout")
        ... def shout(batch):
        ...     return batch.with_data(batch.to_pandas().assign(text=lambda rows: rows.text.str.upper()))
        >>> import pandas as pd
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["hello"]}))
        >>> result = Pipeline("demo").add_stage(shout).run(InlineExecutor(), initial_tasks=[rows])
        >>> result[0].to_pandas().text[0], result.report.stages[-1].rows_out
        ('HELLO', 1)
    """

    def run(
        self,
        executor: Executor | None = None,
        initial_tasks: Any = None,
        *,
        resume: bool = False,
        rejected: str | os.PathLike[str] | None = None,
        examples: bool = True,
        observers: Sequence[Observer] | None = None,
        n_workers: int | None = None,
        proof: bool = False,
    ) -> RunResult:
        """Run the pipeline to its end.

        Args:
            executor: where and how; a `DaskExecutor` on this machine's CPUs and GPUs if not given.
            initial_tasks: what to begin with, for a pipeline that has no reader: a list of batches or of frames, or one
                frame of pandas, Polars or DuckDB, an Arrow table, reader or dataset, which is cut into batches of
                about 64 MiB.
            resume: go on with an earlier run into the same output: only what it had not finished is done. Rows of
                ``initial_tasks`` that changed are done again, as those of files are.
            rejected: a directory in which rows that rules drop are kept, with the stage and reason; without a writer,
                also those that could not be processed.
            examples: whether the report shows excerpts of a few documents that were dropped, with the reason.
            observers: receive events, such as `dcurate.ui.progress.Progress`. If none are given, a notebook shows a
                view of the run, and a script writes a line to standard error every ``logging_interval`` seconds;
                nothing is shown with ``[]``.
            n_workers: the number of worker processes on this machine, in place of an executor:
                short for ``DaskExecutor(cluster=LocalCluster(n_workers=...))``.
            proof: whether the root of a Merkle tree over all rows, with what became of each, is computed, by which
                `dcurate.runs.prove` finds each row of the output that was changed since. A run that is resumed goes on
                with the proof that it began.

        Raises:
            PipelineError: the pipeline cannot work as it is put together; nothing has run.
            ResourceError: the cluster does not have the resources of a stage; nothing has run.
            DataError: input cannot be read or output not written.
            StageError: a stage's own code raised.
            RunError: the cluster went away, or rows without a writer outgrew this process's memory.
        """
        options = RunOptions(resume, rejected, observers_of(observers), examples, proof=proof)
        return PipelineRun(self, _with_workers(executor, n_workers), initial_tasks, options).to_end()

    def run_shard(
        self,
        shard: str,
        executor: Executor | None = None,
        *,
        resume: bool = False,
        rejected: str | os.PathLike[str] | None = None,
        examples: bool = True,
        observers: Sequence[Observer] | None = None,
        proof: bool = False,
    ) -> RunResult:
        """Run a share of the input, side by side with the others on other hosts; `finish` joins them.

        All shards write to one output, and each has records of its own there. No stage may need the rows of all.

        Args:
            shard: number of the share and how many there are, such as ``"3/64"``: of each 64 splits in a row the third.
            executor: executor as in `run`, as are the others.
            resume: go on with an earlier attempt at the shard, if there was one.
            rejected: a directory in which rows that rules drop are kept.
            examples: whether the report shows excerpts.
            observers: receive events.
            proof: whether `finish` computes a root over the rows of all shards, as in `run`. The shard that begins
                first decides for all.

        Raises:
            PipelineError: the pipeline cannot run in shards, or others of its shards are of another pipeline or have
                no proof.
            DataError: the shard has begun before, or another process runs it; input or output fails.
            ResourceError: the cluster does not have the resources of a stage.
            StageError: a stage's own code raised.
            RunError: the cluster went away.

        Examples:
            >>> from dcurate import JsonlReader, JsonlWriter
            >>> Pipeline("demo", stages=[JsonlReader("in"), JsonlWriter("out")]).run_shard("65/64")
            Traceback (most recent call last):
            dcurate.errors.PipelineError: shard='65/64' is not a shard; give its number from 1 on and how many there ...
        """
        share = Shard.parse(shard)
        options = RunOptions(resume, rejected, observers_of(observers), examples, share, proof)
        return PipelineRun(self, executor, None, options).to_end()

    def finish(self) -> RunResult:
        """Join the shards of a run, once all of them have ended: their ledgers, reports and the index of the output.

        The output is then as one run would have left it. Nothing is computed again, and no stage is set up.

        Raises:
            DataError: shards are missing, or have read another input.
            PipelineError: no shards of this pipeline are there.

        Examples:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from dcurate import InlineExecutor, JsonlReader, JsonlWriter
            >>> folder = tempfile.TemporaryDirectory()
            >>> for name in "abc":
            ...     _ = Path(folder.name, f"{name}.jsonl").write_text('{"text": "one"}')
            >>> out = tempfile.TemporaryDirectory()
            >>> pipeline = Pipeline("demo", stages=[JsonlReader(folder.name), JsonlWriter(out.name)])
            >>> for shard in ("1/2", "2/2"):
            ...     pipeline.run_shard(shard, InlineExecutor(), observers=[]).report
            RunReport('demo', run ..., 2 rows in, 2 out)
            RunReport('demo', run ..., 1 rows in, 1 out)
            >>> pipeline.finish().report
            RunReport('demo', run ..., 3 rows in, 3 out)
            >>> folder.cleanup(), out.cleanup()
            (None, None)
        """
        run = PipelineRun(self, FinishedExecutor(), None, RunOptions(True, None, (), True))
        joined = run.join()
        result = run.to_end()
        joined.forget()
        return result

    def stream(
        self,
        executor: Executor | None = None,
        initial_tasks: Any = None,
        *,
        resume: bool = False,
        rejected: str | os.PathLike[str] | None = None,
        examples: bool = True,
        observers: Sequence[Observer] | None = None,
        n_workers: int | None = None,
        proof: bool = False,
    ) -> Generator[Batch, None, None]:
        """Run the pipeline and yield the batches of its last stage as they are produced.

        The source is read only as fast as batches are taken. Closing the generator stops the run. Arguments and
        errors are those of `run`.
        """
        run = PipelineRun(
            self,
            _with_workers(executor, n_workers),
            initial_tasks,
            RunOptions(resume, rejected, observers_of(observers), examples, proof=proof),
            streams=True,
        )
        yield from run.batches()

    def head(self, n: int = 5, initial_tasks: Any = None, *, read_rows: int = 10_000) -> Preview:
        """The first rows that the pipeline makes, and their schema; nothing is written.

        No more of the input is read than these rows need, whatever its size: first ``n`` rows, then eight times as many
        until ``n`` come out. Stages run in this process, and see an input that ends there: so a deduplication compares
        the rows that were read alone.

        Args:
            n: the number of rows.
            initial_tasks: what to begin with, as in `run`.
            read_rows: the number of input rows after which fewer than ``n`` rows are given.

        Raises:
            PipelineError: the pipeline cannot work as it is put together, or a number below 1.
            DataError: input cannot be read.
            StageError: a stage's own code raised.

        Examples:
            >>> from dcurate import JsonlReader, Pipeline, ScoreFilter
            >>> from dcurate.recipe import BUNDLED
            >>> from dcurate.text import WordCountFilter
            >>> stages = [JsonlReader(str(BUNDLED / "sample")), ScoreFilter(WordCountFilter(min_words=100))]
            >>> first = Pipeline("demo", stages=stages).head(3)
            >>> len(first), "text" in first.schema.names
            (3, True)
        """
        for name, number in (("n", n), ("read_rows", read_rows)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise PipelineError(f"{name}={shown(number)} must be a whole number of at least 1")
        source, *stages = with_source(self, batches_of(initial_tasks))
        assert isinstance(source, SourceStage)
        stages = [stage for stage in stages if not isinstance(stage, SinkStage)]
        rows = min(n, read_rows)
        while True:
            first = FirstRows(copy.copy(source), rows, name=source.name)
            result = Pipeline(self.name, stages=[first, *stages]).run(InlineExecutor(), examples=False, observers=[])
            made, amount = DocumentBatch(data=result.to_arrow()), first.amount
            if made.num_items >= n or amount.ended or rows >= read_rows or amount.nbytes >= _HEAD_BYTES:
                return Preview(made.rows(0, min(n, made.num_items)), amount.rows, tuple(first.source.notices()))
            rows = max(rows + 1, min(8 * rows, read_rows, rows * _HEAD_BYTES // max(amount.nbytes, 1)))

    def schemas(self, initial_tasks: Any = None, *, rows: int = 100) -> dict[str, Any]:
        """The schema of the input, and that after each stage; nothing is written.

        The first rows of the input go through one stage after the other, in this process. A stage after which no rows
        are left, and those behind it, are left out, as nobody knows their types.

        Args:
            initial_tasks: what to begin with, as in `run`.
            rows: the number of input rows.

        Returns:
            Schemas of pyarrow by the names of the stages, without those that write.

        Raises:
            PipelineError: the pipeline cannot work as it is put together, or a number below 1.
            DataError: input cannot be read.
            StageError: a stage's own code raised.

        Examples:
            >>> from dcurate import JsonlReader, Pipeline, ScoreFilter
            >>> from dcurate.recipe import BUNDLED
            >>> from dcurate.text import WordCountFilter
            >>> words = ScoreFilter(WordCountFilter(), score_field="words", name="words")
            >>> schemas = Pipeline("demo", stages=[JsonlReader(str(BUNDLED / "sample")), words]).schemas()
            >>> schemas["jsonl_reader"].names, schemas["words"].field("words").type
            (['id', 'url', 'text', 'source', 'kilobytes'], DataType(int64))
        """
        source, *stages = with_source(self, batches_of(initial_tasks))
        batch = Pipeline(self.name, stages=[source]).head(rows).rows
        schemas = {source.name: _schema(batch)}
        for stage in stages:
            if isinstance(stage, SinkStage):
                continue
            result = Pipeline(self.name, stages=[stage]).run(InlineExecutor(), [batch], examples=False, observers=[])
            batch = DocumentBatch(data=result.to_arrow())
            if not batch.num_items:
                break
            schemas[stage.name] = _schema(batch)
        return schemas

    def estimate(
        self,
        executor: Executor | None = None,
        initial_tasks: Any = None,
        *,
        slots: int | None = None,
        max_s: float = 20.0,
        max_splits: int = 64,
    ) -> Estimate:
        """Estimate what a run will take, by running a sample of the input in this process.

        Nothing is written but a temporary folder. The report of the next run of this pipeline on this input says how
        far the estimate was off.

        Args:
            executor: executor of the run, for its prices and whether failures are ignored.
            initial_tasks: rows to begin with, as in `run`.
            slots: number of slots that work at the same time; that of the CPUs of this host if not given.
            max_s: longest duration of the sample in seconds, apart from two splits of each of four groups of like size.
            max_splits: largest number of splits, apart from the same.

        Raises:
            PipelineError: a stage needs all rows before it passes any on, so that a sample cannot show what it does.
            DataError: the input cannot be read.

        Examples:
            >>> import pandas as pd
            >>> from dcurate import DocumentBatch, Pipeline, ScoreFilter
            >>> from dcurate.text import WordCountFilter
            >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one two", "one"]}))
            >>> pipeline = Pipeline("demo").add_stage(ScoreFilter(WordCountFilter(min_words=2)))
            >>> pipeline.estimate(initial_tasks=[rows]).rows_out
            Range(value=1.0, low=1.0, high=1.0)
        """
        stages = adapt_rows(with_source(self, batches_of(initial_tasks)))
        remember_secrets(stages, self.config)
        config = ExecutorConfig() if executor is None else executor.config
        estimate = estimate_run(stages, config, CPU_COUNT if slots is None else slots, max_s, max_splits)
        keep(estimate)
        return estimate

    def _repr_html_(self) -> str:
        """The pipeline as a picture, for a notebook; one that cannot be built says why."""
        try:
            return picture(self.name, self.description, compile_plan(self.build()))
        except DcurateError as error:
            return f"<pre>{escape(repr(self))}\n{escape(str(error))}</pre>"


def _with_workers(executor: Executor | None, n_workers: int | None) -> Executor | None:
    """The executor with so many workers on this machine, where a number is given."""
    if n_workers is None:
        return executor
    if executor is not None:
        raise PipelineError(
            f"n_workers={n_workers!r} is in place of an executor, and one is given; leave one of them out, or give the "
            "executor a cluster: DaskExecutor(cluster=LocalCluster(n_workers=...))"
        )
    return DaskExecutor(cluster=LocalCluster(n_workers=n_workers))


def observers_of(observers: Sequence[Observer] | None) -> tuple[Observer, ...]:
    """The observers of a run; by default the notebook's view in a notebook, and elsewhere a line now and then."""
    if observers is None:
        return (NotebookProgress() if in_notebook() else IntervalLines(),)
    return tuple(observers)


__all__ = ["Executor", "Pipeline", "RunResult", "Session", "observers_of"]


def _schema(batch: DocumentBatch) -> Any:
    """Names and types of the columns that a person sees, as a schema of pyarrow."""
    return batch.to_arrow().select(batch.get_columns()).schema.remove_metadata()
