"""What a run read and wrote, and by which plan, as files among the records of its output."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson

from dcurate.core.report import RunReport
from dcurate.core.stage import SinkStage, SourceStage, Stage, TableAt
from dcurate.errors import DataError, DcurateError
from dcurate.fs.stores import META_DIR, RUNS, Directory, output_of
from dcurate.io.input_list import InputList, ListedFile, listed_files
from dcurate.io.labels import superseded
from dcurate.io.output import LINEAGE, lineage_mark
from dcurate.redaction import without_secrets
from dcurate.runs.lineages.uses import Use, uses_of

#: What the name of the list of input files ends with, after that of the record.
_LIST = ".inputs.jsonl.zst"
_OF_RUN = re.compile(rf"/?{RUNS}/([^/]+)/lineage/g\d+-[0-9a-f]+\.json")
#: Letters of a digest that are kept.
_DIGEST = 16


@dataclass(frozen=True)
class LineageRecord:
    """What a run read and wrote.

    Args:
        run: id of the run; ``pipeline`` is the name of the pipeline.
        output: address of the output, without secrets.
        generation: number in the names of its files, if it appended.
        plan: digest of the fingerprints of all stages.
        fingerprints: by stage.
        started: seconds since the epoch; ``seconds`` is how long it took.
        error: what ended it early; empty if nothing did.
        rows_in: rows read, and ``rows_out`` rows written.
        files: files written, ``nbytes`` their size, and ``outputs_digest`` what identifies them.
        inputs: number, size and digest of the input files: ``files``, ``nbytes``, ``digest``.
        roots: the files and folders that were read, as addresses.
        tables: tables that were read: ``path``, ``format`` and ``version``.
        table: the table that was written, in the same form; None for files.
        uses: models, tokenizers, benchmarks, indexes that its stages name.
        about: stages with their settings, versions, recipe; see `dcurate.runs.manifest.provenance`.
        place: the record's folder and name; empty for a run of a version that left none.
    """

    run: str
    pipeline: str
    output: str
    generation: int = 0
    plan: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    started: float = 0.0
    seconds: float = 0.0
    error: str = ""
    rows_in: int = 0
    rows_out: int = 0
    files: int = 0
    nbytes: int = 0
    outputs_digest: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    tables: tuple[Mapping[str, Any], ...] = ()
    table: Mapping[str, Any] | None = None
    uses: tuple[Use, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    place: tuple[str, str] = ("", "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        values = {name: value for name, value in vars(self).items() if name != "place"}
        return {**values, "uses": [use.to_dict() for use in self.uses]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`, after JSON too; values of later versions are left out."""
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        lists = {name: tuple(known.get(name, ())) for name in ("roots", "tables")}
        return cls(**{**known, **lists, "uses": tuple(Use(**use) for use in known.get("uses", ())), "place": ("", "")})

    def input_files(self, options: Mapping[str, Any] | None = None) -> Iterator[ListedFile]:
        """Yield the input files with their versions; none for a run of a version that kept no list.

        Raises:
            DataError: the list is damaged.
        """
        url, name = self.place
        kept = f"{name.removesuffix('.json')}{_LIST}"
        data = Directory(url, options or {}).read(kept) if name else None
        if data is None:
            return
        files = 0
        for file in listed_files(data, f"{url}/{kept}"):
            files += 1
            yield file
        if files != self.inputs.get("files", files):
            raise DataError(
                f"'{url}/{kept}' is damaged, as it ends too soon; delete it to see the lineage without its files"
            )


