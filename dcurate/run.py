"""Run a pipeline: the whole of it, or batch by batch."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import psutil
from dask.system import CPU_COUNT
from distributed import Client

from dcurate.cluster.local import LocalCluster
from dcurate.core.batch import Batch, BatchKey, FileGroup
from dcurate.core.extras import check_installed, libraries
from dcurate.core.fingerprint import fingerprint
from dcurate.core.pipeline import PipelineDefinition, with_source
from dcurate.core.report import RunReport
from dcurate.core.secrets import remember_secrets
from dcurate.core.shard import Shard
from dcurate.core.stage import BarrierStage, SinkStage, SourceStage, Stage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.config import ExecutorConfig
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.engine.finished import FinishedExecutor
from dcurate.engine.inline import InlineExecutor
from dcurate.errors import DataError, DcurateError, Interrupted, PipelineError, RunError, shown
from dcurate.estimates import estimate_run
from dcurate.events import Observer, StageStats
from dcurate.frames.batches import batches_of
from dcurate.frames.document import DocumentBatch
from dcurate.fs.paths import without_links
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.io.earlier_runs import PresentInput, select_run
from dcurate.io.head import FirstRows
from dcurate.io.input_manifest import InputManifest
from dcurate.io.ledger import DirectoryLedger
from dcurate.io.lock import OutputLock
from dcurate.io.output import another_run, check_claim, claim, finished_before, folder_name, is_taken_over, mark_ended
from dcurate.io.rejections import DirectoryRejections, clear_stale
from dcurate.io.shards import JoinedShards, begin_shard, check_shards, end_shard, join_shards
from dcurate.io.sink import FileWriter
from dcurate.io.source import FileReader
from dcurate.io.success_marker import SuccessMarker, find_finished, inputs_of, mark_finished
from dcurate.plan.compile import compile_plan
from dcurate.plan.operators import Plan
from dcurate.plan.rounds import rounds
from dcurate.redaction import hush, text_of, without_secrets
from dcurate.result import RunResult
from dcurate.rows import adapt_rows, used_after
from dcurate.runs.estimate import Estimate, keep, kept
from dcurate.runs.history import History
from dcurate.runs.manifest import provenance
from dcurate.runs.preview import Preview
from dcurate.shuffle.writer import ChunkWriter
from dcurate.ui.notebook import NotebookProgress, in_notebook
from dcurate.ui.pipeline_html import picture
from dcurate.ui.progress import IntervalLines, JsonProgress, Progress
from dcurate.ui.publisher import SnapshotPublisher
from dcurate.ui.report.record import record

AnyStage = Stage

#: Share of the free memory that `Pipeline.run` may fill with rows of a pipeline that has no writer.
COLLECT_SHARE = 0.5

#: Bytes of rows in memory that `Pipeline.head` reads at most, about.
_HEAD_BYTES = 2**28


@runtime_checkable
class Executor(Protocol):
    """Where and how pipelines run."""

    @property
    def mode(self) -> str:
        """The mode: ``streaming``, ``batch`` or ``inline``."""

    @property
    def config(self) -> ExecutorConfig:
        """The settings."""

    @property
    def elsewhere(self) -> bool:
        """Whether stages may run where other libraries are installed than here."""

    def session(self) -> AbstractContextManager[Session]:
        """Open the resources of a run for the duration of a ``with`` statement."""


class Session(Protocol):
    """An open executor."""

    @property
    def serving(self) -> Client | None:
        """The client of a scheduler that serves pages or metrics of runs; None if there is none."""

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot run here, before anything is touched."""

    def execute(self, job: Round, accounting: RunAccounting, /) -> Iterator[Batch]:
        """Run one round; yields the batches to deliver as they come."""


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
        rejected: str | None = None,
        examples: bool = True,
        observers: Sequence[Observer] | None = None,
        n_workers: int | None = None,
    ) -> RunResult:
        """Run the pipeline to its end.

        Args:
            executor: where and how; a `DaskExecutor` on this machine's CPUs and GPUs if not given.
            initial_tasks: what to begin with, for a pipeline that has no reader: a list of batches or of frames, or one
                frame of pandas, Polars or DuckDB, an Arrow table, reader or dataset, which is cut into batches of
                about 64 MiB.
            resume: go on with an earlier run into the same output: only what it had not finished is done. Rows of
                ``initial_tasks`` that changed are done again, as those of files are.
            rejected: a directory in which rows that rules drop are kept, with the stage and reason.
            examples: whether the report shows excerpts of a few documents that were dropped, with the reason.
            observers: receive events, such as `dcurate.ui.progress.Progress`. If none are given, a notebook shows a
                view of the run, and a script writes a line to standard error every ``logging_interval`` seconds;
                nothing is shown with ``[]``.
            n_workers: the number of worker processes on this machine, in place of an executor:
                short for ``DaskExecutor(cluster=LocalCluster(n_workers=...))``.

        Raises:
            PipelineError: the pipeline cannot work as it is put together; nothing has run.
            ResourceError: the cluster does not have the resources of a stage; nothing has run.
            DataError: input cannot be read or output not written.
            StageError: a stage's own code raised.
            RunError: the cluster went away, or rows without a writer outgrew this process's memory.
        """
        options = _RunOptions(resume, rejected, observers_of(observers), examples)
        return _Run(self, _with_workers(executor, n_workers), initial_tasks, options).to_end()

    def run_shard(
        self,
        shard: str,
        executor: Executor | None = None,
        *,
        resume: bool = False,
        rejected: str | None = None,
        examples: bool = True,
        observers: Sequence[Observer] | None = None,
    ) -> RunResult:
        """Run a share of the input, side by side with the others on other hosts; `finish` joins them.

        All shards write to one output, and each has records of its own there. No stage may need the rows of all.

        Args:
            shard: number of the share and how many there are, such as ``"3/64"``: of each 64 splits in a row the third.
            executor: as in `run`, as are the others.
            resume: go on with an earlier attempt at the shard, if there was one.
            rejected: a directory in which rows that rules drop are kept.
            examples: whether the report shows excerpts.
            observers: receive events.

        Raises:
            PipelineError: the pipeline cannot run in shards, or others of its shards are of another pipeline.
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
        options = _RunOptions(resume, rejected, observers_of(observers), examples, share)
        return _Run(self, executor, None, options).to_end()

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
        run = _Run(self, FinishedExecutor(), None, _RunOptions(True, None, (), True))
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
        rejected: str | None = None,
        examples: bool = True,
        observers: Sequence[Observer] | None = None,
        n_workers: int | None = None,
    ) -> Generator[Batch, None, None]:
        """Run the pipeline and yield the batches of its last stage as they are produced.

        The source is read only as fast as batches are taken. Closing the generator stops the run. Arguments and
        errors are those of `run`.
        """
        run = _Run(
            self,
            _with_workers(executor, n_workers),
            initial_tasks,
            _RunOptions(resume, rejected, observers_of(observers), examples),
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
                raise PipelineError(f"{name}={number!r} must be a whole number of at least 1")
        source, *stages = with_source(self, batches_of(initial_tasks))
        assert isinstance(source, SourceStage)
        stages = [stage for stage in stages if not isinstance(stage, SinkStage)]
        rows = min(n, read_rows)
        while True:
            first = FirstRows(copy.copy(source), rows, name=source.name)
            result = Pipeline(self.name, stages=[first, *stages]).run(InlineExecutor(), examples=False, observers=[])
            made, amount = DocumentBatch(data=result.to_arrow()), first.amount
            if made.num_items >= n or amount.ended or rows >= read_rows or amount.nbytes >= _HEAD_BYTES:
                return Preview(made.rows(0, min(n, made.num_items)), amount.rows)
            rows = max(rows + 1, min(8 * rows, read_rows, rows * _HEAD_BYTES // max(amount.nbytes, 1)))

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
            executor: has the prices, and says whether failures are ignored.
            initial_tasks: as for `run`.
            slots: how many work at the same time; as many as this host has CPUs if not given.
            max_s: seconds that the sample may take, beside two splits of each of four groups of like size.
            max_splits: splits that are taken at most.

        Raises:
            PipelineError: a stage sees all rows before it passes any on, so that a sample says nothing of it.
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


def ended_in(stage: AnyStage, stats: StageStats) -> str:
    """Return a notice where a user's stage returned no rows at all, and did not say why; empty elsewhere."""
    if not stats.rows_in or stats.dropped != {stage.name: stats.rows_in}:
        return ""
    return (
        f"stage {stage.name!r} returned None or no rows for each batch, and so dropped all rows ({stats.rows_in:,}); "
        "if it should keep some, see whether a 'return' is missing"
    )


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


