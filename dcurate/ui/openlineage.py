"""Events of OpenLineage about a run: to an HTTP server such as Marquez, or to a file of JSON Lines."""

from __future__ import annotations

import datetime
import json
import logging
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urljoin

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import PipelineError
from dcurate.events import Event, InputsRead, RunEnded, RunStarted, Sampled, SplitDone, TaskDone
from dcurate.redaction import redacted, remember, without_secrets
from dcurate.runs.manifest import versions
from dcurate.ui.poster import Poster, checked_address

#: Seconds between two events of a run that goes on, and that its end waits for a POST at most.
RUNNING_S, END_S = 60.0, 10.0

_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
#: Versions of the schemas of facets.
_FACETS = {
    "nominalTime": "1-0-1/NominalTimeRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "parent": "1-2-0/ParentRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "dataSource": "1-0-1/DatasourceDatasetFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
}
#: What ends a run that a person stopped, as `RunEnded` has it.
_STOPPED = ("KeyboardInterrupt", "GeneratorExit")
_NAMESPACE = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")

_log = logging.getLogger("dcurate")


@dataclass(frozen=True)
class OpenLineageSettings(HidesSecrets):
    """Where events of OpenLineage go, and what they say of who sent them.

    Args:
        target: the address of a server, such as ``"http://marquez:5000"``, or a file; None for none.
        endpoint: path of the server that takes events.
        api_key: sent as a bearer token.
        namespace: namespace of jobs.
        parent: the run that this one is part of, as ``namespace/name/run id``.

    Raises:
        PipelineError: an address, or a parent, that cannot be.

    Examples:
        >>> OpenLineageSettings("http://marquez:5000", api_key="k-1")
        OpenLineageSettings(target='http://marquez:5000', ..., api_key='***', namespace='default', parent='')
    """

    target: str | None = None
    endpoint: str = "api/v1/lineage"
    api_key: str = ""
    namespace: str = "default"
    parent: str = ""

    def __post_init__(self) -> None:
        if self.api_key:
            remember([self.api_key])
        if self.is_server:
            checked_address(urljoin(f"{self.target}/", self.endpoint), "the address of OpenLineage")
        elif self.target is not None and (not Path(self.target).name or Path(self.target).is_dir()):
            raise PipelineError(
                f"openlineage={self.target!r} is neither an HTTP address nor the name of a file; give one such as "
                "http://host:5000 or events.jsonl"
            )
        if self.parent:
            _parent(self.parent)

    @classmethod
    def of_environment(cls, target: str | None) -> Self:
        """Return the settings with what the variables ``OPENLINEAGE_...`` say, as clients of OpenLineage take them.

        Args:
            target: instead of that of ``OPENLINEAGE_URL``.
        """
        get = os.environ.get
        off = get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"
        return cls(
            None if off else target or get("OPENLINEAGE_URL") or None,
            get("OPENLINEAGE_ENDPOINT") or cls.endpoint,
            get("OPENLINEAGE_API_KEY", ""),
            get("OPENLINEAGE_NAMESPACE") or cls.namespace,
            get("OPENLINEAGE_PARENT_ID", ""),
        )

    @property
    def is_server(self) -> bool:
        """Whether events are sent, and not written to a file."""
        return self.target is not None and "://" in self.target

    def to_dict(self) -> dict[str, str | None]:
        """The same as plain values."""
        return dict(vars(self))


