"""Counters of jobs in Airflow's metrics, received by a StatsD socket and by an HTTP endpoint for OpenTelemetry."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from airflow.sdk import DAG, Context

from airflow_pushdown.counters import Count, source_counts
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.operators import PushdownScanOperator
from pushdown_spark.contract import ErrorCode, JobError, JobResult, JobSpec, QuerySpec, SourceReport, SourceSpec

SECONDS = 60.0


def source(kind: str, reader: str = "auto") -> SourceSpec:
    return SourceSpec.model_validate({"format": kind, "path": ["/x"], "reader": reader})


def report(reader: str, **counts: int) -> SourceReport:
    return SourceReport(reader=reader, reason="", **counts)  # type: ignore[arg-type]


SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"a": source("json"), "b": source("json"), "c": source("orc", "spark"), "d": source("avro")},
    query=QuerySpec(sql="SELECT 1"),
)
RESULT = JobResult(
    sources={
        "a": report("pushdown", bytes_total=1000, files_total=1, bytes_read=10, rows_decoded=5, rows_returned=3),
        "b": report("spark", bytes_total=500, files_total=1, bytes_read=500, rows_returned=4),
        "c": report("spark", bytes_total=70),
        "d": report("pushdown and spark", bytes_total=100, files_total=2, bytes_read=40),
    }
)


def test_counts_are_added_up_by_format_and_unknown_ones_left_out() -> None:
    assert set(source_counts(SPEC, RESULT)) == {
        Count("sources", "json", 2),
        Count("bytes_read", "json", 510),
        Count("bytes_skipped", "json", 990),
        Count("rows_decoded", "json", 5),
        Count("rows_returned", "json", 7),
        Count("fallbacks", "json", 1),
        Count("sources", "orc", 1),
        Count("sources", "avro", 1),
        Count("bytes_read", "avro", 40),
        Count("bytes_skipped", "avro", 60),
        Count("fallbacks", "avro", 1),
    }


class Collector:
    """A UDP socket that collects StatsD messages."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(SECONDS)
        self.port = int(self._socket.getsockname()[1])

    def until(self, last: str) -> list[str]:
        """Return our messages, up to the one with the name `last`."""
        messages: list[str] = []
        while not any(message.startswith(last) for message in messages):
            messages.append(self._socket.recv(65_536).decode())
        return [message for message in messages if ".airflow_pushdown." in message]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Let Airflow send its metrics to a socket, as its task runner does."""
    pytest.importorskip("statsd", reason="requirements/dev-airflow.txt has statsd")
    stats = pytest.importorskip("airflow.sdk.observability.stats", reason="before Airflow 3.3")
    factories = pytest.importorskip("airflow.sdk.observability.metrics.stats_utils", reason="before Airflow 3.3")
    made = Collector()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(made.port))
    stats.initialize(factory=factories.get_stats_factory(), export_legacy_names=False)
    yield made
    monkeypatch.undo()
    stats.initialize(factory=factories.get_stats_factory(), export_legacy_names=True)
    made.close()


class DoneScan(PushdownScanOperator):
    """A scan operator that returns a given result without running a job."""

    result = JobResult(sources={"source": RESULT.sources["a"]}, rows=3)

    def _run(self, context: Context) -> JobResult:
        self._submission = Submission(spec=self.build_spec("k"))
        return self.result


class FailedScan(DoneScan):
    """The same with an error after the scan."""

    result = DoneScan.result.model_copy(
        update={"error": JobError(code=ErrorCode.CHECK_FAILED, message="min_rows", retryable=False)}
    )


@pytest.mark.parametrize(("operator", "state"), [(DoneScan, "success"), (FailedScan, "failed")])
def test_a_task_sends_its_counts_with_operator_and_format(
    collector: Collector, register_dag: Callable[[DAG], None], operator: type[DoneScan], state: str
) -> None:
    with DAG(f"metrics_{state}") as dag:
        operator(task_id="scan", path="/in", format="csv")
    register_dag(dag)
    assert dag.test().state == state
    name = operator.__name__
    messages = collector.until(f"airflow.airflow_pushdown.rows_returned.{name}")
    assert f"airflow.airflow_pushdown.bytes_read.{name}.csv:10|c" in messages
    assert f"airflow.airflow_pushdown.bytes_skipped.{name}.csv:990|c" in messages
    assert f"airflow.airflow_pushdown.rows_decoded.{name}.csv:5|c" in messages
    assert f"airflow.airflow_pushdown.rows_returned.{name}.csv:3|c" in messages
    assert "airflow.airflow_pushdown.bytes_read:10|c" in messages
    assert not any("fallbacks" in message for message in messages)


class OtelCollector(BaseHTTPRequestHandler):
    """The HTTP endpoint of an OpenTelemetry collector."""

    received: ClassVar[list[bytes]]

    def do_POST(self) -> None:
        self.received.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def otel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[tuple[str, str], int]]]:
    """Let Airflow send its metrics to a collector. Return a function that returns our counters by name and format."""
    stats = pytest.importorskip("airflow.sdk.observability.stats", reason="before Airflow 3.3")
    factories = pytest.importorskip("airflow.sdk.observability.metrics.stats_utils", reason="before Airflow 3.3")
    messages = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    metrics = pytest.importorskip("opentelemetry.metrics")
    OtelCollector.received = []
    server = HTTPServer(("127.0.0.1", 0), OtelCollector)
    # Airflow sends its metrics a last time when the process ends.
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_HOST", "127.0.0.1")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_PORT", str(server.server_port))
    stats.initialize(factory=factories.get_stats_factory(), export_legacy_names=False)

    def counters() -> dict[tuple[str, str], int]:
        metrics.get_meter_provider().force_flush()
        return {
            (metric.name, {entry.key: entry.value.string_value for entry in point.attributes}.get("format", "")): int(
                point.as_double or point.as_int
            )
            for body in OtelCollector.received
            for resource in messages.ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.sum.data_points
            if ".airflow_pushdown." in metric.name
        }

    yield counters
    monkeypatch.undo()
    stats.initialize(factory=factories.get_stats_factory(), export_legacy_names=True)


def test_a_task_sends_its_counts_to_opentelemetry_with_tags(
    otel: Callable[[], dict[tuple[str, str], int]], register_dag: Callable[[DAG], None]
) -> None:
    with DAG("metrics_otel") as dag:
        DoneScan(task_id="scan", path="/in", format="csv")
    register_dag(dag)
    assert dag.test().state == "success"
    counters = otel()
    assert counters["airflow.airflow_pushdown.bytes_read", "csv"] == 10
    assert counters["airflow.airflow_pushdown.bytes_skipped", "csv"] == 990
    assert counters["airflow.airflow_pushdown.rows_returned", "csv"] == 3
    assert counters["airflow.airflow_pushdown.rows_returned.donescan.csv", ""] == 3, "names are in lower case there"
