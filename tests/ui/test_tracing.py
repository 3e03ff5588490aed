"""Traces: a span for the run, one under it for each batch, through OpenTelemetry's own SDK to a real receiver."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dcurate import InlineExecutor, Pipeline, ResourceError, StageError
from dcurate.events import CallHung, Decided, RunEnded, RunStarted, SourceListed, StageStats, TaskDone, WorkerLost
from dcurate.ui import Tracing
from tests.stages import Append, FailOn, KeepEvery, Numbers

STARTED = RunStarted(100.0, "7f3a", "demo", "streaming", (("read",), ("keep",)))


def traced(*events: Any) -> list[ReadableSpan]:
    """The spans that come of events, in the order in which they end."""
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing = Tracing(provider)
    for event in events:
        tracing.on_event(event)
    return list(spans.get_finished_spans())


def test_each_batch_has_a_span_under_that_of_the_run_with_times_and_counts() -> None:
    stats = (StageStats("keep", rows_in=9, rows_out=7, dropped={"short": 2}), StageStats("mend", rows_in=7, rows_out=6))
    done = TaskDone(103.0, "keep", "split-1", stats, seconds=1.25)
    task, run = traced(STARTED, SourceListed(100.5, 4, 1), done, RunEnded(104.0, ""))
    assert (run.name, run.start_time, run.end_time, run.parent) == ("run demo", 100 * 10**9, 104 * 10**9, None)
    assert dict(run.attributes or {}) == {
        "dcurate.run": "7f3a",
        "dcurate.pipeline": "demo",
        "dcurate.mode": "streaming",
        "dcurate.splits": 4,
        "dcurate.splits_before": 1,
    }
    assert (task.name, task.start_time, task.end_time) == ("keep", 101_750_000_000, 103 * 10**9)
    assert task.parent == run.get_span_context()
    assert dict(task.attributes or {}) == {
        "dcurate.operator": "keep",
        "dcurate.split": "split-1",
        "dcurate.seconds": 1.25,
        "dcurate.rows_in": 9,
        "dcurate.rows_out": 6,
        "dcurate.rows_dropped": 2,
        "dcurate.rows_faulty": 0,
    }


def test_what_was_decided_and_what_went_wrong_are_events_of_the_run() -> None:
    decided, lost = Decided(101.0, "keep", 1, 3, "it is the slowest"), WorkerLost(102.0, "tcp://10.0.0.7:1")
    (run,) = traced(STARTED, decided, lost, CallHung(103.0, "stage 'keep'", "line 7"), RunEnded(104.0, "no luck"))
    assert [(event.name, event.timestamp) for event in run.events] == [
        ("decision", 101 * 10**9),
        ("worker lost", 102 * 10**9),
        ("call hung", 103 * 10**9),
    ]
    assert dict(run.events[0].attributes or {}) == {
        "dcurate.operator": "keep",
        "dcurate.reason": "it is the slowest",
        "dcurate.slots_before": 1,
        "dcurate.slots_after": 3,
    }
    assert (run.status.status_code, run.status.description) == (trace.StatusCode.ERROR, "no luck")


def test_all_phases_of_a_run_are_in_one_span() -> None:
    again = RunStarted(102.0, "7f3a", "demo", "streaming", (("keep",),), phase=1)
    *tasks, run = traced(
        STARTED,
        TaskDone(101.0, "read", "a", (), 0.5),
        RunEnded(102.0, "", last=False),
        again,
        TaskDone(103.0, "keep", "a", (), 0.5),
        RunEnded(104.0, ""),
    )
    assert [task.parent for task in tasks] == [run.get_span_context()] * 2
    assert (run.start_time, run.end_time) == (100 * 10**9, 104 * 10**9)
    assert [event.name for event in run.events] == ["phase"]


def test_two_runs_one_after_the_other_have_a_trace_each() -> None:
    spans = traced(STARTED, RunEnded(104.0, ""), RunStarted(105.0, "c41e", "demo", "inline", ()), RunEnded(106.0, ""))
    assert len({span.context.trace_id for span in spans}) == 2


def test_a_run_is_under_the_span_in_which_a_person_starts_it() -> None:
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with provider.get_tracer("mine").start_as_current_span("nightly"):
        Pipeline("demo", stages=[Numbers(2, 3), Append("x")]).run(InlineExecutor(), observers=[Tracing(provider)])
    *tasks, run, nightly = spans.get_finished_spans()
    assert run.parent == nightly.get_span_context()
    assert {task.parent.span_id for task in tasks if task.parent} == {run.context.span_id}


def test_a_run_that_fails_ends_its_span_with_the_error() -> None:
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with pytest.raises(StageError):
        Pipeline("demo", stages=[Numbers(), FailOn("7")]).run(InlineExecutor(), observers=[Tracing(provider)])
    *_, run = spans.get_finished_spans()
    assert "cannot take 7" in (run.status.description or "")


def test_what_is_kept_of_a_long_run_is_bounded_by_opentelemetry() -> None:
    decisions = [Decided(101.0, "keep", number, number + 1, "more") for number in range(1, 1001)]
    (run,) = traced(STARTED, *decisions, RunEnded(104.0, ""))
    assert len(run.events) == 128


def test_nothing_comes_of_events_outside_a_run() -> None:
    assert traced(TaskDone(101.0, "read", "a", (), 0.5), RunEnded(104.0, "")) == []


@contextmanager
def receiver() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A server that takes traces as a collector does, OTLP over HTTP; gives its address and what came."""
    came: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            came.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", came
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_the_run_by_otlp_in_batches() -> None:
    with receiver() as (endpoint, came):
        provider = TracerProvider(resource=Resource.create({"service.name": "curation"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint), max_export_batch_size=10))
        pipeline = Pipeline("numbers", stages=[Numbers(25, 4), KeepEvery(2, 0), Append("x")])
        report = pipeline.run(InlineExecutor(), observers=[Tracing(provider)]).report
        provider.shutdown()
    spans = [
        span for one in came for group in one.resource_spans for scope in group.scope_spans for span in scope.spans
    ]
    (run,) = (span for span in spans if span.name == "run numbers")
    tasks = [span for span in spans if span is not run]
    assert {span.parent_span_id for span in tasks} == {run.span_id}
    assert all(run.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano for span in tasks)
    rows = Counter[str]()
    for span in tasks:
        rows.update({one.key: one.value.int_value for one in span.attributes if "rows" in one.key})
    assert rows["dcurate.rows_in"] == report.stages[0].rows_in == 100
    assert rows["dcurate.rows_out"] == report.stages[-1].rows_out
    assert rows["dcurate.rows_dropped"] == sum(sum(stage.dropped.values()) for stage in report.stages)
    assert len(came) == -(-len(spans) // 10)
    assert all(isinstance(span, Span) for span in spans)
    names = {one.value.string_value for group in came[0].resource_spans for one in group.resource.attributes}
    assert "curation" in names


def test_without_opentelemetry_one_sentence_says_how_to_get_it() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "opentelemetry.trace", None)
        with pytest.raises(ResourceError, match=r"traces need OpenTelemetry .*: pip install 'dcurate\[tracing\]'"):
            Tracing()
