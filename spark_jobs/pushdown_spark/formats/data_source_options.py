"""Options of data sources that Spark loads by name: the path of local files, the predicate and switches."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.errors import BadSpecError, MissingPathError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.local_paths import local_path
from pushdown_spark.runtime.file_systems.base_files import is_hidden
from pushdown_spark.sources.stores.listing import InputFile

try:
    from pyspark.sql.datasource import InputPartition
except ImportError:
    message = (
        "the data sources pushdown_orc, pushdown_avro and pushdown_remote need Spark 4.1 or newer; use PushdownSession"
    )
    raise ImportError(message) from None

_HADOOP_GLOB_SYNTAX = ("{", "\\", "[^")
"""Syntax that has another meaning in Hadoop's glob patterns than in Python's."""


@dataclass
class TaskPartition(InputPartition):
    """The number of one task of a scan."""

    number: int

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def boolean_option(options: Mapping[str, str], name: str) -> bool:
    """Return a boolean option, which is false by default. Raises BadSpecError if it is neither true nor false."""
    value = options.get(name, "false")
    if value.lower() not in ("true", "false"):
        raise BadSpecError(f"option {name}: {value!r} is neither true nor false; give one of them")
    return value.lower() == "true"


def check_options(source_format: str, options: Mapping[str, str], known_options: Iterable[str]) -> None:
    """Raise BadSpecError for an unsupported option, for example one of Spark's own file sources."""
    if unknown_option := next((name for name in options if name.lower() not in known_options), None):
        raise BadSpecError(
            f"option {unknown_option}: format {source_format!r} supports only {', '.join(known_options)}; use "
            "PushdownSession for the options of Spark's own sources"
        )


def list_local_files(source_format: str, options: Mapping[str, str]) -> tuple[InputFile, ...]:
    """Return the files that match the option `path`, and those in directories that match it, as Spark lists them.

    Raises BadSpecError if the option is missing, is not a local path, or has glob syntax that differs between Python
    and Hadoop, and for partition directories (`key=value`). Raises MissingPathError if no file matches.
    """
    path = options.get("path")
    if not path:
        raise BadSpecError(f"format {source_format!r} needs a path; call load(path)")
    local = local_path(path)
    if local is None:
        raise BadSpecError(f"{path} is not local; format {source_format!r} reads local files only; use PushdownSession")
    if syntax := next((syntax for syntax in _HADOOP_GLOB_SYNTAX if syntax in path), None):
        raise BadSpecError(
            f"path {path!r}: format {source_format!r} does not support {syntax!r} in paths; use PushdownSession"
        )
    files: list[Path] = []
    for match in sorted(glob.glob(local)):  # noqa: PTH207
        path_match = Path(match)
        files += _files_of_directory(path_match, source_format) if path_match.is_dir() else [path_match]
    visible = [file.absolute() for file in files if not is_hidden(file.name)]
    if not visible:
        raise MissingPathError(f"path {path!r} matches no file; check it and run again")
    return tuple(InputFile(file.as_uri(), str(file), file.stat().st_size) for file in visible)


def _files_of_directory(directory: Path, source_format: str) -> list[Path]:
    """Return the files of a directory without those in subdirectories, as Spark does without partition columns.

    Raises BadSpecError for partition directories.
    """
    for parent, children, names in os.walk(directory):
        children[:] = [child for child in children if not is_hidden(child)]
        is_partition = "=" in str(Path(parent).relative_to(directory))
        if is_partition and not all(map(is_hidden, names)):
            raise BadSpecError(
                f"{parent} is a partition directory, which format {source_format!r} does not support; use "
                "PushdownSession"
            )
    return sorted(file for file in directory.iterdir() if file.is_file())


def parse_option_where(where: str) -> exp.Expr | None:
    """Return the tree of the option `where`, or None if it does not parse.

    Raises BadSpecError for text whose meaning depends on settings of the session, which a data source does not know.
    """
    if '"' in where or "\\" in where:
        raise BadSpecError(
            f"option where: in {where!r}, double quotes and backslashes have a meaning that depends on the session; "
            "use single quotes without backslashes, or PushdownSession"
        )
    return parse_predicate(where)


def exact_filter(where: str, schema: t.StructType, *, name_rule: NameRule) -> ArrowFilter:
    """Return the filter for a predicate.

    Raises BadSpecError unless the filter is exact, because Spark does not re-evaluate the predicate.
    """
    predicate = parse_option_where(where)
    reason: str | None = "it does not parse"
    if predicate is not None:
        pushdown = bind(predicate, Scope(schema, has_plain_strings=True, name_rule=name_rule))
        if pushdown.artifact is not None and pushdown.is_exact:
            return ArrowFilter(pushdown.artifact)
        reason = pushdown.reason
    raise BadSpecError(f"option where: {where!r} cannot be evaluated over columns: {reason}; use .where(...) instead")
