"""Checks of the target of an output: whether it may exist, its columns, its partitions, and other runs there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.sql import types as t

from pushdown_spark.contract import OutputMode
from pushdown_spark.errors import (
    BadSpecError,
    ErrorCode,
    OutputExistsError,
    PushdownError,
    SchemaConflictError,
    UnwritableValueError,
)
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.output.files.layout import CLAIMS_OF_ALL_RUNS, CLAIMS_OF_PARTITIONS, hidden_directory, unescape_name
from pushdown_spark.runtime.file_systems.base_files import Files, is_hidden
from pushdown_spark.runtime.file_systems.file_paths import is_root, real_path

_TABLE_LOGS = (("Delta", "_delta_log"), ("Hudi", ".hoodie"), ("Iceberg", "metadata/*.metadata.json"))
"""Table formats, each with a glob pattern of the log in the directory of a table."""

"""The root of a file system, without its final slash."""


def check_no_table(files: Files, output: str) -> None:
    """Raise BadSpecError if the output is the directory of a table with its own log, or a partition of it.

    Renamed files would not be in the log: the table would not have them, or would miss files that its log lists.
    """
    for directory in _possible_tables(real_path(output)):
        for name, log in _TABLE_LOGS:
            if files.glob(directory, log):
                raise BadSpecError(
                    f"output: {directory} is a {name} table. Files that are written without its log damage the "
                    "table; write to another directory"
                )


def _possible_tables(output: str) -> Iterator[str]:
    """Yield the output, and the directory above its directories `key=value`."""
    yield output
    parts = output.split("/")
    while "=" in parts[-1]:
        parts.pop()
    if (table := "/".join(parts)) != output:
        yield table


def check_nested_outputs(files: Files, output: str, partitions: Sequence[str] = ()) -> None:
    """Raise PushdownError if a run is writing an output that this one is a partition of, or a partition of this one.

    The output `/lake/out` has another lock than `/lake/out/day=1`, so such runs do not wait for each other. One could
    replace rows that the other one has just written, and the repair of a killed commit could bring back replaced rows.
    A run creates its own claim before it calls this function, so that at least one of two runs finds the other one.
    Partitions below the first level are only found in the directories of `partitions`.
    """
    output = real_path(output)
    for claim in (*_outer_claims(files, output), *_inner_claims(files, output, partitions)):
        parent, _, hidden_name = claim.rsplit("/", 2)[0].rpartition("/")
        other = f"{parent}/{hidden_name[1:].removesuffix('.pushdown')}"
        raise PushdownError(
            f"output: another run is writing {other}, and {max(other, output, key=len)} is a partition of "
            f"{min(other, output, key=len)}, so the output is unchanged; run the task again after that run. If that "
            f"run was killed, repeat it first, or write {other} with another run and delete {claim}",
            code=ErrorCode.SPARK,
        )


def _outer_claims(files: Files, output: str) -> Iterator[str]:
    """Yield the claims of the outputs that this one is a partition of."""
    outer, _, name = output.rpartition("/")
    while "=" in name and not is_root(outer):
        outer, _, name = outer.rpartition("/")
        # The job may not be allowed to look there. Then only the other run can find the claim of this one.
        with suppress(Py4JJavaError, PermissionError):
            yield from files.glob(hidden_directory(outer, name), CLAIMS_OF_ALL_RUNS)


def _inner_claims(files: Files, output: str, partitions: Sequence[str]) -> Iterator[str]:
    """Yield the claims of the partitions of this output that are outputs of their own."""
    directories = {output}
    for partition in partitions:
        steps = partition.split("/")
        directories.update("/".join([output, *steps[:depth]]) for depth in range(1, len(steps)))
    for directory in sorted(directories):
        yield from files.glob(directory, CLAIMS_OF_PARTITIONS)


def partition_keys(files: Files, directory: str) -> list[str] | None:
    """Return the names of partition columns below a directory, outermost first; None if the directory is empty."""
    keys: list[str] = []
    while names := [name for name in files.names(directory) if not is_hidden(name)]:
        inner = next((name for name in names if "=" in name and files.is_directory(f"{directory}/{name}")), None)
        if inner is None:
            return keys
        keys.append(unescape_name(inner.partition("=")[0]))
        directory = f"{directory}/{inner}"
    return keys or None


def check_visible_partitions(partition_by: Sequence[str], partitions: Sequence[str]) -> None:
    """Raise BadSpecError or UnwritableValueError for directories that Spark does not find when it lists an output."""
    for name in partition_by:
        if is_hidden(f"{name}="):
            raise BadSpecError(
                f"partition_by: Spark reads no directory whose name begins with a dot, such as {name}=1; rename "
                "the column in the query"
            )
    for partition in partitions:
        if any(map(is_hidden, partition.split("/"))):
            raise UnwritableValueError(
                f"partition_by: Spark reads no directory whose name ends with ._COPYING_, such as {partition}; "
                "change the value in the query. Nothing was committed and the output is unchanged"
            )


def check_existing_table(mode: OutputMode, name: str) -> None:
    """Raise OutputExistsError if the mode allows no table that exists."""
    if mode is OutputMode.ERROR_IF_EXISTS:
        raise OutputExistsError(
            f"output_table: {name} already exists; drop it, or choose another output mode (overwrite, "
            "overwrite_partitions, merge, append or ignore)"
        )


def check_partition_by(partition_by: Sequence[str], existing: Sequence[str], name: str, *, name_rule: NameRule) -> None:
    """Raise BadSpecError if a table is partitioned by other columns than `partition_by`, unless that is empty."""
    if partition_by and [*map(name_rule.key, partition_by)] != [*map(name_rule.key, existing)]:
        raise BadSpecError(
            f"partition_by: {name} is partitioned by {', '.join(existing) or 'no column'}, not by "
            f"{', '.join(partition_by)}; leave it out, or write to another table"
        )


def check_column_names(rows: t.StructType, table: t.StructType, *, name_rule: NameRule) -> None:
    """Raise SchemaConflictError if only the rows or only the table have a column."""
    names, columns = ({name_rule.key(name): name for name in schema.names} for schema in (rows, table))
    if extra := [name for key, name in names.items() if key not in columns]:
        raise SchemaConflictError(
            f"output_table: the table has no column {extra[0]!r}; it has {', '.join(columns.values())}"
        )
    if missing := [name for key, name in columns.items() if key not in names]:
        raise SchemaConflictError(
            f"output_table: the rows have no column {missing[0]!r} of the table; select it, for example as NULL"
        )
