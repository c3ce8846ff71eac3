"""The job spec: named sources, one query and one output, or several scans with an output each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Annotated, Self

from pydantic import AwareDatetime, Field, model_validator

from pushdown_spark.contract.join_tree import JoinOptions
from pushdown_spark.contract.message import Message
from pushdown_spark.contract.outputs import AnyOutputSpec, OutputMode, OutputSpec
from pushdown_spark.contract.sources import ONLY_SOURCE, AnySourceSpec, SourceSpec
from pushdown_spark.contract.versions import CONTRACT_VERSION
from pushdown_spark.local_paths import local_path

_SCAN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_RESERVED_NAMES = ("return_value",)
"""Airflow's key of a task's own XCom value. The result of each scan is another one, under the name of the scan."""


class IntervalSpec(Message):
    """The rows whose date or timestamp column is in an interval."""

    column: str
    """The name of a column or of a struct member, in Spark's syntax."""
    start: AwareDatetime
    """The first moment of the interval."""
    end: AwareDatetime
    """The first moment after the interval."""

    @property
    def predicate(self) -> str:
        """The interval in Spark SQL."""
        start, end = (f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00" for moment in (self.start, self.end))
        return f"{self.column} >= TIMESTAMP '{start}' AND {self.column} < TIMESTAMP '{end}'"


class SelectionSpec(Message):
    """The rows and columns that one source returns."""

    columns: tuple[str, ...] | None = None
    """Column paths. By default, all columns."""
    where: str | None = None
    """The predicate in Spark SQL."""
    interval: IntervalSpec | None = None
    """An interval that the rows must be in, in addition to `where`."""
    limit: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of rows."""

    @property
    def predicate(self) -> str | None:
        """The conjunction of `interval` and `where`.

        Parse each on its own first. Otherwise `a = 1) OR (b = 2` would select rows outside the interval.
        """
        if self.interval is None or self.where is None:
            return self.where if self.interval is None else self.interval.predicate
        # The line break before the parenthesis ends a comment at the end of the predicate.
        return f"{self.interval.predicate} AND (\n{self.where}\n)"


class QuerySpec(SelectionSpec):
    """A query: SQL over all sources, or columns, predicate and limit over one source."""

    sql: str | None = None
    """The query over the sources, in Spark SQL."""
    source: str | None = None
    """The name of the only source."""
    joins: JoinOptions = JoinOptions()
    """How the optimizer may change the joins of `sql`."""

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        short_form = (self.source, self.columns, self.where, self.interval, self.limit)
        if self.sql is not None and any(part is not None for part in short_form):
            raise ValueError(
                "query: `sql` excludes `source`, `columns`, `where`, `interval` and `limit`; give one form"
            )
        if self.sql is None and self.source is None:
            raise ValueError("query: give `sql`, or the name of a `source`")
        return self


class ScanSpec(SelectionSpec):
    """One of several scans of a job: columns, predicate and limit over the source with its name, and its own output."""

    output: AnyOutputSpec | None = None
    """What takes the rows. Without it, they are only counted."""


class JobSpec(Message):
    """A job: named sources, one query over them, one output, and the path of the result.

    Instead of `query` and `output`, a job may have `scans`.
    """

    version: int = CONTRACT_VERSION
    """The version of this document."""
    run_key: str
    """Identifies the logical run. It is the same for every retry, so that a retried append replaces the files of
    earlier tries."""
    generation: Annotated[str, Field(max_length=100)] = ""
    """A value that changes if a user clears the run, or deletes it and creates it again."""
    sources: Annotated[dict[str, AnySourceSpec], Field(min_length=1)]
    """The sources by their names."""
    query: QuerySpec | None = None
    """The query over the sources."""
    output: AnyOutputSpec | None = None
    """What takes the rows of the query. Without it, they are only counted."""
    scans: dict[str, ScanSpec] = Field(default_factory=dict)
    """A scan of each source, under the name of the source. They run one after the other in one Spark application, and
    one that fails does not stop the others."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Settings of the Spark session."""
    result_path: str | None = None
    """The file for the report as JSON. Without it, the report is printed."""
    secrets_path: str | None = None
    """A file of mode 0600 with credentials, which the job reads once and deletes. The spec itself never contains
    secrets."""

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if self.version != CONTRACT_VERSION:
            raise ValueError(
                f"version: this job reads version {CONTRACT_VERSION} of the spec, not {self.version}; install the same "
                "release of airflow-pushdown and pushdown-spark"
            )
        if (self.query is None) == (not self.scans):
            raise ValueError("query: give either `query` or `scans`")
        if self.query is not None and self.query.source is not None and self.query.source not in self.sources:
            raise ValueError(
                f"query.source: no source is named {self.query.source!r}; there are {', '.join(sorted(self.sources))}"
            )
        return self

    @model_validator(mode="after")
    def _check_scans(self) -> Self:
        if not self.scans:
            return self
        if self.scans.keys() != self.sources.keys():
            raise ValueError("scans: each scan needs the source with its name, and each source its scan")
        if self.output is not None:
            raise ValueError("output: each of the `scans` has its own output")
        for name in self.scans:
            if not _SCAN_NAME.fullmatch(name) or name in _RESERVED_NAMES:
                raise ValueError(
                    f"scans: {name!r} cannot be the name of a scan; use letters, digits, '_', '-' and '.', a letter or "
                    f"digit first, and not {' or '.join(_RESERVED_NAMES)}"
                )
        problem = next(self._conflicts(), None)
        if problem is not None:
            raise ValueError(f"scans: {problem}")
        return self

    def job_of(self, scan: str) -> JobSpec:
        """Return the job that runs only this scan, with its own run key. Its source is the only one of the job."""
        spec = self.scans[scan]
        query = QuerySpec(
            source=ONLY_SOURCE, columns=spec.columns, where=spec.where, interval=spec.interval, limit=spec.limit
        )
        return JobSpec(
            run_key=f"{self.run_key}/{scan}",
            generation=self.generation,
            sources={ONLY_SOURCE: self.sources[scan]},
            query=query,
            output=spec.output,
            conf=self.conf,
        )

    def _conflicts(self) -> Iterator[str]:
        """Yield pairs of scans of files whose outcome would depend on each other."""
        outputs = {name: scan.output for name, scan in self.scans.items() if isinstance(scan.output, OutputSpec)}
        for (one, first), (other, second) in combinations(outputs.items(), 2):
            appends = first.mode is OutputMode.APPEND and second.mode is OutputMode.APPEND
            is_same = _parts(first.path) == _parts(second.path)
            if _is_nested(first.path, second.path) and not (is_same and appends):
                yield f"{one!r} and {other!r} write to one output ({second.path}); give each an output of its own"
        for name, output in outputs.items():
            for reader, source in self.sources.items():
                read = source.path if isinstance(source, SourceSpec) and reader != name else ()
                for path in read:
                    if _is_nested(path, output.path):
                        yield f"{reader!r} reads {path}, where {name!r} writes; give one of them a task of its own"


def _parts(path: str) -> list[str]:
    """Return the steps of a path, without those that lead nowhere.

    >>> _parts("file:/lake//a/./b/../c/")
    ['lake', 'a', 'c']
    """
    steps: list[str] = []
    for step in (local_path(path) or path).split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return steps


def _is_nested(pattern: str, path: str) -> bool:
    """Return whether a path is in the other one, or the other way around. The first one may be a glob.

    >>> _is_nested("/lake/*/orders", "/lake/out/orders/x"), _is_nested("/lake/raw/*.json", "/lake/out")
    (True, False)
    """
    # A name in braces may be any name.
    return all(
        "{" in glob or fnmatchcase(step, glob) for glob, step in zip(_parts(pattern), _parts(path), strict=False)
    )
