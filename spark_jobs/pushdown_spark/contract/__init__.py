"""The contract between the two sides: a `JobSpec` goes in, a `JobResult` comes out, both as JSON.

The package imports neither Airflow nor Spark. The Airflow side writes a `JobSpec`, `pushdown_spark.job` reads it, does
the work and writes a `JobResult`, on success and on failure. A small, versioned message in each direction, with errors
as data, follows dagster-pipes.
"""

from pushdown_spark.contract.connections import DatabaseKind, RemoteConnection, SecretValues, Tls, TlsMode
from pushdown_spark.contract.job_result import (
    MAX_PARTITIONS,
    SPARK_REQUESTED,
    CheckReport,
    ConjunctReport,
    CostReport,
    Exactness,
    FileReport,
    JobError,
    JobResult,
    OutputSummary,
    ScanReport,
    Skipped,
    SourceReport,
    known_sum,
)
from pushdown_spark.contract.job_spec import IntervalSpec, JobSpec, QuerySpec, ScanSpec
from pushdown_spark.contract.join_tree import JoinOptions, JoinReport, JoinTree
from pushdown_spark.contract.outputs import (
    AnyOutputSpec,
    CatalogOutputSpec,
    ConnectorFormat,
    OutputChecks,
    OutputFormat,
    OutputMode,
    OutputSpec,
    TableOutputSpec,
)
from pushdown_spark.contract.sources import (
    CONNECTOR_FORMATS,
    FORMATS_WITHOUT_FILES,
    ONLY_SOURCE,
    AnySourceSpec,
    OnMissingColumn,
    OnSchemaConflict,
    OrcOptions,
    ReaderChoice,
    RemoteSourceSpec,
    SourceFormat,
    SourceSpec,
    TableSourceSpec,
    Transport,
    WideNumbers,
)
from pushdown_spark.contract.versions import CONTRACT_VERSION
from pushdown_spark.errors import ErrorCode

__all__ = [
    "CONNECTOR_FORMATS",
    "CONTRACT_VERSION",
    "FORMATS_WITHOUT_FILES",
    "MAX_PARTITIONS",
    "ONLY_SOURCE",
    "SPARK_REQUESTED",
    "AnyOutputSpec",
    "AnySourceSpec",
    "CatalogOutputSpec",
    "CheckReport",
    "ConjunctReport",
    "ConnectorFormat",
    "CostReport",
    "DatabaseKind",
    "ErrorCode",
    "Exactness",
    "FileReport",
    "IntervalSpec",
    "JobError",
    "JobResult",
    "JobSpec",
    "JoinOptions",
    "JoinReport",
    "JoinTree",
    "OnMissingColumn",
    "OnSchemaConflict",
    "OrcOptions",
    "OutputChecks",
    "OutputFormat",
    "OutputMode",
    "OutputSpec",
    "OutputSummary",
    "QuerySpec",
    "ReaderChoice",
    "RemoteConnection",
    "RemoteSourceSpec",
    "ScanReport",
    "ScanSpec",
    "SecretValues",
    "Skipped",
    "SourceFormat",
    "SourceReport",
    "SourceSpec",
    "TableOutputSpec",
    "TableSourceSpec",
    "Tls",
    "TlsMode",
    "Transport",
    "WideNumbers",
    "known_sum",
]
