"""One run of a pipeline: its rounds, its output and its report."""

from __future__ import annotations

import copy
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import psutil

from dcurate.core.batch import Batch, BatchKey, FileGroup
from dcurate.core.extras import check_installed, libraries
from dcurate.core.fingerprint import fingerprint
from dcurate.core.pipeline import BatchSource, PipelineDefinition, check_columns, with_source
from dcurate.core.report import RunReport
from dcurate.core.secrets import remember_secrets
from dcurate.core.shard import Shard
from dcurate.core.stage import BarrierStage, SinkStage, SourceStage, Stage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.errors import DataError, DcurateError, PipelineError, RunError, RunInterrupted, shown
from dcurate.events import InputsRead, Observer
from dcurate.frames.batches import batches_of
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.io.earlier_runs import PresentInput, select_run
from dcurate.io.head import FirstRows
from dcurate.io.input_manifest import InputManifest
from dcurate.io.ledger import DirectoryLedger
from dcurate.io.lock import OutputLock
from dcurate.io.no_rows import HasSchema
from dcurate.io.output import (
    ROUNDS,
    another_run,
    check_claim,
    claim,
    folder_name,
    is_taken_over,
    mark_ended,
    name_in_indexes,
)
from dcurate.io.rejections import DirectoryRejections, clear_stale
from dcurate.io.shards import JoinedShards, begin_shard, check_shards, end_shard, join_shards, keep_columns
from dcurate.io.sink import FileWriter
from dcurate.io.success_marker import SuccessMarker, find_finished, inputs_of, mark_finished
from dcurate.plan.compile import compile_plan
from dcurate.plan.rounds import rounds
from dcurate.redaction import hush, text_of, without_secrets
from dcurate.result import RunResult
from dcurate.rows import adapt_rows, used_after
from dcurate.running.checks import check_apart, check_rejected, check_rejected_apart
from dcurate.running.executor import Executor, Session
from dcurate.running.joined_report import joined_report
from dcurate.running.proving import RunProof, proving_writer
from dcurate.running.without_rows import table_without_rows
from dcurate.runs.estimate import Estimate, kept
from dcurate.runs.history import History
from dcurate.runs.lineages.record import lineage_of, write_lineage
from dcurate.runs.manifest import provenance
from dcurate.shuffle.writer import ChunkWriter
from dcurate.ui.progress import JsonProgress, Progress
from dcurate.ui.publisher import SnapshotPublisher
from dcurate.ui.report.record import record

#: Share of the free memory that `Pipeline.run` may fill with rows of a pipeline that has no writer.
COLLECT_SHARE = 0.5


@dataclass(frozen=True)
class RunOptions:
    """The options of a run."""

    resume: bool
    rejected: str | os.PathLike[str] | None
    observers: tuple[Observer, ...]
    examples: bool
    shard: Shard | None = None
    proof: bool = False

    def __post_init__(self) -> None:
        folder: Any = self.rejected
        if folder is not None and (not isinstance(folder, str | os.PathLike) or not os.fspath(folder)):
            raise PipelineError(
                f"rejected={shown(folder)} is not a folder; give the path of one, such as rejected='rejected'"
            )


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


def _read_all(source: Stage) -> Stage:
    """Let a failure of the source of a later round end the run: rows of the round before must not be lost."""
    strict_source = copy.copy(source)
    object.__setattr__(strict_source, "spec", replace(source.spec, ignore_failures=False))
    return strict_source


def _separates_runs(sink: SinkStage[Any]) -> bool:
    return isinstance(sink, FileWriter) and sink.separates_runs


