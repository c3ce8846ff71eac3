"""Airflow assets of the inputs and the output of a task, and the asset event of its result."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias, Context
from pydantic import JsonValue

from airflow_pushdown.datasets import file_dataset, output_dataset
from pushdown_spark.contract import JobResult, RemoteConnection

_TEMPLATE_MARKS = ("{{", "{%")


def inlets_of(paths: object) -> list[Asset]:
    """Return the assets of paths that are known before the task runs: absolute paths without a template."""
    literal_paths = (path for path in as_list(paths) if isinstance(path, str) and not _is_template(path))
    datasets = dict.fromkeys(dataset for path in literal_paths if (dataset := file_dataset(path)) is not None)
    return [Asset(uri=dataset.uri) for dataset in datasets]


def outlet_of(output: object, alias: str) -> Asset | AssetAlias | None:
    """Return the asset of an output. A templated path gets an alias, which is resolved when the task runs.

    Returns None without an output, or if its path is not absolute.
    """
    if not isinstance(output, str):
        return None
    if _is_template(output):
        return AssetAlias(alias)
    dataset = file_dataset(output)
    return None if dataset is None else Asset(uri=dataset.uri)


def record_output(
    context: Context, outlet: Asset | AssetAlias, result: JobResult, connection: RemoteConnection | None
) -> None:
    """Add rows and bytes of a result to the asset event of a successful task.

    `connection` leads to the database if the output is a table.
    """
    summary = result.output_summary
    extra: dict[str, JsonValue] = {
        "rows": result.rows,
        "bytes_read": result.bytes_read,
        "bytes_total": result.bytes_total,
        "bytes_written": None if summary is None else summary.bytes,
        "files_written": None if summary is None else summary.files,
        "partitions": [] if summary is None else list(summary.partitions),
        "seconds": result.seconds,
        "application_id": result.application_id,
    }
    event = context["outlet_events"][outlet]
    if isinstance(outlet, Asset):
        event.extra = extra
        return
    dataset = output_dataset(result, connection)
    if dataset is not None:
        event.add(Asset(uri=dataset.uri), extra=extra)


def as_list(value: object) -> list[object]:
    """Return a value or a list of values as a list, an empty list for None."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_template(text: str) -> bool:
    return any(mark in text for mark in _TEMPLATE_MARKS)