class OpenLineage:
    """Report a run to OpenLineage: pass it to ``run(observers=[...])``. It never fails a run, nor holds it up for long.

    A run is a START, a RUNNING once a minute, and COMPLETE, FAIL or ABORT (stopped by a person). They name the job by
    the pipeline, the inputs and the output with columns, versions of tables, rows and bytes, the error, and the run
    that this one is part of.

    Args:
        target: address of a server, such as ``"http://marquez:5000"``, or a file to which a line of JSON is added for
            each event; that of ``OPENLINEAGE_URL`` if None. ``OPENLINEAGE_API_KEY``, ``OPENLINEAGE_NAMESPACE``,
            ``OPENLINEAGE_PARENT_ID``, ``OPENLINEAGE_ENDPOINT`` and ``OPENLINEAGE_DISABLED`` count as for the clients of
            OpenLineage.
        settings: all of it, instead of the environment's.
        run: what identifies the run where several processes go on with it, such as the id of a job.

    Raises:
        PipelineError: an address, or a parent, that cannot be.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> events = OpenLineage(f"{folder.name}/events.jsonl")
        >>> events.on_event(RunStarted(10.0, "7f3a", "demo", "inline", (("read",),), inputs=("s3://corpus/web",)))
        >>> events.on_event(RunEnded(13.0, ""))
        >>> lines = Path(folder.name, "events.jsonl").read_text().splitlines()
        >>> [(event["eventType"], event["inputs"][0]["namespace"]) for event in map(json.loads, lines)]
        [('START', 's3://corpus'), ('COMPLETE', 's3://corpus')]
        >>> folder.cleanup()
    """

    def __init__(
        self, target: str | None = None, *, settings: OpenLineageSettings | None = None, run: str = ""
    ) -> None:
        self.settings = settings or OpenLineageSettings.of_environment(target)
        self._run = run
        self._facts = _RunFacts()
        self._poster: Poster | None = None
        self._failed = False

    def on_event(self, event: Event) -> None:
        """Take an event of the run (called by the run)."""
        if self.settings.target is None:
            return
        facts = self._facts
        match event:
            case RunStarted() if event.phase == 0 or event.run != facts.run:
                self._facts = _RunFacts.of(event, self._run)
                self._tell("START", event.time)
            case RunStarted():
                facts.last, facts.rows_out, facts.bytes_out, facts.files_out = event.operators[-1][-1], 0, 0, 0
                facts.phase = event.phase
            case TaskDone():
                facts.add(event)
            case SplitDone():
                facts.files_out += len(event.files)
            case InputsRead():
                facts.inputs_read = event
            case Sampled() if event.time - facts.at >= RUNNING_S:
                self._tell("RUNNING", event.time)
            case RunEnded() if event.last or event.error:
                stopped = event.error in _STOPPED
                self._tell("ABORT" if stopped else "FAIL" if event.error else "COMPLETE", event.time, event.error)
                self._end()

    def _tell(self, kind: str, at: float, error: str = "") -> None:
        self._facts.at = at
        content = json.dumps(self._event(kind, at, error)).encode()
        if not self.settings.is_server:
            self._write(content)
            return
        if self._poster is None:
            key = self.settings.api_key
            self._poster = Poster(
                urljoin(f"{self.settings.target}/", self.settings.endpoint),
                "an event did not reach OpenLineage",
                {"Authorization": f"Bearer {key}"} if key else None,
            )
            self._poster.start()
        self._poster.put(content)

    def _write(self, content: bytes) -> None:
        try:
            with open(str(self.settings.target), "ab") as file:
                file.write(content + b"\n")
        except OSError as error:
            if not self._failed:
                _log.warning(f"events of OpenLineage cannot be written: {error.strerror}; the run goes on")
            self._failed = True

    def _end(self) -> None:
        """Give what is on its way a moment to arrive."""
        if self._poster is not None:
            self._poster.end()
            self._poster.join(END_S)
            self._poster = None

    def _event(self, kind: str, at: float, error: str) -> dict[str, Any]:
        facts, settings = self._facts, self.settings
        dcurate = versions()["dcurate"]
        facets = {
            "nominalTime": {"nominalStartTime": _moment(facts.started)},
            "processing_engine": {"version": dcurate, "name": "dcurate", "openlineageAdapterVersion": dcurate},
        }
        if error:
            facets["errorMessage"] = {"message": redacted(error), "programmingLanguage": "PYTHON"}
        if settings.parent:
            facets["parent"] = _parent(settings.parent)
        job = {"jobType": {"processingType": "BATCH", "integration": "DCURATE", "jobType": "PIPELINE"}}
        ended = kind in ("COMPLETE", "FAIL", "ABORT")
        return {
            "eventType": kind,
            "eventTime": _moment(at),
            "producer": _producer(),
            "schemaURL": _EVENT,
            "run": {"runId": facts.id, "facets": _with_schemas(facets)},
            "job": {"namespace": settings.namespace, "name": facts.pipeline, "facets": _with_schemas(job)},
            "inputs": facts.inputs(ended),
            "outputs": facts.outputs(ended),
        }


