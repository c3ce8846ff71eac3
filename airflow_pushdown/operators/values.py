"""Values of parameters when the task runs, with errors that name the parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pendulum
from airflow.sdk import Context
from pydantic import TypeAdapter, ValidationError

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.spark_settings import serialize_all
from pushdown_spark.contract import IntervalSpec

_MAX_INPUT_CHARACTERS = 60


def sequence_as_list(value: object) -> object:
    """Return a sequence as a list. Mapped tasks pass lazy sequences. A string stays a string and fails validation."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def entries(name: str, value: object) -> dict[str, str]:
    """Return a dict parameter as strings for Spark, without entries that are None."""
    with naming_parameters({"": name}):
        return serialize_all(TypeAdapter(dict[str, object] | None).validate_python(value))


def switch(name: str, value: object) -> bool | None:
    """Return a boolean parameter, which a template may have turned into a string, or None if it was not given."""
    with naming_parameters({"": name}):
        return TypeAdapter(bool | None).validate_python(value)


@contextmanager
def naming_parameters(names: Mapping[str, str]) -> Iterator[None]:
    """Convert a validation error to a one-line `ConfigError` that names the operator's parameter.

    `names` maps fields of the validated model to parameters with other names. The empty name is for a single value.
    """
    try:
        yield
    except ValidationError as error:
        lines = []
        for details in error.errors(include_url=False, include_context=False):
            if details["type"] == "extra_forbidden":
                details["msg"] = "unknown parameter"
            location = details["loc"]
            head = str(location[0]) if location else ""
            parameter = ".".join([names.get(head, head), *map(str, location[1:])])
            message = details["msg"].removeprefix("Value error, ")
            if details["type"] != "value_error":
                # Pydantic's own words. Messages of the specs may quote the user's.
                message = message.replace("tuple", "list").replace("Tuple", "List")
            # The message of a model validator already names its parameters.
            name = f"{parameter.lstrip('.')}: " if parameter.strip(".") else ""
            lines.append(f"{name}{message}{input_note(details['input'])}")
        # `from None`: a chained pydantic error would add model names and documentation URLs to the log.
        problem = config_error("; ".join(lines))
        problem.problems = lines
        raise problem from None


def input_note(value: object) -> str:
    """Return the invalid value for an error message, or an empty string if it is not a short scalar."""
    if isinstance(value, str | int | float | bool):
        text = repr(value)
        return f" (got {text if len(text) <= _MAX_INPUT_CHARACTERS else text[:_MAX_INPUT_CHARACTERS] + '...'})"
    return ""


def run_interval(column: str, context: Context) -> IntervalSpec:
    """Return the run's data interval as a condition on a column.

    `column` is a timestamp or date column in Spark SQL. Raises `ConfigError` if the run has no data interval or an
    empty one, because the task would silently return no rows.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None:
        raise config_error(
            "data_interval: this run has no data interval; trigger the DAG with a logical date, or remove data_interval"
        )
    interval = pendulum.instance(end).in_timezone("UTC") - pendulum.instance(start).in_timezone("UTC")
    if not interval.total_seconds():
        raise config_error(
            f"data_interval: the data interval of this run is empty ({interval.start}). Airflow's presets "
            "and cron strings have no interval by default; schedule the DAG with "
            "CronDataIntervalTimetable('@daily', timezone='UTC')"
        )
    return IntervalSpec(column=column, start=interval.start, end=interval.end)
