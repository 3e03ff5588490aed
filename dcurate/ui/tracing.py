"""Traces of a run for OpenTelemetry: a span for the run, and under it one for each batch that an operator processed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from dcurate.errors import ResourceError
from dcurate.events import (
    CallCopied,
    CallHung,
    Decided,
    Event,
    RunEnded,
    RunStarted,
    SourceListed,
    TaskDone,
    WorkerLeft,
    WorkerLost,
    WorkerRecycled,
)

#: What instrumentation calls itself in traces.
SCOPE = "dcurate"


class Tracing:
    """Export the events of a run to OpenTelemetry; pass it to ``run(observers=[...])``.

    The span of the run is under the span that is current where the run begins, if there is one. Its events are what
    the balancer decided and what went wrong; of these OpenTelemetry keeps the last 128 by default. Nothing
    is kept here: spans go to the provider as soon as they end, and its processor sends them in batches
    (``BatchSpanProcessor``, which drops spans when its queue is full).

    Args:
        tracer_provider: where spans go; the one that is set in OpenTelemetry, if not given.

    Raises:
        ResourceError: OpenTelemetry is not installed.

    Examples:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> provider, spans = TracerProvider(), InMemorySpanExporter()
        >>> provider.add_span_processor(SimpleSpanProcessor(spans))
        >>> tracing = Tracing(provider)
        >>> tracing.on_event(RunStarted(10.0, "7f3a", "demo", "inline", (("read",),)))
        >>> tracing.on_event(TaskDone(12.0, "read", "split-0", (), seconds=1.5))
        >>> tracing.on_event(RunEnded(13.0, ""))
        >>> [(span.name, (span.end_time - span.start_time) / 1e9) for span in spans.get_finished_spans()]
        [('read', 1.5), ('run demo', 3.0)]
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        self._library = _library()
        self._tracer = self._library.trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._run: Any = None
        self._under: Any = None
        self._began = 0

    def on_event(self, event: Event) -> None:
        """Take an event."""
        match event:
            case RunStarted():
                self._begin(event)
            case _ if self._run is None:
                pass
            case TaskDone():
                self._done(event)
            case RunEnded():
                self._end(event)
            case SourceListed():
                self._run.set_attribute("dcurate.splits", event.splits)
                self._run.set_attribute("dcurate.splits_before", event.finished_before)
            case _:
                self._note(event)

    def _begin(self, event: RunStarted) -> None:
        """The run's span; a later phase of the same run is an event of it."""
        if event.phase and self._run is not None:
            self._run.add_event("phase", {"dcurate.phase": event.phase}, _nanoseconds(event.time))
            return
        self._began = _nanoseconds(event.time)
        attributes = {"dcurate.run": event.run, "dcurate.pipeline": event.pipeline, "dcurate.mode": event.mode}
        self._run = self._tracer.start_span(f"run {event.pipeline}", attributes=attributes, start_time=self._began)
        self._under = self._library.trace.set_span_in_context(self._run)

    def _done(self, event: TaskDone) -> None:
        end = _nanoseconds(event.time)
        attributes: dict[str, str | int | float] = {
            "dcurate.operator": event.operator,
            "dcurate.split": event.split,
            "dcurate.seconds": event.seconds,
        }
        if event.stats:
            attributes["dcurate.rows_in"] = event.stats[0].rows_in
            attributes["dcurate.rows_out"] = event.stats[-1].rows_out
            attributes["dcurate.rows_dropped"] = sum(sum(stage.dropped.values()) for stage in event.stats)
            attributes["dcurate.rows_faulty"] = sum(sum(stage.faulty.values()) for stage in event.stats)
        # A call ends before the driver hears of it; its span begins no sooner than the run's.
        begin = max(self._began, end - _nanoseconds(event.seconds))
        span = self._tracer.start_span(event.operator, context=self._under, attributes=attributes, start_time=begin)
        span.end(end)

    def _note(self, event: Event) -> None:
        """An event of the run's span, of what a person may want to know."""
        match event:
            case Decided():
                slots = {"dcurate.slots_before": event.before, "dcurate.slots_after": event.after}
                why = {"dcurate.operator": event.operator, "dcurate.reason": event.reason}
                self._tell("decision", event, {**why, **slots})
            case WorkerLost():
                self._tell("worker lost", event, {"dcurate.worker": event.worker})
            case WorkerLeft():
                self._tell("worker left", event, {"dcurate.worker": event.worker})
            case WorkerRecycled():
                self._tell("worker recycled", event, {"dcurate.worker": event.worker, "dcurate.reason": event.reason})
            case CallHung():
                self._tell("call hung", event, {"dcurate.doing": event.doing, "exception.stacktrace": event.trace})
            case CallCopied():
                self._tell("call copied", event, {"dcurate.operator": event.operator, "dcurate.seconds": event.seconds})

    def _tell(self, name: str, event: Event, attributes: Mapping[str, str | float]) -> None:
        self._run.add_event(name, attributes, _nanoseconds(event.time))

    def _end(self, event: RunEnded) -> None:
        if event.error:
            status = self._library.status
            self._run.set_status(status.Status(status.StatusCode.ERROR, event.error))
        if event.last or event.error:
            self._run.end(_nanoseconds(event.time))
            self._run = self._under = None


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def _library() -> Any:
    """OpenTelemetry's public API, by the parts of it that are in use.

    Raises:
        ResourceError: it is not installed.
    """
    try:
        trace = importlib.import_module("opentelemetry.trace")
        return SimpleNamespace(trace=trace, status=importlib.import_module("opentelemetry.trace.status"))
    except ImportError as error:
        raise ResourceError(f"traces need OpenTelemetry ({error}): pip install 'dcurate[tracing]'") from error
