"""Derive rows of a run from its sources again, and compare them with the proof."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from dcurate.core.batch import Batch
from dcurate.core.fingerprint import fingerprint
from dcurate.core.ledger import SplitRecord
from dcurate.core.pipeline import PipelineDefinition, with_source
from dcurate.core.proof import split_statement
from dcurate.core.secrets import remember_secrets
from dcurate.core.stage import BarrierStage, SourceStage, Stage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.inline import InlineExecutor
from dcurate.errors import PipelineError
from dcurate.fs.stores import Directory, output_of
from dcurate.fs.temporary import scratch_folder
from dcurate.io.ledger import is_of_pipeline
from dcurate.io.proof import kept_rows, read_rows
from dcurate.io.proof_record import ProofRecord, ProvedSplit
from dcurate.io.sink import FileWriter
from dcurate.plan.compile import compile_plan
from dcurate.plan.rounds import rounds
from dcurate.rows import adapt_rows
from dcurate.runs.proof import Proof, RowChange, changed_rows, roots_of_files

_COUNTS = ("rows_in", "rows_out", "dropped", "faulty")


def prove_sample(
    output: str,
    pipeline: PipelineDefinition,
    *,
    rows: int = 1000,
    seed: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Proof:
    """Derive random rows of a run from its sources again, and compare the verdicts and the written rows with its proof.

    Splits of the source are drawn by hash until they hold that many rows. Each is run as a whole, in this process and
    into a temporary folder, as what a stage does to a row may depend on its batch. A stage that compares rows of the
    whole input, such as a deduplication, cannot be run on a part of it: its verdicts and those of the stages after it
    are taken from the record, and the result names these.

    Args:
        output: the directory that a run with ``proof=True`` wrote to; a local path, or as fsspec opens it.
        pipeline: the pipeline of the run.
        rows: number of rows, at least.
        seed: seed of the sample; the same seed draws the same splits.
        storage_options: for fsspec.

    Raises:
        PipelineError: it is not the pipeline of the run; it begins with rows in memory; a number of rows below 1.
        DataError: the proof is missing; the sources are gone.
        StageError: a stage raised.

    Examples:
        >>> import tempfile
        >>> from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ScoreFilter
        >>> from dcurate.recipe import BUNDLED
        >>> from dcurate.text import WordCountFilter
        >>> folder = tempfile.TemporaryDirectory()
        >>> words = ScoreFilter(WordCountFilter(min_words=100))
        >>> reader = JsonlReader(str(BUNDLED / "sample"), on_bad_line="quarantine")
        >>> stages = [reader, words, JsonlWriter(folder.name)]
        >>> pipeline = Pipeline("demo", stages=stages)
        >>> run = pipeline.run(InlineExecutor(), proof=True, observers=[])
        >>> prove_sample(folder.name, pipeline, rows=100).holds
        True
        >>> folder.cleanup()
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise PipelineError(f"rows={rows!r} must be a whole number of at least 1")
    directory = Directory(output_of(output), storage_options or {})
    record = ProofRecord(directory)
    root, _ = record.root()
    stages = adapt_rows(with_source(pipeline, None))
    remember_secrets(stages, pipeline.config)
    if not is_of_pipeline(directory, fingerprint(stages)):
        raise PipelineError(f"the pipeline is not the one that wrote {directory.url!r}; give it as it was then")
    drawn = _drawn((split for split in record.splits() if split.phase == 0), rows, seed)
    source = stages[0]
    assert isinstance(source, SourceStage)
    splits = {str(split.key): split for split in source.splits() if str(split.key) in drawn}
    with scratch_folder() as folder:
        made = _derive(pipeline.name, stages, list(splits.values()), folder)
        comparison = _Comparison(directory, Directory(f"{folder}/out"), splits, made)
        changes = [change for split in drawn.values() for change in comparison.changes(split)]
    count, files = sum(map(_rows_in, drawn.values())), sum(len(split.files) for split in drawn.values())
    return Proof(directory.url, root, count, files, len(drawn), tuple(changes), _from_record(stages))


def _rows_in(split: ProvedSplit) -> int:
    return int(split.stats[0]["rows_in"]) if split.stats else 0


def _drawn(splits: Iterator[ProvedSplit], rows: int, seed: int) -> dict[str, ProvedSplit]:
    """Splits by name, drawn by hash, until they hold enough rows."""
    drawn, count = {}, 0
    for split in sorted(splits, key=lambda split: blake2b(f"{seed}\t{split.split}".encode()).digest()):
        if count >= rows:
            break
        drawn[split.split] = split
        count += _rows_in(split)
    return drawn