@dataclass
class _RunFacts:
    """What is known of a run."""

    run: str = ""
    id: str = ""
    pipeline: str = ""
    started: float = 0.0
    at: float = 0.0
    phase: int = 0
    first: str = ""
    last: str = ""
    places: tuple[str, ...] = ()
    output: str = ""
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    files_out: int = 0
    inputs_read: InputsRead | None = None

    @classmethod
    def of(cls, event: RunStarted, run: str) -> Self:
        identity = run or f"{event.run} {event.time} {event.output}"
        return cls(
            run=event.run,
            id=str(uuid.uuid5(_NAMESPACE, f"dcurate {identity}")),
            pipeline=event.pipeline,
            started=event.time,
            first=event.operators[0][0],
            last=event.operators[-1][-1],
            places=event.inputs,
            output=event.output,
        )

    def add(self, event: TaskDone) -> None:
        if not event.stats:
            return
        if self.phase == 0 and event.stats[0].name == self.first:
            self.rows_in += event.stats[0].rows_in
            self.bytes_in += event.stats[0].bytes_in
        if event.stats[-1].name == self.last:
            self.rows_out += event.stats[-1].rows_out
            self.bytes_out += event.stats[-1].bytes_out

    def inputs(self, ended: bool) -> list[dict[str, Any]]:
        """The inputs; of several, the rows of each are not known."""
        read = self.inputs_read
        datasets = []
        for place in self.places:
            facets: dict[str, Any] = {}
            if read is not None and read.columns:
                facets["schema"] = {"fields": [{"name": name, "type": kind} for name, kind in read.columns.items()]}
            if read is not None and (place in read.tables or (read.digest and len(self.places) == 1)):
                table = read.tables.get(place)
                facets["version"] = {"datasetVersion": str(table[1]) if table else read.digest}
            dataset = _dataset(place, facets)
            if ended and len(self.places) == 1:
                figures = {"rowCount": self.rows_in, "size": self.bytes_in}
                figures |= {"fileCount": read.files} if read is not None else {}
                dataset["inputFacets"] = _with_schemas({"inputStatistics": figures})
            datasets.append(dataset)
        return datasets

    def outputs(self, ended: bool) -> list[dict[str, Any]]:
        """The output, with what this run has written, if it has ended."""
        if not self.output:
            return []
        names = self.inputs_read.output_columns if self.inputs_read is not None else ()
        dataset = _dataset(self.output, {"schema": {"fields": [{"name": name} for name in names]}} if names else {})
        if ended:
            figures = {"rowCount": self.rows_out, "size": self.bytes_out, "fileCount": self.files_out}
            dataset["outputFacets"] = _with_schemas({"outputStatistics": figures})
        return [dataset]


def _dataset(address: str, facets: Mapping[str, Any]) -> dict[str, Any]:
    """A dataset by its address, in the names of OpenLineage: the store, and the path in it."""
    address = without_secrets(address)
    scheme, separator, rest = address.partition("://")
    store, _, path = rest.partition("/")
    namespace, name = (f"{scheme}://{store}", path.strip("/") or "/") if separator else ("file", address)
    uri = quote(address, safe="/:?&=%@~+,;") if separator else Path(address).absolute().as_uri()
    source = {"dataSource": {"name": namespace, "uri": uri}}
    return {"namespace": namespace, "name": name, "facets": _with_schemas({**source, **facets})}


def _parent(parent: str) -> dict[str, Any]:
    """The run that another is part of, from ``namespace/name/run id``.

    Raises:
        PipelineError: it has another form.
    """
    parts = parent.rsplit("/", 2)
    try:
        namespace, name, run = parts
        return {"run": {"runId": str(uuid.UUID(run))}, "job": {"namespace": namespace, "name": name}}
    except ValueError:
        raise PipelineError(
            f"OPENLINEAGE_PARENT_ID={parent!r} is not namespace/name/run id, with a UUID as the id; correct or unset it"
        ) from None


def _with_schemas(facets: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Facets with who made them, and the addresses of their schemas."""
    return {name: {"_producer": _producer(), "_schemaURL": _schema(name), **facet} for name, facet in facets.items()}


def _schema(name: str) -> str:
    file = _FACETS[name]
    return f"{_SPEC}/facets/{file}.json#/$defs/{file.partition('/')[2]}"


def _producer() -> str:
    return f"https://pypi.org/project/dcurate/{versions()['dcurate']}"


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