@dataclass
class PipelineRun:
    """One run of a pipeline, round by round.

    Args:
        pipeline: the pipeline.
        executor: where and how it runs; None for a `dcurate.DaskExecutor` on this machine.
        initial_tasks: rows to begin with, for a pipeline without a reader.
        options: options of the run.
        streams: whether the batches of the last round are delivered also where a writer takes them.
    """

    pipeline: PipelineDefinition
    executor: Executor | None
    initial_tasks: Any
    options: RunOptions
    streams: bool = False
    accounting: list[RunAccounting] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    earlier: SuccessMarker | None = None
    joined: JoinedShards | None = None
    expected: Estimate | None = None
    ledger: DirectoryLedger | None = None
    listed: list[Batch] | None = None
    proof: RunProof | None = None
    rounds: int = 1
    without_rows: Any = None
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
        if self.options.proof:
            self._prove()
        self.fingerprint = fingerprint(self.stages)
        self.input_manifest = InputManifest(self.fingerprint)
        self.lock = OutputLock(self.id)

    def _prove(self) -> None:
        """Have the writer compute the roots of what it writes."""
        self.sink = proving_writer(self.sink)
        self.stages = (*self.stages[:-1], self.sink)
        self.proof = RunProof(self._output)

    @property
    def sinkless(self) -> bool:
        """Whether the pipeline writes nothing."""
        return self.sink is None

    @property
    def rejected(self) -> str | None:
        """The folder of rejected rows, as an address that is valid on every worker."""
        asked = self.options.rejected
        return Directory(os.fspath(asked), self._storage).address if asked is not None else None

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
        about = provenance(self.pipeline, self.stages)
        return RunResult(outputs, self.report(), self.history, about, self.without_rows)

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
                raise RunInterrupted(self._resuming()) from error
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
        if self.sink is not None:
            self._check_apart(self.sink)
            self._refuse_others(self.sink)
            if not self.resumes:
                self.sink.check()
            self.notices += self.sink.forecast()
        if self.sink is not None and self.rejected is not None:
            check_rejected(self.rejected, str(self.options.rejected), self._output, proof=self.options.proof)
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
                    self._begin_shard(self.options.shard)
                self._prepare(self.sink)
                claim(self._output, self.id)
                self.ledger = DirectoryLedger.open(self.sink, self.fingerprint, self.resumes)
                self._begin_proof()
                if self.ledger.begun:
                    self._list()
                    self.ledger.check(self.input_manifest)
            with self._watching_claim():
                yield from self._deliver(session, self._scratch(stack))
            self.expected = kept(self.input_manifest.digest)
            if self.sink is not None:
                self.lock.check()
                written = list(chain.from_iterable(self.written))
                check_claim(self._output, self.id, written, self._generation)
                if self.options.shard is None:
                    self.sink.complete(written)
                self._write_without_rows(session, written)
        if self.sink is not None and self._has_barrier and not any(account.unread for account in self.accounting):
            mark_finished(self.sink, SuccessMarker(self.input_manifest.digest, self.report().to_dict(), self.written))
        if isinstance(self.sink, FileWriter) and self.options.shard is None:
            lost = self.accounting[0].lost()  # a later run may read them when they are repaired
            read = [files for split, files in self.input_manifest.files.items() if split not in lost]
            mark_ended(self._output, self.input_manifest.digest, chain.from_iterable(read))

    def _check_apart(self, sink: SinkStage[Any]) -> None:
        """Refuse to write where the next run reads."""
        if isinstance(sink, FileWriter):
            check_apart(self._source, sink, self._output, self._list, lambda: self.resumes)
        if self.rejected is not None:
            check_rejected_apart(self._source, self.rejected, str(self.options.rejected), self._storage)

    def _deliver(self, session: Session, scratch: str) -> Iterator[Batch]:
        """Run all rounds, and note the columns of a pipeline without a writer that leaves no rows."""
        delivers = False
        for batch in self._run_rounds(session, scratch):
            delivers = True
            yield batch
        # A source of the user's own would have to make its first split again.
        if self.sink is None and not delivers and isinstance(self.stages[0], BatchSource | FirstRows | HasSchema):
            with suppress(Exception):  # of a stage that was not made for batches without rows
                self.without_rows = self._table_without_rows(session)

    def _write_without_rows(self, session: Session, written: Sequence[str]) -> None:
        """Leave a file or a table without rows where no row is left, so that readers find the columns."""
        sink = self.sink
        if not isinstance(sink, FileWriter) or not sink.writes_without_rows:
            return
        if self.options.shard is not None:
            if not written and sink.has_columns_in_files:
                with suppress(Exception):  # as below; another shard may know the columns
                    keep_columns(sink, self._table_without_rows(session).schema)
            return
        if written:
            if self.resumes or sink.mode == "append":
                sink.remove_without_rows()
            return
        if any(account.unread for account in self.accounting) or not sink.is_empty():
            return
        try:
            sink.write_without_rows(self._table_without_rows(session) if sink.has_columns_in_files else None)
        except Exception as error:  # of a stage that was not made for batches without rows; the run itself is done
            self.notices.append(f"no row is left, and the columns of the output are not known: {text_of(error)}")

    def _table_without_rows(self, session: Session) -> Any:
        if self.joined is not None:
            return self.joined.table_without_rows()
        return table_without_rows(session, self.stages, self.id, len(self.accounting))

    def _begin_shard(self, shard: Shard) -> None:
        options = self.options
        proves = begin_shard(self._file_writer, shard, self.fingerprint, options.resume, options.proof)
        if proves and self.proof is None:
            self._prove()

    def _begin_proof(self) -> None:
        """Begin the proof that is asked for, or go on with that of an earlier run."""
        if self.proof is None and self.resumes and RunProof(self._output).begun:
            self._prove()
        if self.proof is not None:
            self.proof.begin(self.resumes and self.options.shard is None)

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
        report = self.report()
        record(report, self.history, about, place)
        inputs = self.input_manifest.list
        lineage = lineage_of(
            (self.pipeline.stages, self.stages),
            report,
            inputs,
            fingerprints=self.fingerprint,
            about=about,
            generation=self._generation,
        )
        write_lineage(self._output, lineage, inputs, self.resumes)

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
        # An index of documents has a run's documents under this name: each run that appends has its own.
        folder = f"{scratch}/{ROUNDS}{'' if self.sink is None else name_in_indexes(self._output)}"
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
        written = self.sink.directory.address if isinstance(self.sink, FileWriter) else None
        rejections = DirectoryRejections(self.rejected, quarantine, self._storage, mark, written)
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
            proves=self.proof is not None,
            unread=self.joined.unread if self.joined is not None else {},
            stages=tuple(stage.name for stage in self.stages),
            owners=self.owners,
            output=without_secrets(self.sink.output_path) if self.sink is not None else "",
            phases=self.rounds,
            inputs=tuple(map(without_secrets, self._source.roots())),
        )
        accounting = RunAccounting(job, self.runner.mode)
        self.accounting.append(accounting)
        try:
            yield from session.execute(job, accounting)
        except BaseException as error:
            accounting.close(text_of(error) or type(error).__name__)
            raise
        if not job.phase:
            accounting.emit(self._inputs_read())
        accounting.close()
        if quarantine is not None and (self.resumes or accounting.repeats):
            counted = {name for account in self.accounting for name in account.quarantined}
            removed = ledger.removed if ledger is not None else set()
            clear_stale(
                rejections, job.operators(), counted, lambda split: split in removed or accounting.begun_here(split)
            )
        if ledger is not None:
            ledger.close()
            if self.proof is not None and self.options.shard is None:
                notice = self.proof.add_round(job.phase, ledger.records(), last)
                self.notices += [notice] if notice else []
            if last and self.resumes and self.options.shard is None:
                self.notices += ledger.move_strays(accounting.files_of_unread())

    def _inputs_read(self) -> InputsRead:
        files, source = self.input_manifest.list, self._source
        columns, written = {}, None
        with suppress(DcurateError):  # what is not known is left out
            columns = dict(source.column_types())
            written = check_columns(self.stages) if columns else None
        return InputsRead(
            time.time(),
            files.files,
            files.nbytes,
            files.digest if files.files else "",
            {without_secrets(table.path): (table.format, table.version) for table in source.tables_read()},
            columns,
            tuple(written or ()),
        )

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
        whole = joined_report(reports, self.stages, self.owners, self.notices)
        faulty = any(stage_stats.faulty for stage_stats in whole.stages)
        quarantine = self._quarantine if faulty else None
        whole = replace(
            whole,
            cpu_hour_price=self.runner.config.cpu_hour_price,
            gpu_hour_price=self.runner.config.gpu_hour_price,
            rejected_path=self.rejected and without_secrets(self.rejected),
            quarantine_path=without_secrets(quarantine)
            if quarantine and Directory(quarantine, self._storage).files()
            else None,
        )
        off = (self.expected.error_of(whole),) if self.expected is not None else ()
        whole = replace(whole, notices=whole.notices + off)
        return whole if self.joined is None else self.joined.report(whole)