def lineage_of(
    stages: tuple[Sequence[Stage], Sequence[Stage]],
    report: RunReport,
    inputs: InputList,
    *,
    fingerprints: Mapping[str, str],
    about: Mapping[str, Any],
    generation: int = 0,
) -> LineageRecord:
    """Return what is to be kept of a run.

    Args:
        stages: as the user wrote them, and those that they were taken apart into.
        report: report of the run.
        inputs: the files that it listed.
        fingerprints: of its stages.
        about: its manifest.
        generation: number in the names of its files.
    """
    written, built = stages
    source = built[0] if built and isinstance(built[0], SourceStage) else None
    sink = built[-1] if built else None
    wrote = None
    if isinstance(sink, SinkStage) and not report.error:
        with suppress(DcurateError):  # a run that is over does not fail for it
            wrote = sink.table_written()
    output = without_secrets(report.output_path or "")
    plan = orjson.dumps(dict(fingerprints), option=orjson.OPT_SORT_KEYS)
    return replace(
        record_of(report, output),
        generation=generation,
        plan=hashlib.sha256(plan).hexdigest()[:_DIGEST],
        fingerprints=dict(fingerprints),
        inputs={"files": inputs.files, "nbytes": inputs.nbytes, "digest": inputs.digest},
        roots=tuple(map(without_secrets, source.roots() if source else ())),
        tables=tuple(map(_shown, source.tables_read() if source else ())),
        table=None if wrote is None else _shown(wrote),
        uses=tuple(uses_of(written, output)),
        about={name: about[name] for name in ("stages", "versions", "recipe", "params", "command") if name in about},
    )


def record_of(report: RunReport, output: str) -> LineageRecord:
    """Return what the report of a run says of its lineage.

    Args:
        report: report of the run.
        output: address of the output, without secrets.
    """
    return LineageRecord(
        run=report.run,
        pipeline=report.pipeline,
        output=output,
        started=report.started,
        seconds=report.seconds,
        error=report.error,
        rows_in=report.stages[0].rows_in if report.stages else 0,
        rows_out=report.stages[-1].rows_out if report.stages else 0,
        files=report.files,
        nbytes=report.bytes_written,
        outputs_digest=report.outputs_digest,
    )


def _shown(table: TableAt) -> dict[str, Any]:
    return {**vars(table), "path": without_secrets(table.path)}


def write_lineage(directory: Directory, record: LineageRecord, inputs: InputList, resumes: bool) -> None:
    """Keep what a run read and wrote among the records of its output.

    Args:
        directory: the output, with the records of the run.
        resumes: whether the run went on with an earlier one, whose record this one replaces.

    Raises:
        DataError: it cannot be written.
    """
    name = f"{LINEAGE}{lineage_mark(record.generation)}{record.run}"
    directory.write(f"{name}{_LIST}", inputs.data())
    directory.write(f"{name}.json", orjson.dumps(record.to_dict(), option=orjson.OPT_INDENT_2) + b"\n")
    if resumes:
        begins = f"{LINEAGE}{lineage_mark(record.generation)}"
        names = [file for file in directory.files(LINEAGE.rstrip("/")) if file.startswith(begins)]
        directory.remove(
            [file for file in names if not file.startswith(f"{name}.") and _is_of(file, directory, record)]
        )


def _is_of(name: str, directory: Directory, record: LineageRecord) -> bool:
    """Whether a file is of an earlier attempt at the same run."""
    data = directory.read(name.removesuffix(_LIST).removesuffix(".json") + ".json")
    return data is None or _parsed(data, name).plan == record.plan


def read_lineage(output: str, options: Mapping[str, Any] | None = None) -> list[LineageRecord]:
    """Return what is kept of the runs whose rows are in an output, the oldest first; none if nothing is.

    Raises:
        DataError: it cannot be read.
    """
    root = Directory(output_of(output), options or {})
    records = _in(root)
    if not records:  # of a table each run has records of its own
        names = root.files(f"{META_DIR}/{RUNS}")
        runs = [match[1] for name in names if (match := _OF_RUN.fullmatch(name.removeprefix(META_DIR)))]
        records = [record for run in dict.fromkeys(runs) for record in _in(replace(root, run=run))]
    replaced = superseded(root)
    kept = [record for record in records if not record.generation or record.generation not in replaced]
    return sorted(kept, key=lambda record: (record.started, record.run))


def _in(directory: Directory) -> list[LineageRecord]:
    records = []
    for name in directory.files(LINEAGE.rstrip("/")):
        data = directory.read(name) if name.endswith(".json") else None
        if data is not None:
            path = directory.path(name)
            records.append(replace(_parsed(data, path), place=(path.rpartition("/")[0], path.rpartition("/")[2])))
    return records


def _parsed(data: bytes, name: str) -> LineageRecord:
    try:
        return LineageRecord.from_dict(orjson.loads(data))
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{name!r} is damaged ({error}); delete it, and its run has no lineage") from error
