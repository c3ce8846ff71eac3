"""Tables with a log of their own, which a commit of files would damage."""

from __future__ import annotations

from collections.abc import Iterator

from pushdown_spark.errors import BadSpecError
from pushdown_spark.runtime.files import Files

_TABLE_LOGS = (("Delta", "_delta_log"), ("Hudi", ".hoodie"), ("Iceberg", "metadata/*.metadata.json"))
"""Table formats, each with a glob pattern of the log in the directory of a table."""


def check_no_table(files: Files, output: str) -> None:
    """Raise BadSpecError if the output is the directory of a table with a log of its own, or a partition of it.

    Renamed files would not be in the log: the table would not have them, or would miss files that its log lists.
    """
    for directory in _possible_tables(output):
        for name, log in _TABLE_LOGS:
            if files.matching(directory, log):
                raise BadSpecError(
                    f"output.path: {directory} is a {name} table. Files that are written without its log damage the "
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
