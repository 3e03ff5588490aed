"""Shards: runs of shares of an input into one output, on hosts without a common scheduler; and how they are joined.

Each shard has records of its own within the records of the output, so none waits for another. A mark in the records of
the output names the pipeline and the number of shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import xor
from typing import Any

import orjson
import pyarrow as pa

from dcurate.core.report import RunReport
from dcurate.core.shard import Shard
from dcurate.errors import DataError, PipelineError
from dcurate.fs.stores import META_DIR, TMP, Directory
from dcurate.io import output
from dcurate.io.ledger import DirectoryLedger, check_same, is_begun
from dcurate.io.sink import FileWriter

#: File that marks an output as one of shards: their number, the fingerprint of their pipeline, whether they are proved.
_MARK = f"{META_DIR}/shards.json"
#: File that a shard leaves when it has finished.
_ENDED = f"{META_DIR}/shard.json"
#: Columns of the rows of a shard that left no row.
_COLUMNS = f"{META_DIR}/columns.arrow"
_REPORT = f"{META_DIR}/report.json"
#: Files of a shard that stay when its records are joined with those of others.
_KEPT = tuple(f"{META_DIR}/{name}" for name in ("report.json", "report.txt", "report.html", "history.json"))


def check_shards(writer: object, barriers: Sequence[str]) -> FileWriter:
    """Return the writer of a pipeline that can run in shards.

    Args:
        writer: last stage of the pipeline; None for none.
        barriers: names of the stages that need all rows.

    Raises:
        PipelineError: the pipeline cannot run in shards.
    """
    if barriers:
        raise PipelineError(
            f"stage {barriers[0]!r} needs the rows of all shards at once; run the stages before it in shards, and then "
            "it on their output as one run"
        )
    if not isinstance(writer, FileWriter) or writer.separates_runs:
        raise PipelineError("shards need a pipeline that ends with a writer of files, such as JsonlWriter('out')")
    if writer.mode not in ("error", "ignore"):
        raise PipelineError(
            f"{writer.name}: mode={writer.mode!r} cannot be used with shards, as each finds the files of "
            "the others; name an empty directory, or use mode='ignore' to write beside what is there"
        )
    return writer


def begin_shard(
    writer: FileWriter, shard: Shard, fingerprint: Mapping[str, str], resume: bool, proof: bool = False
) -> bool:
    """Prepare the records of a shard, or refuse without writing anything.

    Args:
        writer: writer of the shard.
        shard: the shard.
        fingerprint: fingerprint of the pipeline, by stage.
        resume: whether to go on with an earlier attempt at the shard, if there is one.
        proof: whether the shard is to leave a proof.

    Returns:
        Whether it leaves one: the shard that begins first decides for all.

    Raises:
        DataError: the output holds files that may not be touched, or the shard has begun before.
        PipelineError: the output was begun by another pipeline, in another number of shards, or without a proof.
    """
    whole, records = replace(writer.directory, run=""), writer.directory
    mark = orjson.dumps({"of": shard.of, "stages": dict(fingerprint), "proof": proof})
    if (known := whole.read(_MARK)) is None:
        try:
            output.check(whole, writer.mode)
        except DataError:
            if (known := whole.read(_MARK)) is None:  # another shard began meanwhile
                raise
        else:
            output.begin_beside(whole, writer.mode)
            whole.write(_MARK, mark)
            known = whole.read(_MARK)
    begun = _check_mark(whole, known or b"", fingerprint)
    if begun.joined is not None:
        raise DataError(
            f"the shards of {whole.url!r} were joined, so it is finished; add new input with resume=True and without a "
            "shard, or name another directory"
        )
    if begun.of != shard.of:
        raise PipelineError(
            f"{whole.url!r} was begun in {begun.of:,} shards, and this is one of {shard.of:,}; give shard "
            f"{min(shard.number, begun.of)}/{begun.of}, or name another directory"
        )
    if proof and not begun.proof:
        raise PipelineError(
            f"the shards of {whole.url!r} were begun without a proof, so what they finished has none; leave out proof, "
            "or name another directory"
        )
    if is_begun(records) and not resume:
        raise DataError(f"shard {shard} of {whole.url!r} has begun before; go on with resume=True")
    output.begin_beside(records, writer.mode)
    records.remove([_ENDED, _COLUMNS, *(name for name in records.files(META_DIR) if name.startswith(f"{TMP}/"))])
    whole.create()
    return begun.proof


#: Splits that do not count as finished: the reason, and the files, by split.
Unread = Mapping[str, tuple[str, tuple[str, ...]]]


def end_shard(writer: FileWriter, inputs: str, unread: Unread, notices: Sequence[str]) -> None:
    """Note that a shard has finished.

    Args:
        writer: writer of the shard.
        inputs: digest of pipeline and input, of `dcurate.io.input_manifest.InputManifest`.
        unread: splits that do not count as finished.
        notices: further sentences for a person.
    """
    writer.directory.write(_ENDED, orjson.dumps({"inputs": inputs, "unread": dict(unread), "notices": list(notices)}))


def keep_columns(writer: FileWriter, schema: pa.Schema) -> None:
    """Note the columns that rows of a shard would have, for an output that no shard writes rows to.

    Args:
        writer: writer of the shard.
        schema: their names and types.
    """
    writer.directory.write(_COLUMNS, schema.serialize().to_pybytes())


@dataclass(frozen=True)
class JoinedShards:
    """The shards of an output, whose ledgers were joined to one.

    Args:
        writer: writer of the output.
        shards: the shards.
        reports: report of each shard.
        inputs: digest of pipeline and input.
        unread: splits that do not count as finished.
        notices: further sentences for a person.
    """

    writer: FileWriter
    shards: tuple[Shard, ...]
    reports: tuple[RunReport, ...]
    inputs: str
    unread: Unread
    notices: tuple[str, ...]

    def report(self, joined: RunReport) -> RunReport:
        """Return the report of all shards.

        Args:
            joined: report of joining them.
        """
        stages = [stage.copy() for stage in self.reports[0].stages]
        for report in self.reports[1:]:
            for stage, more in zip(stages, report.stages, strict=True):
                stage.add(more)
        started = min(report.started for report in self.reports)
        return replace(
            joined,
            mode=self.reports[0].mode,
            started=started,
            seconds=max(report.started + report.seconds for report in self.reports) - started,
            stages=tuple(stages),
            splits_before=sum(report.splits_before for report in self.reports),
            workers=sum(report.workers for report in self.reports),
            rejected_path=next(filter(None, (report.rejected_path for report in self.reports)), None),
            quarantine_path=next(filter(None, (report.quarantine_path for report in self.reports)), None),
            files=sum(report.files for report in self.reports),
            inputs_digest=_joined_digest(report.inputs_digest for report in self.reports),
            outputs_digest=_joined_digest(report.outputs_digest for report in self.reports),
            notices=tuple(dict.fromkeys((*self.notices, *joined.notices))),
        )

    def table_without_rows(self) -> pa.Table:
        """Return the columns that shards without rows have noted, as a table.

        Raises:
            DataError: none knows them.
        """
        for shard in self.shards:
            data = replace(self.writer.directory, run=shard.folder).read(_COLUMNS)
            if data is not None:
                return pa.ipc.read_schema(pa.py_buffer(data)).empty_table()
        raise DataError("no shard has noted them")

    def forget(self) -> None:
        """Delete the records of the shards but their reports, once the joined ones are whole."""
        whole = self.writer.directory
        mark = orjson.loads(whole.read(_MARK) or b"{}")
        joined = {"inputs": self.inputs, "unread": dict(self.unread), "notices": self.notices}
        whole.write(_MARK, orjson.dumps({**mark, "joined": joined}))
        for shard in self.shards:
            records = replace(whole, run=shard.folder)
            records.remove([name for name in records.files(META_DIR) if name not in _KEPT])


def join_shards(writer: FileWriter, fingerprint: Mapping[str, str], inputs: str) -> JoinedShards:
    """Check that all shards of an output have finished, and join their ledgers to one. It may be called again.

    Args:
        writer: writer of the output.
        fingerprint: fingerprint of the pipeline, by stage.
        inputs: digest of pipeline and input.

    Raises:
        DataError: shards are missing, or have read another input.
        PipelineError: no shards wrote to the output, or those of another pipeline did.
    """
    whole = writer.directory
    known = whole.read(_MARK)
    if known is None:
        raise PipelineError(
            f"no shards have written to {whole.url!r}; begin with run_shard('1/64'), which is --shard 1/64 for "
            "dcurate run"
        )
    mark = _check_mark(whole, known, fingerprint)
    shards = tuple(Shard(number, mark.of) for number in range(1, mark.of + 1))
    if mark.joined is None:
        ended = _check_ended(whole, shards, inputs)
        ledger = DirectoryLedger(whole, fingerprint, resume=False)
        ledger.take(replace(whole, run=shard.folder) for shard in shards)
    else:
        _check_inputs(whole, [] if mark.joined["inputs"] == inputs else list(shards))
        ended = [mark.joined]
    reports = []
    for shard in shards:
        report = orjson.loads(replace(whole, run=shard.folder).read(_REPORT) or b"{}")
        report.pop("about", None)
        reports.append(RunReport.from_dict(report))
    unread = {split: (why, tuple(files)) for entry in ended for split, (why, files) in entry["unread"].items()}
    notices = tuple(dict.fromkeys(notice for entry in ended for notice in entry["notices"]))
    return JoinedShards(writer, shards, tuple(reports), inputs, unread, notices)


def _joined_digest(digests: Iterable[str]) -> str:
    """Return the digest of the union of disjoint sets, in the form of `RunReport`."""
    return f"{reduce(xor, (int(digest, 16) for digest in digests)):016x}"


def _check_ended(whole: Directory, shards: Iterable[Shard], inputs: str) -> list[dict[str, Any]]:
    """Return what each shard left at its end.

    Raises:
        DataError: shards are missing, or have read another input.
    """
    ended, missing, other = [], [], []
    for shard in shards:
        data = replace(whole, run=shard.folder).read(_ENDED)
        entry: dict[str, Any] = orjson.loads(data) if data else {}
        ended.append(entry)
        if not entry:
            missing.append(shard)
        elif entry["inputs"] != inputs:
            other.append(shard)
    if missing:
        have, it = ("has", "it") if len(missing) == 1 else ("have", "them")
        first = missing[0]
        raise DataError(
            f"{_shards(missing)} of {whole.url!r} {have} not finished; let {it} end, or run {it} again: "
            f"dcurate run ... --shard {first} --resume"
        )
    _check_inputs(whole, other)
    return ended


def _check_inputs(whole: Directory, other: Sequence[Shard]) -> None:
    """Refuse shards that read another input than the present one.

    Raises:
        DataError: there are such shards.
    """
    if other:
        raise DataError(
            f"{_shards(other)} of {whole.url!r} read another input than there is now; run all shards again with "
            "--resume, or if they were joined before, one run with --resume and without --shard"
        )


def _shards(shards: Sequence[Shard]) -> str:
    """Name the first few of some shards."""
    names = list(map(str, shards))
    if len(names) == 1:
        return f"shard {names[0]}"
    more = f"{len(names) - 5:,} more" if len(names) > 5 else names.pop()
    return f"shards {', '.join(names[:5])} and {more}"


@dataclass(frozen=True)
class _Mark:
    """The mark in an output: the number of shards, whether they leave a proof, and once joined, what they left."""

    of: int
    proof: bool
    joined: dict[str, Any] | None


def _check_mark(whole: Directory, known: bytes, fingerprint: Mapping[str, str]) -> _Mark:
    """Return the mark of an output.

    Raises:
        DataError: the mark is damaged.
        PipelineError: the shards are of another pipeline.
    """
    try:
        values = orjson.loads(known)
        mark, stages = _Mark(int(values["of"]), bool(values["proof"]), values.get("joined")), dict(values["stages"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{whole.path(_MARK)!r} is damaged; name another directory") from error
    check_same(whole.url, stages, fingerprint, "name another directory")
    return mark
