"""Data that a commit would destroy although the run does not mean to: source files and tables with their own log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pushdown_spark.contract import OutputSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.runtime.filesystem import Files, HadoopFiles

_TABLE_LOGS = (("Delta", "_delta_log"), ("Hudi", ".hoodie"), ("Iceberg", "metadata/*.metadata.json"))
"""Table formats, each with a glob pattern of the log in the directory of a table."""
_LITERAL_PART = re.compile(r"(?:[^*?\[{\\]|\\.)*")
"""The start of a path before its first glob character. A backslash makes the next character a plain one."""
_ESCAPE = re.compile(r"\\(.)")


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


def check_sources_survive(hadoop: HadoopFiles, output: OutputSpec, sources: Iterable[str]) -> None:
    """Raise BadSpecError if replacing the whole output would delete a directory that the job reads.

    `sources` are the paths of the job's sources. The output itself may be a source.
    """
    target = hadoop.qualified(output.path).rstrip("/")
    for source in sources:
        if any(path.startswith(f"{target}/") for path in _read_paths(hadoop, source, target)):
            raise BadSpecError(
                f"output.path: overwriting {output.path} would delete the source {source}, which is a directory in it; "
                "write to another directory"
            )


def _possible_tables(output: str) -> Iterator[str]:
    """Yield the output, and the directory above its directories `key=value`."""
    yield output
    parts = output.split("/")
    while "=" in parts[-1]:
        parts.pop()
    if (table := "/".join(parts)) != output:
        yield table


def _read_paths(hadoop: HadoopFiles, source: str, target: str) -> list[str]:
    """Return the paths of a source that may be in the target: those that match where its glob is above the target."""
    literal = _LITERAL_PART.match(source)
    assert literal is not None, "the pattern matches an empty start"
    if literal.end() == len(source):
        return [hadoop.qualified(_ESCAPE.sub(r"\1", source))]
    directory, slash, _ = literal.group().rpartition("/")
    fixed = hadoop.qualified(_ESCAPE.sub(r"\1", directory) or slash or ".").rstrip("/")
    return hadoop.expanded(source) if target.startswith(f"{fixed}/") else [fixed]
