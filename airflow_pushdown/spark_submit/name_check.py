"""The check of names in a query against the declared schema of its source, before Spark starts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from airflow_pushdown.exceptions import exception_for
from airflow_pushdown.packaging import job_archive
from pushdown_spark.contract import JobError, JobSpec, SourceSpec

_TIMEOUT_SECONDS = 60
_MAX_PREDICATE_CHARACTERS = 10_000
"""Parsing a longer predicate, such as a list of thousands of values, may take longer than the start of Spark."""
_WORD = re.compile(r"\w+")
_COMPARISON = re.compile(r"""\s*(\w+)\s*(?:=|<=|>=|<|>|!=)\s*(?:'[^'\\]*'|-?\d+(?:\.\d+)?)\s*""")
_COMPARISONS = re.compile(rf"{_COMPARISON.pattern}(?:\bAND\b{_COMPARISON.pattern})*", re.IGNORECASE)


def check_names(python: str, environment: Mapping[str, str], spec: JobSpec, spec_path: Path) -> None:
    """Raise the error of a name in the query of a job that the declared schema of its source certainly lacks.

    `python` is the Python of the driver, with the libraries of jobs. `spec_path` is the file of the spec.
    """
    error = _name_error(python, environment, spec_path) if _needs_check(spec) else None
    if error is not None:
        raise exception_for(error)


def _needs_check(spec: JobSpec) -> bool:
    """Return whether the query may name columns that are not in the declared schema of its only source."""
    if spec.query is None or spec.query.source is None:
        return False
    source = spec.sources[spec.query.source]
    if not isinstance(source, SourceSpec) or source.schema_ddl is None:
        return False
    return _may_have_wrong_names(source.schema_ddl, spec.query.columns or (), spec.query.where or "")


def _may_have_wrong_names(ddl: str, columns: Iterable[str], where: str) -> bool:
    """Return whether a query has more than comparisons of words of the schema, so that its names are worth a check.

    >>> _may_have_wrong_names("id int, kind string", ["id"], "kind = 'x' AND id > 3")
    False
    >>> _may_have_wrong_names("id int, kind string", ["id"], "knd = 'x'")
    True
    """
    if len(where) > _MAX_PREDICATE_CHARACTERS:
        return False
    if where and not _COMPARISONS.fullmatch(where):
        return True
    words = set(_WORD.findall(ddl.lower()))
    names = [*columns, *(match[1] for match in _COMPARISON.finditer(where))]
    return any(name.lower() not in words for name in names)


def _name_error(python: str, environment: Mapping[str, str], spec: Path) -> JobError | None:
    """Return the error of a wrong name, or None if there is none. It starts a Python process.

    The check belongs to the Spark side, whose libraries Airflow's environment lacks.
    """
    path = os.pathsep.join(filter(None, (str(job_archive()), environment.get("PYTHONPATH"))))
    command = [python, "-m", "pushdown_spark.projection.declared_names", str(spec)]
    try:
        run = subprocess.run(  # noqa: S603 - runs the Python of the user
            command, env={**environment, "PYTHONPATH": path}, capture_output=True, check=True, timeout=_TIMEOUT_SECONDS
        )
        return JobError.from_json(run.stdout)
    except (OSError, subprocess.SubprocessError):
        # The job itself checks every name and reports its own errors.
        return None