def _from_record(stages: Sequence[Stage]) -> tuple[str, ...]:
    """The stages that are not run on a part of the input."""
    first = next((place for place, stage in enumerate(stages) if isinstance(stage, BarrierStage)), len(stages))
    return tuple(stage.name for stage in stages[first:])


@dataclass
class _Records:
    """A ledger in memory.

    Attributes:
        records: by split.
    """

    skipped = 0
    records: dict[str, SplitRecord] = field(default_factory=dict)

    def finished(self, split: str, version: str) -> SplitRecord | None:
        return None

    def record(self, record: SplitRecord) -> None:
        self.records[record.split] = record

    def flush_due(self) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _derive(name: str, stages: Sequence[Stage], splits: Sequence[Batch], folder: str) -> dict[str, SplitRecord]:
    """Run splits through the stages up to the first that needs the whole input, and write to a folder."""
    first = next(rounds(stages))
    parts = first.stages
    if first.barrier is not None:
        parts += tuple(first.barrier.map_stages(f"{folder}/out", {}))
    else:
        writer = parts[-1]
        assert isinstance(writer, FileWriter)
        writer = copy.copy(writer.proving())
        writer.path, writer.storage_options, writer.mode = f"{folder}/out", None, "error"
        parts = (*parts[:-1], writer)
    plan = compile_plan(parts)
    if plan.sink is not None:
        plan.sink.prepare(False)
    kernels = [kernel for stage in parts for kernel in stage.kernels()]
    ledger = _Records()
    job = Round(name, plan, iter(splits), ledger=ledger, examples=False, proves=True, kernels=kernels)
    executor = InlineExecutor({"ignore_failures": True})
    for _ in executor.execute(job, RunAccounting(job, executor.mode)):
        pass
    return ledger.records


@dataclass(frozen=True)
class _Comparison:
    """What the sources give now beside what was proved.

    Args:
        output: the output of the run.
        repeated: the folder of what was written now.
        splits: splits of the source, by name.
        made: what was recorded of them now.
    """

    output: Directory
    repeated: Directory
    splits: Mapping[str, Batch]
    made: Mapping[str, SplitRecord]

    def changes(self, split: ProvedSplit) -> Iterator[RowChange]:
        """The differences of a split."""
        name = split.split
        if name not in self.splits:
            yield RowChange("underived", split=name, why="its source files are gone")
            return
        if name not in self.made:
            yield RowChange("underived", split=name, why="a source file of it cannot be read any more")
            return
        made = self.made[name]
        if split_statement(name, made.stats) == split_statement(name, split.stats):
            return
        now = "" if made.version == split.version else "; its source files have changed since the run"
        before = {counts["name"]: counts for counts in split.stats}
        after = {counts["name"]: counts for counts in made.stats}
        for stage in dict.fromkeys([*before, *after]):
            why = _difference(stage, before.get(stage, {}), after.get(stage, {}))
            if why:
                yield RowChange("underived", split=name, why=why + now)
        yield from self._files(split, made)

    def _files(self, split: ProvedSplit, made: SplitRecord) -> Iterator[RowChange]:
        """The rows of the files of a split that differ."""
        proofs = made.stats[-1].get("proof", {}) if made.stats else {}
        for name, root in roots_of_files(split).items():
            if proofs.get(name) == root:
                continue
            if name not in proofs:
                yield RowChange("underived", name, split=split.split, why="the sources give no row of this file")
                continue
            rows = read_rows(self.repeated, name)
            for change in changed_rows(name, kept_rows(self.output, name), rows, split.split):
                yield replace(change, what="underived", why=change.why or f"{change.what} in what the sources give")


def _difference(stage: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How the counts of a stage, or the rows that it took out, differ."""
    counts = [{name: stats.get(name, 0) or 0 for name in _COUNTS} for stats in (before, after)]
    if counts[0] != counts[1]:
        texts = [", ".join(f"{name} {value}" for name, value in some.items() if value) or "nothing" for some in counts]
        return f"stage {stage!r} gives {texts[1]}, and the record says {texts[0]}"
    proofs = [stats.get("proof", {}) for stats in (before, after)]
    if before.get("dropped") or before.get("faulty"):
        return "" if proofs[0] == proofs[1] else f"stage {stage!r} takes out other rows"
    return ""
