"""Turns what a task reads and writes into Airflow's assets, and its result into what an asset event tells."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias, Context
from pydantic import JsonValue

from airflow_pushdown.datasets import file_dataset
from pushdown_spark.contract import JobResult

_TEMPLATE_MARKS = ("{{", "{%")


def inlets_of(paths: object) -> list[Asset]:
    """Assets of the paths that are known before the task runs: those that are absolute and hold no template."""
    fixed = (path for path in as_list(paths) if isinstance(path, str) and not _is_template(path))
    places = dict.fromkeys(place for path in fixed if (place := file_dataset(path)) is not None)
    return [Asset(uri=place.uri) for place in places]


def outlet_of(output: object, alias: str) -> Asset | AssetAlias | None:
    """The asset of an output; one that a template makes gets an alias of this name, for what it turns out to be.

    None where there is no output, or one whose path is not absolute.
    """
    if not isinstance(output, str):
        return None
    if _is_template(output):
        return AssetAlias(alias)
    place = file_dataset(output)
    return None if place is None else Asset(uri=place.uri)


def record_output(context: Context, outlet: Asset | AssetAlias, result: JobResult) -> None:
    """Tell rows and bytes of a result with the asset event that Airflow makes of a successful task."""
    extra: dict[str, JsonValue] = {
        "rows": result.rows,
        "bytes_read": result.bytes_read,
        "bytes_total": result.bytes_total,
        "bytes_written": None if result.output_summary is None else result.output_summary.bytes,
        "files_written": None if result.output_summary is None else result.output_summary.files,
        "partitions": [] if result.output_summary is None else list(result.output_summary.partitions),
        "seconds": result.seconds,
        "application_id": result.application_id,
    }
    event = context["outlet_events"][outlet]
    if isinstance(outlet, Asset):
        event.extra = extra
        return
    place = file_dataset(result.output) if result.output is not None and result.rows is not None else None
    if place is not None:
        event.add(Asset(uri=place.uri), extra=extra)


def as_list(value: object) -> list[object]:
    """One value or a list of them as a list; nothing for None."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_template(text: str) -> bool:
    return any(mark in text for mark in _TEMPLATE_MARKS)