#: The folder beside the output in which what passes between rounds waits, a folder for each stage that has rounds.
_ROUNDS = "rounds"


@dataclass(frozen=True)
class _RunOptions:
    """The options of a run."""

    resume: bool
    rejected: str | None
    observers: tuple[Observer, ...]
    examples: bool
    shard: Shard | None = None


def _collect(batches: Iterator[Batch]) -> list[Batch]:
    """All batches in this process, as long as they fit."""
    free_bytes = psutil.virtual_memory().available * COLLECT_SHARE
    collected = []
    for batch in batches:
        free_bytes -= batch.nbytes
        if free_bytes < 0:
            raise RunError(
                "the rows do not fit into this process's memory; end the pipeline with a writer, or take batches as "
                "they come from pipeline.stream()"
            )
        collected.append(batch)
    return collected


def _read_all(source: AnyStage) -> AnyStage:
    """Let a failure of the source of a later round end the run: rows of the round before must not be lost."""
    strict_source = copy.copy(source)
    object.__setattr__(strict_source, "spec", replace(source.spec, ignore_failures=False))
    return strict_source


def _separates_runs(sink: SinkStage[Any]) -> bool:
    return isinstance(sink, FileWriter) and sink.separates_runs


@dataclass
class _Run:
    """One run of a pipeline, round by round."""

    pipeline: PipelineDefinition
    executor: Executor | None
    initial_tasks: Any
    options: _RunOptions
    streams: bool = False
    accounting: list[RunAccounting] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    earlier: SuccessMarker | None = None
    joined: JoinedShards | None = None
    expected: Estimate | None = None
    ledger: DirectoryLedger | None = None
    listed: list[Batch] | None = None
    rounds: int = 1
    history: History = field(default_factory=History)
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def __post_init__(self) -> None:
        self.runner: Executor = DaskExecutor() if self.executor is None else self.executor
        if isinstance(self.runner, type) or not isinstance(self.runner, Executor):
            raise PipelineError(
                f"executor={shown(self.runner)} is not an executor; give DaskExecutor(...) or InlineExecutor(), and "
                "rows as initial_tasks=frame"
            )
        self.stages = adapt_rows(with_source(self.pipeline, batches_of(self.initial_tasks)))
        remember_secrets(self.stages, self.pipeline.config)
        for observer in self.options.observers:
            if isinstance(observer, Progress | JsonProgress):
                observer.use_interval(self.runner.config.logging_interval)
        self.sink = compile_plan(self.stages).sink
        if self.options.shard is not None:
            self.sink = check_shards(self.sink, self._barriers).as_shard(self.options.shard.folder)
            self.stages = (*self.stages[:-1], self.sink)
        self.fingerprint = fingerprint(self.stages)
        self.input_manifest = InputManifest(self.fingerprint)
        self.lock = OutputLock(self.id)

    @property
    def sinkless(self) -> bool:
        """Whether the pipeline writes nothing."""
        return self.sink is None

    @property
    def rejected(self) -> str | None:
        """The folder of rejected rows, as an address that is valid on every worker."""
        asked = self.options.rejected
        return Directory(asked, self._storage).address if asked is not None else None

    @property
    def written(self) -> Sequence[Sequence[str]]:
        """The files written for each split that is finished, in the order of the source."""
        return self.earlier.written if self.earlier else [files for _, files in self.accounting[-1].in_order()]

    def to_end(self) -> RunResult:
        """Run the pipeline, and return what it gave."""
        if self.sinkless:
            collected = _collect(self.batches())
            outputs = tuple(sorted(collected, key=lambda batch: batch.key or BatchKey("")))
        else:
            for _ in self.batches():
                pass
            outputs = tuple(FileGroup.of(files) for files in self.written if files)
        return RunResult(outputs, self.report(), self.history, provenance(self.pipeline, self.stages))

    def batches(self) -> Iterator[Batch]:
        """Run the pipeline unless an earlier run finished it; yields the batches that the last round delivers."""
        with self.lock:
            yield from self._batches()

    def _batches(self) -> Iterator[Batch]:
        if self.sink is not None and self._has_barrier and self.resumes:
            self._prepare(self.sink)
            self.earlier = find_finished(self.sink, inputs_of(self.fingerprint, self._source.splits()))
        if self.earlier is not None:
            return
        try:
            yield from self._run()
        except BaseException as error:
            hush(error)
            with suppress(
                DcurateError
            ):  # the reason that the run ended for is to be heard, not one that follows from it
                self._record()
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(self._resuming()) from error
            raise
        self._record()
        if self.options.shard is not None:
            end_shard(self._file_writer, self.input_manifest.digest, self.accounting[0].left_unread(), self.notices)

    def join(self) -> JoinedShards:
        """Join the shards of the output, so that all splits of the input are finished."""
        writer = check_shards(self.sink, self._barriers)
        self._list()
        self.joined = join_shards(writer, self.fingerprint, self.input_manifest.digest)
        return self.joined

    def _resuming(self) -> str:
        """How to go on with a run that is interrupted, as a notebook shows it."""
        if self.ledger is None:
            return "interrupted; nothing was written"
        where = without_secrets(self._output.address)
        return f"interrupted; what is finished is kept in {where!r}: go on with run(..., resume=True)"

    def _run(self) -> Iterator[Batch]:
        self._check_apart()
        if self.sink is not None:
            self._refuse_others(self.sink)
            if not self.resumes:
                self.sink.check()
        self._check_rejected()
        if not self.runner.elsewhere:
            check_installed(libraries(self.stages))
        with ExitStack() as stack:
            session = stack.enter_context(self.runner.session())
            session.check(compile_plan(self.stages))
            if session.serving is not None:
                stack.enter_context(SnapshotPublisher(session.serving, self.history))
            if self.sink is not None:
                if self.options.shard is not None:
                    self.lock.acquire(self._output)
                    self._list()
                    begin_shard(self._file_writer, self.options.shard, self.fingerprint, self.options.resume)
                self._prepare(self.sink)
                claim(self._output, self.id)
                self.ledger = DirectoryLedger.open(self.sink, self.fingerprint, self.resumes)
                if self.ledger.begun:
                    self._list()
                    self.ledger.check(self.input_manifest)
            with self._watching_claim():
                yield from self._run_rounds(session, self._scratch(stack))
            self.expected = kept(self.input_manifest.digest)
            if self.sink is not None:
                self.lock.check()
                written = list(chain.from_iterable(self.written))
                check_claim(self._output, self.id, written, self._generation)
                if self.options.shard is None:
                    self.sink.complete(written)
        if self.sink is not None and self._has_barrier and not any(account.unread for account in self.accounting):
            mark_finished(self.sink, SuccessMarker(self.input_manifest.digest, self.report().to_dict(), self.written))
        if isinstance(self.sink, FileWriter) and self.options.shard is None:
            lost = self.accounting[0].lost()  # a later run may read them when they are repaired
            read = [files for split, files in self.input_manifest.files.items() if split not in lost]
            mark_ended(self._output, self.input_manifest.digest, chain.from_iterable(read))

    @cached_property
    def resumes(self) -> bool:
        """Whether it goes on with an earlier run."""
        if not self.options.resume or not isinstance(self.sink, FileWriter):
            return self.options.resume
        runs = self.sink.earlier_runs()
        if not runs or not (self.sink.separates_runs or self.sink.is_final(runs[0])):
            return bool(runs)
        splits = self._list()
        return select_run(self.sink, PresentInput(self.fingerprint, splits, self.input_manifest, self._has_barrier))

    def _list(self) -> list[Batch]:
        """All splits of the input, each recorded in the manifest."""
        if self.listed is None:
            self.listed = list(self.input_manifest.record(self._source.splits()))
        return self.listed

    @contextmanager
    def _watching_claim(self) -> Iterator[None]:
        """Name another run that writes to the output at the same time as the cause of an error that follows from it."""
        try:
            yield
        except DataError as error:
            if self.sink is not None and not self.lock.lost and is_taken_over(self._output, self.id):
                raise another_run(self._output, self._generation) from error
            raise

    def _refuse_others(self, sink: SinkStage[Any]) -> None:
        """Refuse an output that another run writes to, before anything is started."""
        if self.resumes or not _separates_runs(sink):
            self.lock.refuse_others(self._output)

    def _prepare(self, sink: SinkStage[Any]) -> None:
        """Lock the output and make it ready. A new run with records of its own shares them with nobody."""
        if self.resumes or not _separates_runs(sink):
            self.lock.acquire(self._output)
        sink.prepare(self.resumes)
        self.lock.acquire(self._output)

    @property
    def _generation(self) -> int:
        return self.sink.generation if isinstance(self.sink, FileWriter) else 0

    def _record(self) -> None:
        """Leave the report beside the output, if there is one and anything has run."""
        if self.sink is None or not self.accounting:
            return
        about = provenance(self.pipeline, self.stages)
        place = self._output if self.options.shard is not None else replace(self._output, run="")
        record(self.report(), self.history, about, place)

    @property
    def _file_writer(self) -> FileWriter:
        assert isinstance(self.sink, FileWriter)
        return self.sink

    @property
    def _output(self) -> Directory:
        """The output, with the records of this run."""
        assert self.sink is not None
        return Directory(
            self.sink.output_path, self._storage, self.sink.run if isinstance(self.sink, FileWriter) else ""
        )

    def _run_rounds(self, session: Session, scratch: str) -> Iterator[Batch]:
        """Run round after round; yields the batches that the last one delivers."""
        earlier = finished_before(self._output) if self.sink is not None else 0
        # An index of documents has a run's documents under this name: each run that appends has its own.
        folder = f"{scratch}/{_ROUNDS}{f'-{earlier}' if earlier else ''}"
        url = ""

        def reduce(barrier: BarrierStage[Any]) -> Sequence[Stage]:
            stages = barrier.reduce_stages(url, self._storage, self.accounting[-1].in_order())
            self.notices += barrier.notices()
            self._own(barrier, stages)
            return stages

        for current in rounds(self.stages, reduce):
            stages = current.stages
            if current.barrier is not None:
                url = f"{folder}/{folder_name(current.barrier.name)}"
                map_stages = current.barrier.map_stages(url, self._storage)
                self._own(current.barrier, map_stages)
                used = used_after(self.stages, current.barrier)
                for stage in map_stages:
                    if isinstance(stage, ChunkWriter) and used is not None:
                        stage.used_later(used)
                stages += tuple(map_stages)
            self.rounds = len(self.accounting) + 1 + current.following
            yield from self._run_round(session, stages, current.last)
        if self._has_barrier:
            Directory(folder, self._storage).clear()

    def _check_rejected(self) -> None:
        """Refuse a place for rejected rows in which other files of theirs, or of the output, have the same names."""
        if self.sink is None or self.rejected is None:
            return
        rejected, output = self.rejected.rstrip("/"), self._output.address.rstrip("/")
        if rejected == output or f"{rejected}/".startswith(f"{self._output.records.rstrip('/')}/"):
            raise PipelineError(
                f"rejected={self.options.rejected!r} is where the output or records of the run are; name another folder"
            )

    def _check_apart(self) -> None:
        """Refuse an output that is read as input by the next run, or deleted as output before it is read."""
        source, sink = self.stages[0], self.sink
        if not isinstance(source, FileReader) or not isinstance(sink, FileWriter):
            return
        folder = f"{without_links(self._output.address).rstrip('/')}/"
        deletes = sink.mode == "overwrite" and sink.replaces_files and not self.resumes
        if deletes:
            risky = any(f"{root}/".startswith(folder) for root in source.roots())
        else:
            risky = any(map(source.reads, sink.sample_paths()))
        paths = (part.path for split in (self._list() if risky else ()) for part in getattr(split, "parts", ()))
        inside = next((path for path in paths if without_links(path).startswith(folder)), None)
        if inside is not None:
            consequence = "would delete it before it is read" if deletes else "would read what the last one wrote"
            raise DataError(
                f"the input file {without_secrets(inside)!r} is in the output directory {without_secrets(folder)!r}, "
                f"so a run {consequence}; write to a directory that the reader does not read"
            )

    def _own(self, barrier: BarrierStage[Any], stages: Sequence[Stage]) -> None:
        """Report the work of the `stages` of a barrier under the stage that a person wrote.

        Raises:
            PipelineError: a stage of the pipeline has the name of one of them; names of folders and figures are theirs.
        """
        owner = self.owners.get(barrier.name, barrier.name)
        for stage in stages:
            if stage.name != owner and stage.name in {pipeline_stage.name for pipeline_stage in self.stages}:
                raise PipelineError(
                    f"stage {stage.name!r} has the name of a stage that {owner!r} makes for a round of its own; "
                    "give it another with with_(name=...)"
                )
            self.owners[stage.name] = owner
            if barrier.overwrite:
                object.__setattr__(stage, "overwrite", True)

    @property
    def _quarantine(self) -> str | None:
        """The quarantine folder."""
        return f"{replace(self._output, run='').records}/quarantine" if self.sink is not None else None

    @property
    def _barriers(self) -> list[str]:
        return [stage.name for stage in self.stages if isinstance(stage, BarrierStage)]

    @property
    def _has_barrier(self) -> bool:
        return bool(self._barriers)

    @property
    def _source(self) -> SourceStage[Any, Any]:
        source = self.stages[0]
        assert isinstance(source, SourceStage)
        return source

    @property
    def _storage(self) -> Mapping[str, Any]:
        """Storage options, for fsspec, of the output and its records."""
        return (self.sink.storage_options if self.sink else None) or {}

    def _scratch(self, stack: ExitStack) -> str:
        """Return the parent folder of the rounds: in the records of the output, or temporary."""
        if self.sink is None:
            return stack.enter_context(scratch_folder())
        return self._output.records

    def _run_round(self, session: Session, stages: Sequence[Stage], last: bool) -> Iterator[Batch]:
        if self.accounting:
            stages = [_read_all(stages[0]), *stages[1:]]
        plan = compile_plan(stages)
        source, sink = plan.parts[0], plan.sink
        assert isinstance(source, SourceStage)
        if sink is not None and not last:
            sink.prepare(self.resumes)
        quarantine = self._quarantine
        ledger = self.ledger if last else None
        if sink is not None and not last:
            ledger = DirectoryLedger.open(sink, self.fingerprint, self.resumes)
        splits = source.splits() if self.accounting else self._listed(source)
        if ledger is not None:
            ledger.attach(self.input_manifest, whole=bool(self.accounting), check=self.lock.check)
            if last and ledger.begun:
                listed = list(splits)
                self.notices += ledger.reconcile({str(split.key) for split in listed}, self.input_manifest)
                splits = iter(listed)
        if self.options.shard is not None:
            splits = self.options.shard.share(splits)
        mark = self.sink.mark if isinstance(self.sink, FileWriter) else ""
        rejections = DirectoryRejections(self.rejected, quarantine, self._storage, mark)
        job = Round(
            pipeline=self.pipeline.name,
            plan=plan,
            splits=splits,
            delivers=last and (self.streams or sink is None),
            ledger=ledger,
            rejections=rejections,
            observers=(self.history, *self.options.observers),
            run=self.id,
            phase=len(self.accounting),
            last=last,
            kernels=() if self.accounting else [kernel for stage in self.stages for kernel in stage.kernels()],
            examples=self.options.examples,
            unread=self.joined.unread if self.joined is not None else {},
            stages=tuple(stage.name for stage in self.stages),
            owners=self.owners,
            output=without_secrets(self.sink.output_path) if self.sink is not None else "",
            phases=self.rounds,
        )
        accounting = RunAccounting(job, self.runner.mode)
        self.accounting.append(accounting)
        try:
            yield from session.execute(job, accounting)
        except BaseException as error:
            accounting.close(text_of(error) or type(error).__name__)
            raise
        accounting.close()
        if quarantine is not None and (self.resumes or accounting.repeats):
            counted = {name for account in self.accounting for name in account.quarantined}
            done = accounting.begun_here() | (ledger.removed if ledger is not None else set())
            clear_stale(rejections, job.operators(), counted, done)
        if ledger is not None:
            ledger.close()
            if last and self.resumes and self.options.shard is None:
                self.notices += ledger.move_strays(accounting.files_of_unread())

    def _listed(self, source: SourceStage[Any, Any]) -> Iterator[Batch]:
        """The splits of the input, each recorded in the manifest."""
        splits = iter(self.listed) if self.listed is not None else self.input_manifest.record(source.splits())
        self.notices += source.notices()
        return splits

    def report(self) -> RunReport:
        """One report over all rounds."""
        if self.earlier is not None:
            report = RunReport.from_dict(self.earlier.report)
            return replace(report, splits_before=report.splits)
        reports = [account.report() for account in self.accounting]
        stats: dict[str, StageStats] = {stage.name: StageStats(stage.name) for stage in self.stages}
        for report in reports:
            for stage_stats in report.stages:
                if stage_stats.name in stats:
                    stats[stage_stats.name].add(stage_stats)
                elif stage_stats.name in self.owners:
                    stats[self.owners[stage_stats.name]].add(stage_stats.part())
        faulty = any(stage_stats.faulty for stage_stats in stats.values())
        quarantine = self._quarantine if faulty else None
        remarks = [remark for stage in self.stages for remark in stage.remarks(stats[stage.name].found)]
        lost = [ended_in(stage, stats[stage.name]) for stage in self.stages if not stage.declares_columns]
        whole = replace(
            reports[-1],
            started=reports[0].started,
            seconds=sum(report.seconds for report in reports),
            stages=tuple(stats.values()),
            splits=reports[0].splits,
            cpu_hour_price=self.runner.config.cpu_hour_price,
            gpu_hour_price=self.runner.config.gpu_hour_price,
            splits_before=reports[0].splits_before,
            inputs_digest=reports[0].inputs_digest,
            workers=max(report.workers for report in reports),
            notices=(
                *self.notices,
                *remarks,
                *filter(None, lost),
                *dict.fromkeys(notice for report in reports for notice in report.notices),
            ),
            rejected_path=self.rejected and without_secrets(self.rejected),
            quarantine_path=without_secrets(quarantine)
            if quarantine and Directory(quarantine, self._storage).files()
            else None,
        )
        off = (self.expected.error_of(whole),) if self.expected is not None else ()
        whole = replace(whole, notices=whole.notices + off)
        return whole if self.joined is None else self.joined.report(whole)


__all__ = ["Executor", "Pipeline", "RunResult", "Session", "observers_of"]
